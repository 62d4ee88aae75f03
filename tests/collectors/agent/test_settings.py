"""Settings: a file, what goes over it, and one line for what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.agent.settings import AgentSettings, read_settings
from collectors.errors import CollectorError

FILE = """
cluster: c1
deliver: {url: "https://ledger:8443", token_file: "${SECRETS}/token", every_seconds: 30}
spool: {max_bytes: 2GiB}
sources:
  nvml: {interval_seconds: 5, pool: train}
  exporters: [{urls: ["http://localhost:9400/metrics"], interval_seconds: 15}]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def test_a_file_says_what_is_not_as_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRETS", "/etc/secrets")
    settings = read_settings(written(tmp_path, FILE))
    assert settings.deliver.token_file == Path("/etc/secrets/token")
    assert settings.spool.max_bytes == 2 << 30
    assert (settings.sources.nvml.interval_seconds, settings.sources.nvml.pool) == (5, "train")
    assert settings.sources.exporters[0].urls == ("http://localhost:9400/metrics",)
    assert settings.metrics.host == "127.0.0.1"


def test_what_is_given_goes_over_the_file_and_none_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRETS", "/etc/secrets")
    over = {"cluster": "c2", "deliver.url": None, "sources.nvml.interval_seconds": 20, "spool.folder": tmp_path}
    settings = read_settings(written(tmp_path, FILE), over)
    assert settings.cluster == "c2"
    assert settings.deliver.url == "https://ledger:8443"
    assert settings.sources.nvml.interval_seconds == 20
    assert settings.sources.nvml.pool == "train"
    assert settings.spool.folder == tmp_path


def test_without_a_file_all_is_as_usual() -> None:
    assert read_settings(None) == AgentSettings()
    assert AgentSettings().node


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: $NOT_THERE", r"cluster: \$NOT_THERE is not set"),
        ("sources: {exporters: [{urls: ['http://${NOT_THERE}/']}]}", r"exporters\[0\].urls\[0\]: \$NOT_THERE is not"),
        ("clutser: c1", "clutser: unknown key.*known here: cluster, node"),
        ("sources: {nvml: {interval: 5}}", r"sources.nvml.interval: .*known here: enabled, interval_seconds"),
        ("sources: {nvml: {interval_seconds: 7}}", "sources.nvml.interval_seconds: .*1, 5, 10, 15, 20, 30 or 60"),
        ("sources: {nvml: {interval_seconds: 0.5}}", "sources.nvml.interval_seconds"),
        ("sources: {exporters: [{urls: [localhost]}]}", r"sources.exporters\[0\].urls\[0\]"),
        ("metrics: {port: 99999}", "metrics.port"),
        ("spool: {max_bytes: much}", "spool.max_bytes"),
        ("[1, 2]", "not settings of an agent"),
        ("a: [", "not YAML"),
    ],
)
def test_what_does_not_fit_is_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CollectorError, match=said) as raised:
        read_settings(written(tmp_path, text))
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="cannot be read"):
        read_settings(tmp_path / "none.yaml")
