"""Argilla's JSON: annotated records are read, records with suggestions are written.

    {"id": "7", "fields": {"text": "Ada left."}, "suggestions": {…},
     "responses": {"entities": [{"value": [{"start": 0, "end": 3, "label": "PER"}], "user_id": "…"}]}}

This is what `dataset.records.to_json` writes and `from_json` reads (version 2). A response to a SpanQuestion is a list
of entities, to a LabelQuestion a label, to a MultiLabelQuestion a list of labels. A page answers a SpanQuestion also
with nothing, so a record without an answer to it is not annotated. Offsets count code points for Argilla's server, but
its page counts UTF-16 units, so a file may have both: an entity that fits words in one of them only is read in that
one. Source: argilla/records/_io/_json.py and _resource.py, v1/infrastructure/repositories/RecordRepository.ts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from boustro.errors import shorten
from boustro.tasks.data.annotations import Exported, text_of
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import CODE_POINTS, UTF_16, Span, fitting
from boustro.types import Entity, short_score
from boustro.version import __version__

NOT_GIVEN = ("draft", "discarded")
"""What a response may be that counts for nothing."""


def holds(record: Any) -> bool:
    """Return whether this is a record of Argilla."""
    return isinstance(record, Mapping) and all(isinstance(record.get(key), Mapping) for key in ("fields", "responses"))


def read(record: Mapping[str, Any], where: str, key: str | None, notes: list[Note]) -> Exported:
    """Read a record; `ValueError`, with the place, where it is damaged."""
    if not holds(record):
        raise ValueError(f"{where}: expected a record with fields and responses, got {shorten(record)}")
    text = text_of(record["fields"], key, where)
    answers: dict[str, list[Any]] = {}
    for question, responses in record["responses"].items():
        if not isinstance(responses, list) or not all(isinstance(answer, Mapping) for answer in responses):
            raise ValueError(f"{where}: responses are a list of objects, got {shorten(responses)}")
        given = [answer["value"] for answer in responses if "value" in answer and answer.get("status") not in NOT_GIVEN]
        if given:
            answers[question] = [_with_text(value, text) for value in given]
    return Exported(text, answers)


def suggest(
    text: str,
    *,
    entities: Sequence[Entity] | None = None,
    labels: Mapping[str, float] | None = None,
    several: bool = False,
) -> dict[str, Any]:
    """Return a record with a suggestion for the question `entities`, `label` or, with `several`, `labels`.

    There is none where nothing was found, because Argilla takes no empty one.
    """
    made: dict[str, Any] = {}
    if entities:
        spans = [{"start": e.start, "end": e.end, "label": e.label} for e in entities]
        made["entities"] = {"value": spans, "score": [short_score(e.score) for e in entities]}
    if labels:
        names, scores = list(labels), [short_score(score) for score in labels.values()]
        made["labels" if several else "label"] = (
            {"value": names, "score": scores} if several else {"value": names[0], "score": scores[0]}
        )
    agent = {"agent": f"boustro {__version__}"}
    return {
        "id": None,
        "fields": {"text": text},
        "metadata": {},
        "suggestions": {question: suggestion | agent for question, suggestion in made.items()},
        "responses": {},
        "vectors": {},
    }


def carry(record: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with the `id` that came with the text; Argilla takes no fields that it does not know."""
    return record if fields.get("id") is None else {**record, "id": str(fields["id"])}


def _with_text(value: Any, text: str) -> Any:
    """Return a response; entities that fit words in code points or in UTF-16 units, but not in both, with their own
    text."""
    spans = value if isinstance(value, list) and all(isinstance(item, Mapping) for item in value) else []
    filled = []
    for span in spans:
        start, end = span.get("start"), span.get("end")
        if type(start) is int and type(end) is int:
            places = fitting(Span("", start, end), text)
            covered = {text[slice(*places[unit])] for unit in (CODE_POINTS, UTF_16) if unit in places}
            span = {**span, "text": covered.pop()} if len(covered) == 1 else span
        filled.append(span)
    return filled or value
