"""MIG: legal starts, the start that keeps most open, and free slices that no instance can use."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import place, place_gang
from scheduler.placement.errors import PlacementError
from scheduler.placement.mig import geometries, geometry
from scheduler.placement.packing import BestFit
from scheduler.placement.reasons import why_not
from tests.scheduler.placement.clusters import GIB, node

H100 = geometry("h100-80gb")


def cut(gpus: int = 1) -> Cluster:
    return Cluster([node("n", gpus, units=7, geometry="h100-80gb")])


@pytest.mark.parametrize("name", sorted(geometries()))
def test_every_geometry_is_consistent(name: str) -> None:
    found = geometry(name)
    for profile in found.profiles.values():
        assert all(start + profile.slices <= found.slices for start in profile.starts)
        assert 1 <= profile.units <= found.units
    whole = [p for p in found.profiles.values() if p.units == found.units]
    assert [p.slices for p in whole] == [found.slices]


def test_the_first_small_instance_goes_where_it_spoils_least() -> None:
    """Slice 6 is in the way of 3g at 4, 1g.20gb at 6, 1g at 6 and 7g; any other slice is in the way of a 2g as well."""
    found = H100.best_start("1g.10gb", 0)
    assert found is not None
    assert found[1] == 6
    assert H100.best_start("3g.40gb", 0) == min(
        (H100.open_placements[0] - H100.open_placements[0b1111 << start], start) for start in (0, 4)
    )


def test_as_many_instances_as_the_card_can_hold() -> None:
    assert {name: H100.instances(name)[0] for name in H100.profiles} == {
        "1g.10gb": 7,
        "1g.20gb": 4,
        "2g.20gb": 3,
        "3g.40gb": 2,
        "4g.40gb": 1,
        "7g.80gb": 1,
    }


def test_small_instances_first_still_leave_room_for_a_large_one() -> None:
    cluster = cut()
    for _ in range(3):
        assert place_gang(cluster, Request(1, profile="1g.10gb"), 1, BestFit())
    assert place(cluster, Request(1, profile="4g.40gb"), BestFit()) == Grant(0, (0,), (4,), "4g.40gb", (0,))


def test_free_slices_without_a_legal_start_are_named() -> None:
    cluster, small = cut(), Request(1, profile="1g.10gb")
    for start in (1, 5):
        cluster.take(Grant(0, (0,), (1,), "1g.10gb", (start,)), small)
    reason = why_not(cluster, Request(1, profile="3g.40gb"))
    assert reason is not None
    assert reason.counts["CardMigTopologyInfeasible"] == 1
    assert cluster.free[0, 0] == 5, "units enough, but no start"


def test_a_request_may_have_several_instances_of_one_card() -> None:
    cluster = cut()
    grant = place(cluster, Request(2, profile="3g.40gb"), BestFit())
    assert grant is not None
    assert (grant.devices, grant.units, sorted(grant.starts)) == ((0, 0), (3, 3), [0, 4])
    cluster.take(grant, Request(2, profile="3g.40gb"))
    assert cluster.memory_free[0, 0] == 0
    assert place(cluster, Request(1, profile="1g.10gb"), BestFit()) is None, "one unit is left, but no memory slice"
    cluster.give_back(grant, Request(2, profile="3g.40gb"))
    assert cluster.slots[0, 0] == 0


def test_a_whole_card_is_given_only_while_nothing_is_cut_from_it() -> None:
    cluster = cut(2)
    cluster.take(Grant(0, (0,), (1,), "1g.10gb", (6,)), Request(1, profile="1g.10gb"))
    grant = place(cluster, Request(1), BestFit())
    assert grant == Grant(0, (1,), (7,))
    cluster.take(grant, Request(1))
    assert cluster.shape(Request(1, profile="1g.10gb")).replicas(np.arange(1)).tolist() == [6]


def test_units_of_a_card_that_is_cut_are_no_free_choice() -> None:
    assert place(cut(), Request(1, units=3), BestFit()) is None


def test_a_profile_with_less_memory_than_asked_does_not_fit() -> None:
    cluster = cut()
    assert place(cluster, Request(1, profile="1g.10gb", memory_bytes=10 * GIB), BestFit()) is not None
    assert place(cluster, Request(1, profile="1g.10gb", memory_bytes=11 * GIB), BestFit()) is None


def test_an_occupied_start_is_refused() -> None:
    cluster, request = cut(), Request(1, profile="2g.20gb")
    cluster.take(Grant(0, (0,), (2,), "2g.20gb", (0,)), request)
    with pytest.raises(PlacementError, match="slices of device 0 is not free"):
        cluster.take(Grant(0, (0,), (1,), "1g.10gb", (1,)), Request(1, profile="1g.10gb"))


def test_an_unknown_geometry_names_those_that_are_known() -> None:
    with pytest.raises(PlacementError, match=r"geometry h900: is not known\. Known are a100-40gb"):
        geometry("h900")
