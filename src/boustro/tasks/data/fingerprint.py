"""One fingerprint of a data set's content, wherever it is stored."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from boustro.store import fingerprint
from boustro.types import Sentence


def data_fingerprint(examples: Sequence[Any]) -> str:
    """Of sentences: words, tags, documents and, where they are known, overlapping entities, the spaces between words
    and the labels or the score of a text. Of other examples: all their fields except `where`."""
    return fingerprint([_facts(example) for example in examples])


def _facts(value: Any) -> Any:
    if isinstance(value, Sentence):
        return _sentence_facts(value)
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _facts(getattr(value, f.name)) for f in fields(value) if f.name != "where"}
    return [_facts(item) for item in value] if isinstance(value, (tuple, list)) else value


def _sentence_facts(s: Sentence) -> list[Any]:
    facts: list[Any] = [s.words, s.tags, s.document]
    if s.entities is not None:
        facts.append([(e.label, e.start, e.end) for e in s.entities])
    if s.spaces is not None:
        facts.append("".join(" " if space else "_" for space in s.spaces))
    if s.label is not None:
        facts.append({"label": s.label})
    if s.labels is not None:
        facts.append({"labels": sorted(s.labels)})
    if s.score is not None:
        facts.append({"score": s.score})
    return facts
