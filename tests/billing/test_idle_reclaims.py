"""What idle policies gave back, beside an invoice's lines: random lives of workloads, reckoned minute by minute, and
one whose end becomes known after its month was issued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing.close import close
from billing.documents.html import as_html
from billing.documents.page import page_of
from billing.documents.statement import tenant_statements
from billing.exact import rounded
from billing.invoicing.drafts import draft_all
from billing.invoicing.invoices import issue_all, issued
from billing.invoicing.rederive import rederive
from billing.periods import Period, parse_period
from billing.rates import apply_rate_card, parse_rate_card
from gpuledger.commands.invoice import print_table
from tests.billing.elastic_lives import ElasticLife, PodTaken, Taken
from tests.billing.elastic_lives import lived as elastic_life
from tests.billing.facts import devices, put
from tests.billing.hand_ledger import at
from tests.conftest import REPO
from tests.stores import fresh_store
from warehouse.store import Store

OCTOBER, NOVEMBER = (parse_period(month, "UTC") for month in ("2026-10", "2026-11"))
BEGIN, DEARER, CLOSED = at("2026-10-12 00:00"), at("2026-10-16 00:00"), at("2026-11-04 00:00")
MINUTE = timedelta(minutes=1)
CARD: dict[str, Any] = {
    "currency": "EUR",
    "rates": [
        {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00", "effective_to": "2026-10-16"},
        {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "3.10", "effective_from": "2026-10-16"},
        {"sku": "a100", "match": {"model": "A100"}, "price_per_gpu_hour": "1.30"},
    ],
}
IDLE = "idle for 2h, as measured at 2026-10-20T12:28:00.000Z"


def price(model: str, when: datetime) -> Fraction | None:
    """Of a GPU-hour that ends then."""
    known = {"H100": "2.00" if when <= DEARER else "3.10", "A100": "1.30"}
    return Fraction(known[model]) if model in known else None


@dataclass
class Life:
    """A workload of the reference scheduler, as that reports it, on devices of its own."""

    name: str
    tenant: str
    devices: Sequence[tuple[str, str, Fraction]]
    events: list[dict[str, Any]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    wanted: list[datetime] = field(default_factory=list)
    attempt: int = 1
    held: int = 0
    limit: timedelta | None = None
    began: datetime | None = None

    def tell(self, when: datetime, event: str, reason: str = "", text: str = "", limit: datetime | None = None) -> None:
        said = {"sequence": len(self.events), "text": text}
        if event == "cancelled" and len(self.devices) > 1:  # as of a gated pod
            said |= {"act": "cancelled", "actor": "idle policy", "allocation": f"ml/{self.name}@1"}
        if limit is not None:
            said["time_limit_at"] = f"{limit:%Y-%m-%dT%H:%M:%S.000Z}"
        row = {
            "ts": when, "cluster": "c", "workload_id": self.name, "event": event, "tenant": self.tenant,
            "allocation_id": self.name if self.attempt == 1 else f"{self.name}/{self.attempt}",
            "reason": reason, "message": json.dumps(said, separators=(",", ":")), "actor": "idle policy",
            "project": "p",
        }  # fmt: skip
        if event not in ("started", "resized"):
            self.events.append(row | {"device_id": "", "node": "", "units": None, "gpus": 1.0})
            return
        held = self.devices[: self.held]
        for device, _, part in held:
            self.events.append(
                row
                | {"device_id": device, "node": "n1", "units": part.numerator, "gpus": float(sum(p for *_, p in held))}
            )

    def start(self, when: datetime, gpus: int) -> None:
        self.held, self.began = gpus, when
        self.tell(when, "started")

    def take(self, when: datetime, left: int, act: str) -> None:
        limit = self.began + self.limit if self.began and self.limit else None
        given = [(model, part) for _, model, part in self.devices[left : self.held]]
        self.taken.append(Taken(when, given, limit, act))
        self.held = left
        self.tell(when, act, "IdleReclaimed", f"{IDLE}; so it is done (policy queue batch: after 2h)", limit)

    def resume(self, asked: datetime, started: datetime, gpus: int) -> None:
        self.attempt += 1
        self.wanted.append(asked)
        self.tell(asked, "submitted", "Resumed")
        self.start(started, gpus)


def lived(name: str, tenant: str, dice: Random) -> Life:
    """A random life of five weeks, in whole minutes."""
    kind = dice.choice(("H100", "H100", "A100", "UNKNOWN", "mixed", "part"))
    models = [dice.choice(("H100", "A100", "UNKNOWN")) if kind == "mixed" else kind for _ in range(4)]
    models = ["H100" if model == "part" else model for model in models]
    part = Fraction(dice.choice((1, 3)), 7) if kind == "part" else Fraction(1)
    life = Life(name, tenant, [(f"{name}-{n}", model, part) for n, model in enumerate(models)])
    now = BEGIN + dice.randrange(3 * 1440) * MINUTE

    def later(most: int = 3 * 1440) -> datetime:
        nonlocal now
        now += dice.choice((1, 60, dice.randrange(1, most))) * MINUTE
        now = now.replace(minute=0) + MINUTE * 60 if dice.random() < 0.1 else now
        return now

    if dice.random() < 0.4:
        life.limit = dice.randrange(600, 15000) * MINUTE
    life.start(now, dice.randint(2, 4))
    while (now := later()) < CLOSED - timedelta(hours=1):
        ways = ["suspend", "suspend", "suspend", "cancel", "pause", "finish", "at once"]
        ways += ["shrink", "shrink", "shrink", "rescale", "loses"] if life.held > 1 else []
        way = dice.choice([*ways, "grow"] if life.held < 4 else ways)
        if way == "shrink":
            life.take(now, dice.randrange(1, life.held), "resized")
        elif way == "grow":
            life.held = dice.randint(life.held + 1, 4)
            life.wanted.append(now)
            life.tell(now, "resized")
        elif way in ("rescale", "loses"):
            life.held -= 1
            if way == "rescale":
                life.wanted.append(now)
            life.tell(now, "resized", "Rescaled" if way == "rescale" else "GuaranteedQuota")
        elif way in ("suspend", "at once"):
            life.take(now, 0, "suspended")
            if way == "at once":
                life.resume(now, later(), dice.randint(1, 4))
            elif dice.random() < 0.7:
                asked = later()
                life.resume(asked, later(600), dice.randint(1, 4))
            else:
                if dice.random() < 0.5:
                    life.wanted.append(later())
                    life.tell(now, "cancelled", "Cancelled")
                break
        elif way == "cancel":
            life.take(now, 0, "cancelled")
            break
        elif way == "pause":
            life.wanted.append(now)
            life.tell(now, "suspended", "Suspended")
            life.held = 0
            life.resume(later(), later(600), dice.randint(1, 4))
        else:
            life.wanted.append(now)
            life.tell(now, "finished")
            break
    return life


def ends_of(life: Life | ElasticLife, one: Taken) -> list[datetime]:
    """What ends the counting, besides the time limit and the month."""
    if isinstance(one, PodTaken):
        return [] if one.ends is None else [one.ends]
    assert isinstance(life, Life)
    return [when for when in life.wanted if when > one.when or (when == one.when and one.act == "suspended")]


def reckoned(lives: Sequence[Life | ElasticLife], tenant: str, period: Period) -> dict[str, Any]:
    """Of each reclaim, minute after minute, whether anything has ended it yet."""
    until = min(period.end, CLOSED)
    sums = {
        "hours": Fraction(0),
        "unpriced": Fraction(0),
        "cost": Fraction(0),
        "open": Fraction(0),
        "count": Fraction(0),
    }
    for life in lives:
        for one in life.taken if life.tenant == tenant else ():
            if not period.start <= one.when < until:
                continue
            now = one.when
            enders = ends_of(life, one)
            while now < until and now not in enders and (one.limit is None or now < one.limit):
                now += MINUTE
            hours = Fraction((now - one.when) // MINUTE, 60)
            for model, part in one.parts:
                cost = price(model, one.when)
                sums["hours"] += hours * part
                sums["unpriced" if cost is None else "cost"] += hours * part * (cost or 1)
                if now == until and now not in enders and now != one.limit:
                    sums["open"] += hours * part
            sums["count"] += 1
    return sums


def test_random_lives_give_back_what_is_reckoned(tmp_path: Path, dice: Random) -> None:
    lives: list[Life | ElasticLife] = [lived(f"w{n}", ("phys", "chem")[n % 2], dice) for n in range(24)]
    for n in range(24):  # two clusters have jobs of the same names
        where, name = ("c", "d")[n % 2], f"train-{n // 2}"
        lives.append(elastic_life(where, name, ("phys", "chem")[n % 3 % 2], dice, BEGIN, CLOSED))
    with fresh_store(tmp_path) as store:
        store.command("SET max_threads = 1")
        apply_rate_card(store, parse_rate_card(CARD), "me", "", BEGIN)
        fleet = [
            one
            for life in lives
            for name, model, part in life.devices
            for one in devices(
                "2026-10-01 00:00", name, cluster=getattr(life, "cluster", "c"), model=model, units=part.denominator
            )
        ]
        put(store, "devices", fleet)
        told = [row for life in lives for row in life.events]
        dice.shuffle(told)
        put(store, "events", told)
        put(store, "events", told[: len(told) // 3])  # some of it twice
        close(store, CLOSED, CLOSED)
        for period in (OCTOBER, NOVEMBER):
            for draft in draft_all(store, period):
                expected = reckoned(lives, draft.tenant, period)
                found = draft.document.get("idle_reclaims")
                assert (found is None) == (not expected["count"])
                if found is None:
                    continue
                whole = [one for one in found["reclaims"] if "pods" not in one]
                assert (
                    len(whole) + sum(len(one["pods"]) for one in found["reclaims"] if "pods" in one)
                    == expected["count"]
                )
                hours, unpriced = expected["hours"], expected["unpriced"]
                assert Decimal(found["gpu_hours"]) == rounded(hours)
                assert Decimal(found["unpriced_gpu_hours"]) == rounded(unpriced)
                cost = None if hours and hours == unpriced else rounded(expected["cost"])
                assert (found["cost"] and Decimal(found["cost"])) == cost
                at_most = (found["at_most"] or {}).get("gpu_hours", "0")
                assert Decimal(at_most) == rounded(expected["open"])
                assert all(one["evidence"] == IDLE for one in found["reclaims"])
                billed = sum(Decimal(line["amount"] or 0) for line in draft.lines)
                assert draft.amount == billed, "it is in no amount"


def a_notebook(opened: Store) -> None:
    """A notebook of phys that is suspended on the 20th; a job of chem."""
    apply_rate_card(opened, parse_rate_card(CARD), "me", "", BEGIN)
    note = Life("note", "phys", [("g0", "H100", Fraction(1)), ("g1", "H100", Fraction(1))])
    note.start(at("2026-10-20 08:00"), 2)
    note.take(at("2026-10-20 12:30"), 0, "suspended")
    job = Life("job", "chem", [("g2", "A100", Fraction(1))])
    job.start(at("2026-10-20 08:00"), 1)
    job.tell(at("2026-10-20 09:00"), "finished")
    put(opened, "devices", devices("2026-10-01 00:00", "g0", "g1", cluster="c"))
    put(opened, "devices", devices("2026-10-01 00:00", "g2", cluster="c", model="A100"))
    put(opened, "events", [*note.events, *job.events])


@pytest.fixture
def october(tmp_path: Path) -> Any:
    with fresh_store(tmp_path, a_notebook) as opened:
        close(opened, NOVEMBER.start, at("2026-11-02 00:00"))
        yield opened


def test_an_issued_document_keeps_what_was_known_and_verifies(october: Store) -> None:
    chem, phys = issue_all(october, OCTOBER, at("2026-11-02 00:00"))
    assert "idle_reclaims" not in chem.document
    section = phys.document["idle_reclaims"]
    (one,) = section["reclaims"]
    hours = Fraction(2) * Fraction((NOVEMBER.start - at("2026-10-20 12:30")) // MINUTE, 60)
    assert (one["act"], one["by"], one["until"], one["until_because"]) == (
        "suspended", "policy", "2026-11-01T00:00:00.000Z", "month_end",
    )  # fmt: skip
    assert (Decimal(one["gpus"]), Decimal(one["gpu_hours"])) == (2, hours)
    assert Decimal(section["cost"]) == hours * Fraction("3.10")
    assert section["at_most"] == {name: section[name] for name in ("gpu_hours", "unpriced_gpu_hours", "cost")}
    text = (REPO / "docs" / "billing.md").read_text(encoding="utf-8")
    example = text.partition('```json\n"idle_reclaims": ')[2]
    (row,) = october.rows(example.partition("```sql\n")[2].partition("```")[0])
    assert tuple(row.values()) == (phys.number, "phys", "note", "suspended", hours, "month_end")
    assert json.loads(example.partition("```")[0]) == section, "the example of the documentation"
    assert phys.amount == Decimal("27.90"), "two GPUs, four and a half hours"
    assert rederive(october, str(phys.number)).same

    late = Life("note", "phys", [("g0", "H100", Fraction(1)), ("g1", "H100", Fraction(1))])
    late.resume(at("2026-10-20 13:30"), at("2026-10-20 14:00"), 2)
    late.tell(at("2026-10-20 15:00"), "finished")
    put(october, "events", late.events)
    close(october, at("2026-11-03 00:00"), at("2026-11-03 00:00"))
    (draft,) = draft_all(october, OCTOBER, "phys")
    (again,) = draft.document["idle_reclaims"]["reclaims"]
    assert (again["until"], again["until_because"]) == ("2026-10-20T13:30:00.000Z", "resumed")
    assert draft.document["idle_reclaims"]["at_most"] is None
    assert issued(october, number=str(phys.number))[0].document == phys.document
    assert rederive(october, str(phys.number)).same, "with what was known then"


def test_a_time_limit_that_is_no_instant_says_nothing(october: Store) -> None:
    """A message is its sender's; one of them must not leave a month without drafts."""
    for number, limit in enumerate(("tomorrow", "2026-10-25", "2026-10-25T00:00:00", 5, [], "2026-10-25T00:00:00Z")):
        name = f"odd{number}"
        odd = Life(name, "phys", [(name, "H100", Fraction(1))])
        odd.start(at("2026-10-21 08:00"), 1)
        odd.take(at("2026-10-21 12:00"), 0, "suspended")
        odd.events[-1]["message"] = json.dumps({"text": IDLE, "time_limit_at": limit})
        put(october, "devices", devices("2026-10-01 00:00", name, cluster="c"))
        put(october, "events", odd.events)
    close(october, at("2026-11-03 00:00"), at("2026-11-03 00:00"))
    (draft,) = draft_all(october, OCTOBER, "phys")
    found = {one["workload"]: one["until_because"] for one in draft.document["idle_reclaims"]["reclaims"]}
    assert found.pop("odd5") == "time_limit"
    assert set(found.values()) == {"month_end"}
    evidence = {one["evidence"] for one in draft.document["idle_reclaims"]["reclaims"]}
    assert evidence == {IDLE}, "whatever spaces the message has"
    assert len(found) == 6


