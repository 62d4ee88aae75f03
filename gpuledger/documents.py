"""The models of the HTTP API's JSON documents, shared by its server and client.

A dimension is absent if it was not asked for; null means unknown, never zero. Decimals are strings, instants UTC with
milliseconds. This module and the client import no other module of gpuledger.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

PREFIX = "/api/v1"
MOST_ROWS = 10_000
"""Maximum rows of a page."""
DIGITS = 9
"""After the point, at most."""
_LAST_DIGIT, _LONG = Decimal(1).scaleb(-DIGITS), Context(prec=100)


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decimal_text(value: Decimal) -> str:
    """As the books have it: with at most `DIGITS` digits after the point, half to even."""
    long = int(value.as_tuple().exponent) < -DIGITS
    return format(value.quantize(_LAST_DIGIT, context=_LONG) if long else value, "f")


def _measured(value: float) -> float:
    return round(value, DIGITS)


Amount = Annotated[
    Decimal,
    PlainSerializer(decimal_text, return_type=str),
    WithJsonSchema({"type": "string", "format": "decimal", "examples": ["12.500000000"]}),
]
"""GPU-hours, a price, money: what was exact is rounded once, here."""
Number = Annotated[float, PlainSerializer(_measured, return_type=float)]
"""Measured, or a ratio: without the digits that binary fractions add."""
Instant = Annotated[
    datetime,
    PlainSerializer(instant, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-10-01T00:00:00.000Z"]}),
]


class Document(BaseModel):
    """The response of a route; made from the attributes of lower floors' objects."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Span(Document):
    """[start, end); both null if nothing was ever closed."""

    start: Instant | None
    end: Instant | None


class ClosedSpan(Span):
    """A span with its number of hours and how many of these are closed; figures cover the closed ones.   closed_from,
    closed_until: of all closed hours.   checked_until: up to where the last close went: an hour before it that is not
    closed had no device."""

    hours: int | None
    closed_hours: int | None
    closed_from: Instant | None
    closed_until: Instant | None
    checked_until: Instant | None = None


class Dimensions(Document):
    """The dimensions of a row that were asked for. A day is in the billing time zone, an hour in UTC.   isolation:
    exclusive, partitioned, shared or unknown; of the ledger and the efficiency alone."""

    tenant: str | None = None
    project: str | None = None
    queue: str | None = None
    workload: str | None = None
    cluster: str | None = None
    node: str | None = None
    device: str | None = None
    model: str | None = None
    pool: str | None = None
    day: str | None = None
    hour: str | None = None
    isolation: str | None = None


class LedgerRow(Dimensions):
    """Hours are null in the total of a period without closed hours."""

    allocated_gpu_hours: Amount | None
    used_gpu_hours: Amount | None
    idle_gpu_hours: Amount | None
    unmetered_gpu_hours: Amount | None
    unpriced_gpu_hours: Amount | None
    list_cost: Amount | None
    billed_cost: Amount | None
    currency: str | None
    coverage: Amount | None


class Platform(Document):
    unallocated_gpu_hours: Amount | None
    unavailable_gpu_hours: Amount | None
    unallocated_cost: Amount | None
    unavailable_cost: Amount | None


class Capacity(Document):
    gpu_hours: Amount | None
    cost: Amount | None
    unpriced_gpu_hours: Amount | None


class Ledger(Document):
    """platform, capacity: null if the caller sees only some tenants."""

    period: ClosedSpan
    by: list[str]
    rows: list[LedgerRow]
    rows_in_all: int
    next: str | None
    total: LedgerRow
    platform: Platform | None
    capacity: Capacity | None


class EfficiencyRow(LedgerRow):
    efficiency: Amount | None
    idle_cost: Amount | None
    unmetered_cost: Amount | None


