"""Times without a zone, durations, host lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.slurm.hostlists import hosts
from collectors.slurm.times import instants, most_likely, seconds

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_wall_clock_is_read_in_the_sites_zone() -> None:
    assert instants("2026-07-01T12:00:00", BERLIN) == (utc("2026-07-01T10:00"),)
    assert instants("2026-12-01T12:00:00", BERLIN) == (utc("2026-12-01T11:00"),)
    assert instants("2026-12-01T12:00:00", UTC) == (utc("2026-12-01T12:00"),)


def test_an_offset_or_seconds_since_1970_need_no_zone() -> None:
    assert instants("2026-10-25T02:30:00+0200", BERLIN) == (utc("2026-10-25T00:30"),)
    assert instants("1790000000", BERLIN) == (datetime.fromtimestamp(1790000000, UTC),)


@pytest.mark.parametrize("text", ["Unknown", "None", "N/A", "", " (null) ", "0"])
def test_what_slurm_does_not_know_is_no_time(text: str) -> None:
    assert instants(text, BERLIN) == ()


def test_the_hour_shown_twice_can_be_two_instants() -> None:
    assert instants("2026-10-25T02:30:00", BERLIN) == (utc("2026-10-25T00:30"), utc("2026-10-25T01:30"))


def test_an_hour_that_the_zone_skips_says_that_the_zone_is_wrong() -> None:
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        instants("2026-03-29T02:30:00", BERLIN)
    assert instants("2026-03-29T02:30:00", UTC) == (utc("2026-03-29T02:30"),)


def test_elapsed_time_tells_which_of_two_hours_it_was() -> None:
    started = instants("2026-10-25T02:10:00", BERLIN)
    ended = instants("2026-10-25T02:40:00", BERLIN)
    half = most_likely((), started, ended, timedelta(minutes=30))
    assert half == (None, utc("2026-10-25T00:10"), utc("2026-10-25T00:40"), True)  # either hour: a guess
    longer = most_likely((), started, ended, timedelta(minutes=90))
    assert longer == (None, utc("2026-10-25T00:10"), utc("2026-10-25T01:40"), False)


def test_an_order_that_only_one_reading_keeps_is_that_reading() -> None:
    started = instants("2026-10-25T02:50:00", BERLIN)
    ended = instants("2026-10-25T02:20:00", BERLIN)
    assert most_likely((), started, ended, None) == (None, utc("2026-10-25T00:50"), utc("2026-10-25T01:20"), False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-02:03:04", 93_784),
        ("02:03:04", 7_384),
        ("03:04", 184),
        ("00:01.250", 1),
        ("7-00", 604_800),
        ("1-12:30", 131_400),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_durations_are_seconds_and_no_limit_is_none(text: str, expected: int | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu01", ("gpu01",)),
        ("gpu[01-03,05],login1", ("gpu01", "gpu02", "gpu03", "gpu05", "login1")),
        ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
        ("a[9-11]-ib", ("a9-ib", "a10-ib", "a11-ib")),
        ("", ()),
    ],
)
def test_host_lists_are_written_out_in_order(text: str, expected: tuple[str, ...]) -> None:
    assert hosts(text) == expected


@pytest.mark.parametrize("text", ["gpu[1", "gpu]", "g[a-b]", "a b", "n[1-9999999]", "x,,y", "[0-9][0-9]" * 9])
def test_what_is_no_host_list_is_refused_and_fills_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|brackets"):
        hosts(text)


@given(st.text(alphabet="0123456789-:.T+abZ ", max_size=30) | st.text(max_size=30))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (lambda: instants(text, BERLIN), lambda: seconds(text), lambda: hosts(text)):
        try:
            found = read()
        except ValueError:
            continue
        assert found is None or isinstance(found, int | tuple)


@given(st.integers(946_684_800, 3_786_912_000))
def test_every_instant_is_among_the_readings_of_its_wall_clock(second: int) -> None:
    at = datetime.fromtimestamp(second, UTC)
    assert at in instants(f"{at.astimezone(BERLIN):%Y-%m-%dT%H:%M:%S}", BERLIN)
