"""What the document on limits says is there."""

from __future__ import annotations

from dataclasses import fields

from access import authenticator
from gpuledger.http.limits import KIB, MIB, HttpLimits, limits_here
from ingest import admission, body, reviews
from ingest.text_files import ROW_BYTES
from tests.conftest import REPO

LIMITS = (REPO / "docs/limits.md").read_text()


def test_every_limit_of_the_server_is_in_the_table() -> None:
    assert [one.name for one in fields(HttpLimits) if f"`{one.name}`" not in LIMITS] == []


def test_the_table_has_the_numbers_that_hold() -> None:
    ours = limits_here()
    for said, number in (
        ("10 s | 408", ours.head_seconds == 10),
        ("15 s | closed", ours.idle_seconds == 15),
        ("64 KiB, 100 headers", (ours.head_bytes, ours.headers) == (64 * KIB, 100)),
        ("32 KiB | 414", ours.url_bytes == 32 * KIB),
        ("5 MiB (16 MiB)", (ours.body_bytes, admission.BODY_BYTES) == (5 * MIB, 16 * MIB)),
        ("128 MiB | 503", ours.bodies_bytes == 128 * MIB),
        ("20 s, and a second more for each KiB", (ours.body_grace_seconds, ours.body_rate) == (20, KIB)),
        ("64 MiB; [SQL]", ours.answer_bytes == 64 * MIB),
        ("1 KiB/s, averaged over 30 s", (ours.answer_rate, ours.answer_seconds) == (KIB, 30)),
        ("| 200,000, as many", body.BODY_ROWS == 200_000),
        ("| 10,000 | 422: the push", body.BODY_REJECTS == 10_000),
        ("first 10 are in quarantine", body.EXAMPLES == 10),
        ("64 KiB; nested", ROW_BYTES == 64 * KIB),
        (
            "| 2, with 30 waiting; 8 of one",
            (authenticator.PASSWORDS_AT_ONCE, authenticator.PASSWORDS_WAITING, authenticator.PASSWORDS_PER_ADDRESS)
            == (2, 30, 8),
        ),
        (
            "| 8, with 24 waiting; 4 of one",
            (authenticator.PROVIDER_AT_ONCE, authenticator.PROVIDER_WAITING, authenticator.PROVIDER_PER_ADDRESS)
            == (8, 24, 4),
        ),
        (
            "| 8 new ones, 2 of one address; 8 that",
            (reviews.NEW_AT_ONCE, reviews.NEW_PER_ADDRESS, reviews.AGAIN_AT_ONCE) == (8, 2, 8),
        ),
        ("20,000 valid ones for 60 s", (reviews.GOOD_REMEMBERED, reviews.GOOD_SECONDS) == (20_000, 60)),
        ("2,000 others for 10 s", (reviews.BAD_REMEMBERED, reviews.BAD_SECONDS) == (2_000, 10)),
    ):
        assert said in LIMITS, said
        assert number, said