class ChangeRow(Dimensions):
    """by_hours, by_price, by_mix: what the difference comes from; they sum to it. Costs are null where nothing has a
    price; every figure where nothing of one of the periods is closed."""

    cost_before: Amount | None
    cost: Amount | None
    difference: Amount | None
    by_hours: Amount | None
    by_price: Amount | None
    by_mix: Amount | None
    gpu_hours_before: Amount | None
    gpu_hours: Amount | None
    unpriced_gpu_hours: Amount | None
    idle_cost_before: Amount | None
    idle_cost: Amount | None
    currency: str | None


class Changes(Document):
    period: ClosedSpan
    before: ClosedSpan
    by: list[str]
    rows: list[ChangeRow]
    rows_in_all: int
    next: str | None
    total: ChangeRow


class Efficiency(Document):
    period: ClosedSpan
    by: list[str]
    rows: list[EfficiencyRow]
    rows_in_all: int
    next: str | None
    total: EfficiencyRow


class EnergyRow(Dimensions):
    held_by: str | None = None
    kwh: Amount | None
    kwh_with_pue: Amount | None
    kgco2e: Amount | None
    kwh_without_intensity: Amount | None
    gpu_hours: Amount | None
    measured_gpu_hours: Amount | None
    coverage: Amount | None


class Energy(Document):
    """platform: null if the caller sees only some tenants."""

    period: ClosedSpan
    by: list[str]
    rows: list[EnergyRow]
    rows_in_all: int
    next: str | None
    platform: EnergyRow | None
    total: EnergyRow
    notes: list[str]


class Recommendation(Document):
    id: str
    kind: str
    tenant: str
    project: str
    workload: str | None
    workloads: list[str]
    devices: list[dict[str, Any]]
    what: str
    monthly_amount: Amount | None
    past_amount: Amount | None
    currency: str | None
    priced_by: str
    confidence: str
    still_held: bool
    runs: int
    basis: str
    evidence: dict[str, Any]
    reproduce: str


class TenantSavings(Document):
    tenant: str
    recommendations: int
    unpriced: int
    monthly_amount: Amount
    past_amount: Amount


class NotJudged(Document):
    tenant: str
    project: str
    workload: str
    allocation_id: str
    devices: int
    hours: Amount
    coverage: Amount
    cost: Amount | None
    reason: str


class NotCovered(Document):
    reason: str
    what: str
    amount: Amount


class IdleTime(Document):
    idle_gpu_hours: Amount
    idle_cost: Amount | None
    covered: Amount | None
    not_covered: list[NotCovered]
    unpriced_gpu_hours: Amount
    unmetered_gpu_hours: Amount
    unmetered_cost: Amount | None
    unpriced_unmetered_gpu_hours: Amount = Decimal(0)


class TenantWaste(IdleTime):
    tenant: str


class Waste(IdleTime):
    unallocated_gpu_hours: Amount | None
    unallocated_cost: Amount | None
    unpriced_unallocated_gpu_hours: Amount | None = None
    by_tenant: list[TenantWaste]


class Savings(Document):
    period: ClosedSpan
    currency: str | None
    recommendations: list[Recommendation]
    by_tenant: list[TenantSavings]
    not_judged: list[NotJudged]
    waste: Waste | None
    summary: str


class NowDevice(Document):
    """units: of the device's device_units that are held.   partition_id: '': no partition.   doubt: `assumed`: its
    source named a node only, and the books assumed that it is this device; `contested`: with what others hold of the
    device or the partition it does not fit together; '': neither."""

    device_id: str
    partition_id: str
    partition_profile: str
    units: int
    device_units: int
    doubt: str = ""


