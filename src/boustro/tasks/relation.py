"""RelationClassifier: the relation between two marked places of a text, such as two entities.

    classifier = RelationClassifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict({"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21]})
    # Label("Cause-Effect(e1,e2)", 0.93, {…})

The text is encoded once, without its marks, however many pairs of places are asked about; the head reads the places.
"""

from typing import Any

from boustro.tasks import RELATION_KEYS
from boustro.tasks.answers import InputAnswer, Label
from boustro.tasks.base import Task
from boustro.tasks.data.relations import OFFSETS, PLACES, RELATIONS, mark_text
from boustro.tasks.inputs import RecordInputs
from boustro.tasks.render import Shown, as_mark
from boustro.types import Entity


class RelationClassifier(Task[Any, Label]):
    """A frozen encoder and a trained head that names the relation between two marked places of a text.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: relation.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.RelationConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> rain = {"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21]}
        >>> other = {"text": "The flood followed rain.", "head": [4, 9], "tail": [19, 23]}
        >>> train = [rain | {"label": "Cause-Effect(e1,e2)"}, other | {"label": "Cause-Effect(e2,e1)"}]
        >>> boustro.RelationClassifier().fit(train).predict(rain).label
    """

    name = "relation"
    collect = staticmethod(RELATIONS.read)
    leaves_words_out = True
    inputs = RecordInputs(
        make=mark_text,
        given="a text with head and tail",
        example={"text": "Ada Brandt flew to Port Lisse.", "head": [0, 10], "tail": [19, 29]},
        offsets=OFFSETS,
        keys=RELATION_KEYS,
    )

    def shown(self, answer: InputAnswer[Any]) -> Shown:
        relation, (record, example) = self.result(answer), answer.input
        ends = [(example.places[start][0], example.places[end - 1][1]) for start, end in example.marks]
        marks = [Entity(name, start, end) for name, (start, end) in zip(PLACES, ends, strict=True)]
        label, cells = as_mark(relation.label, relation.score), (relation.label, f"{relation.score:.2f}")
        return Shown(record, example.text, marks, label, cells=cells)
