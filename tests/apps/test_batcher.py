"""Micro-batches: every request gets its own answers, whatever waits beside it, fails or goes away."""

import asyncio
import threading

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

from boustro.apps.serve.models import Batcher, Full
from served import Puppet


def ask(batcher: Batcher, model: Puppet, texts: list[str]):
    return asyncio.create_task(batcher.answer(model, texts, [len(text) for text in texts]))


def said(outputs: list[dict]) -> list[str]:
    return [output["said"] for output in outputs]


def held() -> tuple[Puppet, threading.Event, threading.Event]:
    """A model that waits inside its first batch: (it, it has begun, it may go on)."""
    begun, go_on = threading.Event(), threading.Event()

    def act(inputs):
        begun.set()
        assert go_on.wait(30)
        return [{"said": text} for text in inputs]

    return Puppet(act=act), begun, go_on


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


def test_what_waits_is_computed_together_in_turns():
    async def run():
        batcher, (model, begun, go_on) = Batcher(1000, batch=4), held()
        first = ask(batcher, model, ["a"])
        await until(begun)
        large, small = ask(batcher, model, ["b"] * 7), ask(batcher, model, ["c"])
        await asyncio.sleep(0)
        assert batcher.waiting == 8
        go_on.set()
        assert said(await first) == ["a"] and said(await large) == ["b"] * 7 and said(await small) == ["c"]
        assert model.batches == [["a"], ["b", "c", "b", "b"], ["b"] * 4]
        assert batcher.waiting == 0

    asyncio.run(run())


def test_a_batch_belongs_to_one_model_and_models_take_turns():
    async def run():
        batcher, (first, begun, go_on), second = Batcher(1000, batch=2), held(), Puppet()
        asked = [ask(batcher, first, ["a"])]
        await until(begun)
        asked += [ask(batcher, first, ["b"] * 4), ask(batcher, second, ["c"] * 3), ask(batcher, first, ["d"])]
        await asyncio.sleep(0)
        go_on.set()
        answers = [said(answer) for answer in await asyncio.gather(*asked)]
        assert answers == [["a"], ["b"] * 4, ["c"] * 3, ["d"]]
        assert first.batches == [["a"], ["b", "d"], ["b", "b"], ["b"]] and second.batches == [["c", "c"], ["c"]]

    asyncio.run(run())


def test_only_the_faulty_request_fails():
    def act(inputs):
        if "poison" in inputs:
            raise RuntimeError("no")
        return [{"said": text} for text in inputs]

    async def run():
        batcher, model = Batcher(1000, batch=100), Puppet(act=act)
        asked = [ask(batcher, model, texts) for texts in (["a", "b"], ["c", "poison"], ["d"])]
        first, second, third = await asyncio.gather(*asked, return_exceptions=True)
        assert said(first) == ["a", "b"] and said(third) == ["d"] and isinstance(second, RuntimeError)
        assert said(await ask(batcher, model, ["e"])) == ["e"] and batcher.waiting == 0

    asyncio.run(run())


def test_a_full_queue_says_when_to_come_back_and_an_empty_request_needs_no_model():
    async def run():
        batcher, (model, begun, go_on) = Batcher(most_waiting=5, batch=1), held()
        first = ask(batcher, model, ["a"])
        await until(begun)
        second = ask(batcher, model, ["b" * 6])
        await asyncio.sleep(0)
        with pytest.raises(Full) as full:
            await ask(batcher, model, ["c"])
        assert full.value.seconds >= 1
        go_on.set()
        assert said(await first + await second) == ["a", "b" * 6]
        assert await batcher.answer(model, [], []) == []
        assert len(model.batches) == 2

    asyncio.run(run())


def test_what_nobody_waits_for_any_more_is_not_computed():
    async def run():
        batcher, (model, begun, go_on) = Batcher(1000, batch=1), held()
        first = ask(batcher, model, ["a"])
        await until(begun)
        given_up, kept = ask(batcher, model, ["b", "b"]), ask(batcher, model, ["c"])
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 1
        go_on.set()
        assert said(await first + await kept) == ["a", "c"]
        assert model.batches == [["a"], ["c"]] and batcher.waiting == 0

    asyncio.run(run())