class NowAllocation(Document):
    """gpus: held, shares as fractions.   used_5, used_60: the used part of what is metered of the last 5 and 60
    minutes, 0-1; null: unmetered.   metered_60: the metered part of these.   idle_gpus: of those that did nothing for 5
    minutes.   list_hour, billed_hour: prices of an hour; null: some of it has no price.   waste: idle cost at list
    price of its closed hours since it started; null: none is known.   alert: fingerprint of the idle-holder alert that
    fires.   isolation_level: exclusive, partitioned or shared, of several devices the weakest; null: what is recorded
    does not say.   objectives: kinds of objectives that this level may promise; null: unknown, as the level is.
    """

    cluster: str
    allocation_id: str
    workload_id: str
    tenant: str
    project: str
    cost_center: str
    queue: str
    since: Instant
    nodes: list[str]
    devices: list[NowDevice]
    isolation_level: str | None
    objectives: list[str] | None
    gpus: Number
    used_5: Number | None
    used_60: Number | None
    metered_60: Number | None
    idle_gpus: Number
    down: int
    list_hour: Amount | None
    billed_hour: Amount | None
    idle_hour: Amount | None
    waste: Amount | None
    alert: str
    alert_rule: str


class NowTotal(Document):
    """seen_gpus: GPUs with samples in the last 5 minutes.   unpriced: allocations without a price."""

    gpus: Number = 0
    idle_gpus: Number = 0
    seen_gpus: Number = 0
    list_hour: Amount | None = None
    billed_hour: Amount | None = None
    idle_hour: Amount | None = None
    waste: Amount | None = None
    unpriced: int = 0


class Now(Document):
    """clock: the time of the request.   at: the time of the newest fact; null: there is none.   stopped: the newest
    fact is so old that the current state is unknown.   samples_at: the time of the newest sample.   rows_in_all:
    allocations."""

    clock: Instant
    at: Instant | None
    stopped: bool
    samples_at: Instant | None = None
    closed_until: Instant | None = None
    currency: str | None = None
    total: NowTotal = NowTotal()
    allocations: list[NowAllocation] = []
    rows_in_all: int = 0


class Waits(Document):
    """Of jobs that were submitted and started in a period.   waited: those that waited a minute or more.
    median_seconds, p95_seconds: of all; null: there are none.   unsubmitted: that started, and nobody reported when
    they were submitted: they are in no other figure."""

    jobs: int
    waited: int
    median_seconds: Number | None
    p95_seconds: Number | None
    waited_gpu_hours: Number
    unsubmitted: int


class DemandHour(Document):
    """hour: its start; hours: what of it lies in the period.   allocated, available, waiting: GPUs on average;
    available is null if the caller sees only some tenants.   waiting_unsized: jobs that waited, and nobody reported for
    how many GPUs."""

    hour: Instant
    hours: Number
    allocated: Number
    available: Number | None
    waiting: Number
    waiting_unsized: Number


class DemandGroup(Document):
    """The GPUs of one model in one pool of a cluster.   available, allocated: GPUs on average.   full_hours: of its
    hours, those in which less than 5 % was free.   least_free: in the fullest hour, 0-1."""

    cluster: str
    pool: str
    model: str
    gpus: int | None
    hours: int | None
    available: Number | None
    allocated: Number | None
    full_hours: int | None
    least_free: Number | None
    waits: Waits


class FreeBand(Document):
    """Jobs that were submitted while so much of the available GPUs of their kind was free, 0-1."""

    free_from: Number
    free_to: Number
    waits: Waits


class Demand(Document):
    """by_free: null if the caller sees only some tenants."""

    period: ClosedSpan
    hours: list[DemandHour] = []
    groups: list[DemandGroup] = []
    by_free: list[FreeBand] | None = None
    waits: Waits | None = None


class SimulatedOutcome(Document):
    """Waits in seconds; null: no job started.   never_started: jobs that fit on none of the GPUs.   waited: jobs that
    waited a minute or more.   utilization: allocated part of the GPUs in the period, 0-1.   shared: jobs that shared a
    GPU because of the change.   month_cost: of the GPUs, held or not, at list price for 730.5 hours; null: no price."""

    gpus: int
    jobs: int
    started: int
    never_started: int
    waited: int
    mean: Number | None
    p50: Number | None
    p95: Number | None
    longest: Number | None
    waited_gpu_hours: Number
    utilization: Number | None
    shared: int
    month_cost: Amount | None


