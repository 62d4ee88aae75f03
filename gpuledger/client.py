"""A typed client of the HTTP API (docs/api.md).

    with Client("https://gpuledger.example.org", token) as client:
        for row in client.ledger("2026-10").rows:
            print(row.tenant, row.billed_cost)

Results are the models in gpuledger.documents, which the server uses too: decimals are Decimal, instants aware.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from gpuledger import documents
from gpuledger.documents import MOST_ROWS, PREFIX

Answer = TypeVar("Answer")
TIMEOUT_SECONDS = 60.0
LONG_SECONDS = 3600.0
"""Timeout of long operations: a close, an export, a simulation that waits in line."""
NO_ANSWER = "Is it a gpuledger server's address, and does it serve more than pushes (no --no-dashboard)?"
"""The next step where something else than our API answers."""


class ApiError(Exception):
    """The server refused, or could not be reached: where, what, next step. status: HTTP's; None: it did not answer."""

    def __init__(self, where: str, what: str, next_step: str = "", status: int | None = None) -> None:
        stop = "" if what.endswith((".", "?", "!")) else "."
        super().__init__(f"{where}: {what}" + (f"{stop} {next_step}" if next_step else ""))
        self.where, self.what, self.next_step, self.status = where, what, next_step, status


def trouble(error: Exception) -> tuple[str, str]:
    """What went wrong where no whole answer came, in words that a user knows, and the next step."""
    why = _cause(error)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return "is no address of a server", "Write it like https://ledger:8443"
    if isinstance(error, httpx.LocalProtocolError):  # its text has the header, and with it the token
        return "cannot be asked with this token", "A token is one line of letters, digits and _"
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return "cannot be reached: no connection in time", "Check the address, the network and the firewall"
    if isinstance(error, httpx.TimeoutException):
        return "has not answered in time", "Ask for less, such as a shorter period, or again later"
    if isinstance(error, httpx.ConnectError):
        return f"cannot be reached: {why}", _tls_step(why) or "Is the server running, and is it this address?"
    if isinstance(error, httpx.RemoteProtocolError) and "sending a response" in str(error):
        step = "Did the server stop? Then ask again. If it speaks TLS, its address begins with https://"
        return "hung up without an answer", step
    return f"broke off: {why}", "Did the server stop? Ask again"


