"""The API answers as its OpenAPI document says, whatever it is asked: by Schemathesis, which reads the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from gpuledger.documents import PREFIX
from tests.api.test_api import ROUTES
from tests.dashboards.site import Site
from tests.draws import drawn, keep_seed, seldom
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from schemathesis import Case

LONG = ("/close", "/proof", "/invoices/{number}/proof")
"""Asked elsewhere, once."""
EXAMPLES = 2
"""Of each route of which a run asks, half of them (tests/draws.py); `st run URL/api/v1/openapi.json` asks for more."""


@seldom(6, "every route answers as it is described")
def test_every_route_answers_as_it_is_described(served_site: Site) -> None:
    import schemathesis  # a CPU second of each worker that need not run this
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        negative_data_rejection,
        response_schema_conformance,
        status_code_conformance,
    )

    # Not whether everything that fits the document is accepted: it does not say what a period is, nor a rate card.
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
              negative_data_rejection]  # fmt: skip
    headers = {"Authorization": f"Bearer {served_site.tokens['admin']}"}
    url = served_site.url + PREFIX
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=headers).exclude(path=list(LONG))
    operations = list(schema.get_all_operations())
    asked, described = set(), set()
    for found in operations:
        assert isinstance(found, Ok), found
        described.add((found.ok().method.upper(), found.ok().path))
    assert described == {(method, path) for method, path, _ in ROUTES if path not in LONG}
    for found in (some := drawn(operations, 1 / 2)):
        assert isinstance(found, Ok)

        @seed(int(keep_seed()))
        @given(case=found.ok().as_strategy())
        @settings(
            max_examples=EXAMPLES,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        def answers(case: Case[Any]) -> None:
            case.call_and_validate(base_url=url, headers=headers, checks=checks, timeout=PATIENCE_SECONDS)
            asked.add((case.method, case.operation.path))

        answers()
    assert len(asked) == len(some)