def test_what_a_message_claims_joins_no_two_jobs_and_acts_on_no_terminal(october: Store) -> None:
    """Pods that say the same attempt of different jobs, or have other time limits; and what no operator writes."""
    mark = {"act": "suspended", "allocation": "ml/train@1", "world": 1, "left": 0, "text": IDLE}
    limited = {"job": "ml/a", "time_limit_at": "2026-10-21T13:00:00Z"}
    escapes = {"job": "ml/\x1b[2J", "text": f"idle for {'2' * 300}h"}
    forged: list[dict[str, Any]] = [mark | {"job": "ml/a"}, mark | limited, mark | {"job": "ml/b"}, mark | escapes]
    forged += [
        {"job": 5, "text": IDLE},
        mark | {"act": "x", "job": "ml/a"},
        mark | {"job": "a", "text": "idle for \x1b"},
    ]
    for number, said in enumerate(forged):
        odd = Life(f"odd{number}", "phys", [(f"odd{number}", "H100", Fraction(1))])
        odd.start(at("2026-10-21 08:00"), 1)
        odd.tell(at("2026-10-21 12:00"), "cancelled", "IdleReclaimed")
        odd.events[-1]["message"] = json.dumps(said)
        put(october, "devices", devices("2026-10-01 00:00", f"odd{number}", cluster="c"))
        put(october, "events", odd.events)
    close(october, at("2026-11-03 00:00"), at("2026-11-03 00:00"))
    (draft,) = draft_all(october, OCTOBER, "phys")
    _, *found = draft.document["idle_reclaims"]["reclaims"]
    assert sorted((one["workload"], one["act"], one["gpus"], one["until_because"]) for one in found) == [
        (name, act, "1.000000000", because)
        for name, act, because in (
            ("ml/\x1b[2J", "suspended", "month_end"), ("ml/a", "suspended", "month_end"),
            ("ml/a", "suspended", "time_limit"), ("ml/b", "suspended", "month_end"),
            ("odd4", "cancelled", "month_end"), ("odd5", "cancelled", "month_end"), ("odd6", "cancelled", "month_end"),
        )
    ]  # fmt: skip
    assert {one["evidence"] for one in found} == {IDLE, f"idle for {'2' * 200}", "idle for "}


