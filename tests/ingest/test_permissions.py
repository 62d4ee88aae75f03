"""Who may say what: random pushes of several senders against a model of a few lines, and the file that says it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.errors import IngestError
from ingest.judge import Judge
from ingest.normalise import normalise
from ingest.permissions import DEFAULT_BACK, Permissions, distinct
from ingest.pieces import table_pieces
from ingest.senders import Sender, Senders
from tests.billing.facts import devices, put
from tests.billing.hand_ledger import at
from tests.ingest.receiving import TOKEN
from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

NOW = at("2026-11-20 12:00")
STANDS = {"d1": ("c1", "n1", "H100"), "d2": ("c1", "n2", "H100"), "d3": ("c2", "n1", "H100")}
PUSHES = int(os.environ.get("GPULEDGER_PUSHES", "60"))
"""Random pushes; ad hoc many more."""
REQUIRED: dict[str, dict[str, Any]] = {
    "samples": {"interval_seconds": 60.0, "state": "ok", "utilization": 0.5},
    "metrics": {"interval_seconds": 60.0, "state": "ok", "metric": "m", "value": 1.0},
    "events": {"allocation_id": "a", "event": "submitted"},
    "devices": {"state": "available"},
    "findings": {"finding": "f", "severity": "info"},
    "service_levels": {"interval_seconds": 60.0, "metric": "m", "value": 1.0},
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        for name, (cluster, node, model) in STANDS.items():
            put(store, "devices", devices("2026-11-01 00:00", name, cluster=cluster, node=node, model=model))
        put(store, "devices", devices("2026-11-01 00:00", "gone", cluster="c1", node="n2", state="removed"))
        yield Judge(store)


names = st.sampled_from(["all", ("n1",), ("n*",), ("n2", "n3"), ()])
places = st.builds(
    Permissions,
    records=st.just("all"),
    clusters=st.sampled_from(["all", ("c1",)]),
    nodes=names,
    services=st.sampled_from(["all", ("chat",), ()]),
    back=st.sampled_from([None, "all", timedelta(hours=12)]),
    past=st.sampled_from(["held", "refused"]),
    inventory=st.booleans(),
)


@st.composite
def pushes(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    record = draw(st.sampled_from(sorted(REQUIRED)))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        age = draw(st.sampled_from([timedelta(minutes=5), timedelta(days=1), timedelta(days=20), timedelta(days=9000)]))
        row: dict[str, Any] = {**REQUIRED[record], "ts": NOW - age, "cluster": "c1"}
        if record == "service_levels":
            row["service"] = draw(st.sampled_from(["chat", "search"]))
        else:
            row["node"] = draw(st.sampled_from(["n1", "n2", "n3", "", "N1", "n1 "]))
            row["device_id"] = draw(st.sampled_from(["d1", "d2", "d3", "unknown", "gone"]))
        if record == "devices":
            row["model"] = draw(st.sampled_from(["H100", "CHEAP"]))
        rows.append(row)
    return record, rows


def fate(permissions: Permissions, record: str, row: dict[str, Any]) -> str:
    """The model."""

    def among(name: str, some: Any) -> bool:
        return some == "all" or any(fnmatchcase(name, one) for one in some)

    if record == "service_levels":
        mine = among(row["service"], permissions.services or ("all" if permissions.nodes == "all" else ()))
    else:
        mine = among(row["node"], permissions.nodes)
    if not mine:
        return "out_of_place"
    back = DEFAULT_BACK[record] if permissions.back is None else permissions.back
    if back != "all" and NOW - row["ts"] > back:
        return "beyond_window"
    cluster, node, model = STANDS.get(row.get("device_id", ""), ("", "", ""))
    if not cluster or permissions.inventory:
        return ""
    moved = cluster != row["cluster"] or (node != row["node"] and (record != "events" or row["node"] != ""))
    if moved and (
        record == "devices"
        or (cluster != row["cluster"] and permissions.clusters != "all")
        or permissions.nodes != "all"
    ):
        return "device_elsewhere"
    return "device_changed" if record == "devices" and row["model"] != model else ""


@settings(max_examples=PUSHES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(permissions=places, push=pushes())
def test_what_becomes_of_a_row_is_what_the_model_says(
    judge: Judge, permissions: Permissions, push: tuple[str, list[dict[str, Any]]]
) -> None:
    record, rows = push
    kind = RECORD_TYPES[record]
    columns = dict.fromkeys(name for row in rows for name in row)
    (piece,) = table_pieces(kind, "t", [pa.table({name: [row.get(name) for row in rows] for name in columns})])
    judged = judge.judge(Sender(f"s {permissions.past}", permissions), kind, "push:s", normalise(kind, piece, NOW), NOW)
    fates = Counter(fate(permissions, record, row) for row in rows)
    stored, out = fates.pop("", 0), fates.pop("out_of_place", 0)
    rejected = Counter(reject.reason for reject in judged.clean.rejects)
    assert (len(judged.clean.table), rejected.pop("out_of_place", 0)) == (stored, out)
    assert (judged.held, rejected) == ((fates, Counter()) if permissions.past == "held" else (Counter(), fates))
    assert judged.clean.rows == stored + len(judged.clean.rejects)


def test_names_are_never_confused_however_many_there_are() -> None:
    count = 3000
    table = pa.table({name: pa.array([f"{name}{i % (count - n)}" for i in range(count)]).dictionary_encode()
                      for n, name in enumerate("abcdefg")})  # fmt: skip
    codes, groups = distinct(table, "abcdefg")
    rows = list(zip(*(table[name].to_pylist() for name in "abcdefg"), strict=True))
    assert [groups[code] for code in np.asarray(codes)] == rows


@pytest.mark.parametrize("missing", ["records", "clusters", "nodes"])
def test_a_file_of_before_is_told_what_to_write(tmp_path: Path, missing: str) -> None:
    said = {name: "all" for name in ("records", "clusters", "nodes") if name != missing}
    path = tmp_path / "senders.yaml"
    text = ", ".join(f"{name}: {value}" for name, value in said.items())
    path.write_text(f"senders: [{{name: a, token: {TOKEN}, {text}}}]")
    with pytest.raises(IngestError, match=f"{missing} is missing; it used to default to all") as raised:
        Senders(path)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("nodes: own", "nodes: own is for kubernetes"), ("nodes: all, back: 2y", "expected 12h, 2d or all"),
     ("nodes: all, back: 0d", "expected 12h, 2d or all"), ("nodes: all, past: applied", "past"),
     ("nodes: all, pasts: held", "pasts"), ("nodes: gpu-1", "nodes")],
)  # fmt: skip
def test_a_place_of_no_use_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "senders.yaml"
    path.write_text(f"senders: [{{name: a, token: {TOKEN}, records: all, clusters: all, {text}}}]")
    with pytest.raises(IngestError, match=said):
        Senders(path)


def test_a_place_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "senders.yaml"
    path.write_text(
        f"senders: [{{name: a, token: {TOKEN}, records: [samples], clusters: [c1], nodes: [n-*], back: 2d}}]"
    )
    sender = Senders(path).of(TOKEN)
    assert sender is not None
    assert sender.permissions == Permissions(("samples",), ("c1",), ("n-*",), back=timedelta(days=2))
    assert sender.permissions.on_node("n[1]*").nodes == ("n[[]1][*]",), "a node's name is no pattern"


def test_a_sender_that_has_too_many_rows_waiting_has_the_rest_quarantined(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.judge.MOST_HELD", 3)
    rows = [{**REQUIRED["samples"], "ts": at("2001-01-01 00:00") + timedelta(minutes=n), "cluster": "c1", "node": "n1",
             "device_id": "d1"} for n in range(5)]  # fmt: skip
    kind = RECORD_TYPES["samples"]
    (piece,) = table_pieces(kind, "t", [pa.table({name: [row[name] for row in rows] for name in rows[0]})])
    sender = Sender("talkative", Permissions("all", "all", "all"))
    judged = judge.judge(sender, kind, "push", normalise(kind, piece, NOW), NOW)
    assert (judged.held, [one.reason for one in judged.clean.rejects]) == (
        Counter(beyond_window=3), ["too_many_held"] * 2,
    )  # fmt: skip


def test_what_is_known_of_a_device_is_asked_anew_before_anybody_is_doubted(judge: Judge) -> None:
    store: Store = judge._store
    assert judge.inventory.known(["d2"])["d2"][:2] == ("c1", "n2")
    put(store, "devices", devices("2026-11-19 00:00", "d2", cluster="c1", node="n9"))
    rows = [{**REQUIRED["samples"], "ts": NOW, "cluster": "c1", "node": "n9", "device_id": "d2"}]
    kind = RECORD_TYPES["samples"]
    (piece,) = table_pieces(kind, "t", [pa.table({name: [row[name] for row in rows] for name in rows[0]})])
    judged = judge.judge(
        Sender("n9", Permissions("all", ("c1",), ("n9",))), kind, "push", normalise(kind, piece, NOW), NOW
    )
    assert (len(judged.clean.table), judged.held) == (1, Counter())
