"""Remote write over real HTTP, with a real store behind it."""

from __future__ import annotations

import base64
import math
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from collectors.receivers import assembler
from collectors.receivers.assembler import Assembler
from tests.collectors.receivers.pushing import (
    ONE_NODE,
    STALE_NAN,
    V1,
    V2,
    Given,
    Pushed,
    part,
    snappy,
    varint,
    write_v1,
    write_v2,
)
from tests.ingest.receiving import TOKEN
from tests.stores import emptied
from warehouse.store import Store

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)


def at(seconds: float) -> int:
    return round((NOW.timestamp() + seconds) * 1000)


def labels(name: str, device: str = "GPU-0", **more: str) -> dict[str, str]:
    own = {"job": "dcgm", "instance": "n1:9400", "Hostname": "n1", "UUID": device, "modelName": "H100"}
    return {"__name__": name, **own, **more}


def util(values: list[tuple[float, float]], device: str = "GPU-0", **more: str) -> Given:
    return labels("DCGM_FI_DEV_GPU_UTIL", device, **more), [(at(seconds), value) for seconds, value in values]


def memory(values: list[tuple[float, float]], device: str = "GPU-0", **more: str) -> Given:
    return labels("DCGM_FI_DEV_FB_USED", device, **more), [(at(seconds), value) for seconds, value in values]


def samples(store: Store, columns: str = "utilization, memory_used_bytes") -> list[tuple[Any, ...]]:
    sql = f"SELECT ts, device_id, {columns} FROM samples WHERE workload_id = '' ORDER BY device_id, ts, {columns}"
    return [(row.pop("ts").timestamp() - NOW.timestamp(), *row.values()) for row in store.rows(sql)]


MIB = 1 << 20


def test_series_of_one_instant_that_come_apart_make_one_row(pushed: Pushed) -> None:
    for series in (util([(0, 50), (15, 60)]), memory([(0, 1024), (15, 2048)])):
        assert pushed.write(snappy(write_v1([series]))).status_code == 204
    pushed.assemble()
    assert samples(pushed.store, "interval_seconds, utilization, memory_used_bytes, node, state") == [
        (0.0, "GPU-0", 15.0, 0.5, 1024 * MIB, "n1", "ok"),
        (15.0, "GPU-0", 15.0, 0.6, 2048 * MIB, "n1", "ok"),
    ]


def test_both_versions_say_the_same(pushed: Pushed) -> None:
    series = [util([(0, 50), (15, 60)]), memory([(0, 1024), (15, 2048)]), util([(0, 1), (15, 2)], "GPU-1", pod="p")]
    answer = pushed.write(snappy(write_v2(series)), V2)
    assert (answer.status_code, answer.headers["X-Prometheus-Remote-Write-Samples-Written"]) == (204, "6")
    pushed.assemble()
    by_v2 = samples(pushed.store)
    emptied(pushed.store)
    pushed.assembler.forget()
    assert pushed.write(snappy(write_v1(series))).status_code == 204
    pushed.assemble()
    assert samples(pushed.store) == by_v2 and len(by_v2) == 4


def test_what_is_sent_again_changes_nothing(pushed: Pushed) -> None:
    series = [util([(0, 50), (15, 60)]), memory([(0, 1024), (15, 2048)])]
    for _ in range(3):
        assert pushed.write(snappy(write_v1(series))).status_code == 204
        pushed.assemble()
    assert pushed.store.value("SELECT count() FROM samples") == 2
    assert pushed.store.value("SELECT uniqExact(batch) FROM samples") == 1


def test_what_comes_late_completes_its_instant(pushed: Pushed) -> None:
    assert pushed.write(snappy(write_v1([util([(0, 50), (15, 60), (30, 70)])]))).status_code == 204
    pushed.assemble()
    assert pushed.write(snappy(write_v1([memory([(15, 2048)])]))).status_code == 204
    pushed.assemble()
    assert samples(pushed.store) == [
        (0.0, "GPU-0", 0.5, None),
        (15.0, "GPU-0", 0.6, 2048 * MIB),
        (15.0, "GPU-0", 0.6, None),
        (30.0, "GPU-0", 0.7, None),
    ]


