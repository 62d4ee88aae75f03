"""GPU-hours in a job's status: what it held, to the second, as the books have it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.kubernetes.objects import at, written
from scheduler.kubernetes import pods
from scheduler.kubernetes.operator import USAGE_SECONDS
from scheduler.kubernetes.usage import usage_of
from tests.scheduler.kubernetes.hours import by_the_books, check_hours, gpu_seconds
from tests.scheduler.kubernetes.site import DeclaredSite, Site
from tests.scheduler.kubernetes.standin import Thing


def run(site: Site, seconds: float) -> None:
    site.settle()
    site.run()
    site.settle()
    site.now += seconds
    site.settle()


def test_a_jobs_hours_are_exact_through_resizes_evictions_suspensions_and_restarts(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("wide", least=1, most=3, gpusPerReplica=4, tenant="vision")
    site.settle()
    assert "gpuHours" not in job["status"], "it has held nothing yet"
    run(site, 100)  # 12 GPUs
    other = site.create("other", gpusPerReplica=4, tenant="chem")
    site.settle()  # 8 GPUs from now on, though its pods are still to be replaced
    site.now += 7
    run(site, 0)
    run(site, 50)
    site.restart()
    site.cluster.says(site.pods_of(job)[0], "Failed", reason="Evicted")
    site.now += 3
    site.settle()
    run(site, 0)  # gone by now; the next attempt begins
    run(site, 0)
    before = by_the_books(site)[job["status"]["jobId"]]
    assert before == pytest.approx(100 * 12 + (7 + 50 + 3) * 8, abs=0.5), "decisions are milliseconds apart"
    site.now += 40
    job["spec"]["suspend"] = True
    site.cluster.number += 1
    run(site, 1000)
    assert gpu_seconds(job) == pytest.approx(before + 40 * 8, abs=0.5)
    job["spec"]["suspend"] = False
    site.cluster.number += 1
    site.settle()
    run(site, 11)
    for pod in site.pods_of(job):
        if pods.phase(pod) == "Running":
            site.cluster.ends(pod, 0)
    site.settle()
    assert job["status"]["state"] == "Succeeded"
    assert gpu_seconds(job) == pytest.approx(before + (40 + 11) * 8, abs=0.5)
    assert "cost" not in job["status"]
    check_hours(site)
    assert other["status"]["state"] == "Running"


def test_a_job_that_ended_before_an_operator_has_looked_is_not_made_larger(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", least=1, most=3, gpusPerReplica=2)
    while not site.pods_of(job):
        site.operator.step()
    site.now += 1
    site.run()
    site.now += 20
    (pod,) = site.pods_of(job)
    site.cluster.ends(pod, 0, site.now)
    site.now += 100
    site.restart()
    site.settle()
    site.run()
    site.settle()
    actions = [one for entry in site.log.entries() if entry.kind == "plan" for one in entry.body["actions"]]
    assert [one["do"] for one in actions] == ["start"]
    assert job["status"]["state"] == "Succeeded"
    assert gpu_seconds(job) == pytest.approx(20 * 2, abs=2.5), "kubelets tell whole seconds"
    check_hours(site)


@pytest.mark.parametrize("hears_of", ["neither", "start", "end"])
def test_hours_are_the_pods_lives_though_no_operator_was_there(tmp_path: Path, hears_of: str) -> None:
    """Pods begin, or end, or both, while no operator runs; it hears of that when it is back."""
    site = Site(tmp_path)
    job = site.create("train", least=2, gpusPerReplica=3)
    site.settle()
    site.now += 20
    site.run()
    first, second = site.pods_of(job)
    if hears_of == "start":
        site.settle()
    site.now += 100
    site.cluster.ends(first, 0, site.now - 60)
    if hears_of == "end":
        site.settle()
    site.now += 30
    site.cluster.ends(second, 0, site.now)
    if hears_of == "end":
        site.settle()
    site.now += 1000
    site.restart()
    site.settle()
    assert job["status"]["state"] == "Succeeded"
    assert gpu_seconds(job) == pytest.approx(130 * 6, abs=0.5)
    check_hours(site)


def test_hours_before_a_resize_count_though_the_operator_heard_too_late_that_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    job = site.create("wide", least=1, most=3, gpusPerReplica=4, tenant="vision")
    site.settle()
    site.now += 20
    site.create("narrow", gpusPerReplica=4, tenant="chem")
    before = site.cluster.look()
    site.run()
    with monkeypatch.context() as late:
        late.setattr(site.cluster, "look", lambda: before)
        site.operator.step()  # it has 8 GPUs from now on, and its pods run already
    site.now += 50
    run(site, 0)
    run(site, 30)
    for pod in site.pods_of(job):
        if pods.phase(pod) == "Running":
            site.cluster.ends(pod, 0, site.now)
    site.settle()
    assert job["status"]["state"] == "Succeeded"
    assert gpu_seconds(job) == pytest.approx((50 + 30) * 8, abs=0.5)
    check_hours(site)


def test_a_pod_of_a_former_size_that_is_gone_may_have_been_the_last(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("wide", least=2, most=3, gpusPerReplica=4, tenant="vision")
    run(site, 100)
    site.create("narrow", gpusPerReplica=4, tenant="chem")
    site.settle()  # 8 GPUs from now on
    first, second, third = site.pods_of(job)
    for pod in (first, third):
        site.cluster.ends(pod, 143, site.now)
    site.now += 50
    job["spec"]["suspend"] = True
    site.cluster.forget(second["metadata"]["name"])
    site.settle()
    assert job["status"]["state"] == "Suspended"
    assert gpu_seconds(job) == pytest.approx(100 * 12 + 50 * 8, abs=0.5)


def test_a_pod_that_its_kubelet_refuses_has_not_run(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", gpusPerReplica=2)
    site.settle()
    site.now += 30
    (pod,) = site.pods_of(job)
    site.cluster.says(pod, "Failed", reason="UnexpectedAdmissionError", message="no GPU is left")
    site.settle()
    assert job["status"]["state"] == "Failed"
    assert "UnexpectedAdmissionError" in job["status"]["message"]
    assert gpu_seconds(job) == 0
    check_hours(site)


def test_an_end_that_nobody_saw_is_when_it_is_known(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", least=2, gpusPerReplica=3, backoffLimit=0)
    run(site, 100)
    first, second = site.pods_of(job)
    site.cluster.ends(first, 1, site.now)
    site.cluster.forget(second["metadata"]["name"])
    site.now += 50
    site.restart()
    site.settle()
    assert gpu_seconds(job) == pytest.approx(150 * 6, abs=0.5), "the pod that is gone may have been the last"


@pytest.mark.parametrize("wrong", [-3600, -7, 0, 3600])
def test_a_kubelet_whose_clock_is_wrong_makes_no_job_cost_nothing(tmp_path: Path, wrong: float) -> None:
    site = Site(tmp_path)
    job = site.create("train", gpusPerReplica=4)
    site.settle()
    site.run()
    (pod,) = site.pods_of(job)
    site.cluster.says(pod, "Running", startTime=written(datetime.fromtimestamp(site.now + wrong, UTC)))
    site.settle()
    site.now += 200
    site.settle()
    site.cluster.ends(pod, 0, site.now + wrong)
    site.settle()
    lost = 7 if wrong == -7 else 0  # an end that may be right
    assert gpu_seconds(job) == pytest.approx((200 - lost) * 4, abs=0.5)


def test_usage_of_running_jobs_is_reported_regularly_at_the_sites_prices(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    site.file = {"policies": {"prices": {"A100": 2.5}}}
    site.restart()
    job = site.create("train", gpusPerReplica=2)
    run(site, 60)
    assert job["status"]["gpuHours"] == "0.0000"
    site.now += USAGE_SECONDS - 60
    site.settle()
    assert (job["status"]["gpuHours"], job["status"]["cost"]) == ("0.1667", "0.4167")
    reported = at(job["status"]["gpuHoursAt"])
    assert reported is not None
    assert reported.timestamp() == site.now
    number = site.cluster.number
    site.now += 60
    site.settle()
    assert site.cluster.number == number, "a minute is not worth a write"
    site.cluster.ends(site.pods_of(job)[0], 0)
    site.settle()
    assert (job["status"]["gpuHours"], job["status"]["cost"]) == ("0.2000", "0.5000")


def test_a_cost_that_is_not_known_is_absent_and_never_nothing() -> None:
    def said(held: Thing, prices: dict[str, float], is_over: bool = True) -> Thing:
        return {key: one for key, one in usage_of(held, prices, is_over, 0.0).items() if key != "gpuHoursAt"}

    hour = 3_600_000
    assert said({"A100": hour}, {}) == {"gpuHours": "1.0000"}
    assert said({"A100": hour, "H100": 1}, {"A100": 2.0}) == {"gpuHours": "1.0000"}, "one of two prices"
    assert said({"A100": hour, "H100": hour}, {"A100": 2.0, "H100": 0.1}) == {"gpuHours": "2.0000", "cost": "2.1000"}
    assert said({}, {}) == {"gpuHours": "0.0000"}, "it is over, and never held any"
    assert said({}, {}, is_over=False) == {}