def test_the_estimated_end_of_another_reclaim_of_a_workload_ends_none(october: Store) -> None:
    """Two allocations of one workload are taken back; the end of the second, nobody saw."""
    both = [Life("pair", "phys", [(f"pair{number}", "H100", Fraction(1))]) for number in range(2)]
    for number, one in enumerate(both):
        one.attempt += number
        one.start(at("2026-10-21 08:00"), 1)
        one.tell(at(f"2026-10-21 12:0{number}"), "cancelled", "IdleReclaimed" + ", end estimated" * number, IDLE)
        put(october, "devices", devices("2026-10-01 00:00", f"pair{number}", cluster="c"))
        put(october, "events", one.events)
    close(october, at("2026-11-03 00:00"), at("2026-11-03 00:00"))
    (draft,) = draft_all(october, OCTOBER, "phys")
    found = [one for one in draft.document["idle_reclaims"]["reclaims"] if one["workload"] == "pair"]
    assert [(one["allocation"], one["until_because"]) for one in found] == [
        ("pair", "month_end"), ("pair/2", "month_end"),
    ]  # fmt: skip


def test_a_reclaim_at_a_months_first_instant_verifies_though_the_hour_before_is_corrected(tmp_path: Path) -> None:
    """What it took was last held in the month before. The card has no minimum, so nothing else reaches back there."""
    late = Life("note", "phys", [("g0", "H100", Fraction(1))], held=1)
    late.tell(at("2026-10-31 22:00"), "resized")
    note = Life("note", "phys", [("g0", "H100", Fraction(1)), ("g1", "H100", Fraction(1))])
    note.start(at("2026-10-31 08:00"), 2)
    note.take(NOVEMBER.start, 1, "resized")
    note.tell(at("2026-11-01 10:00"), "finished")
    with fresh_store(tmp_path) as store:
        apply_rate_card(store, parse_rate_card(CARD | {"minimum_seconds": 0}), "me", "", BEGIN)
        put(store, "devices", devices("2026-10-01 00:00", "g0", "g1", cluster="c"))
        put(store, "events", note.events)
        close(store, at("2026-12-01 00:00"), at("2026-12-02 00:00"))
        issue_all(store, OCTOBER, at("2026-12-02 00:00"))
        (november,) = issue_all(store, NOVEMBER, at("2026-12-02 00:00"))
        assert november.document["idle_reclaims"]["gpu_hours"] == "10.000000000"
        put(store, "events", late.events)
        close(store, at("2026-12-03 00:00"), at("2026-12-03 00:00"))
        (draft,) = draft_all(store, NOVEMBER, "phys")
        assert "idle_reclaims" not in draft.document, "as is known now, it had given up that GPU before"
        assert rederive(store, str(november.number)).differences == ()


