"""What we ship runs with the rights of whom it is shipped for, and answers what it answers the owner."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.api.sql.test_cookbook import COOKBOOK
from tests.deploy.test_grafana import BOARDS, MACROS, PANELS
from tests.draws import seldom
from tests.warehouse.accounts.as_account import Asked, account, answers, asked_as, copied


def panels(asked: Asked) -> dict[str, str]:
    """As Grafana's data source writes them out, their variables asked first."""
    chosen = {
        (uid, name): ", ".join(f"'{value}'" for (value,) in answers(asked, query))
        for uid, board in BOARDS.items()
        if board.source == "books"
        for name, query in board.variables.items()
    }
    found = {}
    for board, panel in PANELS:
        if board.source == "books":
            sql = panel.sql
            for name in board.variables:
                sql = sql.replace(f"${{{name}:singlequote}}", chosen[board.uid, name])
            for macro, text in MACROS:
                sql = re.sub(macro, text, sql)
            assert "$" not in sql
            found[f"{board.uid} {panel.title}"] = sql
    return found


@seldom(6, "every panel and every recipe answers an")
@pytest.mark.parametrize("who", ["gpuledger_grafana", "gpuledger_reader"])
def test_every_panel_and_every_recipe_answers_an_account_what_it_answers_the_owner(
    books: Path, tmp_path: Path, who: str
) -> None:
    store = copied(books, tmp_path)
    with asked_as(None, store, tmp_path) as owner:
        statements = {**panels(owner), **COOKBOOK}
        expected = {title: sorted(owner.ask(sql).splitlines()) for title, sql in statements.items()}
    assert len(statements) - len(COOKBOOK) >= 19
    with asked_as(account(who), store, tmp_path) as asked:
        assert panels(asked) == {title: sql for title, sql in statements.items() if title not in COOKBOOK}
        assert {title: sorted(asked.ask(sql).splitlines()) for title, sql in statements.items()} == expected
