"""Records as Label Studio and Argilla export them, and what is read of them."""

from boustro.tasks.data import load_data
from boustro.tasks.data.reading import DataOptions
from labelled import spans

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