def test_counters_gain_and_a_first_instant_waits_for_the_second(pushed: Pushed) -> None:
    energy = labels("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), [(at(0), 1_000_000.0)]
    assert pushed.write(snappy(write_v1([util([(0, 50)]), energy]))).status_code == 204
    pushed.assembler.run(pushed.store, threading.Event())
    assert samples(pushed.store) == []
    more = labels("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), [(at(10), 2_000_000.0)]
    assert pushed.write(snappy(write_v1([util([(10, 50)]), more]))).status_code == 204
    pushed.assemble()
    assert samples(pushed.store, "interval_seconds, energy_joules") == [
        (0.0, "GPU-0", 10.0, None),
        (10.0, "GPU-0", 10.0, 1000.0),
    ]


def test_an_instant_is_assembled_when_nothing_of_it_has_come_for_a_while(pushed: Pushed) -> None:
    patient = Assembler(pushed.receiver, pushed.log, 30.0, 0.0)
    assert pushed.write(snappy(write_v1([util([(0, 50), (15, 60), (30, 70)])]))).status_code == 204
    patient.run(pushed.store, threading.Event())
    assert samples(pushed.store) == [] and not pushed.log.held_up
    pushed.store.command(
        "INSERT INTO pushed_instants (sender, target, ts, push, received_at) SELECT sender, target, ts, push,"
        " received_at - INTERVAL 1 MINUTE FROM pushed_instants"
    )
    assert pushed.write(snappy(write_v1([memory([(15, 1024)])]))).status_code == 204
    # All came a minute ago, and something of the second just now: neither it nor what is after it is complete.
    patient.run(pushed.store, threading.Event())
    patient.run(pushed.store, threading.Event())
    assert samples(pushed.store) == []
    pushed.assemble()
    assert samples(pushed.store) == [
        (0.0, "GPU-0", 0.5, None),
        (15.0, "GPU-0", 0.6, 1024 * MIB),
        (30.0, "GPU-0", 0.7, None),
    ]


def test_nothing_is_acknowledged_while_what_was_is_not_assembled(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "HELD_UP_SECONDS", -1.0)
    body = snappy(write_v1([util([(0, 50), (15, 60)])]))
    assert pushed.write(body).status_code == 204
    Assembler(pushed.receiver, pushed.log, 3600.0).run(pushed.store, threading.Event())
    answer = pushed.write(body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    pushed.assemble()
    monkeypatch.undo()
    Assembler(pushed.receiver, pushed.log, 3600.0, 0.0).run(pushed.store, threading.Event())
    assert pushed.write(body).status_code == 204


def test_an_end_of_series_is_no_value_and_a_target_that_ends_is_a_finding(pushed: Pushed) -> None:
    both = [util([(0, 50), (15, 60)]), util([(0, 10), (15, 20)], "GPU-1")]
    gone = util([(30, STALE_NAN)], "GPU-1")
    assert pushed.write(snappy(write_v1([*both, util([(30, 70)]), gone]))).status_code == 204
    pushed.assemble()
    assert [row for row in samples(pushed.store, "state, utilization") if row[0] == 30] == [
        (30.0, "GPU-0", "ok", 0.7),
        (30.0, "GPU-1", "stale", None),
    ]
    found = "SELECT finding, device_id FROM findings ORDER BY ALL"
    assert [tuple(row.values()) for row in pushed.store.rows(found)] == [("inventory_changed", "GPU-1")]
    for _ in range(2):
        assert pushed.write(snappy(write_v1([util([(45, STALE_NAN)])]))).status_code == 204
        pushed.assemble()
    assert samples(pushed.store, "state, utilization")[3] == (45.0, "GPU-0", "stale", None)
    row = pushed.store.rows("SELECT finding, message FROM findings WHERE finding = 'source_unreachable'")
    assert row == [{"finding": "source_unreachable", "message": "prometheus dcgm n1:9400: its series have ended"}]


def test_another_nan_is_an_unknown_value_and_no_end(pushed: Pushed) -> None:
    assert pushed.write(snappy(write_v1([util([(0, 50), (15, math.nan)])]))).status_code == 204
    pushed.assemble()
    assert samples(pushed.store, "state, utilization")[1] == (15.0, "GPU-0", "blank", None)


# --- what a sender may


def test_who_has_no_token_of_ours_gets_no_further(pushed: Pushed) -> None:
    body = snappy(write_v1([util([(0, 50)])]))
    basic = base64.b64encode(f"agents:{TOKEN}".encode()).decode()
    other = base64.b64encode(f"c1-n1:{TOKEN}".encode()).decode()
    for given, status in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {other}"}, 401),
        ({"Authorization": "Basic ???"}, 401),
        ({"Authorization": f"Basic {basic}"}, 204),
    ):
        answer = pushed.write(body, {**V1, **given}, token="")
        assert answer.status_code == status, given
        assert ("Basic" in answer.headers.get("WWW-Authenticate", "")) == (status == 401)
    assert pushed.write(body, token="a token that tells events").status_code == 403


def test_a_sender_speaks_for_its_cluster_and_its_node_alone(pushed: Pushed) -> None:
    own, foreign = util([(0, 50), (15, 60)]), util([(0, 50), (15, 60)], "GPU-9", Hostname="n2")
    assert pushed.write(snappy(write_v1([own, foreign])), token=ONE_NODE).status_code == 204
    elsewhere = util([(0, 50)], "GPU-8", cluster="c2")
    answer = pushed.write(snappy(write_v2([elsewhere, memory([(0, 1024)])])), V2, token=ONE_NODE)
    assert answer.status_code == 400
    assert answer.text == "refused: cluster 'c2' is not the sender's (1); the others were taken\n"
    assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "1"
    alone = pushed.write(snappy(write_v2([elsewhere])), V2, token=ONE_NODE)
    assert alone.status_code == 400 and alone.text.endswith("; nothing was taken\n")
    pushed.assemble()
    found = pushed.store.rows("SELECT DISTINCT cluster, node, device_id FROM samples ORDER BY ALL")
    assert found == [{"cluster": "c1", "node": "n1", "device_id": "GPU-0"}]
    quarantined = "SELECT DISTINCT source, reason, JSONExtractString(raw, 'node') AS node FROM quarantine"
    assert pushed.store.rows(quarantined) == [{"source": "push:c1-n1 metrics", "reason": "out_of_place", "node": "n2"}]


# --- what is refused


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json", "Content-Encoding": "snappy"}, 415),
        ({"Content-Type": "application/x-protobuf;proto=prometheus.WriteRequestV3", "Content-Encoding": "snappy"}, 415),
        ({"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/x-protobuf"}, 415),
        (
            {"Content-Type": 'application/x-protobuf; proto="prometheus.WriteRequest"', "Content-Encoding": "snappy"},
            204,
        ),
    ],
)
def test_another_type_or_encoding_is_refused(pushed: Pushed, headers: dict[str, str], status: int) -> None:
    assert pushed.write(snappy(write_v1([util([(0, 50)])])), headers).status_code == status