class CapacitySimulation(Document):
    """as_it_was: from the books; simulated: the same jobs and GPUs on the simulator; changed: with other GPUs. How
    close the first two are shows how far to trust the third.

    start, end: of what was simulated, jobs_simulated jobs; cut: not all of the period, but its end.   list_price: of a
    GPU-hour. left_out: jobs by reason (mig, several, uneven) that ran and are not in it, with their GPU-hours;
    mig_devices likewise. assumed: jobs of which something is (unsubmitted, open, resized, restarted, priority).
    reasons: jobs that waited, by what was reported as the reason.   waiting, gave_up: jobs of the cluster that never
    started, so that nobody knows how long they run.   partly_there: GPUs that were there for a part of the period.
    down_gpu_hours: that were unavailable, and are available here.   docs/simulate.md says more.
    """

    cluster: str
    pool: str
    model: str
    start: Instant
    end: Instant
    gpus: int
    shares: int
    currency: str | None
    list_price: Amount | None
    as_it_was: SimulatedOutcome
    simulated: SimulatedOutcome
    changed: SimulatedOutcome
    jobs_simulated: int
    cut: bool
    left_out: dict[str, int]
    left_out_gpu_hours: Number
    mig_devices: int
    assumed: dict[str, int]
    reasons: dict[str, int]
    waiting: int
    gave_up: int
    partly_there: int
    down_gpu_hours: Number


class WaitingJob(Document):
    """rank: its place among the `queued` of its queue, by priority and then by how long it waits.   reason: a code;
    text: the same for people.   earliest_start, latest_start: when its scheduler expected to start it, as it announced
    first; null: it gives none.   start_is: that interval at the instant of the answer: `ahead`, `due` (begun) or
    `overdue`."""

    cluster: str
    allocation_id: str
    workload_id: str
    tenant: str
    project: str
    queue: str
    priority: int | None
    gpus: Number | None
    since: Instant
    waited_seconds: Number
    rank: int
    queued: int
    reason: str
    text: str
    reported_at: Instant
    earliest_start: Instant | None
    latest_start: Instant | None
    start_is: str | None = None


class Waiting(Document):
    """at: the instant as of which the jobs wait; null: there are no facts."""

    at: Instant | None
    jobs: list[WaitingJob] = []
    rows_in_all: int = 0


class WantedPool(Document):
    """A pool and model that fits a waiting job.   devices: available ones; free: of these, allocated to nobody. Both
    null if the caller sees only some tenants."""

    pool: str
    model: str
    devices: int | None
    free: int | None


class Holders(Document):
    """pools: what a waiting job asks for or, if its scheduler does not tell, where jobs of its queue were placed.
    allocations: who holds it, where the quota is missing first those of the job's tenant, then the largest."""

    at: Instant
    pools: list[WantedPool]
    allocations: list[NowAllocation] = []
    rows_in_all: int = 0


class Quota(Document):
    """What a scheduler reported last of a tenant in a pool, in GPUs; null: it does not report that.   asked: by waiting
    jobs.   owed: guaranteed, asked for and not held.   borrowed: held beyond the guarantee.   redemption: of what was
    guaranteed and asked for, what was held, 0-1, since its scheduler began."""

    cluster: str
    tenant: str
    pool: str
    reported_at: Instant
    guaranteed: Number | None
    held: Number | None
    asked: Number | None
    owed: Number | None
    borrowed: Number | None
    redemption: Number | None


class Quotas(Document):
    """at: the newest fact; null: there is none.   rows: of what was reported in the 15 minutes before."""

    at: Instant | None
    rows: list[Quota] = []


class Contributor(Document):
    name: str
    project: str
    cost: Amount


class Anomaly(Document):
    day: date
    subject: str
    tenant: str
    direction: str
    cost: Amount
    expected: Amount
    low: Amount
    high: Amount
    score: Amount
    currency: str | None
    basis: str
    contributors: list[Contributor]


