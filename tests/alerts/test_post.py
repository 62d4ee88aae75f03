"""What a target may cost that answers slowly, without an end, or by another's words."""

from __future__ import annotations

import itertools

import pytest

from alerts import transports
from alerts.transports import SendError, post
from tests.slow_answers import answering


def test_a_target_that_answers_letter_by_letter_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: each letter was within the limit of a read, and no alert went out to anybody any more."""
    monkeypatch.setattr(transports, "TIMEOUT_SECONDS", 0.3)
    for head in (b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n"):
        with answering(lambda head=head: itertools.chain([head], itertools.repeat(b"y")), 0.05) as url:  # type: ignore[misc]
            with pytest.raises(SendError) as caught:
                post(url, [])
            assert not caught.value.refused


def test_of_an_answer_without_an_end_its_beginning_is_read() -> None:
    refusal = b"HTTP/1.1 400 Bad\r\n\r\n" + b"the token s3cret is old " * 100
    with (
        answering(lambda: itertools.chain([refusal], itertools.repeat(b"z" * 65536))) as url,
        pytest.raises(SendError, match=r"answered 400: the token .* is old") as caught,
    ):
        post(url, ["s3cret"])
    assert caught.value.refused and "s3cret" not in str(caught.value) and len(str(caught.value)) < 300
    with answering(lambda: itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b"z" * 65536))) as url:
        post(url, [])  # it was taken
