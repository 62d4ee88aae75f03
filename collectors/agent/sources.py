"""The sources that the settings configure, behind one interface for the loop. Each is imported only if it is used."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collectors.agent import privileges
from collectors.agent.settings import (
    AgentSettings,
    ExporterSettings,
    NvmlSettings,
    PrometheusSettings,
    ServiceSettings,
)
from collectors.readings import Collected

if TYPE_CHECKING:
    from collectors.attribution.kubelet import Pod
    from collectors.attribution.node import AllocationSource, NodeAttribution
    from collectors.attribution.processes import Keepers
    from collectors.exporters.memory import Memory
    from collectors.exporters.scrape import Scrape
    from collectors.nvml.collector import NvmlCycle

log = logging.getLogger(__name__)

NVML = "nvml"


class Source(Protocol):
    """What the loop reads in each interval."""

    def collect(self, now: datetime) -> Collected:
        """What there was since the last time. now: the tick.

        Errors: LedgerError if the source is away and does not say so by findings.
        """

    def acknowledge(self) -> None:
        """What the last `collect` gave is on disk."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Planned:
    """A source with its name and interval."""

    name: str
    interval_seconds: float
    source: Source


def planned(settings: AgentSettings, restart: Callable[[str], None] = lambda why: None) -> list[Planned]:
    """The sources that the settings ask for. restart: called, with why, if only a new process can go on.

    Errors: CollectorError if one cannot be used as it is set.
    """
    sources = settings.sources
    found: list[Planned] = []
    if privileges.reads_nvml(sources):
        found.append(Planned(NVML, sources.nvml.interval_seconds, nvml_source(settings, sources.nvml, restart)))
    for number, exporter in enumerate(sources.exporters):
        name = f"exporter_{number}" if len(sources.exporters) > 1 else "exporter"
        found.append(Planned(name, exporter.interval_seconds, exporter_source(settings, exporter, name)))
    for number, prometheus in enumerate(sources.prometheus):
        name = f"prometheus_{number}" if len(sources.prometheus) > 1 else "prometheus"
        found.append(Planned(name, prometheus.interval_seconds, prometheus_source(settings, prometheus, name)))
    found += [
        Planned(f"service_{service.name}", service.interval_seconds, service_source(settings, service))
        for service in sources.services
    ]
    training = sources.training
    if training.socket is not None:
        found.append(Planned("training", training.interval_seconds, training_source(settings, training.socket)))
    return found


class _Nvml(Protocol):
    def collect(self, now: datetime) -> NvmlCycle: ...

    def close(self) -> None: ...


class NvmlSource:
    """The driver's readings, joined with the owners of the processes and the allocations of the devices."""

    def __init__(
        self, collector: _Nvml, attribution: NodeAttribution, restart: Callable[[str], None] = lambda why: None
    ) -> None:
        self._collector, self._attribution, self._restart = collector, attribution, restart
        self._worked = False

    def collect(self, now: datetime) -> Collected:
        from collectors.attribution import nvidia

        cycle = self._collector.collect(now)
        # Where it never worked, a new process would fare no better.
        if cycle.restart_needed and self._worked:
            self._restart("the driver was upgraded under this process")
        self._worked = self._worked or not cycle.restart_needed
        collected = cycle.collected
        names = nvidia.aliases(cycle.devices)
        collected += self._attribution.collect(cycle.readings, now, cycle.interval_seconds, names)
        return collected

    def acknowledge(self) -> None:
        """The driver's buffers can be read only once, whatever becomes of their content."""

    def close(self) -> None:
        self._collector.close()


def nvml_source(
    settings: AgentSettings, nvml: NvmlSettings, restart: Callable[[str], None] = lambda why: None
) -> NvmlSource:
    from collectors.attribution.node import NodeAttribution
    from collectors.attribution.processes import ProcessTable
    from collectors.nvml.collector import NvmlCollector

    collector = NvmlCollector(
        settings.cluster,
        settings.node,
        pool=nvml.pool,
        replicas=nvml.replicas,
        interval_seconds=nvml.interval_seconds,
        kernel_log=nvml.kernel_log,
    )
    attribution = NodeAttribution(
        settings.cluster, settings.node, ProcessTable(nvml.proc, _keepers(settings)), _allocations(settings.node, nvml)
    )
    return NvmlSource(collector, attribution, restart)


def _keepers(settings: AgentSettings) -> Callable[[], Keepers] | None:
    """The keepers of the ranks that this agent runs, if it runs jobs."""
    from collectors.jobs.processes import keepers

    own = settings.run_jobs
    return None if own.url is None else functools.partial(keepers, own.folder)