class Anomalies(Document):
    """judged: days of a subject."""

    period: ClosedSpan
    timezone: str
    currency: str | None
    threshold: Amount
    judged: int
    not_judged: int
    anomalies: list[Anomaly]


class InvoiceHead(Document):
    number: str | None
    tenant: str
    month: str
    document_type: str
    status: str
    amount: Amount
    currency: str
    issued_at: str | None


class InvoiceDocument(Document):
    """An invoice, a credit note or a draft, whole: docs/billing.md says what its lines mean.

    idle_reclaims: what idle policies gave back, in none of the amounts; null: nothing that the books know of, or the
    document was issued before documents said so.
    """

    number: str | None
    status: str
    tenant: str
    currency: str
    period: dict[str, str]
    lines: list[dict[str, Any]]
    totals: dict[str, Any]
    issued_at: str | None = None
    document_type: str = "invoice"
    issuer: dict[str, Any] | None = None
    books_run: str | None = None
    as_of_run: str | None = None
    corrected_months: tuple[str, ...] = ()
    changes: tuple[dict[str, Any], ...] = ()
    run: str | None = None
    rate_card: str | None = None
    references: str | None = None
    payable: dict[str, Any] | None = None
    parties: dict[str, Any] | None = None
    prepaid_draws: tuple[dict[str, Any], ...] = ()
    idle_reclaims: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    void: dict[str, Any] | None = None


class Explanation(Document):
    line: dict[str, Any]
    formula: str
    rate_card: str
    rules: list[dict[str, Any]]
    rows: list[dict[str, Any]]


class Month(Document):
    """invoices: issued and not void.   tenants: how many have one or owe one; null until the month is over."""

    month: str
    start: Instant
    end: Instant
    state: str
    closes_at: Instant
    invoices: int
    tenants: int | None = None


class PoolCost(Document):
    pool: str
    policy: str
    unallocated_gpu_hours: Amount
    unpriced_gpu_hours: Amount
    cost: Amount
    shared: Amount
    kept: Amount


class Rate(Document):
    sku: str
    tenant: str | None
    partition_profile: str | None
    queue: str | None
    priority: str | None
    preemptible: bool | None
    pool: str | None
    cluster: str | None
    model: str | None
    price_per_gpu_hour: Amount
    currency: str
    effective_from: Instant | None
    effective_to: Instant | None
    windows: str | None
    timezone: str
    version: str


class AppliedVersion(Document):
    version: str
    applied_at: Instant
    author: str
    reason: str
    rules: int


class RateCardDocument(Document):
    version: str
    applied_at: Instant
    author: str
    reason: str
    card: dict[str, Any]


class Applied(Document):
    """new: false where it was in force already."""

    version: str
    new: bool


class Compared(Document):
    """What a file would change. before: the version in force; null: none is.   diff: lines of a unified diff as YAML.
    changes: in words.   effect: on the closed hours, a row a change: for a rate card, costs; for a tenant mapping, who
    pays; empty for other files."""

    version: str
    before: str | None
    new: bool
    diff: list[str]
    changes: list[str]
    effect: list[dict[str, Any]]


class TenantDocument(Document):
    """first_hour, last_hour: of what it held in the closed hours."""

    tenant: str
    first_hour: Instant
    last_hour: Instant
    projects: list[str]


class MappingRule(Document):
    matches: str
    tenant: str | None
    project: str | None
    cost_center: str | None
    effective_from: Instant | None
    effective_to: Instant | None


class Mapping(Document):
    version: str
    applied_at: Instant
    author: str
    timezone: str
    unmapped_owner: str
    rules: list[MappingRule]


class Threshold(Document):
    percent: Amount
    of: str
    amount: Amount
    crossed_at: Instant | None


class Budget(Document):
    tenant: str
    project: str | None
    month: str
    owner: str
    amount: Amount
    currency: str
    known_until: Instant | None
    actual: Amount | None
    unpriced_gpu_hours: Amount
    forecast: Amount | None
    forecast_low: Amount | None = None
    forecast_high: Amount | None = None
    is_estimate: bool
    burn_per_day: Amount | None
    percent: Amount | None
    forecast_percent: Amount | None
    state: str
    thresholds: list[Threshold]


