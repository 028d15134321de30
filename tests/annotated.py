"""Records as Label Studio and Argilla export them, and what is read of them."""

import re

from boustro.tasks.data import load_data
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.units import CODECS
from labelled import spans

NAMES = [("Ada Brandt", "PER"), ("Port Lisse", "LOC")]
TEXT = "The 🚀 of Ada Brandt left Port Lisse.\nIt rained."


def region(start, end, label, text=TEXT, name="ner", own=None):
    value = {"start": start, "end": end, "labels": [label]} | ({} if text is None else {"text": own or text[start:end]})
    return {"id": "x", "from_name": name, "to_name": "text", "type": "labels", "value": value, "origin": "manual"}


def choice(*names, name="topic"):
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(names)}}


def task(*results, text=TEXT, **more):
    return {
        "id": 1,
        "data": {"text": text},
        "annotations": [{"id": 7, "result": list(results), "was_cancelled": False}],
        "predictions": [],
    } | more


def record(text=TEXT, **responses):
    answered = {name: [{"value": value, "user_id": "1"}] for name, value in responses.items()}
    empty = {name: {} for name in ("metadata", "suggestions", "vectors")}
    return {"id": "1", "fields": {"text": text}, "responses": answered, **empty}


def span(start, end, label):
    return {"start": start, "end": end, "label": label}


def found(data, **options):
    labelled = load_data(data, DataOptions(**options))
    return [pair for s in labelled.sentences for pair in spans(s)], dict(labelled.counts())


def marked(text, unit, names=NAMES):
    """(start, end, label, its text) of names in a text, in a unit."""
    codec, width = CODECS[unit]

    def offset(place):
        return len(text[:place].encode(codec)) // width

    places = [(text.find(name), len(name), label) for name, label in names if name in text]
    return [(offset(at), offset(at + size), label, text[at : at + size]) for at, size, label in places]


def of_label_studio(text, all_):
    regions = [region(*one[:3], text=None) for one in all_]
    for one, (*_, own) in zip(regions, all_, strict=True):
        one["value"] |= {"text": own} if own else {}
    return task(*regions, text=text)


def dicts(all_, start="start", end="end"):
    return [{start: a, end: b, "label": x} | ({"text": own} if own else {}) for a, b, x, own in all_]


FORMS = {
    "ours": lambda text, all_: {"text": text, "entities": dicts(all_)},
    "doccano": lambda text, all_: {"text": text, "label": [list(one[:3]) for one in all_]},
    "doccano with relations": lambda text, all_: {"text": text, "entities": dicts(all_, "start_offset", "end_offset")},
    "spaCy": lambda text, all_: [text, {"entities": [list(one[:3]) for one in all_]}],
    "Prodigy": lambda text, all_: {"text": text, "spans": dicts(all_), "answer": "accept"},
    "words": lambda text, all_: {"text": text, "tokens": re.findall(r"\w+|[^\w\s]", text), "spans": dicts(all_)},
    "Label Studio": of_label_studio,
    "Argilla": lambda text, all_: {"fields": {"text": text}, "responses": {"ner": [{"value": dicts(all_)}]}},
}
"""Records of a text and what `marked` says of it, in each notation of entities over characters."""
