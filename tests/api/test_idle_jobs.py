"""Idle jobs are reclaimed over the API, by a live scheduler and its policy alone, by those who may; it is audited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.settings import AccessSettings
from api.reach import Reach
from api.routes.idle_jobs import OfJob
from billing import audit
from dashboards.app import DashboardSettings, build_app
from gpuledger.client import ApiError, Client
from scheduler.live.admission import LONGEST_NAME, unfit_job_id
from scheduler.live.http import build_app as scheduler_app
from tests.dashboards.site import Site, running
from tests.scheduler.live.idling import Idling
from warehouse.errors import LedgerError

TOKEN = "a-token-of-the-tests"
POLICY: dict[str, Any] = {"warn": "30m", "after": "2h", "then": "suspend", "approval": True}


class Mute:
    """A proxy that loses the answers to what was done, if told so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.is_mute = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "GET" or not self.is_mute:
            await self._app(scope, receive, send)
            return

        async def lost(_: Message) -> None:
            pass

        await self._app(scope, receive, lost)
        await Response("gone", 502)(scope, receive, send)


@dataclass(frozen=True)
class Fleet:
    """url: of a server with sign-in whose scheduler has the idle jobs `a` and `b`.   mute: between the two."""

    url: str
    scheduler: Idling
    site: Site
    mute: Mute

    def client(self, role: str) -> Client:
        return Client(self.url, self.site.tokens[role])


@pytest.fixture
def fleet(tmp_path: Path, served_site: Site) -> Iterator[Fleet]:
    living = Idling(tmp_path / "jobs", POLICY)
    for name in ("a", "b"):
        living.run(name)
    living.at(60, a=45, b=45)
    (tmp_path / "token").write_text(TOKEN)
    mute = Mute(scheduler_app(living.service, TOKEN))
    with running(mute) as scheduler:
        reach = Reach(None, scheduler, tmp_path / "token")
        settings = DashboardSettings(access=AccessSettings(sign_in=True), reach=reach)
        with running(build_app(served_site.store, settings)) as url:
            yield Fleet(url, living, served_site, mute)


def test_an_operator_reclaims_one_idle_job_and_keeps_the_other(fleet: Fleet) -> None:
    with fleet.client("operator") as client:
        found = client.idle_jobs()
        assert {(one.job_id, one.step, one.idle_seconds) for one in found.jobs} == {
            ("a", "warned", 2700.0), ("b", "warned", 2700.0),
        }  # fmt: skip
        assert found.jobs[0].allocations
        assert client.reclaim_idle_job("a", "its owner said so").by == "operator"
        assert client.keep_idle_job("b").job == "b"
        with pytest.raises(ApiError, match="is kept by operator"):
            client.reclaim_idle_job("b")
        with pytest.raises(ApiError, match="nobody"):
            client.reclaim_idle_job("nobody")
    assert fleet.scheduler.status("a") == "stopping"
    assert fleet.scheduler.status("b") == "running"
    asked, done = audit.history(fleet.site.store, "job.reclaim", "a")
    assert (asked["actor"], asked["reason"], "2700" in asked["inputs"]) == ("operator", "its owner said so", True)
    assert (done["action"], done["actor"], done["inputs"]) == ("job.reclaim.done", "operator", '{"status": "stopping"}')
    noted = [(one["action"], one["object"]) for one in audit.history(fleet.site.store, "job.keep")]
    assert noted == [("job.keep", "b"), ("job.keep.done", "b")]
    asked, failed = audit.history(fleet.site.store, "job.reclaim", "b")
    assert (failed["action"], "is kept by operator" in failed["inputs"]) == ("job.reclaim.failed", True)


def test_a_job_is_reclaimed_however_long_a_name_the_scheduler_took() -> None:
    name = "x" * LONGEST_NAME
    assert unfit_job_id(name) == "" and OfJob(job=name).job == name


def test_nothing_is_asked_of_the_scheduler_before_it_is_in_the_audit(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise LedgerError("audit", "cannot be written")

    monkeypatch.setattr(audit, "record", away)
    with fleet.client("operator") as client:
        for act in (client.reclaim_idle_job, client.keep_idle_job):
            with pytest.raises(ApiError, match="cannot be written"):
                act("a")
    assert fleet.scheduler.status("a") == "running"
    with fleet.client("operator") as client:
        assert {one.step for one in client.idle_jobs().jobs} == {"warned"}


def test_what_a_scheduler_may_have_done_is_not_called_failed(fleet: Fleet) -> None:
    fleet.mute.is_mute = True
    with fleet.client("operator") as client, pytest.raises(ApiError, match="may be done all the same"):
        client.reclaim_idle_job("b")
    assert fleet.scheduler.status("b") == "stopping"
    asked, outcome = audit.history(fleet.site.store, "job.reclaim", "b")[-2:]
    assert (asked["action"], outcome["action"]) == ("job.reclaim", "job.reclaim.unknown")


def test_one_proposes_another_says_yes_and_undoes_it(fleet: Fleet) -> None:
    with fleet.client("finance") as finance, fleet.client("operator") as client:
        finance.propose_idle_job("a", "the gang next door waits")
        found = {one.job_id: one for one in client.idle_jobs().jobs}
        assert (found["a"].step, found["a"].by) == ("proposed", "finance")
        for job in ("a", "b"):
            with pytest.raises(ApiError, match="is not suspended for being idle"):
                client.resume_idle_job(job)
        client.reclaim_idle_job("a")
        fleet.scheduler.over("a")
        (found_a,) = [one for one in client.idle_jobs().jobs if one.job_id == "a"]
        assert (found_a.step, found_a.by) == ("suspended", "operator")
        with pytest.raises(ApiError) as refused:
            finance.resume_idle_job("a")
        assert refused.value.status == 403
        client.resume_idle_job("a", "its owner needs it today")
    fleet.scheduler.settle()
    assert fleet.scheduler.status("a") == "running"
    done = [one for what in ("propose", "resume") for one in audit.history(fleet.site.store, f"job.{what}")]
    done = [one for one in done if not one["action"].endswith(".done")]
    assert [(one["actor"], one["object"], one["reason"]) for one in done] == [
        ("finance", "a", "the gang next door waits"), ("operator", "a", "its owner needs it today"),
    ]  # fmt: skip


@pytest.mark.parametrize("who", ["finance", "analyst", "vision"])
def test_others_reclaim_and_keep_nothing(fleet: Fleet, who: str) -> None:
    with fleet.client(who) as client:
        for act in (client.reclaim_idle_job, client.keep_idle_job):
            with pytest.raises(ApiError) as refused:
                act("a")
            assert refused.value.status == 403
        if who == "vision":
            with pytest.raises(ApiError) as refused:
                client.propose_idle_job("a")
            assert refused.value.status == 403
    assert fleet.scheduler.status("a") == "running"
    with fleet.client("vision") as client, pytest.raises(ApiError) as refused:
        client.idle_jobs()
    assert refused.value.status == 403


def test_without_a_scheduler_or_its_answer_the_reason_is_said(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["operator"]) as client:
        assert client.idle_jobs().scheduler == ""
        with pytest.raises(ApiError, match="was not given one"):
            client.reclaim_idle_job("a")
    settings = DashboardSettings(access=AccessSettings(), reach=Reach(None, "http://127.0.0.1:9"))
    with running(build_app(served_site.store, settings)) as url:
        answer = httpx.get(f"{url}/api/v1/idle-jobs")
    assert answer.status_code == 400
    assert "does not answer as a scheduler" in answer.text
    assert "--scheduler" in answer.text and "--url" not in answer.text
