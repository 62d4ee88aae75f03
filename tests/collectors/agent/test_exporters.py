"""Exporters as an agent's sources: whose inventory counts, and what outlives the process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collectors.agent import privileges
from collectors.agent.privileges import Answer, Privilege
from collectors.agent.settings import AgentSettings
from collectors.agent.sources import Source, planned
from collectors.readings import Collected
from tests.collectors.exporters.serving import Exporter

START = datetime(2026, 10, 1, 12, tzinfo=UTC)
NVIDIA = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",modelName="L4",Hostname="n1"} '
AMD = 'gpu_gfx_activity{serial_number="S",gpu_id="0",hostname="n1",card_series="MI300X"} 5\n'


def settings(folder: Path, url: str, nvml: bool = True, **more: Any) -> AgentSettings:
    return AgentSettings.model_validate(
        {
            "cluster": "c",
            "node": "n1",
            "spool": {"folder": folder},
            "sources": {
                "nvml": {"enabled": nvml, "podresources": None, "kernel_log": None},
                "exporters": [{"urls": [url], **more}],
            },
        }
    )


def source(reported: AgentSettings) -> Source:
    (found,) = [one.source for one in planned(reported) if one.name == "exporter"]
    return found


def devices(collected: Collected) -> list[tuple[str, str]]:
    return [(row["device_id"], row.get("pool", "")) for row in collected.rows.get("devices", [])]


@pytest.mark.parametrize(
    ("body", "nvml", "library", "reported", "expected"),
    [
        (NVIDIA + "5\n", True, "ok", {}, []),  # the driver tells of them, on this node
        (NVIDIA + "5\n", True, "unsupported", {}, [("GPU-a", "")]),  # no driver here: an agent beside a Prometheus
        (NVIDIA + "5\n", False, "ok", {}, [("GPU-a", "")]),
        (NVIDIA + "5\n", True, "ok", {"inventory": True, "pool": "train"}, [("GPU-a", "train")]),
        (NVIDIA + "5\n", True, "unsupported", {"inventory": False}, []),
        (AMD, True, "ok", {}, [("S", "")]),
        (AMD, True, "ok", {"inventory": False}, []),
    ],
)
def test_nvml_goes_before_an_exporter(
    tmp_path: Path,
    exporter: Exporter,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    nvml: bool,
    library: Answer,
    reported: dict[str, Any],
    expected: list[tuple[str, str]],
) -> None:
    monkeypatch.setattr(privileges, "library", lambda: Privilege("nvml_library", library, ""))
    exporter.body = body.encode()
    one = source(settings(tmp_path, exporter.url, nvml, **reported))
    assert devices(one.collect(START)) == expected
    one.close()


def test_what_was_learned_outlives_the_process_once_it_is_stored(
    tmp_path: Path, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    reported = settings(tmp_path, exporter.url, nvml=False)

    def utilization(one: Source, text: str, seconds: int) -> float | None:
        exporter.body = f"{NVIDIA}{text}\n".encode()
        (row,) = one.collect(START + timedelta(seconds=seconds)).rows["samples"]
        value: float | None = row.get("utilization")
        return value

    first = source(reported)
    assert utilization(first, "0.5", 0) == 0.5
    assert not (tmp_path / "exporter.json").exists()
    first.acknowledge()
    first.close()
    second = source(reported)
    assert utilization(second, "1", 15) == 1.0
    second.close()
    (tmp_path / "exporter.json").write_text("{")
    third = source(reported)
    assert utilization(third, "1", 30) is None
    assert "must be learned again" in caplog.text
    (tmp_path / "exporter.json.new").mkdir()  # a disk that does not take it
    third.acknowledge()
    assert "cannot be saved" in caplog.text
    third.close()
