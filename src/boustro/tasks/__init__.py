"""Tasks by name: what an encoder and a head are trained for.

tag        entities, or a label for every word      tasks.tagger.Tagger
classify   one label for a text                     tasks.classifier.Classifier
qa         the words that answer a question         tasks.questions.QuestionAnswerer
pair       one label for two texts                  tasks.pairs.PairClassifier
similarity a score for two texts                    tasks.pairs.PairRegressor
regress    a score for one text                     tasks.regressor.TextRegressor
relation   the relation between two places          tasks.relation.task.RelationClassifier

A task is one file and one line here. What is common to all tasks is written once, in `tasks.base`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.choose import choose
from boustro.output import print_notices
from boustro.store import kind_of
from boustro.tasks.config import (
    ClassifierConfig,
    PairConfig,
    QuestionConfig,
    RegressionConfig,
    SimilarityConfig,
    TaggerConfig,
    TaskConfig,
)
from boustro.tasks.data import refuse_unlabelled
from boustro.tasks.relation.options import RelationConfig
from boustro.types import Sentence

if TYPE_CHECKING:
    from boustro.tasks.base import Task
    from boustro.tasks.data.reading import DataOptions


@dataclass(frozen=True, slots=True)
class Entry:
    """A task's class, by module and name so that nothing is imported before it is used, and its options."""

    module: str
    name: str
    config: type[TaskConfig]
    folder: str
    """The kind of folder that the task writes."""
    examples: str = "texts"
    """What labelled data have one of in each record, in the plural."""
    pipeline: str = "text-classification"
    """The task's name on the Hugging Face Hub."""
    does: str = "Labels texts as one of"
    """What a trained folder does with its labels, for the model card."""
    answer: str = "label, score, probabilities"
    """What an answer has, for the model card."""
    example: str = '"Ada Brandt flew to Port Lisse."'
    """What `predict` is given, for the model card."""
    metrics: Mapping[str, str] = field(default_factory=lambda: {"accuracy": "accuracy"})
    """Names of the scores that the model card gives to the Hub."""


TASKS = {
    "tag": Entry(
        "boustro.tasks.tagger",
        "Tagger",
        TaggerConfig,
        "tagger",
        examples="sentences",
        pipeline="token-classification",
        does="Finds entities in text:",
        answer="label, start, end, text, score",
        metrics={"f1": "entity F1", "precision": "entity precision", "recall": "entity recall", "accuracy": "accuracy"},
    ),
    "classify": Entry("boustro.tasks.classifier", "Classifier", ClassifierConfig, "classifier"),
    "pair": Entry(
        "boustro.tasks.pairs",
        "PairClassifier",
        PairConfig,
        "pair_classifier",
        examples="pairs",
        does="Labels pairs of texts as one of",
        example='("Ada Brandt flew.", "She took a plane.")',
    ),
    "similarity": Entry(
        "boustro.tasks.pairs",
        "PairRegressor",
        SimilarityConfig,
        "pair_regressor",
        examples="pairs",
        pipeline="sentence-similarity",
        does="Scores pairs of texts",
        answer="a number",
        example='("Ada Brandt flew.", "She took a plane.")',
        metrics={"spearman": "Spearman's correlation", "pearson": "Pearson's correlation"},
    ),
    "regress": Entry(
        "boustro.tasks.regressor",
        "TextRegressor",
        RegressionConfig,
        "regressor",
        does="Scores texts",
        answer="a number",
        metrics={"spearman": "Spearman's correlation", "pearson": "Pearson's correlation"},
    ),
    "qa": Entry(
        "boustro.tasks.questions",
        "QuestionAnswerer",
        QuestionConfig,
        "answerer",
        examples="questions",
        pipeline="question-answering",
        does="Finds in the context of a question the",
        answer="text, start, end, score, best",
        example='"Who flew?", "Ada Brandt flew to Port Lisse."',
        metrics={"exact_match": "exact match", "f1": "F1"},
    ),
    "relation": Entry(
        "boustro.tasks.relation.task",
        "RelationClassifier",
        RelationConfig,
        "relation_classifier",
        examples="pairs of places",
        does="Names the relation between two places of a text:",
        example='{"text": "Ada Brandt flew to Port Lisse.", "head": [0, 10], "tail": [19, 29]}',
        metrics={"f1": "macro F1", "precision": "macro precision", "recall": "macro recall"},
    ),
}


def task_class(name: str) -> "type[Task[Any, Any]]":
    """The class of a task; `ValueError` for an unknown name."""
    entry = choose(name, TASKS, "task")
    return getattr(import_module(entry.module), entry.name)


def task_of(folder: str | Path) -> str:
    """The name of the task that wrote a folder; "tag" where that cannot be read, so that opening it says why."""
    kind = kind_of(folder)
    return next((name for name, entry in TASKS.items() if entry.folder == kind), "tag")


def read_examples(
    task: "type[Task[Any, Any]] | Task[Any, Any]", data: Path, options: "DataOptions", training: bool = False
) -> list[Sentence]:
    """Labelled examples of a task; what was repaired or left out is printed on standard error.

    Raises as `Task.read`; `training` allows sentences without labels among those of a tagger.
    """
    examples, notices = task.read_counted(data, options)
    if not training:
        refuse_unlabelled(examples)
    print_notices({f"{what} ({data}; boustro check lists them)": n for what, n in notices.items()})
    return examples
