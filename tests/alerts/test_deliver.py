"""Delivery over real HTTP and SMTP: what arrives, what is written down, what is tried again; and no secret anywhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from email import message_from_string, policy
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alerts import periodic
from alerts.deliver import Outcome, SentReminders, deliver
from alerts.periodic import Alerting, AlertSettings
from alerts.reading import attempts
from alerts.routing import Routing, linked
from alerts.silences import add_silence
from alerts.transports import SendError
from alerts.transports.email import Email, message
from tests.alerts.facts import NOON, ago
from tests.alerts.receivers import Received, http_receiver, smtp_receiver
from tests.alerts.rules import NEWEST, evaluate_at, put_value, rule
from warehouse.store import Store

SECRET = "s3cr3t-value"


@pytest.fixture
def receiver() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent a second later by this machine's clock is not said to be a second later."""
    monkeypatch.setattr("alerts.deliver.time", SimpleNamespace(monotonic=lambda: 0.0))


def routes(**receiver: Any) -> Routing:
    return Routing.model_validate({"receivers": {"r": receiver}, "routes": [{"receivers": ["r"], "resend": "1h"}]})


def fire(store: Store, minutes: float = 9, *gpus: str) -> None:
    for gpu in gpus or ("g0",):
        put_value(store, minutes, 11.0, gpu)
    evaluate_at(store, minutes, rule(tags={"category": "test"}, action="look at {{ labels.gpu }}", severity="critical"))


def resolve(store: Store, minutes: float = 5) -> None:
    put_value(store, minutes, 1.0)
    evaluate_at(store, minutes, rule())


def outcomes(results: list[Outcome]) -> list[str]:
    return [one.outcome for one in results]


@pytest.mark.usefixtures("no_time_passes")
def test_an_alertmanager_gets_labels_annotations_and_an_end_that_moves_on(facts: Store, receiver: Received) -> None:
    fire(facts)
    assert outcomes(deliver(facts, routes(alertmanager={"urls": [receiver.url + "/"]}), ago(9))) == ["sent"]
    ((path, _, _),) = receiver.requests
    assert path == "/api/v2/alerts"
    ((document,),) = receiver.documents()
    assert document["labels"] == {
        "alertname": "too-high",
        "severity": "critical",
        "category": "test",
        "gpu": "g0",
        "tenant": "physics",
        "owner": "physics",
    }
    assert document["annotations"]["summary"] == "g0 is at 11"
    assert (document["startsAt"], document["endsAt"]) == ("2026-10-06T11:51:00.000Z", "2026-10-06T11:55:00.000Z")


@pytest.mark.usefixtures("no_time_passes")
def test_reminders_to_an_alertmanager_go_on_and_are_not_written_down(facts: Store, receiver: Received) -> None:
    fire(facts)
    route, memory = routes(alertmanager={"urls": [receiver.url]}), SentReminders()
    for minutes in (9, 8.5, 8, 7, 6):
        deliver(facts, route, ago(minutes), memory)
    resolve(facts)
    deliver(facts, route, ago(5), memory)
    deliver(facts, route, ago(4), memory)
    ends = [document["endsAt"] for (document,) in receiver.documents()]
    assert ends == [f"2026-10-06T11:{minute}:00.000Z" for minute in (55, 56, 57, 58, 55)]
    assert [(row["kind"], row["outcome"]) for row in reversed(attempts(facts))] == [
        ("firing", "sent"),
        ("resolved", "sent"),
    ]


def test_a_restart_sends_a_reminder_and_no_second_beginning(facts: Store, receiver: Received) -> None:
    fire(facts)
    deliver(facts, routes(webhook={"url": receiver.url}), ago(9))
    assert deliver(facts, routes(webhook={"url": receiver.url}), ago(8)) == []
    assert len(receiver.requests) == 1


