"""A tagger that knows its names by heart: the contract of a trained model, without an encoder, a head or torch."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from boustro.store import write_manifest
from boustro.tasks.answers import Answer
from boustro.tasks.tagger import Tagger
from boustro.tasks.tagger.entities import EntityUnits
from boustro.types import Entity

NAMES = {"Ada": "PER", "Okonkwo": "PER", "Lisse": "LOC", "Vellmar": "LOC", "Zürich": "LOC"}


class NamesByHeart(Tagger):
    """Each word of `NAMES` is an entity; all else is the code of every tagger."""

    types, record, is_trained, _foreign = ["LOC", "PER"], {}, True, None
    fitted = SimpleNamespace(labelling=SimpleNamespace(units=EntityUnits()), head=SimpleNamespace(is_exported=False))

    def __init__(self) -> None:
        pass

    def encoder(self, cached: bool = False) -> Any:
        return SimpleNamespace(bytes_per_word=1, counts=Counter())

    def _answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        found = ([NAMES.get(word, "") for word in example.words] for example in examples)
        return [_answer(labels) for labels in found]


def _answer(labels: Sequence[str]) -> Answer:
    entities = (Entity(label, n, n + 1, score=0.9) for n, label in enumerate(labels) if label)
    return Answer(tuple(f"B-{label}" if label else "O" for label in labels), (0.9,) * len(labels), tuple(entities))


def stand_in(path: Path, patch: pytest.MonkeyPatch) -> NamesByHeart:
    """The tagger, which commands open in a folder that is known as a tagger's by its manifest."""
    path.mkdir()
    (path / "config.json").write_text('{"task": "tag"}')
    write_manifest(path, "tagger")
    made = NamesByHeart()
    for opens in ("apps.batch.models.load", "apps.runtime.load"):
        patch.setattr(f"boustro.{opens}", lambda *_, **__: made)
    return made
