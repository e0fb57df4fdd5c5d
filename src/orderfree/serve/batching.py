"""Requests that come at the same time are decoded together, in the one thread that owns the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Any

from .logs import log
from .problems import Problem

Work = Callable[[list[str]], list[Any]]  # one answer for each text


@dataclass(eq=False, slots=True)
class _Job:
    group: str  # jobs of one group have the same work
    work: Work
    texts: list[str]
    answers: asyncio.Future[list[Any]]


class Batcher:
    """`async with Batcher(…) as batcher: await batcher.submit(…)`. Leaving it answers all that was accepted.

    A batch is closed when it holds `batch_texts` or as many requests as were under way at once the last time, and
    `batch_seconds` after its first one at the latest: a client that is alone never waits for others. What comes while
    the model works waits in the queue and is in the next batch.
    """

    def __init__(
        self, queue: int, batch_texts: int, batch_seconds: float, seen: Callable[[int], object] = lambda texts: None
    ) -> None:
        self._queue: asyncio.Queue[_Job | None] = asyncio.Queue(queue)
        self.batch_texts, self.batch_seconds = batch_texts, batch_seconds
        self.seen = seen  # told how many texts went to the model at once
        self.stopping = False  # True: what is waiting is answered, and nothing new is taken
        self._under_way = self._most_under_way = 0  # requests now, and at most since the last batch was begun
        self.failure: BaseException | None = None  # what ended the worker: nothing will be answered any more
        self._model_thread = ThreadPoolExecutor(1, "model")

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    async def __aenter__(self) -> Batcher:
        self._worker = asyncio.create_task(self._serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping = True
        if self.failure is None:
            await self._queue.put(None)
        await self._worker
        self._model_thread.shutdown()

    async def submit(self, group: str, work: Work, texts: list[str], seconds: float) -> list[Any]:
        if self.stopping:
            raise Problem("stopping", "the service is stopping and accepts no new requests; try again in a moment.")
        job = _Job(group, work, texts, asyncio.get_running_loop().create_future())
        try:
            self._queue.put_nowait(job)
        except asyncio.QueueFull:
            detail = f"{self._queue.maxsize} requests are already waiting; try again in a second."
            raise Problem("too-busy", detail, {"Retry-After": "1"}) from None
        self._under_way += 1
        self._most_under_way = max(self._most_under_way, self._under_way)
        try:
            async with asyncio.timeout(seconds):
                return await job.answers
        except TimeoutError:  # the future is cancelled now, and the job left out if it has not begun
            detail = f"there was no answer within {seconds:g} seconds; send fewer or shorter texts."
            raise Problem("too-slow", detail) from None
        finally:
            self._under_way -= 1

    async def _serve(self) -> None:
        batch: list[_Job] = []
        try:
            while not (self.stopping and self._queue.empty()):
                batch = await self._next_batch()
                for _, jobs in groupby(sorted(batch, key=_group), key=_group):
                    await self._answer(list(jobs))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._give_up(error, batch)

    def _give_up(self, error: BaseException, batch: list[_Job]) -> None:
        """The model may be in any state now: everybody is told, and the process ends (see `server.py`)."""
        self.failure, self.stopping = error, True
        log.critical("the model's thread failed; the service ends", exc_info=error)
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        failed = Problem("failed", "the model's thread failed; the service ends.")
        stopping = Problem("stopping", "the service is stopping and accepts no new requests; try again in a moment.")
        told = [(job, failed) for job in batch] + [(job, stopping) for job in waiting if job is not None]
        for job, problem in told:
            if not job.answers.done():
                job.answers.set_exception(problem)

    async def _next_batch(self) -> list[_Job]:
        first = await self._queue.get()
        batch = [first] if first is not None else []
        closes_at = asyncio.get_running_loop().time() + self.batch_seconds
        expected = self._most_under_way
        while batch and sum(len(job.texts) for job in batch) < self.batch_texts:
            if len(batch) >= expected and self._queue.empty():
                break
            try:
                async with asyncio.timeout_at(closes_at):
                    job = await self._queue.get()
            except TimeoutError:
                break
            if job is None:  # nothing comes any more
                break
            batch.append(job)
        self._most_under_way = self._under_way
        return batch

    async def _answer(self, jobs: list[_Job]) -> None:
        """All in one go. If that fails, one by one: nobody's request fails because of somebody else's."""
        jobs = [job for job in jobs if not job.answers.done()]
        if not jobs:
            return
        texts = [text for job in jobs for text in job.texts]
        self.seen(len(texts))
        loop = asyncio.get_running_loop()
        found, error = await loop.run_in_executor(self._model_thread, _tried, jobs[0].work, texts)
        if error is not None:
            if not isinstance(error, Exception):  # a panic: asking again one by one helps nobody
                raise error
            if len(jobs) > 1:
                for job in jobs:
                    await self._answer([job])
            elif not jobs[0].answers.done():
                jobs[0].answers.set_exception(error)
            return
        answers = iter(found)
        for job in jobs:
            own = [next(answers) for _ in job.texts]
            if not job.answers.done():
                job.answers.set_result(own)


def _tried(work: Work, texts: list[str]) -> tuple[list[Any], BaseException | None]:
    """Errors are handed over as values: futures do not carry StopIteration, and end the event loop with SystemExit."""
    try:
        answers = work(texts)
        if len(answers) != len(texts):
            raise RuntimeError(f"{len(answers)} answers for {len(texts)} texts")
    except StopIteration:
        return [], RuntimeError("a search ended too early")
    except BaseException as error:
        return [], error
    return answers, None


def _group(job: _Job) -> str:
    return job.group