def problem_of(answer: httpx.Response) -> Mapping[str, Any]:
    """What a gpuledger server says is wrong (RFC 9457); empty if something else answers there."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("detail") else {}


def answer_step(answer: httpx.Response) -> str:
    """The next step where an error does not name it."""
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        return "Give the token of somebody who may: gpuledger tokens create (docs/access.md)"
    if problem_of(answer):
        return ""
    if to := answer.headers.get("location"):
        return f"It leads to {to}: give that server's address"
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Its log says why, or that of a proxy before it"
    return NO_ANSWER


def _tls_step(why: str) -> str:
    """What to do about a failure of TLS; '': it is none."""
    if "mismatch" in why:
        return "Use a name that is in its certificate"
    if "certificate" in why:
        return "Name the authority of its certificate: SSL_CERT_FILE=ca.pem, or the client's ca_file"
    return "Does it speak TLS? Without it, its address begins with http://" if "TLS" in why else ""


def _cause(error: BaseException) -> str:
    """Like `Connection refused` or `certificate verify failed: self-signed certificate`: what the system says of it,
    else what the library does. (As warehouse/connection_errors.py, which an installed client cannot import.)"""
    said = " ".join(str(error).split()).rstrip(".")
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ssl.SSLError):  # without a reason, one beneath it may have that
            if verified := getattr(one, "verify_message", ""):
                return f"certificate verify failed: {verified.rstrip('.')}"
            if one.reason:
                return f"TLS failed: {one.reason.replace('_', ' ').lower()}"
            said = "TLS failed: connection closed"
        elif isinstance(one, OSError) and one.strerror:
            return one.strerror
        one = one.__cause__ or one.__context__
    return said or "the connection was lost"


class Client:
    """A client of one server. Safe to use from several threads; close it, or use it in a `with`.

    url: of the server.   token: an API token; empty if the server needs none.   http: makes the HTTP client, with the
    arguments of httpx.Client.
    Errors: ApiError in one line, with the server's next step.
    """

    def __init__(
        self, url: str, token: str = "", ca_file: Path | None = None, http: Callable[..., Any] = httpx.Client
    ) -> None:
        self.url = url.strip().rstrip("/").removesuffix(PREFIX)
        try:
            verify = ssl.create_default_context(cafile=str(ca_file)) if ca_file else True
        except OSError as error:
            raise ApiError(str(ca_file), f"cannot be used: {_cause(error)}", "It holds certificates in PEM") from error
        if not token.isascii():
            raise ApiError(self.url, *trouble(httpx.LocalProtocolError("")))
        headers = {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}
        try:
            self._http: httpx.Client = http(
                base_url=self.url + PREFIX, headers=headers, timeout=TIMEOUT_SECONDS, verify=verify
            )
        except httpx.InvalidURL as error:
            raise self._failed(error) from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def me(self) -> documents.Me:
        """The token's owner, and what it may do."""
        return self._get(documents.Me, "/me")

    def ledger(self, period: str = "", by: Sequence[str] = ("tenant",)) -> documents.Ledger:
        """GPU-hours and cost of the closed hours, all rows."""
        return self._whole(documents.Ledger, "/ledger", period=period, by=",".join(by))

    def efficiency(self, period: str = "", by: Sequence[str] = ("tenant",)) -> documents.Efficiency:
        """How well allocated time was used, all rows."""
        return self._whole(documents.Efficiency, "/efficiency", period=period, by=",".join(by))

    def changes(self, period: str, against: str = "", by: Sequence[str] = ("tenant",)) -> documents.Changes:
        """How the cost changed since another period (by default the one before) and why; all rows."""
        return self._whole(documents.Changes, "/changes", period=period, against=against, by=",".join(by))

    def energy(self, period: str = "", by: Sequence[str] = ("tenant",)) -> documents.Energy:
        """kWh and kgCO2e, all rows."""
        return self._whole(documents.Energy, "/energy", period=period, by=",".join(by))

    def savings(self, period: str = "", tenant: str | None = None, workload: str = "") -> documents.Savings:
        """Recommendations to reduce cost; those of a tenant, or those about a workload."""
        return self._get(documents.Savings, "/savings", period=period, tenant=tenant, workload=workload)

    def now(self, tenant: str | None = None, queue: str | None = None, limit: int = 1000) -> documents.Now:
        """Current allocations, their use and the waste so far; the largest waste first."""
        return self._get(documents.Now, "/now", tenant=tenant, queue=queue, limit=limit)

    def waiting(
        self, tenant: str | None = None, queue: str | None = None, workload: str = "", limit: int = 1000
    ) -> documents.Waiting:
        """Jobs that wait, with reason, rank and expected start."""
        asked = {"tenant": tenant, "queue": queue, "workload": workload, "limit": limit}
        return self._get(documents.Waiting, "/waiting", **asked)

    def holders(self, allocation: str, cluster: str = "", limit: int = 200) -> documents.Holders:
        """Who holds what a waiting job asks for."""
        return self._get(documents.Holders, "/waiting/holders", allocation=allocation, cluster=cluster, limit=limit)

    def quotas(self, tenant: str | None = None) -> documents.Quotas:
        """What schedulers guarantee tenants, and what these hold and ask for."""
        return self._get(documents.Quotas, "/quotas", tenant=tenant)

    def capacity(self, period: str = "", tenant: str | None = None, **only: str) -> documents.Demand:
        """GPUs allocated, available and waited for by hour, and waits by what was free. only: pool, model, cluster."""
        return self._get(documents.Demand, "/capacity", period=period, tenant=tenant, **only)

    def simulate_capacity(
        self, model: str = "", gpus: int = 0, shares: int = 1, period: str = "", **only: str
    ) -> documents.CapacitySimulation:
        """What more, fewer or shared GPUs of a model would have changed. only: pool, cluster, if the model alone is
        ambiguous."""
        asked = {"period": period, "model": model, "gpus": gpus, "shares": shares, **only}
        return self._get(documents.CapacitySimulation, "/capacity/simulation", LONG_SECONDS, **asked)

    def anomalies(self, period: str = "", tenant: str | None = None) -> documents.Anomalies:
        """Days that cost more or less than expected."""
        return self._get(documents.Anomalies, "/anomalies", period=period, tenant=tenant)

    def invoices(self, month: str = "", tenant: str | None = None) -> Iterator[documents.InvoiceHead]:
        """Issued invoices and credit notes, page by page."""
        return self._pages(documents.InvoiceHead, "/invoices", month=month, tenant=tenant)

    def drafts(self, month: str, tenant: str | None = None) -> Iterator[documents.InvoiceDocument]:
        """What tenants owe for a month as the ledger stands now."""
        return self._pages(documents.InvoiceDocument, "/drafts", month=month, tenant=tenant)

    def invoice(self, number: str) -> documents.InvoiceDocument:
        """An issued document."""
        return self._get(documents.InvoiceDocument, f"/invoices/{_segment(number)}")

    def invoice_proof(self, number: str) -> documents.InvoiceProof:
        """An issued document computed again from the facts of its time."""
        return self._get(documents.InvoiceProof, f"/invoices/{_segment(number)}/proof", LONG_SECONDS)

    def invoice_file(self, number: str, format: Literal["html", "pdf", "csv", "json"] = "pdf") -> bytes:
        """An issued document as the content of a file."""
        return self._asked("GET", f"/invoices/{_segment(number)}/file", params={"format": format}).content

    def report(self, tenant: str, period: str, format: Literal["text", "html"] = "text", language: str = "en") -> str:
        """A tenant's week or month as it would be mailed."""
        params = {"tenant": tenant, "period": period, "format": format, "language": language}
        return self._asked("GET", "/report", params=params).text

    def explain(self, number: str, line: int, by_hour: bool = False) -> documents.Explanation:
        """The rule behind a line, and the ledger entries that it was computed from."""
        return self._get(
            documents.Explanation, f"/invoices/{_segment(number)}/lines/{line}", by_hour=str(by_hour).lower()
        )

    def issue(self, month: str, tenant: str | None = None) -> list[documents.InvoiceHead]:
        """Issues a closed month's invoices."""
        return self._post(list[documents.InvoiceHead], "/invoices", {"month": month, "tenant": tenant})

    def void(self, number: str, reason: str) -> documents.InvoiceDocument:
        """Voids an issued document."""
        return self._post(documents.InvoiceDocument, f"/invoices/{_segment(number)}/void", {"reason": reason})

    def credit(self, number: str, amount: str, reason: str) -> documents.InvoiceDocument:
        """Issues a credit note on an invoice."""
        asked = {"amount": amount, "reason": reason}
        return self._post(documents.InvoiceDocument, f"/invoices/{_segment(number)}/credit", asked)

    def months(self) -> list[documents.Month]:
        """The state of each month."""
        return self._get(list[documents.Month], "/months")

    def platform(self, month: str) -> list[documents.PoolCost]:
        """What a month's unallocated time cost."""
        return self._get(list[documents.PoolCost], "/platform", month=month)

    def rates(self) -> list[documents.Rate]:
        """The rules of the rate card in force."""
        return self._get(list[documents.Rate], "/rates")

    def rate_cards(self) -> Iterator[documents.AppliedVersion]:
        """All applied rate cards."""
        return self._pages(documents.AppliedVersion, "/rates/cards")

    def rate_card(self, version: str = "current") -> documents.RateCardDocument:
        """An applied rate card."""
        return self._get(documents.RateCardDocument, f"/rates/cards/{_segment(version)}")

    def apply_rate_card(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies a rate card."""
        return self._apply("/rates/cards", yaml, reason)

    def check_rate_card(self, yaml: str) -> documents.Compared:
        """What a rate card would change."""
        return self._check("/rates/cards", yaml)

    def tenants(self) -> Iterator[documents.TenantDocument]:
        """Tenants with an allocation in the closed hours."""
        return self._pages(documents.TenantDocument, "/tenants")

    def tenants_mapping(self) -> documents.Mapping:
        """The tenant mapping: who pays for an allocation."""
        return self._get(documents.Mapping, "/tenants/mapping")

    def apply_tenants(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies a tenant mapping."""
        return self._apply("/tenants/mapping", yaml, reason)

    def check_tenants(self, yaml: str) -> documents.Compared:
        """What a tenant mapping would change."""
        return self._check("/tenants/mapping", yaml)

    def budgets(self, month: str = "", tenant: str | None = None) -> list[documents.Budget]:
        """A month compared with its budgets."""
        return self._get(list[documents.Budget], "/budgets", month=month, tenant=tenant)

    def apply_budgets(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies a budgets file."""
        return self._apply("/budgets", yaml, reason)

    def check_budgets(self, yaml: str) -> documents.Compared:
        """What a budgets file would change."""
        return self._check("/budgets", yaml)

    def apply_objectives(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies a file of objectives."""
        return self._apply("/objectives", yaml, reason)

    def check_objectives(self, yaml: str) -> documents.Compared:
        """What a file of objectives would change."""
        return self._check("/objectives", yaml)

    def apply_energy_settings(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies energy settings: carbon intensities, PUE, idle power."""
        return self._apply("/energy/settings", yaml, reason)

    def check_energy_settings(self, yaml: str) -> documents.Compared:
        """What a file of energy settings would change."""
        return self._check("/energy/settings", yaml)

    def apply_parties(self, yaml: str, reason: str = "") -> documents.Applied:
        """Applies the seller's and the buyers' details."""
        return self._apply("/parties", yaml, reason)

    def check_parties(self, yaml: str) -> documents.Compared:
        """What a file of the seller's and the buyers' details would change."""
        return self._check("/parties", yaml)

    def credits(self, month: str = "", tenant: str | None = None) -> Iterator[documents.Credit]:
        """Credits on drafts."""
        return self._pages(documents.Credit, "/credits", month=month, tenant=tenant)

    def add_credit(self, tenant: str, month: str, amount: str, reason: str, **more: str) -> documents.Applied:
        """Adds a credit to a month's draft. more: project, currency, id."""
        asked = {"tenant": tenant, "month": month, "amount": amount, "reason": reason, **more}
        return self._post(documents.Applied, "/credits", asked)

    def reverse_credit(self, id: str, reason: str) -> documents.Credit:
        """Reverses a credit."""
        return self._post(documents.Credit, f"/credits/{_segment(id)}/reverse", {"reason": reason})

    def grants(self, tenant: str | None = None) -> Iterator[documents.Grant]:
        """Grants: money paid or given in advance."""
        return self._pages(documents.Grant, "/grants", tenant=tenant)

    def add_grant(
        self,
        tenant: str,
        amount: str,
        expires_at: datetime,
        reason: str,
        starts_at: datetime | None = None,
        **more: str,
    ) -> documents.Applied:
        """Grants money in advance. more: currency, id."""
        times = {"expires_at": expires_at.isoformat(), "starts_at": starts_at and starts_at.isoformat()}
        return self._post(
            documents.Applied, "/grants", {"tenant": tenant, "amount": amount, "reason": reason, **times, **more}
        )

    def revoke_grant(self, id: str, reason: str) -> documents.Grant:
        """Lets a grant expire now."""
        answer = self._asked("DELETE", f"/grants/{_segment(id)}", params={"reason": reason})
        return self._read(documents.Grant, answer)

    def balances(self, tenant: str | None = None) -> list[documents.Balance]:
        """Prepaid balances."""
        return self._get(list[documents.Balance], "/balances", tenant=tenant)

    def health(self) -> documents.Health:
        """The store's rows, the quarantine and refused claims."""
        return self._get(documents.Health, "/health")

    def proof(self) -> documents.Proof:
        """Whether the books balance."""
        return self._get(documents.Proof, "/proof", LONG_SECONDS)

    def close_books(self, until: datetime | None = None) -> documents.Closed:
        """Closes all hours that can be closed now. until: all hours before it, also those without any facts."""
        wanted = {} if until is None else {"until": until.isoformat()}
        return self._post(documents.Closed, "/close", wanted, LONG_SECONDS)

    def backups(self) -> list[documents.Backup]:
        """The backups in the server's folder, the oldest first."""
        return self._get(list[documents.Backup], "/backups")

    def back_up(self, whole: bool = False, check: bool = True) -> documents.Backup:
        """Makes a backup now, in the server's folder."""
        wanted = {"whole": whole} | ({} if check else {"check": False})  # of which an older server knows nothing
        return self._post(documents.Backup, "/backups", wanted, LONG_SECONDS)

    def retention(self, even_invoiced: bool = False) -> documents.Retention:
        """How long rows are kept, and what a removal would take now."""
        return self._get(documents.Retention, "/retention", LONG_SECONDS, even_invoiced=even_invoiced)

    def keep(self, days: Mapping[str, int | None], reason: str = "") -> documents.Retention:
        """Sets how long kinds of rows are kept; None: for good."""
        return self._post(documents.Retention, "/retention", {"keep": dict(days), "reason": reason})

    def remove_due(self, even_invoiced: bool = False, reason: str = "") -> documents.Retention:
        """Removes what is older, and answers what that was."""
        wanted = {"even_invoiced": even_invoiced, "reason": reason}
        return self._post(documents.Retention, "/retention/removal", wanted, LONG_SECONDS)

    def held(self, state: str = "") -> Iterator[documents.HeldPushDocument]:
        """Held pushes that await approval; with a state (accepted, refused, all), decided ones."""
        return self._pages(documents.HeldPushDocument, "/held", state=state)

    def held_push(self, id: str) -> documents.HeldPushWithEffect:
        """A held push with its rows, and what accepting it would change."""
        return self._get(documents.HeldPushWithEffect, f"/held/{_segment(id)}", LONG_SECONDS)

    def decide_held(self, id: str, yes: bool, why: str = "") -> documents.HeldPushDocument:
        """Accepts (`yes`) or refuses exactly these rows."""
        decision = "accept" if yes else "refuse"
        return self._post(documents.HeldPushDocument, f"/held/{_segment(id)}/{decision}", {"why": why})

    def senders(self, days: int = 7) -> Iterator[documents.SenderDay]:
        """Rows that each sender pushed, by day and outcome."""
        return self._pages(documents.SenderDay, "/senders", days=days)

    def audit(self, action: str = "", object: str = "") -> Iterator[documents.AuditEntry]:
        """The audit, newest first."""
        return self._pages(documents.AuditEntry, "/audit", action=action, object=object)

    def views(self) -> list[documents.ViewDocument]:
        """The analysts' views that the token may read."""
        return self._get(list[documents.ViewDocument], "/views")

    def view(
        self, name: str, period: str = "", tenant: str | None = None, columns: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """A view's rows, page by page; values are those of JSON."""
        asked = {"period": period, "tenant": tenant, "columns": ",".join(columns)}
        return self._pages(dict[str, Any], f"/views/{_segment(name)}", **asked)

    def saved_queries(self) -> Iterator[documents.SavedQueryDocument]:
        """Your saved queries and those that are shared."""
        return self._pages(documents.SavedQueryDocument, "/queries")

    def saved_query(self, name: str, owner: str = "", issuer: str = "") -> documents.SavedQueryDocument:
        """A saved query, with its text."""
        return self._get(documents.SavedQueryDocument, f"/queries/{_segment(name)}", owner=owner, issuer=issuer)

    def save_query(
        self, name: str, text: str, description: str = "", shared: bool = False, owner: str = "", issuer: str = ""
    ) -> documents.SavedQueryDocument:
        """Saves a query, or replaces it."""
        asked = {"text": text, "description": description, "shared": shared}
        owner_params = _given({"owner": owner, "issuer": issuer})
        answer = self._asked("PUT", f"/queries/{_segment(name)}", json=asked, params=owner_params)
        return self._read(documents.SavedQueryDocument, answer)

    def delete_query(self, name: str, owner: str = "", issuer: str = "") -> documents.SavedQueryDocument:
        """Deletes a query."""
        owner_params = _given({"owner": owner, "issuer": issuer})
        answer = self._asked("DELETE", f"/queries/{_segment(name)}", params=owner_params)
        return self._read(documents.SavedQueryDocument, answer)

    def alerts(self, states: Sequence[str] = ("firing", "pending"), rule: str = "") -> Iterator[documents.Alert]:
        """Current alerts, most severe first. states: any of firing, pending, resolved, inactive."""
        return self._pages(documents.Alert, "/alerts", state=list(states), rule=rule)

    def alert(self, fingerprint: str) -> documents.AlertWithHistory:
        """An alert in any state, with the history of its state."""
        return self._get(documents.AlertWithHistory, f"/alerts/{_segment(fingerprint)}")

    def alert_history(self, rule: str = "", fingerprint: str = "") -> Iterator[documents.AlertChange]:
        """Changes of alerts' states, newest first."""
        return self._pages(documents.AlertChange, "/alerts/history", rule=rule, fingerprint=fingerprint)

    def alert_deliveries(self, rule: str = "", fingerprint: str = "") -> Iterator[documents.AlertDelivery]:
        """Attempts to deliver notifications, newest first."""
        return self._pages(documents.AlertDelivery, "/alerts/deliveries", rule=rule, fingerprint=fingerprint)

    def silences(self, past: bool = False) -> list[documents.Silence]:
        """Active and scheduled silences; with `past` also those that are over."""
        return self._get(list[documents.Silence], "/alerts/silences", past=str(past).lower())

    def add_silence(
        self,
        matchers: Mapping[str, Sequence[str]],
        ends_at: datetime,
        reason: str,
        starts_at: datetime | None = None,
    ) -> documents.Silence:
        """Silences matching alerts. matchers: label to globs, all of which must match."""
        asked = {
            "matchers": {label: list(globs) for label, globs in matchers.items()},
            "ends_at": ends_at.isoformat(),
            "starts_at": starts_at and starts_at.isoformat(),
            "reason": reason,
        }
        return self._post(documents.Silence, "/alerts/silences", asked)

    def end_silence(self, id: str) -> documents.Silence:
        """Ends a silence now."""
        return self._read(documents.Silence, self._asked("DELETE", f"/alerts/silences/{_segment(id)}"))

    def idle_jobs(self) -> documents.IdleJobs:
        """Idle jobs of the server's scheduler, each with the next step of its policy."""
        return self._get(documents.IdleJobs, "/idle-jobs")

    def utilization(self, seconds: int = 1800, cluster: str = "") -> documents.Utilization:
        """How used each allocation was over so many seconds."""
        return self._get(documents.Utilization, "/utilization", seconds=seconds, cluster=cluster)

    def reclaim_idle_job(self, job: str, reason: str = "") -> documents.IdleJobAct:
        """Says yes to what the scheduler's policy does to an idle job."""
        return self._post(documents.IdleJobAct, "/idle-jobs/reclaim", {"job": job, "reason": reason})

    def propose_idle_job(self, job: str, reason: str = "") -> documents.IdleJobAct:
        """Proposes what the scheduler's policy does to an idle job, for an operator to say yes to."""
        return self._post(documents.IdleJobAct, "/idle-jobs/propose", {"job": job, "reason": reason})

    def resume_idle_job(self, job: str, reason: str = "") -> documents.IdleJobAct:
        """Lets a job that was suspended for being idle wait for its GPUs again."""
        return self._post(documents.IdleJobAct, "/idle-jobs/resume", {"job": job, "reason": reason})

    def keep_idle_job(self, job: str, reason: str = "") -> documents.IdleJobAct:
        """Exempts the running attempt of a job from what is done to idle ones."""
        return self._post(documents.IdleJobAct, "/idle-jobs/keep", {"job": job, "reason": reason})

    def acknowledge_alert(self, fingerprint: str, reason: str = "", hours: float = 4.0) -> documents.Silence:
        """Acknowledges an alert: nobody is reminded of this occurrence for so many hours. If somebody has acknowledged
        it, theirs is answered, and nothing is written."""
        asked = {"reason": reason, "hours": hours}
        return self._post(documents.Silence, f"/alerts/{_segment(fingerprint)}/acknowledge", asked)

    def tell_alert(self, fingerprint: str, receivers: Sequence[str] = (), note: str = "") -> documents.Told:
        """Tells receivers of the server's routing file of a firing alert now; by default its owner."""
        asked = {"receivers": list(receivers), "note": note}
        return self._post(documents.Told, f"/alerts/{_segment(fingerprint)}/tell", asked)

    def objectives(self, at: datetime | None = None, tenant: str | None = None) -> Iterator[documents.ObjectiveStatus]:
        """The state of each series of the applied objectives."""
        return self._pages(documents.ObjectiveStatus, "/objectives", at=at and at.isoformat(), tenant=tenant)

    def objective(self, name: str, at: datetime | None = None) -> Iterator[documents.ObjectiveStatus]:
        """The series of one objective."""
        return self._pages(documents.ObjectiveStatus, f"/objectives/{_segment(name)}", at=at and at.isoformat())

    def interference(self, period: str = "", tenant: str | None = None) -> Iterator[documents.Episode]:
        """Episodes in which a workload was slowed down by others on its GPU."""
        return self._pages(documents.Episode, "/interference", period=period, tenant=tenant)

    def export_focus(self, month: str, out: Path, **options: str) -> Path:
        """Writes a month's FOCUS rows to a .csv, .csv.gz or .parquet file, which appears only when it is complete.
        options: see `focus`.   Errors: also OSError."""
        part = out.with_name(f".{out.name}.part")
        try:
            with part.open("wb") as file:
                file.writelines(self.focus(month, out.name, **options))
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
        return out

    def focus(self, month: str, name: str, **options: str) -> Iterator[bytes]:
        """The bytes of a file of a month's FOCUS rows, in the format of its name (.csv, .csv.gz or .parquet).
        options: tenant, which, version, grain, platform, skip_unpriced."""
        ending = next((e for e in ("csv.gz", "csv", "parquet") if name.endswith(f".{e}")), "")
        asked = _given({"month": month, "format": ending, **options})
        try:
            with self._http.stream("GET", "/exports/focus", params=asked, timeout=LONG_SECONDS) as answer:
                if answer.status_code != 200:
                    answer.read()
                    raise self._refused(answer)
                yield from answer.iter_bytes()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(error) from error

    def tokens(self) -> Iterator[documents.TokenDocument]:
        """Your API tokens; for an admin, everybody's."""
        return self._pages(documents.TokenDocument, "/tokens")

    def create_token(self, name: str, days: int = 90, **more: Any) -> documents.NewToken:
        """Makes an API token. more: scopes, owner, issuer, roles, tenants."""
        return self._post(documents.NewToken, "/tokens", {"name": name, "days": days, **more})

    def revoke_token(self, id: str, reason: str = "") -> documents.TokenDocument:
        """Revokes a token now."""
        answer = self._asked("DELETE", f"/tokens/{_segment(id)}", params={"reason": reason})
        return self._read(documents.TokenDocument, answer)

    def users(self) -> Iterator[documents.UserDocument]:
        """Users: local ones, those of single sign-on, service accounts."""
        return self._pages(documents.UserDocument, "/users")

    def add_user(
        self, name: str, password: str, roles: Sequence[str], tenants: Sequence[str] = (), kind: str = "local"
    ) -> documents.UserDocument:
        """Adds a local user, or a service account, which has no password."""
        asked = {"name": name, "password": password, "roles": list(roles), "tenants": list(tenants), "kind": kind}
        return self._post(documents.UserDocument, "/users", asked)

    def change_user(self, name: str, issuer: str = "", **changes: Any) -> documents.UserDocument:
        """Changes a user. changes: password, roles, tenants, disabled."""
        owner_params = _given({"issuer": issuer})
        answer = self._asked("PATCH", f"/users/{_segment(name)}", json=changes, params=owner_params)
        return self._read(documents.UserDocument, answer)

    def _apply(self, path: str, yaml: str, reason: str) -> documents.Applied:
        return self._post(documents.Applied, path, {"yaml": yaml, "reason": reason})

    def _check(self, path: str, yaml: str) -> documents.Compared:
        return self._post(documents.Compared, f"{path}/check", {"yaml": yaml}, LONG_SECONDS)

    def _get(self, kind: type[Answer], path: str, timeout: float | None = None, /, **asked: Any) -> Answer:
        return self._read(kind, self._asked("GET", path, params=_given(asked), timeout=timeout))

    def _post(self, kind: type[Answer], path: str, body: dict[str, Any], timeout: float | None = None) -> Answer:
        return self._read(kind, self._asked("POST", path, json=body, timeout=timeout))

    def _whole(self, kind: type[Answer], path: str, **asked: Any) -> Answer:
        """A report with the rows of all its pages."""
        found = self._json(self._asked("GET", path, params=_given({**asked, "limit": MOST_ROWS})))
        following = found["next"]
        while following:
            page = self._json(self._asked("GET", following.removeprefix(PREFIX)))
            found["rows"] += page["rows"]
            following = page["next"]
        return self._parsed(kind, {**found, "next": None})

    def _pages(self, kind: type[Answer], path: str, **asked: Any) -> Iterator[Answer]:
        following: str | None = path
        params: dict[str, Any] | None = _given({**asked, "limit": 1000})
        while following:
            page = self._json(self._asked("GET", following, params=params))
            for row in page["rows"]:
                yield self._parsed(kind, row)
            following, params = page["next"] and page["next"].removeprefix(PREFIX), None

    def _asked(self, method: str, path: str, timeout: float | None = None, **more: Any) -> httpx.Response:
        """timeout: seconds for each read; None: the client's."""
        try:
            if timeout is not None:
                more["timeout"] = timeout
            answer = self._http.request(method, path, **more)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(error) from error
        if answer.status_code >= 300:
            raise self._refused(answer)
        return answer

    def _read(self, kind: type[Answer], answer: httpx.Response) -> Answer:
        return self._parsed(kind, self._json(answer))

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise ApiError(self.url, "answers no JSON", NO_ANSWER) from error

    def _parsed(self, kind: type[Answer], document: Any) -> Answer:
        try:
            return TypeAdapter(kind).validate_python(document)
        except ValidationError as error:
            what = f"says what this client does not know ({error.errors()[0]['loc']})"
            raise ApiError(self.url, what, "Use the same version on both sides") from error

    def _failed(self, error: Exception) -> ApiError:
        return ApiError(self.url, *trouble(error))

    def _refused(self, answer: httpx.Response) -> ApiError:
        problem = problem_of(answer)
        detail = str(problem.get("detail") or f"answers {answer.status_code}")
        return ApiError(self.url, detail, problem.get("next_step") or answer_step(answer), answer.status_code)


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value not in (None, "")}


def _segment(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


__all__ = ["ApiError", "Client"]
