"""What is missing on a node has a name, a state and a next step."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from collectors.agent import privileges
from collectors.agent.privileges import Answer, Privilege, check, missing, reads_nvml
from collectors.agent.settings import AgentSettings, DeliverSettings, NvmlSettings, SourcesSettings
from tests.collectors.attribution.proc_tree import host_proc


def states(nvml: NvmlSettings, token: Path | None = None) -> dict[str, str]:
    settings = AgentSettings(sources=SourcesSettings(nvml=nvml), deliver=DeliverSettings(token_file=token))
    found = check(settings)
    for privilege in missing(found):
        assert privilege.message and privilege.next_step and privilege.needed_for
    return {privilege.name: privilege.state for privilege in found}


def nvml(tmp_path: Path, **changes: object) -> NvmlSettings:
    given = {"proc": tmp_path / "proc", "podresources": tmp_path / "kubelet" / "kubelet.sock", "kernel_log": None}
    return NvmlSettings.model_validate({**given, **changes})


def test_a_proc_that_is_not_the_hosts_is_no_permission_and_not_a_quiet_node(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert states(nvml(tmp_path))["host_processes"] == "no_permission"
    host_proc(tmp_path / "proc")
    assert states(nvml(tmp_path))["host_processes"] == "ok"


def test_where_there_is_no_kubelet_none_is_missed(tmp_path: Path) -> None:
    assert "podresources" not in states(nvml(tmp_path))


def test_an_absent_a_silent_and_an_answering_socket_are_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "kubelet" / "kubelet.sock"
    path.parent.mkdir()
    assert states(nvml(tmp_path))["podresources"] == "unsupported"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert states(nvml(tmp_path))["podresources"] == "blank"
        server.listen()
        assert states(nvml(tmp_path))["podresources"] == "ok"


def test_the_kernel_log_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "kmsg").touch()
    assert states(nvml(tmp_path, kernel_log=tmp_path / "kmsg"))["kernel_log"] == "ok"
    assert states(nvml(tmp_path, kernel_log=tmp_path / "none"))["kernel_log"] == "unsupported"


def test_a_token_that_everybody_can_read_is_reported(tmp_path: Path) -> None:
    token = tmp_path / "token"
    off = NvmlSettings(enabled=False)
    assert states(off, token) == {"token_file": "unsupported"}
    token.write_text("x" * 20)
    token.chmod(0o644)
    assert states(off, token) == {"token_file": "blank"}
    token.chmod(0o600)
    assert states(off, token) == {"token_file": "ok"}
    assert states(off) == {}


def test_the_drivers_library_that_is_missing_says_what_is_unknown_then(tmp_path: Path) -> None:
    from collectors.agent.privileges import library

    def load(name: str) -> object:
        raise OSError(f"{name}: no such file")

    found = library(load)
    assert found.state == "unsupported"
    assert "nothing is known of NVIDIA devices" in str(found)
    assert library(lambda name: name).state == "ok"


@pytest.mark.parametrize("others", ["exporters", "prometheus", "services", ""])
@pytest.mark.parametrize("vendors", [("0x1002", "0x10DE"), ("0x1002",), ()])
@pytest.mark.parametrize("driver", ["ok", "unsupported"])
@pytest.mark.parametrize("enabled", [True, False, None])
def test_a_driver_is_missed_only_where_it_would_have_something_to_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enabled: bool | None,
    driver: Answer,
    vendors: tuple[str, ...],
    others: str,
) -> None:
    monkeypatch.setattr(privileges, "library", lambda: Privilege("nvml_library", driver, ""))
    for number, vendor in enumerate(vendors):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "vendor").write_text(vendor + "\n", encoding="ascii")
    url = "http://amd:5000/metrics"
    one = {
        "": {},
        "exporters": {"exporters": [{"urls": [url]}]},
        "prometheus": {"prometheus": [{"url": url}]},
        "services": {"services": [{"name": "chat", "urls": [url]}]},
    }
    sources = SourcesSettings.model_validate({"nvml": {"enabled": enabled}, **one[others]})
    implied = not others or driver == "ok" or "0x10DE" in vendors
    assert reads_nvml(sources, tmp_path) is (implied if enabled is None else enabled)