def test_pages_tables_and_statements_show_it_beside_the_amounts(october: Store, capsys: Any) -> None:
    chem, phys = issue_all(october, OCTOBER, at("2026-11-02 00:00"))
    assert page_of(chem).given_back is None
    page = page_of(phys)
    assert page.given_back is not None
    (row,) = page.given_back.rows
    assert (row.title, row.gpus, row.hours, row.cost) == ("note", "2.00", "551.00", "1,708.10")
    assert row.more == (
        f"project p · suspended 20 October 2026, 12:30, by the idle policy: {IDLE} · until 31 October 2026: the end of "
        "the month: at most"
    )
    assert [(one.title, one.hours) for one in page.given_back.sums] == [
        ("Total", "551.00"),
        ("of which at most", "551.00"),
    ]
    assert (page.hero_amount, page.sums[-1].amount) == ("27.90", "27.90")
    assert "Given back by idle policies" in as_html(phys)
    assert "Given back" not in as_html(chem)
    print_table(phys, among_others=False)
    printed = capsys.readouterr().out
    assert "given back by idle policies  phys  (in no amount)" in printed
    assert "suspended 2026-10-20 12:30Z" in printed

    (before,) = tenant_statements(october, OCTOBER, "phys")
    assert before.document["idle_reclaims"] == phys.document["idle_reclaims"]
    assert not [note for note in before.document["notes"] if "idle" in note.lower()]
    late = Life("note", "phys", [("g0", "H100", Fraction(1)), ("g1", "H100", Fraction(1))])
    late.resume(at("2026-10-20 13:30"), at("2026-10-20 14:00"), 2)
    put(october, "events", late.events)
    close(october, at("2026-11-03 00:00"), at("2026-11-03 00:00"))
    (after,) = tenant_statements(october, OCTOBER, "phys")
    now = "Idle policies gave back 2.00 GPU-hours as is known now"
    assert after.document["notes"][-1] == f"{now}; when invoice {phys.number} was issued, 551.00 were known."


def test_verify_finds_hours_that_nobody_gave_back(october: Store) -> None:
    _, phys = issue_all(october, OCTOBER, at("2026-11-02 00:00"))
    october.command(
        "ALTER TABLE invoices UPDATE document = replaceAll(document, 'month_end', 'resumed') WHERE tenant = 'phys'"
    )
    (found,) = rederive(october, str(phys.number)).differences
    assert found.where == "idle_reclaims.reclaims[0].until_because"


def test_a_document_from_before_says_nothing_and_verifies(october: Store) -> None:
    _, phys = issue_all(october, OCTOBER, at("2026-11-02 00:00"))
    section = f'"idle_reclaims":{json.dumps(phys.document["idle_reclaims"], sort_keys=True, separators=(",", ":"))},'
    assert section in phys.canonical()
    october.command(
        "ALTER TABLE invoices UPDATE document = replaceAll(document, {section:String}, '') WHERE tenant = 'phys'",
        {"section": section},
    )
    assert "idle_reclaims" not in issued(october, number=str(phys.number))[0].document
    assert not rederive(october, str(phys.number)).differences
