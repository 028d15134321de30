"""A labelling session without an encoder: the vector of a word is drawn from its letters, so equal words are alike."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from boustro.apps.label.answers import AnswerFile
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import TextToLabel
from boustro.apps.label.vectors import WordVectors
from boustro.types import Entity, Sentence

WIDTH = 24
NAMES, PLACES = ("Ada", "Okonkwo", "Brandt", "Ines"), ("Vellmar", "Lisse", "Zürich", "Torvik")


def texts(number: int = 12, together: int = 1) -> list[TextToLabel]:
    """`Ada left Vellmar .`, and so on; sentence n has the source t:n, and so many `together` are a document."""
    words = [f"{NAMES[n % 4]} {('left', 'saw', 'sold')[n % 3]} {PLACES[n // 4 % 4]} ." for n in range(number)]
    return [text(own, n, f"d:{n // together}" if together > 1 else "") for n, own in enumerate(words)]


def text(words: str, number: int = 0, document: str = "") -> TextToLabel:
    return TextToLabel(Sentence(tuple(words.split(" ")), document=document, where=f"t:{number}"))


def right(session: LabellingSession, number: int) -> list[Entity]:
    """What a person would answer."""
    words = session.texts[number].sentence.words
    kinds = dict.fromkeys(NAMES, "PER") | dict.fromkeys(PLACES, "LOC")
    return [Entity(kinds[word], i, i + 1) for i, word in enumerate(words) if word in kinds]


def vectors(sentences: Sequence[Sentence]) -> WordVectors:
    """(words, WIDTH) of all sentences, end to end."""
    rows = [vector(word) for sentence in sentences for word in sentence.words]
    starts = np.cumsum([0, *map(len, sentences)])
    return WordVectors(np.array(rows, np.float16).reshape(-1, WIDTH), starts)


def vector(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=WIDTH)


def attach(session: LabellingSession, numbers: Sequence[int] | None = None) -> LabellingSession:
    """All sentences, or some, are encoded."""
    numbers = list(range(len(session.texts))) if numbers is None else list(numbers)
    session.attach(numbers, vectors([session.texts[n].sentence for n in numbers]))
    return session


def on_disk(path: Path) -> list[dict]:
    """The answers in a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@contextlib.contextmanager
def session_at(path: Path, number: int = 12, **options) -> Iterator[LabellingSession]:
    """A session with its file open and all sentences ready."""
    given = {"labels": ("PER", "LOC"), **options}
    with AnswerFile(path).open() as file:
        yield attach(LabellingSession(texts(number), file, **given))


def answer(session: LabellingSession, note: str = "") -> int:
    """The right answer for the sentence on the screen, whose number is returned."""
    number = session.current
    assert number is not None
    session.answer(number, right(session, number), note)
    return number