class Credit(Document):
    id: str
    tenant: str
    month: str
    project: str
    kind: str
    amount: Amount
    currency: str
    author: str
    reason: str
    at: Instant
    invoice: str | None


class Grant(Document):
    """Money in advance: it pays for what accrues in [starts_at, expires_at)."""

    id: str
    tenant: str
    amount: Amount
    currency: str
    starts_at: Instant
    expires_at: Instant
    author: str
    reason: str


class Balance(Document):
    tenant: str
    currency: str
    granted: Amount
    upcoming: Amount
    drawn: Amount
    expired: Amount
    balance: Amount
    running: Amount
    available: Amount
    low_below: Amount | None
    state: str
    exhausted_at: Instant | None
    next_expiry: Instant | None
    known_until: Instant | None


class AlertChange(Document):
    """A change of an alert's state. value, evidence: as of its beginning, or of its firing.   owner: in the labels."""

    rule: str
    fingerprint: str
    state: str
    severity: str
    at: Instant
    active_at: Instant
    fired_at: Instant | None
    keep_firing_since: Instant | None
    resolved_at: Instant | None
    value: Number | None
    labels: dict[str, str]
    evidence: dict[str, Any]
    annotations: dict[str, str]


class Alert(AlertChange):
    """held_back: why no notification is sent (a silence, inhibition, hours); empty: it is sent."""

    held_back: str


class AlertWithHistory(Alert):
    changes: list[AlertChange]


class AlertDelivery(Document):
    at: Instant
    target: str
    rule: str
    fingerprint: str
    active_at: Instant
    kind: str
    attempt: int
    outcome: str
    detail: str
    next_attempt_at: Instant | None


class Silence(Document):
    id: str
    matchers: dict[str, list[str]]
    starts_at: Instant
    ends_at: Instant
    author: str
    reason: str


class IdleJob(Document):
    """A running job that its scheduler knows to be idle, or one that is suspended for it (step `suspended`).
    allocations: by which the books know its attempt.   step: the last one of the policy, or by a person: `by`.
    next: what happens next, at `next_at` if nobody uses it.   problem: why nothing is known."""

    job_id: str
    allocations: list[str]
    tenant: str
    queue: str
    gpus: Number
    idle_seconds: Number | None
    idle_since: Instant | None
    step: str
    by: str = ""
    next: str
    next_at: Instant | None
    policy: str
    problem: str


class IdleJobs(Document):
    """scheduler: its address; empty: the server was given none.   problem: why it does not know who is idle."""

    scheduler: str
    cluster: str
    problem: str
    jobs: list[IdleJob]


class IdleJobAct(Document):
    """status: of the job afterwards."""

    job: str
    at: Instant
    by: str
    status: str


class AllocationUtilization(Document):
    """utilization: mean, 0-1, of all its GPUs; null: too little was measured.   coverage: part of the window that was,
    0-1, on the GPU with the least.   gpus: that it held."""

    cluster: str
    allocation_id: str
    workload_id: str
    utilization: Number | None
    coverage: Number
    gpus: Number


class Utilization(Document):
    """at: the newest sample, where the window ends; null: there is none.   seconds: of the window."""

    at: Instant | None
    seconds: int
    allocations: list[AllocationUtilization]


class Told(Document):
    """Who was told of an alert.   targets: that took it.   failed: the others, and why."""

    fingerprint: str
    at: Instant
    by: str
    targets: list[str]
    failed: dict[str, str]


class AuditEntry(Document):
    at: Instant
    actor: str
    action: str
    object: str
    reason: str
    inputs: dict[str, Any]


