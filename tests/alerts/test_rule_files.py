"""Rules as files: what is refused and how it is said, and a site's own over the shipped ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.errors import AlertError
from alerts.rule_files import SHIPPED, load_rules
from alerts.runbooks import runbooks
from alerts.templates import render
from alerts.xid_advice import ACTIONS, ADVICE, codes
from collectors.nvml.xids import MEANINGS
from tests.alerts.rules import rule

OWN: dict[str, Any] = {
    "name": "own",
    "query": "own.sql",
    "identity": ["gpu"],
    "condition": "> limit",
    "parameters": {"limit": "15m", "window_seconds": 60},
    "summary": "{{ labels.gpu }}",
}
SQL = "SELECT '0' AS gpu, {window_seconds:UInt32} AS value"


def write(folder: Path, content: dict[str, Any] | str, sql: str = SQL, name: str = "own") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "own.sql").write_text(sql)
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_site_s_rule_joins_the_shipped_ones(tmp_path: Path) -> None:
    rules = {one.name: one for one in load_rules(write(tmp_path / "own", OWN))}
    assert rules["own"].threshold({}) == 900.0
    assert rules["own"].bound() == {"window_seconds": 60}
    assert "idle-holder" in rules


def test_a_site_changes_some_keys_of_a_shipped_rule_and_ends_another(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    changes = {"name": "idle-holder", "extends": True, "condition": ">= 90m", "parameters": {"grace_seconds": "30m"}}
    write(folder, {**changes, "exclude": [{"queue": "interactive"}]}, name="idle-holder")
    write(folder, {"name": "overheating", "extends": True, "enabled": False}, name="overheating")
    rules = {one.name: one for one in load_rules(folder)}
    assert "overheating" not in rules
    changed = rules["idle-holder"]
    assert changed.threshold({}) == 5400.0
    assert changed.bound()["grace_seconds"] == 1800
    assert changed.bound()["window_seconds"] == 10800
    assert changed.excluded({"queue": "interactive"})
    assert changed.sql == next(one for one in load_rules() if one.name == "idle-holder").sql


def test_a_condition_is_shown_with_its_unit(tmp_path: Path) -> None:
    shown = {one.name: one.condition_text() for one in load_rules(write(tmp_path / "own", OWN))}
    assert shown["own"] == "> limit (15m)"
    assert (shown["idle-holder"], shown["low-utilization"], shown["overheating"]) == (">= 1h", "< 50%", ">= 87 °C")
    bare = {name for name, text in shown.items() if text.split(maxsplit=1)[1].replace(".", "").isdigit()}
    assert bare == {"row-remap-failure", "row-remap-pending"}, "a unit is missing; these two are yes or no"
    folder = tmp_path / "other"
    text = yaml.safe_dump({"name": "overheating", "extends": True, "condition": ">= 90"})
    (rule,) = (one for one in load_rules(write(folder, text, name="overheating")) if one.name == "overheating")
    assert rule.condition_text() == ">= 90 °C"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"condition": "about 5"}, "own.yaml, line 1: condition: found 'about 5'; expected a comparison"),
        ({"condition": "> nothing"}, "'nothing' is not a number"),
        ({"severity": "fatal"}, "severity"),
        ({"name": "other"}, "found 'other'. The name is the file's: own"),
        ({"parameters": {"limit": 1}}, "asks for window_seconds: say it under parameters"),
        ({"parameters": {**OWN["parameters"], "spare": 1}}, "asks for no spare"),
        ({"summary": "{{ labels.gpu "}, "template"),
        ({"query": "none.sql"}, "none.sql does not exist"),
        ({"query": None, "source": "nowhere"}, "no source 'nowhere'"),
        ({"source": "budgets"}, "give query (a .sql file) or source, one of them"),
        ({"needs": {"sample": "5m"}}, "needs names 'sample'"),
        ({"for": "soon"}, "a duration like 90s"),
        ({"interval": "30s"}, "interval"),
        ({"identity": []}, "identity"),
        ({"colour": "red"}, "unknown key"),
        ({"summary": None}, "summary"),
        ({"exclude": ["physics"]}, "expected labels with globs"),
        ({"extends": True}, "no rule 'own' is shipped"),
        (
            {"query": "pairs.sql", "parameters": {"limit": 1, "a": "x", "b": "y"}},
            "takes several of a, b: use one text",
        ),
    ],
)
def test_a_rule_that_is_of_no_use_is_refused_naming_the_key(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    content = {name: value for name, value in {**OWN, **changes}.items() if value is not None}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "pairs.sql").write_text("SELECT {a:Array(String)} AS gpu, {b: Array(String)} AS value")
    with pytest.raises(AlertError) as error:
        load_rules(write(tmp_path / "own", content))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AlertError, match="not a folder of rules"):
        load_rules(tmp_path / "nowhere")


def test_every_shipped_rule_says_who_acts_what_to_do_and_where_to_read_on() -> None:
    rules = load_rules()
    assert {path.stem for path in SHIPPED.glob("*.yaml")} == {one.name for one in rules}
    for one in rules:
        assert one.owner and one.action and one.tags["category"], one.name
        assert runbooks()[one.runbook], f"{one.name}: {one.runbook}"
    assert {one.runbook for one in rules} == set(runbooks()), "and no runbook is of no rule"


def test_every_query_belongs_to_a_rule() -> None:
    assert {path.name for path in SHIPPED.glob("*.sql")} == {one.query for one in load_rules() if one.query}


def test_xids_are_in_one_class_each_and_all_known_ones_are() -> None:
    rules = {one.name: one for one in load_rules()}
    hardware, application, known = (
        rules[name].parameters["codes"] for name in ("xid-hardware", "xid-application", "xid-unknown")
    )
    assert known == sorted(ACTIONS)
    assert application == codes("RESTART_APP")
    assert hardware == codes(*(action for action in ADVICE if action not in ("RESTART_APP", "IGNORE")))
    assert set(ACTIONS) == set(MEANINGS)


def test_a_template_cannot_run_code_and_what_it_cannot_say_it_says_it_cannot() -> None:
    facts = {"labels": {"gpu": "{{ 7 * 7 }}"}, "value": None, "evidence": {}}
    texts = [
        "{{ labels.gpu }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ evidence.missing }}",
        "{{ value | duration }}",
        "{{ labels.update({'a': 1}) }}",
    ]
    plain, *failed = render(texts, facts)
    assert plain == "{{ 7 * 7 }}"
    assert all("cannot be filled in" in text for text in failed)


def test_values_are_said_with_their_units() -> None:
    texts = ["{{ value | duration }}", "{{ 0.256 | percent }}", "{{ 3221225472 | bytes }}", "{{ 1.50 | number }}"]
    assert render(texts, {"value": 5_430}) == ["1 h 30 min", "26%", "3.0 GiB", "1.5"]
    assert render(["{{ xid_advice(79) }}"], {})[0].startswith("the GPU has fallen off the bus; drain the node")


def test_a_threshold_is_the_first_override_that_fits() -> None:
    one = rule(overrides=[{"match": {"tenant": "physics"}, "threshold": "1h"}, {"match": {}, "threshold": 5}])
    assert (one.threshold({"tenant": "physics"}), one.threshold({"tenant": "physics-lab"})) == (3600.0, 5.0)


def test_a_value_that_is_no_number_is_unknown() -> None:
    assert rule().holds(float("nan"), {}) is None
    assert rule().holds(None, {}) is None
    assert rule().holds(0.0, {}) is False


VALUES = re.compile(r"\b(?:labels|evidence|parameters)\.\w+|\bvalue\b")


def test_every_shipped_rule_has_its_texts_in_chinese_with_the_same_values_and_an_override_drops_what_it_changes(
    tmp_path: Path,
) -> None:
    for one in load_rules():
        chinese = one.languages["zh"]
        for name in ("summary", "description", "action"):
            english, translated = getattr(one, name), getattr(chinese, name)
            used, known = ({*VALUES.findall(text)} for text in (translated, english))
            assert bool(english) == bool(translated) and used == known, (one.name, name)
            assert not english or not translated.isascii() or "xid_advice" in translated
    (tmp_path / "overheating.yaml").write_text("name: overheating\nextends: true\nsummary: hot\n")
    (own,) = [one for one in load_rules(tmp_path) if one.name == "overheating"]
    assert (own.summary, own.languages["zh"].summary, own.languages["zh"].action.isascii()) == ("hot", "", False)
