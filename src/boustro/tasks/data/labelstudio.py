"""Label Studio's JSON: annotated tasks are read, tasks with predictions (pre-annotations) are written.

    {"data": {"text": "Ada left."}, "annotations": [{"result": [{"from_name": "label", "to_name": "text",
     "type": "labels", "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}}]}]}

Regions of `Labels`, `HyperTextLabels` and the like are entities, `Choices` labels of the text. A region of a page is
read where its text stands at its offsets, as it does if the page is plain text. Offsets count code points, in older
versions UTF-16 units. Skipped annotations are not read; of several, one that is marked as ground truth comes first.
Source: labelstud.io/guide/task_format, label-studio's web/libs/editor/src/utils/selection-tools.js.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from boustro.errors import shorten
from boustro.store import fingerprint
from boustro.tasks.data.annotations import Exported, Unread, text_of
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Span, fitting
from boustro.text.tables import free_names
from boustro.types import Entity, short_score
from boustro.version import __version__

ANNOTATIONS = ("annotations", "completions")
"""The second is the name before version 1."""
CONTROLS = {"labels": "label", "choices": "choice"}
"""Types of results, and the names of the controls that suggestions are for."""
RESULT_KINDS = ("labels", "choices", "taxonomy")
"""What the types of results that may say something of a text end in: `hypertextlabels`, …"""
OF_TEXT = ("text", "startOffset", "globalOffsets")
"""What the regions of a text have, and those of pictures, sound and series have not."""
MARKUP = re.compile("[<&]")
UNLABELLED = "regions without a label, left out"
OF_REGION = "choices about a region and not about the text, left out"


def holds(record: Any) -> bool:
    """Return whether this is a task of Label Studio."""
    return isinstance(record, Mapping) and isinstance(record.get("data"), Mapping) and _key(record) is not None


def read(record: Mapping[str, Any], where: str, key: str | None, notes: list[Note]) -> Exported:
    """Read a task; `ValueError`, with the place, where it is damaged."""
    if not holds(record):
        raise ValueError(f"{where}: expected a task with data and annotations, got {shorten(record)}")
    text, given = text_of(record["data"], key, where), record[_key(record) or ""] or []
    if not all(isinstance(a, Mapping) and isinstance(a.get("result", []), list) for a in given):
        raise ValueError(f"{where}: an annotation is an object with a result, got {shorten(given)}")
    kept = [a for a in given if not a.get("was_cancelled") and not a.get("skipped")]
    kept.sort(key=lambda a: not a.get("ground_truth"))
    names = dict.fromkeys(part["from_name"] for a in kept for part in _results(a, where))
    answers: dict[str, list[Any]] = {name: [] for name in names}
    for annotation in kept:
        for name, values in answers.items():
            results = _results(annotation, where)
            labelled = [part.get("id") for part in results if part["type"].endswith("labels")]
            parts = [part for part in results if part["from_name"] == name]
            answer = [one for part in parts for one in _read_result(part, text, where, notes, labelled)]
            values.append(answer[0] if len(answer) == 1 and isinstance(answer[0], str) else answer)
    read_parts = [part for a in kept for part in _results(a, where)]
    rest = (part for a in kept for part in a.get("result", []) if part not in read_parts)
    left = dict.fromkeys(str(part.get("from_name", part.get("type"))) for part in rest)
    return Exported(text, answers, bool(kept), tuple(left))


def suggest(
    text: str,
    *,
    entities: Sequence[Entity] | None = None,
    labels: Mapping[str, float] | None = None,
    several: bool = False,
) -> dict[str, Any]:
    """Return a task with a prediction: for the control `label` of type Labels, or for `choice` of type Choices.

    Its score is that of the least certain entity or label. `several`, whether a text may have several labels, changes
    nothing here.
    """
    results = [
        _suggestion("labels", e.score, start=e.start, end=e.end, text=text[e.start : e.end], labels=[e.label])
        for e in entities or ()
    ]
    if labels is not None:
        results = [_suggestion("choices", min(labels.values()), choices=list(labels))] if labels else []
    prediction: dict[str, Any] = {"model_version": f"boustro {__version__}", "result": results}
    if scores := [result["score"] for result in results if "score" in result]:
        prediction["score"] = min(scores)
    return {"data": {"text": text}, "predictions": [prediction]}


def carry(task: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task with the other fields of its text in its data."""
    data = task["data"]
    others = {name: value for name, value in fields.items() if name not in data or data[name] != value}
    names = free_names(others, data, before="row_")
    return {**task, "data": {names[name]: value for name, value in others.items()} | data}


