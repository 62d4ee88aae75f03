"""A process's owner is read from its cgroup, in every form that kubelets, runtimes and Slurm write."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collectors.attribution.cgroup import Owner, owner_of

FORMS = Path(__file__).resolve().parents[4] / "shared" / "telemetry" / "cgroup" / "proc_pid_cgroup_paths.csv"
UID = "3d2f9c1a-7b64-4e0f-9a55-0c8e6f1b2d43"
SYSTEMD_UID = UID.replace("-", "_")
OTHER_UID = "ffffffff-0000-4000-8000-eeeeeeeeeeee"
CONTAINER = "5e" * 32
INNER = "a1" * 32
POD = Owner("pod", UID, CONTAINER)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/besteffort/pod{UID}/{CONTAINER}",
        f"/kubepods/pod{UID}/{CONTAINER}",
        f"/kubepods/burstable/pod{UID}/crio-{CONTAINER}",
        f"/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/crio-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice/docker-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD_UID}.slice/"
        f"cri-containerd-{CONTAINER}.scope/init.scope",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{CONTAINER}.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD_UID}.slice:cri-containerd:{CONTAINER}",
        f"/../../kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-{CONTAINER}.scope",
        f"/docker/{INNER}/kubelet/kubepods/burstable/pod{UID}/{CONTAINER}",
        f"/kubepods/pod{UID}/{CONTAINER}/docker/{INNER}",
        f"/kubepods/pod{UID}/{CONTAINER}/system.slice/slurmstepd.scope/job_9/step_0",
    ],
)
def test_every_runtime_names_the_pod_and_the_container(path: str) -> None:
    assert owner_of(f"0::{path}\n") == POD
    assert owner_of(f"12:devices:/\n7:memory:{path}\n1:name=systemd:/other\n0::/\n") == POD


@pytest.mark.parametrize(
    ("path", "job", "step"),
    [
        ("/slurm/uid_1000/job_4711", "4711", ""),
        ("/slurm/uid_1000/job_4711/step_0/task_2", "4711", "0"),
        ("/slurm_gpu7/uid_0/job_4711/step_batch", "4711", "batch"),
        ("/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_0", "4711", "extern"),
        ("/system.slice/gpu7_slurmstepd.scope/job_4711/step_3.1/user/task_0", "4711", "3.1"),
    ],
)
def test_slurm_names_the_job_and_the_step(path: str, job: str, step: str) -> None:
    assert owner_of(f"0::{path}\n") == Owner("slurm", job, step=step)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("", "unknown", "no_cgroup"),
        ("garbage\n", "unknown", "no_cgroup"),
        ("0::/\n", "none", "host"),
        ("0::/system.slice/slurmd.service\n", "none", "host"),
        ("0::/system.slice/podman.service\n", "none", "host"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "none", "login_session"),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", "none", "container_outside_kubernetes"),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope\n", "none", "container_outside_kubernetes"),
        ("7:memory:/kubepods/pod123/container\n", "unknown", "malformed_pod_uid"),
        (f"0::/kubepods/pod{UID}0/{CONTAINER}\n", "unknown", "malformed_pod_uid"),
    ],
)
def test_what_is_no_workloads_says_why(text: str, kind: str, reason: str) -> None:
    found = owner_of(text)
    assert (found.kind, found.reason, found.workload_id) == (kind, reason, "")


def test_no_process_can_pass_for_another() -> None:
    inside = f"/kubepods/pod{UID}/{CONTAINER}/kubepods/pod{OTHER_UID}/{INNER}"
    assert owner_of(f"0::{inside}\n") == POD
    session = "/user.slice/user-1000.slice/user@1000.service"
    assert owner_of(f"0::{session}/kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{CONTAINER}.scope\n").kind == "none"
    job = f"/system.slice/slurmstepd.scope/job_7/step_0/kubepods/pod{UID}/{CONTAINER}"
    assert owner_of(f"0::{job}\n") == Owner("slurm", "7", step="0")


def test_a_static_pods_uid_has_no_dashes() -> None:
    uid = UID.replace("-", "")
    assert owner_of(f"0::/kubepods/burstable/pod{uid}/{CONTAINER}\n") == Owner("pod", uid, CONTAINER)


def test_all_recorded_forms_are_recognized() -> None:
    if not FORMS.exists():
        pytest.skip("the forms of /proc/PID/cgroup are not beside this checkout (../shared/telemetry/cgroup)")
    seen = 0
    for row in csv.DictReader(FORMS.open()):
        found = owner_of(row["line_as_in_proc_pid_cgroup"] + "\n")
        if row["pod_uid"]:
            assert found == Owner("pod", row["pod_uid"], row["container_id"]), row
        elif "Slurm job" in row["note"] or "slurm" in row["driver"]:
            assert (found.kind, f"job {found.workload_id}" in row["note"]) == ("slurm", True), row
        else:
            assert (found.kind, found.workload_id) == ("unknown", ""), row
        seen += 1
    assert seen >= 13


@given(st.text())
@example("0::/kubepods/pod/\n")
@example("0::" + "/pod" * 5000)
@example("0::/" + "kubepods-" * 5000)
@example("0::/slurm/job_\n")
def test_no_text_breaks_it(text: str) -> None:
    found = owner_of(text)
    assert bool(found.workload_id) == (found.kind in ("pod", "slurm"))
    assert bool(found.reason) == (found.kind in ("none", "unknown"))


_segment = st.sampled_from(
    ["kubepods", "kubepods.slice", "..", f"pod{UID}", "pod123", f"kubepods-pod{SYSTEMD_UID}.slice", CONTAINER,
     "slurm", "uid_5", "job_5", "step_x", "user.slice", "system.slice", "n_slurmstepd.scope", "", "pod", "a:b:c"]
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["", "memory", "cpu,cpuacct", "name=systemd"]), st.lists(_segment))))
def test_only_what_is_written_is_found(lines: list[tuple[str, list[str]]]) -> None:
    text = "".join(f"{n}:{controllers}:/{'/'.join(path)}\n" for n, (controllers, path) in enumerate(lines))
    found = owner_of(text)
    assert found.workload_id in ("", UID, "5")
    assert found.container_id in ("", CONTAINER)
