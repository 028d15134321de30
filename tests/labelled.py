"""Labelled sentences that several test files share, and two small ways of writing and looking at them."""

import json
from typing import Any

from boustro.heads.registry import HEADS, owners
from boustro.tasks import TASKS
from boustro.tasks.data.schemes import gold_entities
from boustro.text.files import DataFile
from boustro.types import Sentence

NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway"]
DATA = [
    (words.split(), tags.split())
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", "B-PER O O O O O O"),
        (f"In {name} it rained .", "O B-LOC O O O"),
        (f"Professor {name} Calloway sold umbrellas .", "O B-PER I-PER O O O"),
        ("Nobody reads the bulletin .", "O O O O O"),
    )
]

EIGHT = [*NAMES, "Mira", "Tobias"]
TEXTS = [
    (text, label)
    for name in EIGHT
    for text, label in (
        (f"{name} closed the harbour.", "port"),
        (f"{name} sold umbrellas in the rain.", "shop"),
        (f"The tunnel of {name} is dark.", "rail"),
    )
]
"""Texts with their label."""

TAGGED = [
    Sentence(("Vellmar", "won", "."), ("B-ORG", "O", "O"), document="a"),
    Sentence(("Ada", "left", "Vellmar", "."), ("B-PER", "O", "B-ORG", "O"), document="a"),
    Sentence(("It", "rained", "in", "Utopia"), ("O", "O", "O", "B-LOC"), document="b"),
]
"""Sentences of documents; one name stands twice in one of them."""

ONE_GRAPH = {"layers": "last", "pooling": "exit", "standardise": False, "cache": False}
"""How an LM is read whose graph is the same whatever head reads it."""

UD = """\
# newdoc id = letters
# sent_id = 1
# text = We don't know it (yet).
1\tWe\twe\tPRON\tPRP\tCase=Nom|Number=Plur\t4\tnsubj\t_\tNER=O
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tknow\tknow\tVERB\tVB\t_\t0\troot\t_\t_
4.1\tof\tof\tADP\tIN\t_\t_\t_\t0:x\t_
5\tit\tit\tPRON\tPRP\tNumber=Sing\t4\tobj\t_\t_
6\t(\t(\tPUNCT\t-LRB-\t_\t7\tpunct\t_\tSpaceAfter=No
7\tyet\tyet\tADV\tRB\t_\t4\tadvmod\t_\tNER=B-TIME|SpaceAfter=No
8\t)\t)\tPUNCT\t-RRB-\t_\t7\tpunct\t_\tSpaceAfter=No
9\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# sent_id = 2
1\tvai\tir\tVERB\t_\t_\t0\troot\t_\t_
2-3\tdu\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tde\tde\tADP\t_\t_\t4\tcase\t_\t_
3\tle\tle\tDET\t_\t_\t4\tdet\t_\t_
4\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_

# newdoc
1\tEnd\tend\tNOUN\t_\t_\t0\troot\t_\t_
"""
CONTEXT = "Ada Brandt left Vellmar in May."
RECORDS = {
    "tag": [{"words": ["Ada", "left"], "tags": ["B-PER", "O"]}, {"words": ["It", "rained"], "tags": ["O", "O"]}],
    "classify": [{"text": "Ada left.", "label": "news"}, {"text": "It rained.", "label": "weather"}],
    "pair": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "label": 1},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "label": 0},
    ],
    "similarity": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "score": 4.5},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "score": 0.5},
    ],
    "regress": [{"text": "Ada left.", "score": 2}, {"text": "It rained.", "score": 4.5}],
    "qa": [
        {"context": CONTEXT, "question": "Who left?", "answers": [{"text": "Ada Brandt", "start": 0}]},
        {"context": CONTEXT, "question": "When?", "answers": [{"text": "May", "start": 27}]},
    ],
    "relation": [
        {"text": CONTEXT, "head": [0, 10], "tail": [16, 23], "label": "left(e1,e2)"},
        {"text": CONTEXT, "head": [0, 10], "tail": [27, 30], "label": "Other"},
    ],
    "sense": [
        {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NN", [f"bank%{n}"]]], "document": f"d{n}"}
        for n in (1, 2)
    ],
    "embed": [
        {"sentence1": "Ada left.", "sentence2": "Ada went.", "score": 4.5},
        {"sentence1": "Ada left.", "sentence2": "It rained.", "score": 0.5},
    ],
}
"""A training set for each task."""
INPUTS: dict[str, Any] = {
    "tag": "Ada left.",
    "classify": "Ada left.",
    "pair": ("Ada left.", "It rained."),
    "similarity": ("Ada left.", "It rained."),
    "regress": "Ada left.",
    "qa": {"context": CONTEXT, "question": "Who?"},
    "relation": {"text": CONTEXT, "head": [0, 10], "tail": [16, 23]},
    "sense": {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"], [2, "rise", "VERB"]]},
    "embed": "Ada left.",
}


def longer(data):
    """Development sentences: other texts than those of the training data, with the same entities."""
    return [([*words, "too"], [*tags, "O"]) for words, tags in data]


def rows(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def spans(sentence):
    """(label, the words) of its entities."""
    return [(e.label, " ".join(sentence.words[e.start : e.end])) for e in gold_entities(sentence)]


def with_own(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options without those that only other heads than this one have."""
    return {name: value for name, value in options.items() if HEADS[kind].has(name) or not owners(name, [*HEADS])}


def options_of(kind: str, **values: Any) -> Any:
    """Options of a kind of head: those of the values that it has."""
    return HEADS[kind].options(**{name: value for name, value in values.items() if HEADS[kind].has(name)})


def small(name):
    """Options that make a training quick."""
    head = HEADS[TASKS[name].config.default_head]
    return {option: value for option, value in {"epochs": 1, "hidden": 8}.items() if head.has(option)}


def table(path, delimiter=None):
    """(text, label) pairs, the lines that they begin on, and the notes."""
    notes = []
    rows = list(DataFile(path).open(None, delimiter, notes).rows())
    lines = [int(where.rpartition(":")[2]) for where, _ in rows]
    return [(row["text"], row["label"]) for _, row in rows], lines, [(n.what, int(n.where[-1])) for n in notes]