class HeldPushDocument(Document):
    """Pushed rows that await approval together.   id: identifies exactly these rows.   decided_at: null while they
    wait."""

    id: str
    sender: str
    record_type: str
    reason: str
    subject: str
    detail: str
    rows: int
    first_at: Instant
    last_at: Instant
    held_since: Instant
    state: str
    decided_at: Instant | None
    decided_by: str
    why: str


class HeldChange(Document):
    """A month of a tenant that accepting would change. cost_*: what it owes for the month, with taxes; if it is issued,
    the difference becomes a correction. tenant: null: what nobody holds; its cost is on no document.   payable_*: where
    the tenant is invoiced in another currency.   issued: the invoice's number."""

    month: str
    tenant: str | None
    cost_before: Amount | None
    cost_after: Amount | None
    difference: Amount
    gpu_hours_before: Amount
    gpu_hours_after: Amount
    used_gpu_hours_before: Amount
    used_gpu_hours_after: Amount
    currency: str | None
    payable_currency: str | None
    payable_difference: Amount | None
    issued: str


class HeldPushWithEffect(HeldPushDocument):
    """known: false if the effect of accepting takes too long to compute.   raw_rows: as received, at most a
    thousand."""

    changes: list[HeldChange]
    known: bool
    closed_until: Instant
    raw_rows: list[dict[str, Any]]


class SenderDay(Document):
    """sender: empty if unknown.   outcome: stored, held, quarantined, out_of_place, refused, not_taken (of
    pushed metrics) or denied."""

    day: date
    sender: str
    record_type: str
    outcome: str
    reason: str
    pushes: int
    rows: int
    last_at: Instant


class QuarantineGroup(Document):
    record_type: str
    reason: str
    rows: int
    newest: list[dict[str, Any]]


class RefusedClaims(Document):
    reason: str
    claims: int
    example: str


class Health(Document):
    """The store's rows, quarantine and refused claims.   rows: by record type, duplicates included.
    last_close_at: of the last close that had anything to do."""

    rows: dict[str, int]
    quarantine: list[QuarantineGroup]
    refused_claims: list[RefusedClaims]
    closed: Span
    last_close_at: Instant | None


class Closed(Document):
    """held: pushed rows that would have changed an issued month; they wait for a person."""

    run: Annotated[str, BeforeValidator(str)]
    closed_until: Instant | None
    checked: int
    changed: int
    refused: int
    rate_card: str
    held: int = 0


class Backup(Document):
    """whole: the whole copy that it rests on.   bytes: of its own; whole_bytes: of that.   migration: of its schema.
    store: when the store was made of which it is; empty: not known.   bucket: where else it was just copied to.
    damaged: a file of the whole copy before, as found when this was made, which therefore has one of its own.
    unchecked: the whole copy was not compared with its checksums before this was made on it."""

    name: str
    made_at: Instant
    whole: str
    bytes: int
    whole_bytes: int
    tables: int
    migration: int
    software: str
    store: str = ""
    damaged: str = ""
    unchecked: bool = False
    bucket: str = ""


class KeptRows(Document):
    """A kind of rows.   days: how long they are kept, from arrival; null: for good.   goes_rows, goes_bytes: what a
    removal takes; null: the engine removes them by itself."""

    name: str
    days: int | None
    rows: int
    bytes: int
    goes_rows: int | None
    goes_bytes: int | None


class RemovedDay(Document):
    """A day (UTC) whose samples are gone.   kept: rows that stayed, as signs of life."""

    day: Instant
    removed_at: Instant
    by: str
    kept: int


class Retention(Document):
    """days: of samples that go.   invoices: those that cannot be computed again after it.   held_back: old days that
    stay, because issued invoices are verified from them.   unread: since when facts wait for a close."""

    tables: list[KeptRows]
    days: list[Instant]
    invoices: list[str]
    held_back: int
    unread: Instant | None
    removed: list[RemovedDay]


class ProofFailure(Document):
    """table: in which.   where: which rows.   step: what to do next.   hour: where it is about an hour."""

    table: str
    where: str
    what: str
    step: str
    hour: Instant | None