def _suggestion(kind: str, score: float | None, **value: Any) -> dict[str, Any]:
    result = {"from_name": CONTROLS[kind], "to_name": "text", "type": kind, "value": value}
    return {"id": fingerprint(result)[:10], **result, **({} if score is None else {"score": short_score(score)})}


def _key(record: Mapping[str, Any]) -> str | None:
    return next((key for key in ANNOTATIONS if isinstance(record.get(key), list)), None)


def _results(annotation: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    """Return the choices of an annotation and its labelled regions of a text; the others are answers to other tasks."""
    results = []
    for part in annotation.get("result", []):
        if not isinstance(part, Mapping):
            raise ValueError(f"{where}: a result is an object, got {shorten(part)}")
        kind, value = part.get("type"), part.get("value")
        if not isinstance(kind, str) or not kind.endswith(RESULT_KINDS):
            continue
        if not isinstance(part.get("from_name"), str) or not isinstance(value, Mapping):
            raise ValueError(f"{where}: a result has a from_name and a value, got {shorten(part)}")
        if kind in CONTROLS or any(key in value for key in OF_TEXT):
            results.append(part)
    return results


def _read_result(part: Mapping[str, Any], text: str, where: str, notes: list[Note], labelled: list[Any]) -> list[Any]:
    """Return the labels of a choice, or an entity for every label of a region that is not one of `labelled` already."""
    value, kind = part["value"], part["type"]
    names = value.get(kind) or []
    if kind == "taxonomy" and isinstance(names, list):  # paths: ["Place", "Port"]
        names = ["/".join(map(str, name)) if isinstance(name, list) else name for name in names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{where}: the {kind} are {shorten(names)}; expected a list of names")
    if kind == "choices" and "start" not in value:
        return names
    if kind == "choices" or (kind == "taxonomy" and part.get("id") in labelled):
        notes.append(Note(OF_REGION, where, f"the {kind} {', '.join(names)} is about a region; left out"))
        return []
    if not names:
        notes.append(Note(UNLABELLED, where, f"a region without a label, left out: {shorten(dict(value))}"))
        return []
    offsets, quoted = _offsets(value, kind, text, where), value.get("text") or None
    if offsets is None:
        return [Unread(f"a region of {kind}, {', '.join(names)}, has no offsets in the text: {shorten(dict(value))}")]
    place = {"start": offsets[0], "end": offsets[1]} | ({"text": quoted} if isinstance(quoted, str) else {})
    return [{**place, "label": name} for name in names]


def _offsets(value: Mapping[str, Any], kind: str, text: str, where: str) -> tuple[int, int] | None:
    """Return the start and the end of a region in the text, in any unit; `None` where they are of another one, such as
    HTML.

    Raises `ValueError` where there are none.
    """
    whole, inner = _pair(value, "start", "end"), _pair(value, "startOffset", "endOffset")
    if kind == "labels" and inner is None and "globalOffsets" not in value:
        if whole is None:
            raise ValueError(f"{where}: a region has a start and an end in characters, got {shorten(dict(value))}")
        return whole
    shown, quoted = value.get("globalOffsets"), value.get("text") or None  # in what the page shows
    given = [_pair(shown, "start", "end") if isinstance(shown, Mapping) else None]
    given += [inner] if value.get("start") == value.get("end") else []  # in one node of the page
    for pair in filter(None, given):
        if fitting(Span("", *pair, quoted), text) if isinstance(quoted, str) else not MARKUP.search(text):
            return pair
    return None


def _pair(value: Mapping[str, Any], first: str, last: str) -> tuple[int, int] | None:
    start, end = value.get(first), value.get(last)
    return (start, end) if type(start) is int and type(end) is int else None
