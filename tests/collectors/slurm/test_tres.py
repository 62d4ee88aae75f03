"""GPUs in TRES and GRES texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.slurm.tres import Gpus, Gres, gpus, gres, profile, tres, tres_of_json


def test_a_sum_and_its_types_name_the_same_gpus() -> None:
    found = gpus(tres("billing=8,cpu=16,gres/gpu:h100=4,gres/gpu=4,mem=64G,node=2"))
    assert (found.whole, found.types, found.profiles) == (4, {"h100": 4}, {"": 4})


def test_types_count_together_where_there_is_no_sum() -> None:
    assert gpus(tres("cpu=1,gres/gpu:a100=2,gres/gpu:v100=1")).whole == 3


def test_memory_and_utilization_of_gpus_are_no_gpus() -> None:
    assert not gpus(tres("cpu=4,gres/gpumem=4G,gres/gpuutil=100,mem=1.5T"))


def test_mig_profiles_are_apart_from_whole_devices() -> None:
    found = gpus(tres("gres/gpu=4,gres/gpu:nvidia_a100_1g.5gb=2,gres/gpu:h100=1,gres/gpu:nvidia_a100_3g.20gb=1"))
    assert found.profiles == {"": 1, "1g.5gb": 2, "3g.20gb": 1}
    assert profile("1g.10gb+me") == "1g.10gb+me"
    assert profile("tesla") == profile("h100") == ""


def test_shards_and_mps_are_shares() -> None:
    assert gpus(tres("cpu=1,gres/shard=6")).shared == {"shard": 6}
    assert gpus(tres("cpu=1,gres/mps=50,gres/gpu=0")).whole == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:h100:2(IDX:0-1,3)", [Gres("gpu", "h100", 2, (0, 1, 3))]),
        ("gpu:2(IDX:2-3)", [Gres("gpu", "", 2, (2, 3))]),
        ("gpu:(null):3(IDX:0-2)", [Gres("gpu", "", 3, (0, 1, 2))]),
        ("gpu(IDX:4-7)", [Gres("gpu", "", 4, (4, 5, 6, 7))]),
        ("gpu:tesla:0(IDX:N/A)", [Gres("gpu", "tesla", 0, ())]),
        ("gpu:a100:8(S:0-1),shard:32(S:0-1)", [Gres("gpu", "a100", 8), Gres("shard", "", 32)]),
        ("gres/gpu:a100:2", [Gres("gpu", "a100", 2)]),
        ("gres:gpu:a100", [Gres("gpu", "a100", 1)]),
        ("gpu", [Gres("gpu")]),
        ("gpu:a100_3g.20gb:1(IDX:5)", [Gres("gpu", "a100_3g.20gb", 1, (5,))]),
        ("shard:7(4/10,0/10,3/10)", [Gres("shard", "", 7, (0, 2), {0: (4, 10), 2: (3, 10)})]),
        ("gpu:A30:1(IDX:0),gpu:Q6K:1(IDX:1)", [Gres("gpu", "A30", 1, (0,)), Gres("gpu", "Q6K", 1, (1,))]),
        ("(null)", []),
        ("", []),
    ],
)
def test_gres_texts_of_all_versions(text: str, expected: list[Gres]) -> None:
    assert gres(text) == expected


def test_json_lists_say_the_same_as_text() -> None:
    entries = [
        {"type": "cpu", "name": "", "id": 1, "count": 8},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
        {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 2},
        {"type": "fs", "name": "disk", "count": None},
    ]
    assert gpus(tres_of_json(entries)) == gpus(tres("cpu=8,gres/gpu=2,gres/gpu:h100=2"))
    assert tres_of_json(None) == {}


@given(st.text(alphabet="gpushardmig:()/,=IDXS0123456789-N.A_ ", max_size=50) | st.text(max_size=30))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (gres, lambda given_text: gpus(tres(given_text))):
        try:
            read(text)
        except ValueError as mistake:
            assert str(mistake)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "count"]), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JSON)
def test_no_json_breaks_the_reader(entries: object) -> None:
    try:
        gpus(tres_of_json(entries))
    except ValueError as mistake:
        assert str(mistake)


def test_types_that_were_asked_for_fill_in_what_accounting_leaves_out_and_no_more() -> None:
    asked = {"a100_3g.20gb": 2}
    assert Gpus(2).typed(asked) == Gpus(2, asked)
    for reported in (Gpus(2, {"h100": 2}), Gpus(1), Gpus(3), Gpus(0), Gpus(shared={"shard": 2})):
        assert reported.typed(asked) == reported