def test_rubbish_that_is_no_json_is_refused_by_the_records_too(pushed: Pushed) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-protobuf"}
    answer = pushed.client.post("/api/v1/records/samples", content=b"\x0a\x05rubbish", headers=given)
    assert answer.status_code == 415
    assert pushed.store.value("SELECT count() FROM quarantine") == 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no length"),
        (b"rubbish", "not snappy"),
        (snappy(b"rubbish"), "protobuf"),
        (snappy(write_v1([util([(0, 50)])]))[:-3], "not snappy"),
        (b"\xff\x06\x00\x00sNaPpY", "framed"),
        (varint(1 << 30) + b"\x00a", "bytes when decompressed"),
        (varint(30 << 20) + b"\x00a", "say that they are"),
        (snappy(write_v2([util([(0, 50)])])), "it is not a prometheus.WriteRequest"),
    ],
)
def test_a_body_that_is_none_is_refused(pushed: Pushed, body: bytes, why: str) -> None:
    answer = pushed.write(body)
    assert answer.status_code == (413 if "when" in why else 400) and why in answer.text


def test_a_series_that_cannot_be_read_is_refused_alone(pushed: Pushed) -> None:
    good = write_v1([util([(0, 50)])])
    bad = [
        part(1, b"\xff\xff"),
        part(1, b"\x0a\x08\x0a\x02\xff\xfe\x12\x02ok"),
        write_v1([({"job": "dcgm"}, [(at(0), 1.0)])]),
        write_v1([({**labels("DCGM_FI_DEV_GPU_UTIL"), "pod": "y" * 1001}, [(at(0), 1.0)])]),
        part(1, part(1, part(1, b"a") + part(2, b"b")) * 2),
        write_v1([util([(7200 + 3600, 50), (-1e12, 50)])]),
        part(1, b"\x0a" + varint(70_000) + b"\x00" * 70_000),
    ]
    for one in bad:
        answer = pushed.write(snappy(one + good))
        assert answer.status_code == 400 and "refused" in answer.text, one[:40]
    pushed.assembler.run(pushed.store, threading.Event())
    assert pushed.store.value("SELECT count() FROM pushed_points") == len(bad)


def test_what_no_profile_reads_is_accepted_and_not_stored(pushed: Pushed) -> None:
    others: list[Given] = [({"__name__": f"node_load{n}", "job": "node"}, [(at(0), 1.0)]) for n in range(5)]
    answer = pushed.write(snappy(write_v2([*others, util([(0, 50)])])), V2)
    assert (answer.status_code, answer.headers["X-Prometheus-Remote-Write-Samples-Written"]) == (204, "6")
    name = part(1, part(1, b"__name__") + part(2, b"h"))
    histogram = part(1, name + part(4, b"\x08\x01"))
    assert pushed.write(snappy(histogram)).status_code == 204
    metadata = part(3, part(1, b"x"))
    assert pushed.write(snappy(metadata)).status_code == 204
    assert pushed.store.value("SELECT count() FROM pushed_points") == 1
    pushed.receiver.tally.write()
    counted = "SELECT outcome, reason, sum(rows) AS rows FROM sender_days WHERE record_type = 'points' GROUP BY ALL"
    found = {(row["outcome"], row["reason"]): row["rows"] for row in pushed.store.rows(counted)}
    assert (found["not_taken", "in no profile"], found["not_taken", "histograms"]) == (5, 1)
