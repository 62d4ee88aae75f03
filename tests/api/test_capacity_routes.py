"""The routes of capacity over real HTTP: for who sees the fleet, and for a tenant."""

from __future__ import annotations

import pytest

from gpuledger.client import ApiError, Client
from tests.dashboards.site import Site


def test_the_routes_answer_an_analyst_and_give_a_tenant_its_own_demand(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["analyst"]) as client:
        found = client.capacity("2026-10")
        assert len(found.hours) == 744 and found.by_free is not None
        assert (found.hours[0].allocated, found.hours[0].available, found.hours[-1].waiting) == (2.0, 3.0, 16.0)
        assert [(one.model, one.gpus) for one in found.groups] == [("H100", 3)]
        simulation = client.simulate_capacity("H100", gpus=-1, period="2026-10")
        assert (simulation.as_it_was.gpus, simulation.changed.gpus, simulation.currency) == (3, 2, "EUR")
        assert simulation.waiting == 2
        with pytest.raises(ApiError, match="no such GPUs"):
            client.simulate_capacity("H200", period="2026-10")
    with Client(served_site.url, served_site.tokens["vision"]) as client:
        own = client.capacity("2026-10")
        assert (own.hours[0].allocated, own.hours[0].available, own.hours[-1].waiting) == (1.0, None, 8.0)
        assert own.by_free is None and [one.gpus for one in own.groups] == []
        with pytest.raises(ApiError, match="requires the role"):
            client.simulate_capacity("H100", period="2026-10")