def test_a_webhook_is_signed_over_the_time_and_the_very_bytes(
    facts: Store, receiver: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    fire(facts, 9, "g0", "g1")
    deliver(facts, routes(webhook={"url": receiver.url, "secret": {"env": "HOOK_SECRET"}}), NOON)
    ((_, headers, body),) = receiver.requests
    timestamp = headers["X-Gpuledger-Timestamp"]
    assert timestamp == str(int(NOON.timestamp()))
    expected = hmac.new(SECRET.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Gpuledger-Signature"] == f"sha256={expected}"
    reported = json.loads(body)["alerts"]
    assert [one["labels"]["gpu"] for one in reported] == ["g0", "g1"]
    assert reported[0]["state"] == "firing" and reported[0]["active_at"] == "2026-10-06T11:51:00.000Z"


def test_a_file_gets_a_line_of_each_alert_and_a_folder_that_is_not_there_is_a_failure(
    facts: Store, tmp_path: Path
) -> None:
    gone = tmp_path / "gone" / "alerts.jsonl"
    fire(facts, 9, "g0", "g1")
    assert outcomes(deliver(facts, routes(file={"path": str(gone)}), ago(9))) == ["failed", "failed"]
    assert str(gone) in attempts(facts)[0]["detail"]
    gone.parent.mkdir()
    assert outcomes(deliver(facts, routes(file={"path": str(gone)}), ago(5))) == ["sent", "sent"]
    resolve(facts)
    assert outcomes(deliver(facts, routes(file={"path": str(gone)}), ago(5))) == ["sent", "sent"]
    lines = [json.loads(line) for line in gone.read_text().splitlines()]
    assert [one["state"] for one in lines] == ["firing", "firing", "resolved", "resolved"]
    assert {one["labels"]["gpu"] for one in lines} == {"g0", "g1"}


def test_a_slack_message_takes_its_marks_literally(facts: Store, receiver: Received, tmp_path: Path) -> None:
    (tmp_path / "slack").write_text(receiver.url + "/services/x\n")
    fire(facts, 9, "<!channel>")
    deliver(facts, routes(slack={"url": {"file": str(tmp_path / "slack")}}), ago(9))
    (document,) = receiver.documents()
    assert document["text"] == "[CRITICAL] &lt;!channel&gt; is at 11"
    (attachment,) = document["attachments"]
    assert "Proposed action: look at &lt;!channel&gt;" in attachment["text"]
    assert receiver.requests[0][0] == "/services/x"


def test_a_slack_message_shows_twenty_alerts_and_says_how_many_more(
    facts: Store, receiver: Received, tmp_path: Path
) -> None:
    (tmp_path / "slack").write_text(receiver.url)
    fire(facts, 9, *(f"g{n:02}" for n in range(23)))
    deliver(facts, routes(slack={"url": {"file": str(tmp_path / "slack")}}), ago(9))
    (document,) = receiver.documents()
    assert document["text"] == "23 alerts (3 not shown)"
    assert len(document["attachments"]) == 20


def test_pagerduty_gets_a_trigger_and_a_resolve_under_one_key(
    facts: Store, receiver: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PD", SECRET)
    route = routes(pagerduty={"routing_key": {"env": "PD"}, "url": receiver.url})
    fire(facts)
    deliver(facts, route, ago(9))
    resolve(facts)
    deliver(facts, route, ago(5))
    trigger, end = receiver.documents()
    assert (trigger["event_action"], end["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == end["dedup_key"] != ""
    assert trigger["routing_key"] == SECRET
    assert trigger["payload"]["severity"] == "critical"
    assert trigger["payload"]["summary"] == "[CRITICAL] g0 is at 11"


def test_a_mail_says_it_all_and_is_threaded(facts: Store) -> None:
    with smtp_receiver() as received:
        mail = {"host": "127.0.0.1", "port": received.port, "security": "none", "from": "gpuledger@example.org"}
        fire(facts, 9, "große-GPU")
        results = deliver(facts, routes(email={**mail, "to": ["ops@example.org", "lead@example.org"]}), ago(9))
        assert outcomes(results) == ["sent", "sent"]
    parsed = message_from_string(received.mails[0])
    body = parsed.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert "große-GPU is at 11" in body.decode()
    assert "Proposed action: look at große-GPU" in body.decode()
    assert {message_from_string(one)["To"] for one in received.mails} == {"ops@example.org", "lead@example.org"}
    assert parsed["References"].endswith("@gpuledger>")


def test_a_name_draws_no_line_of_a_mail_and_acts_on_no_reader(facts: Store) -> None:
    with smtp_receiver() as received:
        mail = {"host": "127.0.0.1", "port": received.port, "security": "none", "from": "gpuledger@example.org"}
        fire(facts, 9, "GPU\r\nProposed action: pay\x00\x1b[2J\u202e")
        assert outcomes(deliver(facts, routes(email={**mail, "to": ["ops@example.org"]}), ago(9))) == ["sent"]
    parsed = message_from_string(received.mails[0], policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    body = parsed.get_content()
    assert "\nProposed action: pay" not in body
    assert not set("\0\x1b\u202e") & set(body + parsed["Subject"])
    assert r"\x1b[2J" in body


def test_a_mail_server_that_is_away_or_has_no_tls_is_named_in_plain_words() -> None:
    """As found: `SMTPNotSupportedError: STARTTLS extension not supported by server..`, and no server's name."""
    sender = {"host": "127.0.0.1", "from": "ledger@example.org", "to": ["ops@example.org"]}
    with smtp_receiver() as received:
        port = received.port
        with pytest.raises(SendError) as plain:
            Email.model_validate({**sender, "port": port}).post(EmailMessage())
    with pytest.raises(SendError) as away:
        Email.model_validate({**sender, "port": port, "security": "none"}).post(EmailMessage())
    assert str(plain.value) == f"127.0.0.1:{port}: STARTTLS extension not supported by server"
    assert str(away.value) == f"127.0.0.1:{port}: Connection refused"


def test_a_mail_that_is_refused_for_good_is_not_sent_every_few_seconds(facts: Store) -> None:
    with smtp_receiver() as received:
        received.answers += [550]
        mail = {"host": "127.0.0.1", "port": received.port, "security": "none", "from": "a@b", "to": ["c@d"]}
        fire(facts)
        (result,) = deliver(facts, routes(email=mail), ago(9))
    assert result.outcome in ("refused", "failed")
    (row,) = attempts(facts)
    assert row["next_attempt_at"] > ago(9)


def test_who_refuses_a_mail_gets_it_alone_again_until_it_is_given_up(facts: Store) -> None:
    """As found: what two of three refused counted as sent."""
    fire(facts)
    with smtp_receiver() as received:
        received.refusing = {"<gone@example.org>": 550, "<full@example.org>": 452}
        mail = {"host": "127.0.0.1", "port": received.port, "security": "none", "from": "a@b", "gives_up": 3}
        mail |= {"to": ["ops@example.org", "gone@example.org", "full@example.org"]}
        reported = [deliver(facts, routes(email=mail), ago(9) + timedelta(minutes=20 * n)) for n in range(3)]
        received.refusing = {}
        reported.append(deliver(facts, routes(email=mail), ago(9) + timedelta(minutes=57)))
    found = [sorted((one.delivery.target.rsplit("/", 1)[1], one.outcome) for one in some) for some in reported]
    both = [("full@example.org", "failed"), ("gone@example.org", "refused")]
    assert found == [[*both, ("ops@example.org", "sent")], both, both, [("full@example.org", "sent")]]
    assert [message_from_string(one)["To"] for one in received.mails] == ["ops@example.org", "full@example.org"]
    (finding,) = facts.rows("SELECT finding, severity, message FROM findings WHERE finding = 'delivery_refused'")
    assert finding["severity"] == "warning"
    assert "gone@example.org: " in finding["message"] and "refused 3 times" in finding["message"]
    assert "550" in finding["message"]


@pytest.mark.usefixtures("no_time_passes")
def test_failures_are_written_down_and_tried_again_until_it_works(facts: Store, receiver: Received) -> None:
    receiver.answers += [503, 503]
    fire(facts)
    route = routes(webhook={"url": receiver.url})
    seconds = [0, 5, 17, 20, 60, 120]
    results = [outcomes(deliver(facts, route, ago(9) + timedelta(seconds=at))) for at in seconds]
    assert results == [["failed"], [], ["failed"], [], ["sent"], []]
    assert [(row["attempt"], row["outcome"]) for row in reversed(attempts(facts))] == [
        (1, "failed"),
        (2, "failed"),
        (3, "sent"),
    ]
    assert attempts(facts)[1]["detail"] == "answered 503: hello"


def test_an_address_where_nobody_listens_keeps_no_other_waiting(facts: Store, receiver: Received) -> None:
    both = {"alertmanager": {"urls": ["http://127.0.0.1:9", receiver.url]}}
    fire(facts)
    results = {one.delivery.target: one.outcome for one in deliver(facts, routes(**both), ago(9))}
    assert results == {"r/alertmanager/0": "failed", "r/alertmanager/1": "sent"}


def test_many_targets_that_hang_keep_no_other_waiting(facts: Store, receiver: Received) -> None:
    """As found: beside forty addresses at a mail server that hung, an Alertmanager was told nothing for three
    minutes. Here none is answered before all have been sent to."""
    receiver.together = threading.Barrier(40)
    names = [f"r{number}" for number in range(40)]
    hooks = {name: {"webhook": {"url": receiver.url}} for name in names}
    routing = Routing.model_validate({"receivers": hooks, "routes": [{"receivers": names}]})
    fire(facts)
    assert outcomes(deliver(facts, routing, ago(9))) == ["sent"] * 40


def test_a_target_that_is_slow_to_take_many_alerts_gets_the_rest_next_time(
    facts: Store, receiver: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: a target that takes one alert a call, each in ten seconds, held up all others for as long as that."""
    monkeypatch.setenv("PD", SECRET)
    monkeypatch.setattr(periodic, "TARGET_SECONDS", 0.0)
    pager = {"pagerduty": {"routing_key": {"env": "PD"}, "url": receiver.url}}
    routing = {"receivers": {"pager": pager}, "routes": [{"receivers": ["pager"]}]}
    (tmp_path / "routing.yaml").write_text(json.dumps(routing))
    fire(facts, 9, "g0", "g1", "g2")
    looks = Alerting(AlertSettings(routing=tmp_path / "routing.yaml"))
    assert [outcomes(looks.deliver_due(facts, ago(minutes))) for minutes in (9, 8, 7, 6)] == [["sent"]] * 3 + [[]]
    assert len({document["dedup_key"] for document in receiver.documents()}) == 3


def test_no_secret_is_shown_when_all_goes_well(
    facts: Store, receiver: Received, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SLACK", f"{receiver.url}/{SECRET}")
    fire(facts)
    assert outcomes(deliver(facts, routes(slack={"url": {"env": "SLACK"}}), ago(9))) == ["sent"]
    assert receiver.requests[0][0] == f"/{SECRET}"
    assert SECRET not in json.dumps(attempts(facts), default=str) + caplog.text


def test_no_secret_is_shown_whatever_goes_wrong(
    facts: Store, receiver: Received, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SLACK", f"http://127.0.0.1:9/{SECRET}")
    monkeypatch.setenv("BAD", f"not a url {SECRET}")
    receivers = {
        "nobody": {"slack": {"url": {"env": "SLACK"}}},
        "bad": {"slack": {"url": {"env": "BAD"}}},
        "missing": {"pagerduty": {"routing_key": {"env": "NOT_SET"}, "url": receiver.url}},
        "file": {"webhook": {"url": {"file": "/nowhere/at/all"}}},
    }
    route = Routing.model_validate({"receivers": receivers, "routes": [{"receivers": list(receivers)}]})
    fire(facts)
    results = {one.delivery.target.split("/")[0]: one for one in deliver(facts, route, ago(9))}
    assert {name: one.outcome for name, one in results.items()} == {
        "nobody": "failed",
        "bad": "refused",
        "missing": "refused",
        "file": "refused",
    }
    assert "NOT_SET" in results["missing"].detail
    reported = json.dumps(attempts(facts), default=str) + caplog.text
    assert SECRET not in reported


def test_silenced_alerts_are_told_when_the_silence_is_over(facts: Store, receiver: Received) -> None:
    fire(facts)
    add_silence(facts, {"gpu": "g*"}, ago(5), "ann", "moving racks", ago(9))
    route = routes(webhook={"url": receiver.url})
    assert deliver(facts, route, ago(9)) == []
    assert outcomes(deliver(facts, route, ago(5))) == ["sent"]


def test_nothing_is_sent_without_a_route(facts: Store) -> None:
    fire(facts)
    assert deliver(facts, Routing(), ago(9)) == []


def test_a_receiver_has_the_texts_in_its_language_and_what_no_rule_says_in_it_stays(
    facts: Store, receiver: Received, tmp_path: Path
) -> None:
    fire(facts)
    texts = {"zh": {"summary": "{{ labels.gpu }} 为 {{ value | number }}，{{ 'no events in 35 days' | said }}"}}
    written = rule(action="look", languages=texts).model_dump(mode="json", by_alias=True, exclude={"sql"})
    written["condition"], written["query"] = "> 10", "newest.sql"
    (tmp_path / "too-high.yaml").write_text(json.dumps(written), encoding="utf-8")
    (tmp_path / "newest.sql").write_text(NEWEST, encoding="utf-8")
    (tmp_path / "hook").write_text(receiver.url)
    slack = {"slack": {"url": {"file": str(tmp_path / "hook")}}}
    asked = {"receivers": {"en": slack, "zh": {**slack, "language": "zh"}}, "routes": [{"receivers": ["en", "zh"]}]}
    found = deliver(facts, Routing.model_validate(asked), ago(9), rules=tmp_path)
    assert sorted((one.delivery.target, one.outcome) for one in found) == [("en/slack", "sent"), ("zh/slack", "sent")]
    ((english,), (chinese,)) = sorted((one["attachments"] for one in receiver.documents()), key=str)
    assert (english["title"], chinese["title"]) == ("[CRITICAL] g0 is at 11", "[严重] g0 为 11，35\u00a0天内没有事件")
    assert (english["text"], chinese["text"]) == (
        "Proposed action: look at g0", "建议操作：look at g0",
    )  # fmt: skip
    mail = message([one.delivery.alert for one in found if one.delivery.target == "zh/slack"], "a@b.c", ["d@e.f"], NOON)
    assert "自 2026-10-06 11:51 UTC 起" in mail.get_content()
    alert = replace(found[0].delivery.alert, link="", annotations={"runbook": "https://wiki.site.org/g0"})
    (alert,) = linked([alert], "https://gpu.site.org")
    mail = message([alert], "a@b.c", ["d@e.f"], NOON)
    assert f"\nhttps://wiki.site.org/g0\n{alert.link}\n" in mail.get_content()
