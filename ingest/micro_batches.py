"""Runs many small jobs in batches on a thread, so that they share the cost of the thread and of fixed work.

Jobs that arrive within some milliseconds form a batch; jobs that arrive while a batch runs form the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

GATHER_SECONDS = 0.05
Asked = TypeVar("Asked")
Done = TypeVar("Done")


class MicroBatches(Generic[Asked, Done]):
    """work: runs on a thread: a batch -> a result or an exception for each job.   most: jobs in a batch.
    turn: limits how many batches, and other things, run at the same time.   For one event loop."""

    def __init__(
        self, work: Callable[[Sequence[Asked]], Sequence[Done | BaseException]], most: int, turn: asyncio.Semaphore
    ) -> None:
        self._work, self._most, self._turn = work, most, turn
        self._waiting: deque[tuple[Asked, asyncio.Future[Done]]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def done(self, asked: Asked) -> Done:
        """The result of a job, once the batch that it joins has run."""
        future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._working is None:
            self._working = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(GATHER_SECONDS)
                async with self._turn:
                    batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                    await self._run_batch(batch)
        finally:
            self._working = None

    async def _run_batch(self, batch: Sequence[tuple[Asked, asyncio.Future[Done]]]) -> None:
        found: Sequence[Done | BaseException]
        try:
            found = await asyncio.to_thread(self._work, [asked for asked, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised again for the caller
            found = [error] * len(batch)
        for (_, future), one in zip(batch, found, strict=True):
            if future.done():  # its caller has gone
                continue
            if isinstance(one, BaseException):
                future.set_exception(one)
            else:
                future.set_result(one)