class Proof(Document):
    """documents: issued ones that were checked.   waiting: device-hours with device rows since their close."""

    hours: int
    device_hours: int
    documents: int
    balanced: bool
    failures: list[ProofFailure]
    waiting: int


class InvoiceDifference(Document):
    """where: a path such as lines[2].amount."""

    where: str
    stored: Any
    computed: Any


class InvoiceProof(Document):
    """cutoff: facts acknowledged by then count.   hours: computed again.   digest: the document's, in the chain.
    differences: where the facts say otherwise.   chain_failures: documents that do not fit the chain.
    unknown: why it was not computed again: which facts were removed, when, and by whom; empty: it was."""

    number: str
    same: bool
    is_credit_note: bool
    cutoff: Instant
    hours: int
    digest: str
    differences: list[InvoiceDifference]
    chain_failures: list[str]
    unknown: str = ""


class ViewColumn(Document):
    name: str
    type: str
    comment: str


class ViewDocument(Document):
    name: str
    comment: str
    columns: list[ViewColumn]


class SavedQueryDocument(Document):
    """issuer, subject: identify the owner; owner: their name.   shared: whether others with SQL access see it.
    changed_by: its owner, or an admin."""

    owner: str
    issuer: str
    subject: str
    name: str
    text: str
    description: str
    shared: bool
    created_at: Instant
    changed_at: Instant
    changed_by: str


class TokenDocument(Document):
    """roles, tenants: its upper limit; it never has more rights than its owner has now.   issuer, subject: of the
    owner."""

    id: str
    name: str
    owner: str
    issuer: str
    subject: str
    owner_disabled: bool
    roles: list[str]
    tenants: list[str]
    scopes: list[str]
    created_at: Instant
    created_by: str
    expires_at: Instant
    revoked: bool


class NewToken(TokenDocument):
    """token: the secret text, shown only this once."""

    token: str


class UserDocument(Document):
    """kind: local, sso or service.   issuer, subject: identify the user; name: for display.
    seen_at: their last sign-in; null: never."""

    issuer: str
    subject: str
    kind: str
    name: str
    roles: list[str]
    tenants: list[str]
    disabled: bool
    created_at: Instant
    changed_at: Instant
    changed_by: str
    seen_at: Instant | None


class Me(Document):
    """tenants: null where all of them are yours to see."""

    name: str
    issuer: str
    subject: str
    roles: list[str]
    tenants: list[str] | None
    scopes: list[str]
    may: list[str]


class ObjectiveStatus(Document):
    """A series of an objective at an instant (docs/slo.md). good, bad, missing: in `unit`. An objective of which
    nothing is known has one row without a tenant. burning: fast, medium, slow or empty. shared_part: of the GPU-hours
    that its queue or service held in closed hours of the day before, the part on devices whose isolation level may not
    promise such an objective; null: the kind depends on no neighbours, or it is not known."""

    objective: str
    kind: str
    unit: str
    cluster: str
    tenant: str
    subject: str
    owner: str
    target: Number
    window_seconds: int
    measured_until: Instant | None
    good: Number
    bad: Number
    missing: Number
    sli: Number | None
    coverage: Number | None
    budget_left: Number | None
    state: str
    burn_5m: Number | None
    burn_30m: Number | None
    burn_1h: Number | None
    burn_6h: Number | None
    burn_3d: Number | None
    burning: str
    shared_part: Number | None = None


class Episode(Document):
    """A stretch in which a workload was disturbed (docs/interference.md). ended_at: null while it lasts.
    neighbours: workloads on the same device; null: another tenant's."""

    cluster: str
    workload_id: str
    service: str
    tenant: str
    started_at: Instant
    raised_at: Instant
    disturbed_until: Instant
    ended_at: Instant | None
    disturbed_windows: int
    mean_slowdown: Number | None
    max_slowdown: Number | None
    lost_gpu_seconds: Number | None
    grade: str
    channels: list[str]
    neighbours: list[str | None]
