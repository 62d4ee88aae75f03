"""Instants as milliseconds: exact to the last that a store can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest

from warehouse.instants import epoch_ms, of_epoch_ms, rfc3339


def test_milliseconds_are_exact_whatever_the_zone() -> None:
    random = Random(20261123)
    for _ in range(1000):
        ms = random.randrange(-2_208_988_800_000, 10_413_792_000_000)
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        there = at.astimezone(timezone(timedelta(minutes=random.randrange(-720, 720))))
        assert epoch_ms(there) == ms and of_epoch_ms(ms) == at
        assert rfc3339(there) == f"{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
        assert rfc3339(there, "seconds") == f"{at:%Y-%m-%dT%H:%M:%S}Z"
    assert epoch_ms(datetime(2299, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 10_413_791_999_999


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError):
        epoch_ms(datetime(2026, 10, 1))  # noqa: DTZ001