def _allocations(node: str, nvml: NvmlSettings) -> list[AllocationSource]:
    """The kubelet, where there is one."""
    if nvml.podresources is None or not nvml.podresources.parent.exists():
        return []
    from collectors.attribution.podresources.client import PodResources
    from collectors.attribution.podresources.source import KubeletAllocations
    from collectors.attribution.slices import NodeSlices

    pod_resources, slices = PodResources(nvml.podresources), NodeSlices(node, nvml.kubeconfig)
    if nvml.kubelet_url is None:
        return [KubeletAllocations(pod_resources, _NoPods(), slices)]
    from collectors.attribution.kubelet import KubeletPods

    pods = KubeletPods(
        nvml.kubelet_url, nvml.kubelet_token_file, nvml.kubelet_ca_file, verify=not nvml.kubelet_insecure
    )
    return [KubeletAllocations(pod_resources, pods, slices)]


class _NoPods:
    """Stands in where nothing reports pods' UIDs: the holder of a device stays unknown, and is counted as such."""

    def pods(self) -> Sequence[Pod]:
        return ()


class _Scraper(Protocol):
    memory: Memory

    def collect(self, now: datetime) -> Scrape: ...

    def close(self) -> None: ...


class ScrapedSource:
    """Exporters, scraped directly or read from a Prometheus."""

    def __init__(self, scraper: _Scraper, cluster: str, believe_labels: bool) -> None:
        self._scraper, self._cluster, self._believe_labels = scraper, cluster, believe_labels

    def collect(self, now: datetime) -> Collected:
        from collectors.exporters.rows import rows

        scrape = self._scraper.collect(now)
        collected = scrape.collected
        collected += rows(scrape.observed, cluster=self._cluster, believe_labels=self._believe_labels)
        return collected

    def acknowledge(self) -> None:
        """Saves what was learned of exporters, so that a restart need not learn it again."""
        try:
            self._scraper.memory.save()
        except OSError as error:
            log.warning("agent: what was learned of exporters cannot be saved: %s", error)

    def close(self) -> None:
        self._scraper.close()


def _memory(settings: AgentSettings, name: str, own: ExporterSettings | PrometheusSettings) -> Memory:
    """What earlier processes learned of a source, beside the spool. Of NVIDIA's devices on its node, NVML tells more
    than any exporter does; where it is not there, as beside a Prometheus, exporters tell of them."""
    from collectors.exporters.inventory import ExporterInventory
    from collectors.exporters.memory import Memory

    inventory = None
    if own.inventory is not False:
        better = (
            own.inventory is None and privileges.reads_nvml(settings.sources) and privileges.library().state == "ok"
        )
        inventory = ExporterInventory(settings.cluster, own.pool, without=("nvidia",) if better else ())
    memory = Memory(settings.spool.folder / f"{name}.json", inventory)
    if memory.damaged:
        log.warning("agent: %s must be learned again: %s", name, memory.damaged)
    return memory


def exporter_source(settings: AgentSettings, exporter: ExporterSettings, name: str = "exporter") -> ScrapedSource:
    from collectors.exporters.fetching import Access
    from collectors.exporters.scrape import ExporterCollector

    collector = ExporterCollector(
        exporter.urls,
        profile=exporter.profile,
        node=settings.node,
        cluster=settings.cluster,
        period_seconds=exporter.interval_seconds,
        access=Access(token_file=exporter.token_file, ca_file=exporter.ca_file),
        memory=_memory(settings, name, exporter),
    )
    return ScrapedSource(collector, settings.cluster, exporter.believe_labels)


def prometheus_source(
    settings: AgentSettings, prometheus: PrometheusSettings, name: str = "prometheus"
) -> ScrapedSource:
    from collectors.exporters.fetching import Access
    from collectors.exporters.prometheus import PrometheusCollector

    collector = PrometheusCollector(
        prometheus.url,
        profiles=prometheus.profiles,
        selector=prometheus.selector,
        cluster=settings.cluster,
        period_seconds=prometheus.scrape_seconds,
        honor_labels=prometheus.honor_labels,
        access=Access(token_file=prometheus.token_file, ca_file=prometheus.ca_file),
        memory=_memory(settings, name, prometheus),
    )
    return ScrapedSource(collector, settings.cluster, prometheus.believe_labels)


def service_source(settings: AgentSettings, service: ServiceSettings) -> Source:
    from collectors.exporters.fetching import Access
    from collectors.services.scrape import Service, ServiceCollector, Target

    reported = Service(service.name, tuple(map(Target, service.urls)), service.tenant, service.profile, service.whole)
    return ServiceCollector(
        [reported],
        cluster=settings.cluster,
        node=settings.node,
        period_seconds=service.interval_seconds,
        access=Access(token_file=service.token_file, ca_file=service.ca_file),
    )


def training_source(settings: AgentSettings, socket: Path) -> Source:
    """Progress of trainings; the kernel and the host's /proc show which workload a training belongs to."""
    from collectors.attribution.processes import ProcessTable
    from collectors.services.training import ProgressReceiver

    processes = ProcessTable(settings.sources.nvml.proc, _keepers(settings))
    return ProgressReceiver(
        socket,
        lambda: datetime.now(UTC),
        cluster=settings.cluster,
        period_seconds=settings.sources.training.interval_seconds,
        workload_of=lambda pid: processes.owners((pid,)).of(pid).owner.workload_id,
    )
