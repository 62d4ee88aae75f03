"""`gpuledger exporter`: what an exporter tells and what it loses."""

from __future__ import annotations

import json
import socket

import pytest
import typer
from typer.testing import CliRunner, Result

from gpuledger.commands import exporter as command
from tests.collectors.exporters.serving import Exporter
from warehouse.errors import LedgerError

LABELS = 'UUID="GPU-{}",modelName="L4",Hostname="n1",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1"'


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app)
    return CliRunner().invoke(app, ["exporter", *arguments, "--seconds", "0"])


def page(*fields: str) -> bytes:
    return "".join(
        "{}{{{}}} {}\n".format(*[field.split()[0], LABELS.format(device), field.split()[1]])
        for device in "ab"
        for field in fields
    ).encode()


def test_each_metric_with_its_unit_and_what_is_lost(exporter: Exporter) -> None:
    exporter.body = page(
        "DCGM_FI_DEV_GPU_UTIL 0.87", "DCGM_FI_DEV_FB_USED_BYTES 77768687616", "DCGM_FI_DEV_XID_ERRORS 0"
    )
    exporter.body += page("other_metric 5")
    done = run(exporter.url, "--format", "json")
    assert done.exit_code == 0, done.output
    card = json.loads(done.stdout)
    assert (card["exporter"], card["version"], card["devices"]) == ("dcgm", "DCGM_FI_SYSTEM_DRIVER_VERSION=590.1", 2)
    lines = {line["metric"]: line for line in card["metrics"]}
    busy = {"metric": "gpu_utilization", "source": "DCGM_FI_DEV_GPU_UTIL", "unit": "ratio"}
    assert lines["gpu_utilization"] == busy | {"values": 2, "of": 2, "why": ""}
    assert lines["memory_used_bytes"]["unit"] == "bytes" and lines["xid_last"]["unit"] == ""
    assert (lines["power_watts"]["values"], lines["power_watts"]["why"]) == (0, "2 missing")
    assert card["lost"] == [] and card["dropped"] == {"not in the profile": 2}


def test_devices_that_have_no_name_but_a_number_on_their_node_are_read(exporter: Exporter) -> None:
    """As found: of a recorded Ascend page, whose devices an agent reads, it was said to have none."""
    exporter.body = b"".join(b'npu_chip_info_utilization{id="%d",vdie_id=""} 57\n' % number for number in range(8))
    done = run(exporter.url, "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)["devices"]) == (0, 8), done.output


def test_what_a_device_must_have_is_lost(exporter: Exporter) -> None:
    exporter.body = page("DCGM_FI_DEV_GPU_UTIL 1", "DCGM_FI_DEV_POWER_USAGE 70")
    done = run(exporter.url)
    assert done.exit_code == 1
    assert "lost: gpu_utilization, memory_used_bytes" in done.stderr.replace("\n", " ")
    assert "2 blank" in done.stdout


@pytest.mark.parametrize(
    ("body", "arguments", "said"),
    [
        (b"", (), "answers with metrics that no profile recognises"),
        (b"up 1\n", (), "answers with metrics that no profile recognises"),
        (b"up 1\n", ("--profile", "dcgm"), "answers without a device that profile dcgm knows"),
        (b"DCGM_FI_DEV_GPU_UTIL 5\n", (), "answers without a device that profile dcgm knows"),
        (b"", ("--profile", "nothing"), "profile 'nothing': unknown"),
        (b"", ("--token-file", "/nowhere"), "token_file /nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    exporter: Exporter, body: bytes, arguments: tuple[str, ...], said: str
) -> None:
    exporter.body = body
    done = run(exporter.url, *arguments)
    assert isinstance(done.exception, LedgerError), done.output
    assert said in str(done.exception) and "\n" not in str(done.exception)


def test_an_exporter_that_does_not_answer_has_a_next_step(exporter: Exporter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
    refused = str(run(nobody).exception)
    assert "Connection refused" in refused and refused.endswith(
        "Check that it runs, and its host, port and http or https"
    )
    for status, said in ((404, "Check the path"), (302, "Give the URL that it redirects to"), (401, "Give a token")):
        exporter.status = status
        assert said in str(run(exporter.url).exception)


def test_a_url_that_is_none_says_what_fits() -> None:
    done = run("localhost:9400")
    assert "not an http or https URL" in str(done.exception)
