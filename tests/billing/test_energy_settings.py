"""What people state of a grid: what is refused, and which figure is of which hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.energy.settings import EnergySettingsError, load_energy_settings, parse_energy_settings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "intensity: [{grams_per_kwh: 380, source: x}]",
            r"intensity\[0\]\.grams_per_kwh: found 380; write it in quotes",
        ),
        ('intensity: [{grams_per_kwh: "380"}]', r"intensity\[0\]\.source: missing"),
        ("intensity: [{source: x}]", "grams_per_kwh, hourly or pue is missing"),
        ('intensity: [{pue: "0.9", source: x}]', r"pue: found '0\.9'; Input should be greater than or equal to 1"),
        (
            'intensity: [{grams_per_kwh: "1", source: x, effective_from: "2026-10-01T00:30Z"}]',
            r"intensity\[0\]: effective_from 2026-10-01T00:30:00Z is not a whole hour UTC",
        ),
        (
            'intensity: [{grams_per_kwh: "1", source: x, effective_from: 2026-10-02, effective_to: 2026-10-01}]',
            "is not after effective_from",
        ),
        ('intensity: [{hourly: ["1"], source: x}]', "hourly stands with effective_from"),
        ('idle_power: [{watts: "70", modle: H}]', "modle"),
        ("timezone: Mars", "found 'Mars'; expected an IANA time zone"),
        ("- 1", "not energy settings"),
        ("intensity: [", "not YAML: "),
    ],
)
def test_settings_that_do_not_fit_are_one_line_with_the_key_and_what_fits(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "grid.yaml").write_text(text)
    with pytest.raises(EnergySettingsError, match=says) as caught:
        load_energy_settings(tmp_path / "grid.yaml")
    assert "\n" not in str(caught.value)


def test_hours_beyond_an_hourly_series_have_no_figure_of_it() -> None:
    stated = parse_energy_settings(
        {"intensity": [{"hourly": ["1", "2"], "effective_from": "2026-10-01", "source": "s", "pue": "1.5"}]}
    )
    start = datetime(2026, 10, 1, tzinfo=UTC)
    figures = [stated.grid("c", "p", start + timedelta(hours=hour)) for hour in (-1, 0, 1, 2)]
    assert figures == [(None, None), (1, Decimal("1.5")), (2, Decimal("1.5")), (None, None)]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=60), st.integers(0, 5))
def test_each_hour_has_its_own_figure_of_a_series(series: list[int], begins: int) -> None:
    """From the hour in which it begins until it is over."""
    start = datetime(2026, 10, 1, begins, tzinfo=UTC)
    rule = {"hourly": [str(one) for one in series], "effective_from": start.isoformat(), "source": "s"}
    stated = parse_energy_settings({"intensity": [rule]})
    figures = [stated.grid("c", "p", start + timedelta(hours=hour))[0] for hour in range(-2, 70)]
    assert figures == [None, None, *series, *[None] * (70 - len(series))]


def test_a_figure_is_in_force_from_its_first_hour_until_its_end() -> None:
    hours = [datetime(2026, 10, 1, hour, tzinfo=UTC) for hour in range(6)]
    for since in (None, hours[2]):
        for until in (None, hours[4]):
            rule = {"effective_from": since and since.isoformat(), "effective_to": until and until.isoformat()}
            stated = parse_energy_settings({"intensity": [{"grams_per_kwh": "7", "source": "s", **rule}]})
            in_force = [at for at in hours if (since is None or at >= since) and (until is None or at < until)]
            assert [at for at in hours if stated.grid("c", "p", at) == (7, None)] == in_force
