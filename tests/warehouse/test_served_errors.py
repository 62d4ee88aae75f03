"""What a command says when a gpuledger server refuses its query."""

from __future__ import annotations

import pytest

from warehouse.errors import StoreError
from warehouse.store import WHO_ASKS, _of_a_server

SLOW = "Code: 159. DB::Exception: Timeout exceeded: the statement was ended. (TIMEOUT_EXCEEDED)"
DENIED = "Code: 497. DB::Exception: needs the scope sql. (ACCESS_DENIED)"
UNKNOWN = "Code: 47. DB::Exception: Unknown identifier `x`. (UNKNOWN_IDENTIFIER)"
NOBODY = '{"type":"about:blank","title":"Not signed in","status":401,"detail":"sign in","next_step":null}'
BUSY = '{"type":"about:blank","title":"Busy","status":503,"detail":"the store does not answer"}'


@pytest.mark.parametrize(
    ("answered", "what", "step"),
    [
        (SLOW, "Timeout exceeded: the statement was ended", "Ask for less, or again when the server is less busy"),
        (DENIED, "needs the scope sql", WHO_ASKS),
        (UNKNOWN, "Unknown identifier `x`", ""),
        (NOBODY, "sign in", WHO_ASKS),
        (BUSY, "the store does not answer", ""),
    ],
)
def test_a_token_is_asked_for_only_where_one_would_help(answered: str, what: str, step: str) -> None:
    assert _of_a_server(StoreError("http://ledger:8050", answered)) == (what, step)
