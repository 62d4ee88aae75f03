"""Progress of long work, step by step, and interruption. On a terminal live bars; elsewhere a line for each finished
step, and now and then one while a step lasts.

Ctrl-C does not interrupt a query of the embedded engine on the main thread. So the work runs on a thread of its own
(`in_worker`), the main thread waits for signals, and the work stops at its next progress update.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gpuledger.output import AGAIN, INTERRUPTED, complain, console
from warehouse.store import Store, migrate
from warehouse.this_python import asked_by

Result = TypeVar("Result")

PATIENCE_SECONDS = 20
"""How long an interruption waits for the running query; then the process exits at once, which is as safe as a kill."""

FIRST_WORD_SECONDS, NEXT_WORD_SECONDS = 2, 30
"""When a step that still runs is reported where there is no terminal: a log that stays empty looks like a hang."""


class Stopped(Exception):  # noqa: N818 (no error)
    """The work was interrupted, and stopped between two statements."""


class Step:
    """One step; `detail` is the text of its final line."""

    def __init__(self, show: Callable[[int, int, str], None], stop: threading.Event) -> None:
        self._show, self._stop = show, stop
        self.done = self.total = 0
        self.detail = ""

    def update(self, done: int | None = None, total: int | None = None, detail: str | None = None) -> None:
        """Shows progress; a total of 0 means unknown.   Errors: Stopped after an interruption."""
        if self._stop.is_set():
            raise Stopped
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total
        self.detail = self.detail if detail is None else detail
        self._show(self.done, self.total, self.detail)


class Steps:
    """The steps of one piece of work, on a console."""

    def __init__(self, console: Console, stop: threading.Event) -> None:
        self._console, self._stop = console, stop
        self._progress: Progress | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[Steps]:
        """Shows live bars while the work runs, on a terminal."""
        if not self._console.is_terminal:
            yield self
            return
        columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=26),
            TextColumn("{task.fields[detail]}", style="dim"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, refresh_per_second=8) as self._progress:
            yield self

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        started = time.monotonic()
        progress = self._progress
        if progress is None:
            due = started + FIRST_WORD_SECONDS

            def tell(done: int, total: int, detail: str) -> None:
                nonlocal due
                if (now := time.monotonic()) >= due:
                    self._line(f"{title:<10} {detail} ... ({now - started:.0f} s so far)")
                    due = now + NEXT_WORD_SECONDS

            step = Step(tell, self._stop)
            yield step
            self._line(f"{title:<10} {step.detail} ({time.monotonic() - started:.1f} s)")
            return
        task = progress.add_task(title, total=None, detail="")

        def show(done: int, total: int, detail: str) -> None:
            progress.update(task, completed=done, total=total or None, detail=detail)

        step = Step(show, self._stop)
        yield step
        progress.update(task, completed=1, total=1, detail=step.detail)

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


def in_worker(work: Callable[[], Result], stop: threading.Event) -> Result:
    """Runs the work on a thread of its own and returns its result.

    On Ctrl-C: sets `stop`, waits for the work to notice, and raises KeyboardInterrupt. A second Ctrl-C, or a query
    that outlasts the patience, ends the process at once.
    """
    outcome: list[Result] = []
    errors: list[BaseException] = []
    # Not the thread's `join`: up to Python 3.12, one that is interrupted takes a thread that still runs for ended.
    ended = threading.Event()

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 (handed to the caller below)
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="work", daemon=True).start()
    try:
        while not ended.wait(0.2):
            pass
    except KeyboardInterrupt:
        stop.set()
        _wait_or_end(ended)
        raise
    if errors:
        raise errors[0]
    return outcome[0]


def _wait_or_end(ended: threading.Event) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        ended.wait(PATIENCE_SECONDS)
    if not ended.is_set():
        console(stderr=True).show_cursor()
        if asked_by() == os.getpid():  # else whoever asked says so
            complain(AGAIN)
        os._exit(INTERRUPTED)


def prepared(store: Store, fill: Callable[[Store, Steps], Result]) -> Result:
    """Migrates the store and fills it, step by step; on a worker thread, so that Ctrl-C works: after it the store is
    whole, and the same command carries on."""
    stop = threading.Event()

    def work() -> Result:
        migrate(store)
        with Steps(console(stderr=True), stop).shown() as steps:
            return fill(store, steps)

    return in_worker(work, stop)


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Makes SIGTERM end the preparation as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
