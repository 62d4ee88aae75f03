"""Who may name which tenant, in both languages of admission policies: each object is refused or not as it is reckoned
here. CEL by Google's runtime, Rego by rego-cpp: not by an API server or Gatekeeper."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from scheduler.kubernetes.tenancy import Enforcer, wanted
from scheduler.settings import parse_settings
from tests.draws import drawn_seed

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("regopy") is None, reason="regopy 0.4.6 is for Python 3.11 and 3.12"
)
MARK, TENANTS = "gpuledger.io/tenant", "gpuledger.io/tenants"
NAMES = ("vision", "speech", "a", "", "vision,speech", "Vision", " vision")
ANY = cel.Type.DYN
ENV = cel.NewEnv(
    variables={"object": ANY, "oldObject": ANY, "namespaceObject": ANY, "variables": ANY},
    extensions=[ext_strings.ExtStrings()],
)


def made(enforcer: Enforcer, namespaces: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    return list(wanted(parse_settings({"pools": []}), namespaces, "nvidia.com/gpu", enforcer).objects)


def drawn(dice: random.Random, kind: str) -> dict[str, Any]:
    """A pod or ElasticJob that names none, one or two tenants, where it may and where it means nothing."""
    found: dict[str, Any] = {"kind": kind, "metadata": {"name": "it"}, "spec": {}}
    for place in ("labels", "annotations"):
        if dice.random() < 0.6:
            found["metadata"][place] = {"app": "x", **({MARK: dice.choice(NAMES)} if dice.random() < 0.7 else {})}
    if dice.random() < 0.6:
        found["spec"]["tenant"] = dice.choice(NAMES)
    return found


def named(one: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if one is None:
        return
    if one["kind"] == "ElasticJob":
        if "tenant" in one["spec"]:
            yield "spec", one["spec"]["tenant"]
        return
    for place in ("labels", "annotations"):
        if MARK in one["metadata"].get(place, {}):
            yield place, one["metadata"][place][MARK]


def may(home: Mapping[str, Any], one: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    written = [part.strip() for part in home["metadata"].get("annotations", {}).get(TENANTS, "").split(",")]
    allowed = [part for part in written if part] or [home["metadata"]["name"]]
    return all(tenant in allowed or (place, tenant) in named(before) for place, tenant in named(one))


def by_cel(home: Mapping[str, Any], one: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    called = "gpuledger-tenants-of-" + one["kind"].lower() + "s"
    (spec,) = (
        each["spec"]
        for each in made(Enforcer.ADMISSION_POLICY)
        if (each["kind"], each["metadata"]["name"]) == ("ValidatingAdmissionPolicy", called)
    )
    data: dict[str, Any] = {"object": one, "oldObject": before, "namespaceObject": home, "variables": {}}
    for variable in spec["variables"]:
        data["variables"][variable["name"]] = plain(ENV.compile(variable["expression"]).eval(data=data))
    answers = [plain(ENV.compile(rule["expression"]).eval(data=data)) for rule in spec["validations"]]
    messages = [plain(ENV.compile(rule["messageExpression"]).eval(data=data)) for rule in spec["validations"]]
    assert all("may name the tenants " in message for message in messages)
    assert {rule["reason"] for rule in spec["validations"]} == {"Forbidden"}, "422 would be for good"
    assert {type(answer) for answer in answers} == {bool}, answers
    return all(answers)


def plain(value: Any) -> Any:
    found = value.value()
    return [plain(one) for one in found] if isinstance(found, list) else found


REGO = """
import json, sys, regopy
for line in sys.stdin:
    asked = json.loads(line)
    reads = regopy.Interpreter()
    reads.add_module("policy", asked["rego"])
    reads.set_input(asked["input"])
    print(reads.query("refused = data.gpuledgertenants.violation").binding("refused").json())
"""
"""In a process of its own, because the two runtimes do not bear each other in one."""


def by_rego(asked: Sequence[tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]]) -> list[list[dict[str, str]]]:
    """What is wrong with each: (the cluster's namespaces, the review)."""
    lines = []
    for namespaces, review in asked:
        template, constraint = (
            each["spec"]
            for each in made(Enforcer.GATEKEEPER, namespaces)
            if each["kind"] in ("ConstraintTemplate", "GpuledgerTenants")
        )
        given = {"review": review, "parameters": constraint["parameters"]}
        lines.append(json.dumps({"rego": template["targets"][0]["rego"], "input": given}))
    done = subprocess.run(
        [sys.executable, "-c", REGO], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def review_of(home: str, one: Mapping[str, Any], before: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"kind": {"kind": one["kind"]}, "namespace": home, "object": one, "oldObject": before, **more}


@pytest.mark.parametrize("kind", ["Pod", "ElasticJob"])
def test_a_job_cannot_name_a_tenant_that_its_namespace_may_not_name(kind: str) -> None:
    seed = drawn_seed()
    dice, asked, right = random.Random(seed), [], []
    for _ in range(60):
        homes = [
            {"metadata": {"name": name, **({"annotations": {TENANTS: written}} if written is not None else {})}}
            for name, written in zip(
                ("vision", "a", "b"),
                dice.choices((None, "", " , ", "speech", "vision , speech", "a,,b", "Vision"), k=3),
                strict=True,
            )
        ]
        home, one = dice.choice(homes), drawn(dice, kind)
        before = dice.choice((None, one, drawn(dice, kind)))
        right.append(may(home, one, before))
        assert by_cel(home, one, before) == right[-1], (seed, home, one, before)
        operation = "UPDATE" if before else "CREATE"
        asked.append((homes, review_of(home["metadata"]["name"], one, before, operation=operation)))
    assert set(right) == {True, False}
    for (homes, review), found, answer in zip(asked, by_rego(asked), right, strict=True):
        assert (not found) == answer, (seed, homes, review, found)
        assert all(text["msg"].startswith("this namespace may name the tenants ") for text in found)
    # The audit looks at what is there, and has neither an operation nor what was before.
    creations = [place for place, (_, review) in enumerate(asked) if review["oldObject"] is None]
    parts = ("kind", "namespace", "object")
    audited = by_rego([(asked[one][0], {part: asked[one][1][part] for part in parts}) for one in creations])
    assert [not found for found in audited] == [right[one] for one in creations], seed
    deleted = by_rego([(homes, {**review, "operation": "DELETE"}) for homes, review in asked])
    assert not any(deleted), seed


def test_a_namespace_that_came_after_the_policy_may_name_the_tenant_of_its_name() -> None:
    pod = {"kind": "Pod", "metadata": {"labels": {MARK: "later"}}, "spec": {}}
    mine, others = by_rego([([], review_of(home, pod, None, operation="CREATE")) for home in ("later", "another")])
    assert mine == []
    assert [text["msg"] for text in others] == [
        'this namespace may name the tenants another, not "later" '
        "(its annotation gpuledger.io/tenants when this policy was applied)"
    ]
