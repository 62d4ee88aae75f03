"""XIDs: the driver's error numbers, what they mean, and reading them back from the kernel's log.

Source: https://docs.nvidia.com/deploy/xid-errors/; the kernel's /dev/kmsg format:
https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from collectors.readings import Severity

MEANINGS: dict[int, tuple[str, Severity]] = {
    13: ("graphics engine exception, mostly the application's own fault", "warning"),
    31: ("memory page fault of an application", "warning"),
    32: ("invalid or corrupted push buffer stream", "warning"),
    38: ("driver firmware error", "critical"),
    43: ("the application's channel was stopped", "warning"),
    45: ("an application's channel was removed, mostly in the wake of another error or of its end", "info"),
    48: ("uncorrectable double-bit ECC error", "critical"),
    61: ("internal microcontroller breakpoint", "critical"),
    62: ("internal microcontroller halted", "critical"),
    63: ("a row was remapped or a page retired after an ECC error", "info"),
    64: ("remapping a row or retiring a page failed", "critical"),
    68: ("video processor exception", "warning"),
    69: ("graphics engine class error", "warning"),
    74: ("NVLink error", "critical"),
    79: ("the GPU has fallen off the bus", "critical"),
    92: ("many corrected single-bit ECC errors", "info"),
    94: ("contained ECC error: the application that hit it ends, the others go on", "warning"),
    95: ("uncontained ECC error: the GPU must be reset", "critical"),
    109: ("context switch timed out", "warning"),
    119: ("the GPU's system processor does not answer", "critical"),
    120: ("error in the GPU's system processor", "critical"),
    121: ("corrected error on the chip-to-chip link", "info"),
    136: ("link training failed", "critical"),
    137: ("NVLink privilege error of an application", "warning"),
    140: ("unrecovered ECC error", "critical"),
    143: ("GPU initialisation failed", "critical"),
    149: ("NVLink error that needs a reset", "critical"),
    154: ("the driver asks for a recovery action", "critical"),
}


def meaning(code: int) -> tuple[str, Severity]:
    """The meaning and severity of an XID; one that is not listed is a warning."""
    return MEANINGS.get(code, ("not in the list of known XIDs", "warning"))


@dataclass(frozen=True, slots=True)
class Xid:
    """One error. at: aware UTC.   device_id: empty while only the bus is known.   gpu_instance: None for the device.
    detail: the kernel's words, with the process that it names.   source: where it was read."""

    at: datetime
    code: int
    device_id: str = ""
    pci_bus_id: str = ""
    gpu_instance: int | None = None
    detail: str = ""
    source: str = "nvml event"

    @property
    def message(self) -> str:
        text = f"XID {self.code}: {meaning(self.code)[0]}"
        return f"{text} ({self.detail})" if self.detail else text


_XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)(?:[^)]*)\):\s*(?P<code>\d{1,5})(?:,\s*(?P<detail>.*))?$")
_KMSG = re.compile(r"^\d+,\d+,(?P<us>\d+),[^;]*;(?P<text>.*)$")
_SECONDS = re.compile(r"^(?:<\d+>)?\[\s*(?P<seconds>\d+\.\d+)\]\s*(?P<text>.*)$")
_WALL = re.compile(r"^\[(?P<at>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4})\]\s*(?P<text>.*)$")
_ISO = re.compile(r"^(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d+[+-]\d\d:?\d\d)\s+(?P<text>.*)$")
_INSTANCE = re.compile(r"GPU-I:(?P<gi>\d+)|\bGPU instance ID: *(?P<id>\d+)", re.IGNORECASE)
LONGEST_DETAIL = 300


def bus(text: str) -> str:
    """A PCI address in one form, `9b:00` or `00000000:9B:00.0` -> `00000000:9b:00`: a GPU is function 0."""
    parts = text.lower().split(".")[0].split(":")
    domain, number, device = parts if len(parts) == 3 else ("0", *parts) if len(parts) == 2 else ("", "", "")
    return f"{domain:0>8}:{number:0>2}:{device:0>2}" if device else ""


def parse(lines: Iterable[str], booted_at: datetime) -> Iterator[Xid]:
    """XIDs of a kernel log: /dev/kmsg, dmesg, dmesg -T (taken as UTC, as the kernel's log is on a node in UTC) or
    dmesg --time-format iso. A line with an XID whose time cannot be read is passed over."""
    for line in lines:
        if "NVRM: Xid" not in line:
            continue
        stamped = _when(line.rstrip("\n"), booted_at)
        found = _XID.search(stamped[1]) if stamped else None
        if stamped is None or found is None:
            continue
        detail = (found["detail"] or "").strip()[:LONGEST_DETAIL]
        instance = _INSTANCE.search(line)
        number = int(instance["gi"] or instance["id"]) if instance else None
        yield Xid(stamped[0], int(found["code"]), "", bus(found["bus"]), number, detail, "kernel log")


def read_kernel_log(path: Path, booted_at: datetime) -> list[Xid]:
    """XIDs in the kernel's ring buffer or in a file of its lines.

    Errors: OSError where it may not be read (/dev/kmsg wants CAP_SYSLOG or root).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return list(parse(_lines(descriptor), booted_at))
    finally:
        os.close(descriptor)


def boot_time(stat: Path = Path("/proc/stat")) -> datetime:
    """When the kernel started, to the second, the same at every reading: times made of it are keys."""
    for line in stat.read_text().splitlines():
        if line.startswith("btime "):
            return datetime.fromtimestamp(int(line.split()[1]), UTC)
    raise OSError(f"{stat} has no btime")


def _lines(descriptor: int) -> Iterator[str]:
    """/dev/kmsg gives a record a read, EAGAIN at its end and EPIPE where records were overwritten meanwhile."""
    rest = b""
    while True:
        try:
            chunk = os.read(descriptor, 8192)
        except BlockingIOError:
            break
        except BrokenPipeError:
            continue
        if not chunk:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _when(line: str, booted_at: datetime) -> tuple[datetime, str] | None:
    if found := _KMSG.match(line):
        return booted_at + timedelta(microseconds=int(found["us"])), found["text"]
    if found := _SECONDS.match(line):
        return booted_at + timedelta(seconds=float(found["seconds"])), found["text"]
    if found := _WALL.match(line):
        return datetime.strptime(found["at"], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC), found["text"]
    if found := _ISO.match(line):
        return datetime.fromisoformat(found["at"].replace(",", ".")).astimezone(UTC), found["text"]
    return None
