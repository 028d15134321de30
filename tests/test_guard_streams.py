"""Many streams at once through `boustro guard`, some of which break on either side: no leak, no hang, nothing left."""

import asyncio
import random
import time

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")
pytest.importorskip("openai", reason="needs the openai client: pip install openai")

import openai

from boustro.apps.live.redactor import Redactor
from guarded import FakeUpstream, delta, finish, guarding
from test_redactor import chunked
from toy_tagger import NAMES, ToyTagger

FATES = ("whole", "whole", "killed", "cut off", "garbled", "client leaves", "slow client")


def make_text(draw: random.Random) -> str:
    words = [*NAMES, "and", "May said", "in May", "left", "it rained;", "🦬", "[PER_9]", "then,"]
    return " ".join(draw.choices(words, k=draw.randint(5, 60)))


def redacted(text: str) -> str:
    redactor = Redactor(ToyTagger(), 2)
    return redactor.feed(text).text + redactor.end().text


async def ask(client: openai.AsyncOpenAI, number: int, fate: str, leave: int) -> tuple[str, str]:
    """What a client sees, and how it ends."""
    seen = ""
    try:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": f"{number}"}], stream=True
        )
        async for chunk in stream:
            seen += chunk.choices[0].delta.content or ""
            if fate == "client leaves" and len(seen) > leave:
                await stream.close()
                return seen, "left"
            if fate == "slow client":
                await asyncio.sleep(0.01)
    except openai.APIError as error:
        return seen, str(error.code)
    return seen, "end"


ENDS = {"whole": "end", "slow client": "end", "killed": "upstream_broken", "cut off": "upstream_broken"}


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_streams_that_break_on_either_side(count):
    draw = random.Random(count)
    texts = [make_text(draw) for _ in range(count)]
    fates = [FATES[number % len(FATES)] for number in range(count)]

    async def say(asked):
        number = int(asked.body["messages"][-1]["content"])
        text, fate = texts[number], fates[number]
        pieces = chunked(text, random.Random(number).choices(range(len(text)), k=30))
        if fate in ("killed", "cut off", "garbled"):
            pieces = pieces[: len(pieces) * 2 // 3]
        await asked.start()
        for piece in pieces:
            await asked.events(delta(piece), done=False)
            await asyncio.sleep(random.Random(number).choice([0, 0.002]))
        if fate == "killed":
            asked.writer.transport.abort()
        elif fate == "garbled":
            await asked.events('{"choices": [{', done=False)
        elif fate != "cut off":
            await asked.events(finish())

    async def run(url: str) -> list[tuple[str, str]]:
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0, timeout=60) as client:
            leaves = [len(text) // 3 for text in texts]
            asking = (ask(client, *one) for one in zip(range(count), fates, leaves, strict=True))
            return await asyncio.wait_for(asyncio.gather(*asking), 120)

    with FakeUpstream().running() as upstream:
        upstream.act = say
        with guarding(upstream.url, direction="answers") as url:
            found = asyncio.run(run(url))
            end = time.monotonic() + 20
            while upstream.open:  # also those whose client has left
                assert time.monotonic() < end
                time.sleep(0.05)
    for text, fate, (seen, ended) in zip(texts, fates, found, strict=True):
        expected = redacted(text)
        assert expected.startswith(seen), (fate, seen, expected)
        assert ended == ENDS.get(fate, ended), (fate, ended)
        assert seen == expected or ended != "end", (fate, seen, expected)
    assert {ended for _, ended in found} >= {"end", "left", "upstream_broken", "unchecked_answer"}
