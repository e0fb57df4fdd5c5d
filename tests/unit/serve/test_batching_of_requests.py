"""The batcher, with work that says what it was given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from orderfree.serve.batching import Batcher
from orderfree.serve.problems import Problem

LONG = 30.0


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


class Upper:
    """Work that notes its batches; it waits for `open` where that is closed."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[str] = set()
        self.open = threading.Event()
        self.open.set()

    def __call__(self, texts: list[str]) -> list[str]:
        self.open.wait(LONG)
        self.batches.append(texts)
        self.threads.add(threading.current_thread().name)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


def test_requests_of_one_moment_are_one_batch_and_each_gets_its_own() -> None:
    work, seen = Upper(), []

    async def scene() -> None:
        async with Batcher(10, 4, LONG, seen.append) as batcher:  # four texts close the batch, not the time
            found = await asyncio.gather(
                batcher.submit("g", work, ["a", "b"], LONG),
                batcher.submit("g", work, ["c"], LONG),
                batcher.submit("g", work, ["d"], LONG),
            )
        assert found == [["A", "B"], ["C"], ["D"]]

    run(scene)
    assert work.batches == [["a", "b", "c", "d"]]
    assert seen == [4]
    assert len(work.threads) == 1
    assert "MainThread" not in work.threads


def test_who_is_alone_does_not_wait_and_who_is_not_does() -> None:
    """The number of requests under way closes these batches: to wait for the time would take half a minute."""
    work = Upper()

    async def scene() -> None:
        async with Batcher(10, 100, LONG) as batcher:
            for text in "ab":
                assert await batcher.submit("g", work, [text], LONG) == [text.upper()]
            work.open.clear()
            first = asyncio.create_task(batcher.submit("g", work, ["c"], LONG))
            await asyncio.sleep(0)
            await until(lambda: batcher.waiting == 0)
            late = [asyncio.create_task(batcher.submit("g", work, [text], LONG)) for text in "de"]
            await asyncio.sleep(0)
            work.open.set()
            await first  # three were under way at once: the next batch waits for three
            await batcher.submit("g", work, ["f"], LONG)
            await asyncio.gather(*late)

    run(scene)
    assert work.batches == [["a"], ["b"], ["c"], ["d", "e", "f"]]


def test_other_options_are_another_group() -> None:
    work, other = Upper(), Upper()

    async def scene() -> None:
        async with Batcher(10, 3, LONG) as batcher:
            await asyncio.gather(
                batcher.submit("g", work, ["a"], LONG),
                batcher.submit("h", other, ["b"], LONG),
                batcher.submit("g", work, ["c"], LONG),
            )

    run(scene)
    assert (work.batches, other.batches) == ([["a", "c"]], [["b"]])


def test_one_bad_text_spoils_nobody_elses() -> None:
    work = Upper()

    async def scene() -> None:
        async with Batcher(10, 3, LONG) as batcher:
            found = await asyncio.gather(
                *(batcher.submit("g", work, [text], LONG) for text in ("a", "bad", "c")), return_exceptions=True
            )
        assert found[0] == ["A"]
        assert isinstance(found[1], ValueError)
        assert found[2] == ["C"]

    run(scene)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_full_queue_refuses_and_goes_on_when_there_is_room() -> None:
    work = Upper()
    work.open.clear()

    async def scene() -> None:
        async with Batcher(2, 1, 0) as batcher:
            first = asyncio.create_task(batcher.submit("g", work, ["a"], LONG))
            await asyncio.sleep(0)
            await until(lambda: batcher.waiting == 0)  # the model has it
            waiting = [asyncio.create_task(batcher.submit("g", work, [text], LONG)) for text in "bc"]
            await asyncio.sleep(0)
            with pytest.raises(Problem) as refused:
                await batcher.submit("g", work, ["d"], LONG)
            assert refused.value.status == 429
            assert refused.value.headers == {"Retry-After": "1"}
            work.open.set()
            assert await asyncio.gather(first, *waiting) == [["A"], ["B"], ["C"]]
            assert await batcher.submit("g", work, ["d"], LONG) == ["D"]

    run(scene)


def test_what_waited_too_long_is_told_so_and_never_computed() -> None:
    work = Upper()
    work.open.clear()

    async def scene() -> None:
        async with Batcher(10, 1, 0) as batcher:
            first = asyncio.create_task(batcher.submit("g", work, ["a"], LONG))
            await asyncio.sleep(0)
            await until(lambda: batcher.waiting == 0)
            with pytest.raises(Problem) as refused:
                await batcher.submit("g", work, ["late"], 0.05)
            assert refused.value.status == 504
            work.open.set()
            await first

    run(scene)
    assert work.batches == [["a"]]


def test_leaving_answers_what_was_accepted_and_takes_nothing_new() -> None:
    work = Upper()
    work.open.clear()

    async def scene() -> None:
        batcher = Batcher(10, 1, 0)
        async with batcher:
            accepted = [asyncio.create_task(batcher.submit("g", work, [text], LONG)) for text in "abc"]
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, work.open.set)
        assert [task.result() for task in accepted] == [["A"], ["B"], ["C"]]
        with pytest.raises(Problem) as refused:
            await batcher.submit("g", work, ["d"], LONG)
        assert refused.value.status == 503

    run(scene)


class Panic(BaseException):
    """What a library in Rust raises: no Exception."""


@pytest.mark.parametrize("kind", [Panic, SystemExit, KeyboardInterrupt])
def test_a_panic_is_told_to_everybody_and_ends_the_batcher(kind: type[BaseException]) -> None:
    work, began, goes_on = Upper(), threading.Event(), threading.Event()

    def panics(texts: list[str]) -> list[str]:
        began.set()
        goes_on.wait(LONG)
        raise kind

    async def scene() -> None:
        async with Batcher(1, 1, 0) as batcher:
            first = asyncio.create_task(batcher.submit("g", panics, ["a"], LONG))
            await until(began.is_set)
            second = asyncio.create_task(batcher.submit("g", work, ["b"], LONG))
            await asyncio.sleep(0)
            goes_on.set()
            found = await asyncio.gather(first, second, return_exceptions=True)
            assert [one.status for one in found] == [500, 503]  # type: ignore[union-attr]
            assert isinstance(batcher.failure, kind)
            with pytest.raises(Problem) as refused:
                await batcher.submit("g", work, ["c"], LONG)
            assert refused.value.status == 503

    run(scene)
    assert work.batches == []


@pytest.mark.parametrize("error", [StopIteration, None])
def test_work_that_ends_too_early_fails_alone(error: type[Exception] | None) -> None:
    def short(texts: list[str]) -> list[str]:
        if error is not None:
            raise error
        return []

    async def scene() -> None:
        async with Batcher(10, 1, 0) as batcher:
            with pytest.raises(RuntimeError):
                await batcher.submit("g", short, ["a"], LONG)
            assert await batcher.submit("g", Upper(), ["b"], LONG) == ["B"]

    run(scene)


def test_leaving_with_a_full_queue_ends() -> None:
    work = Upper()
    work.open.clear()

    async def scene() -> None:
        batcher = Batcher(1, 1, 0)
        async with batcher:
            first = asyncio.create_task(batcher.submit("g", work, ["a"], LONG))
            await asyncio.sleep(0)
            await until(lambda: batcher.waiting == 0)
            second = asyncio.create_task(batcher.submit("g", work, ["b"], LONG))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, work.open.set)
        assert (first.result(), second.result()) == (["A"], ["B"])

    run(scene)
