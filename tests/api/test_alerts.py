"""Alerts over the API: each sees what is theirs, operators keep it quiet, and it is known who did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from access.settings import AccessSettings
from alerts import reading
from alerts.state import fingerprint
from api.reach import Reach
from billing import audit
from dashboards.app import DashboardSettings, build_app
from gpuledger.client import ApiError, Client
from gpuledger.documents import PREFIX
from tests.access.test_matrix import body_of
from tests.alerts.receivers import http_receiver
from tests.dashboards.site import Site, running
from tests.prometheus import check_metrics

ALERTS = f"{PREFIX}/alerts"


def ask(site: Site, who: str, path: str = "", **params: Any) -> Any:
    with site.client(who) as client:
        answer = client.get(ALERTS + path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def silence(site: Site, who: str, days: float, **matchers: list[str]) -> Any:
    with site.client(who) as client:
        body = {
            "matchers": matchers,
            "ends_at": (datetime.now(UTC) + timedelta(days=days)).isoformat(),
            "reason": "demo day",
        }
        return client.post(f"{ALERTS}/silences", json=body)


@pytest.mark.parametrize(("who", "tenants"), [("analyst", {"vision", "speech"}), ("vision", {"vision"})])
def test_what_fires_is_shown_with_its_evidence_to_those_whose_it_is(
    served_site: Site, who: str, tenants: set[str]
) -> None:
    found = ask(served_site, who)
    assert {row["labels"]["tenant"] for row in found["rows"]} == tenants
    assert found["total"] == len(tenants)
    assert {row["evidence"]["nodes"] for row in found["rows"]} == {f"n of {tenant}" for tenant in tenants}
    assert {row["labels"]["tenant"] for row in ask(served_site, who, "/history")["rows"]} == tenants
    assert ask(served_site, who, state="resolved")["rows"] == []
    assert ask(served_site, who, rule="long-queue")["rows"] == []


def test_one_alert_comes_with_its_changes_and_somebody_elses_is_not_there(served_site: Site) -> None:
    mine, theirs = (fingerprint("idle-holder", [("of", tenant)]) for tenant in ("vision", "speech"))
    assert [one["state"] for one in ask(served_site, "vision", f"/{mine}")["changes"]] == ["firing"]
    with served_site.client("vision") as client:
        assert client.get(f"{ALERTS}/{theirs}").status_code == 404


def test_a_reason_of_blanks_is_none(served_site: Site) -> None:
    body = {"matchers": {"tenant": ["vis*"]}, "ends_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    with served_site.client("operator") as client:
        assert client.post(f"{ALERTS}/silences", json=body | {"reason": "  "}).status_code == 422


def test_an_operator_keeps_an_alert_quiet_and_ends_it_under_its_own_name(served_site: Site) -> None:
    made = silence(served_site, "operator", 0.1, tenant=["vis*"])
    assert made.status_code == 201
    assert made.json()["author"] == "operator"
    held = {row["labels"]["tenant"]: row["held_back"] for row in ask(served_site, "admin")["rows"]}
    assert "operator" in held["vision"]
    assert held["speech"] == ""
    # A tenant is told that its alert is kept quiet, too, though silences are not its to see.
    assert "operator" in ask(served_site, "vision")["rows"][0]["held_back"]
    with served_site.client("vision") as client:
        known = client.get("/_dash-dependencies").json()
        (drawn,) = (one for one in known if one["output"].startswith("..page.children...nav"))
        assert "silenced by" in client.post("/_dash-update-component", json=body_of(drawn, "/alerts")).text
    with served_site.client("operator") as client:
        ended = client.delete(f"{ALERTS}/silences/{made.json()['id']}")
        assert ended.status_code == 200
        assert client.delete(f"{ALERTS}/silences/{made.json()['id']}").status_code == 404
    assert ask(served_site, "analyst", "/silences") == []
    assert [one["id"] for one in ask(served_site, "analyst", "/silences", past=True)] == [made.json()["id"]]
    assert {row["held_back"] for row in ask(served_site, "admin")["rows"]} == {""}


@pytest.mark.parametrize(
    ("days", "matchers", "status", "said"),
    [
        (-1, {"tenant": ["vision"]}, 409, "not after its start"),
        (800, {"tenant": ["vision"]}, 409, "more than 366 days"),
        (1, {}, 422, "matchers"),
    ],
)
def test_a_silence_has_an_end_and_is_of_something(
    served_site: Site, days: float, matchers: dict[str, list[str]], status: int, said: str
) -> None:
    answer = silence(served_site, "operator", days, **matchers)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


@pytest.mark.parametrize("who", ["finance", "analyst", "vision"])
def test_others_keep_nothing_quiet(served_site: Site, who: str) -> None:
    assert silence(served_site, who, 1, tenant=["vision"]).status_code == 403


def test_the_server_s_metrics_have_the_alerts_and_pass_prometheus_s_own_tool(served_site: Site) -> None:
    with served_site.client("operator") as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert 'gpuledger_alerts{rule="idle-holder",severity="warning",state="firing"} 2' in answer.text
    assert "gpuledger_alert_evaluated_until_timestamp_seconds" in answer.text
    assert "gpuledger_closed_until_timestamp_seconds" in answer.text
    check_metrics(answer.text)


def test_the_client_reads_alerts_and_keeps_them_quiet(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["operator"]) as client:
        (mine,) = (one for one in client.alerts() if one.labels["tenant"] == "vision")
        assert mine.evidence["nodes"] == "n of vision"
        assert [one.state for one in client.alert(mine.fingerprint).changes] == ["firing"]
        assert [one.fingerprint for one in client.alert_history("idle-holder", mine.fingerprint)] == [mine.fingerprint]
        assert list(client.alert_deliveries()) == []
        made = client.add_silence({"tenant": ["vis*"]}, datetime.now(UTC) + timedelta(hours=1), "a demo")
        assert [one.id for one in client.silences()] == [made.id]
        assert client.end_silence(made.id).id == made.id
        assert made.id in {one.id for one in client.silences(past=True)}
        assert client.silences() == []


def test_an_acknowledged_alert_is_quiet_until_it_fires_anew(served_site: Site) -> None:
    of = fingerprint("idle-holder", [("of", "vision")])
    with Client(served_site.url, served_site.tokens["operator"]) as client:
        made = client.acknowledge_alert(of, "on it", 2)
    assert (made.id, made.author, made.ends_at - made.starts_at) == (f"ack-{of}", "operator", timedelta(hours=2))
    held = {row["labels"]["tenant"]: row["held_back"] for row in ask(served_site, "admin")["rows"]}
    assert held == {"vision": f"acknowledged by operator at {made.starts_at:%Y-%m-%dT%H:%M:%SZ}: on it", "speech": ""}
    with served_site.client("operator") as client:
        # It is ended as a silence is, and then acknowledged again, under the same id.
        assert client.delete(f"{ALERTS}/silences/{made.id}").status_code == 200
        assert client.post(f"{ALERTS}/{of}/acknowledge", json={}).status_code == 201
        assert client.delete(f"{ALERTS}/silences/{made.id}").status_code == 200
        assert client.post(f"{ALERTS}/{of}/acknowledge", json={"hours": 0}).status_code == 422
        refused = client.post(f"{ALERTS}/{of}/acknowledge", json={"hours": True})
        expected = "body.hours: expected a number, neither true nor false"
        assert (refused.status_code, refused.json()["detail"]) == (422, expected)
        assert client.post(f"{ALERTS}/nobody/acknowledge", json={}).status_code == 404
    assert {row["held_back"] for row in ask(served_site, "admin")["rows"]} == {""}
    done = [one for one in audit.history(served_site.store, "alert.acknowledge", of) if one["reason"] == "on it"]
    assert [one["actor"] for one in done] == ["operator"]


def test_who_acknowledges_second_hears_of_the_first_and_nothing_is_written(served_site: Site) -> None:
    of = fingerprint("idle-holder", [("of", "vision")])

    def written() -> tuple[object, int]:
        revisions = served_site.store.value(f"SELECT count() FROM alert_silences WHERE id = 'ack-{of}'")
        return revisions, len(audit.history(served_site.store, "alert.acknowledge", of))

    with served_site.client("operator") as first, served_site.client("admin") as second:
        made = first.post(f"{ALERTS}/{of}/acknowledge", json={"reason": "mine"})
        before = written()
        again = second.post(f"{ALERTS}/{of}/acknowledge", json={"reason": "no, mine", "hours": 9})
        assert (made.status_code, again.status_code, again.json()) == (201, 200, made.json())
        assert written() == before
        assert first.delete(f"{ALERTS}/silences/ack-{of}").status_code == 200
        assert second.post(f"{ALERTS}/{of}/acknowledge", json={}).json()["author"] == "admin"
        assert second.delete(f"{ALERTS}/silences/ack-{of}").status_code == 200


@pytest.mark.parametrize("who", ["finance", "analyst", "vision"])
@pytest.mark.parametrize("act", ["acknowledge", "tell"])
def test_others_neither_acknowledge_nor_tell(served_site: Site, who: str, act: str) -> None:
    with served_site.client(who) as client:
        path = f"{ALERTS}/{fingerprint('idle-holder', [('of', 'vision')])}/{act}"
        assert client.post(path, json={}).status_code == 403


def test_without_a_routing_file_nobody_can_be_told(served_site: Site) -> None:
    of = fingerprint("idle-holder", [("of", "vision")])
    with served_site.client("operator") as client:
        answer = client.post(f"{ALERTS}/{of}/tell", json={})
    assert (answer.status_code, "has no receiver" in answer.text) == (409, True), answer.text


def test_an_owner_is_told_with_evidence_and_note(tmp_path: Path, served_site: Site) -> None:
    of = fingerprint("idle-holder", [("of", "vision")])
    with http_receiver() as chat, http_receiver() as other:
        other.answers = [500]
        routing = tmp_path / "routing.yaml"
        routing.write_text(
            "address: https://ledger.example\nreceivers:\n"
            f"  chat: {{slack: {{url: {{file: {tmp_path}/chat}}}}, webhook: {{url: {{file: {tmp_path}/hook}}}}}}\n"
            "routes: [{match: {tenant: vis*}, receivers: [chat]}]\n"
        )
        (tmp_path / "chat").write_text(chat.url)
        (tmp_path / "hook").write_text(other.url)
        app = build_app(served_site.store, DashboardSettings(access=AccessSettings(), reach=Reach(routing)))
        with running(app) as url, Client(url) as client:
            told = client.tell_alert(of, note="please stop it")
            with pytest.raises(ApiError, match="not in the routing file; there are chat"):
                client.tell_alert(of, ["pager"])
    assert (told.targets, list(told.failed)) == (["chat/slack"], ["chat/webhook"])
    (message,) = chat.documents()
    assert "please stop it" in message["attachments"][0]["text"]
    assert message["attachments"][0]["title_link"] == f"https://ledger.example/alerts?rule=idle-holder&alert={of}"
    sent = [one["target"] for one in reading.attempts(served_site.store, "idle-holder", of)]
    assert sent == ["chat/slack"]
    asked, done = audit.history(served_site.store, "alert.tell", of)
    assert (asked["reason"], "chat/webhook" in asked["inputs"]) == ("please stop it", True)
    assert (done["action"], done["actor"], "500" in done["inputs"]) == ("alert.tell.done", asked["actor"], True)
