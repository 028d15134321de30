"""Tasks by name: what an encoder and a head are trained for.

tag        entities, or a label for every word      tasks.tagger.Tagger
classify   one label for a text                     tasks.classifier.Classifier
qa         the words that answer a question         tasks.questions.QuestionAnswerer
pair       one label for two texts                  tasks.pairs.PairClassifier
similarity a score for two texts                    tasks.pairs.PairRegressor
regress    a score for one text                     tasks.classifier.TextRegressor
relation   the relation between two places          tasks.relation.RelationClassifier
embed      a vector of a text                       tasks.embed.task.SentenceEncoder
sense      the sense of a word in its sentence      tasks.sense.task.SenseTagger

A task is one file and one entry here, from which commands, help, pages and cards take what they say of it. What is
common to all tasks is written once, in `tasks.base`. Nothing here imports torch.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from boustro.choose import choose, lazy
from boustro.output import print_notices
from boustro.store import Artefact, ModelPlace
from boustro.tasks.config import (
    ClassifierConfig,
    EmbedConfig,
    PairConfig,
    QuestionConfig,
    RegressionConfig,
    RelationConfig,
    SenseConfig,
    SimilarityConfig,
    TaggerConfig,
    TaskConfig,
)
from boustro.text.places import packaged_tagger
from boustro.types import Sentence

if TYPE_CHECKING:
    from boustro.tasks.base import Task
    from boustro.tasks.data.reading import DataOptions, Loaded, Note


TEXT_KEYS = ("text", "sentence")
"""Of a whole text, in a record or a row."""
WORD_KEYS = ("words", "tokens")
"""Of a text that is split into words."""
PAIR_KEYS = (("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"), ("question1", "question2"))
"""Of two texts."""
MARK_KEYS = ("start1", "end1", "start2", "end2")
"""Of a marked word in each of two texts: where it begins and ends."""
DOCUMENT_KEYS = ("document", "file")
LABEL_KEY, LABELS_KEY, SCORE_KEY = "label", "labels", "score"
QUESTION_KEYS = ("context", "question")
RELATION_KEYS = ("text", "head", "tail")
TOOL_FORMATS = ("labelstudio", "argilla")
"""Labelling tools whose exports are read, and for which suggestions are written (`data.annotations`)."""


def _any(value: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of the labelled records of a task, by which they are known to be for it and by which they are read."""

    has: tuple[str, ...] = ()
    """Keys that a record has, all of them."""
    texts: tuple[tuple[str, ...], ...] = ()
    """Keys of its texts, each time together."""
    gold: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    """Keys of its gold value, one of which it has, and what that must be."""
    lacks: tuple[str, ...] = ()
    """Keys that it has not."""
    also: tuple[str, ...] = ()
    """Keys that it may have besides, and that are read; without `gold`, the first is that of the gold value."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys of which a tuple from Python has the values; the last one is that of the gold value."""
        return (*(self.texts[0] if self.texts else self.has), next(iter((*self.gold, *self.also)), ""))

    @property
    def keys(self) -> set[str]:
        """All keys that are read."""
        return {*self.has, *self.gold, *self.also, *(key for keys in self.texts for key in keys)}

    def __call__(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has them; no record has those that are not named."""
        texts = not self.texts or any(all(isinstance(record.get(key), str) for key in keys) for keys in self.texts)
        known = texts and all(key in record for key in self.has) and not any(key in record for key in self.lacks)
        gold = not self.gold or any(key in record and fits(record[key]) for key, fits in self.gold.items())
        return bool(self.keys) and known and gold


@dataclass(frozen=True, slots=True)
class Entry:
    """Facts of a task without a model: its class, by module and name so that nothing is imported before it is used, its
    options, its data, and what help, pages and cards say of it."""

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
    """What an answer has, for the model card and the service."""
    example: str = '"Ada Brandt flew to Port Lisse."'
    """What `predict` is given, for the model card."""
    metrics: Mapping[str, str] = field(default_factory=lambda: {"accuracy": "accuracy"})
    """Names of the scores that the model card gives to the Hub."""
    help: str = "a label per text"
    """What it gives, for the help of --task."""
    reads: str = "JSON lines, CSV or TSV with a text and its label"
    """The forms of its labelled data, for the help of --train."""
    takes: str = "a text"
    """What an input is, for the documentation of the service."""
    suits: Fields = Fields()
    """The fields of a record of labelled data that is for this task, and for none before it."""
    is_known_first: bool = False
    """Whether the first record of a file of JSON says so, before other tasks are asked."""
    annotated: Literal["entities", "label"] | None = None
    """What annotation tools call its answers, see `data.annotations.Wanted`."""
    num_texts: int | None = None
    """How many columns of texts a table for it has, where their names are given and nothing else says the task."""
    load: "Callable[[Any, DataOptions], Loaded] | None" = None
    """Labelled data with all that was noted, read without a model; by default what the class reads and counts."""

    def task(self) -> "type[Task[Any, Any]]":
        """Return the task's class."""
        return getattr(import_module(self.module), self.name)

    def read(self, data: Any, options: "DataOptions") -> "Loaded":
        """Labelled data, and what was changed or left out; raises as `Task.read`."""
        from boustro.tasks.data.reading import Loaded

        if self.load:
            return self.load(data, options)
        notes: list[Note] = []
        return Loaded(self.task().collect(data, options, notes), notes)


DATA = "boustro.tasks.data"
_TEXT = {"texts": tuple((key,) for key in TEXT_KEYS), "lacks": WORD_KEYS}
_LABELS = {
    name: lazy(f"{DATA}.texts:{fits}") for name, fits in ((LABEL_KEY, "names_labels"), (LABELS_KEY, "lists_labels"))
}
_NUMBER = {"spearman": "Spearman's correlation", "pearson": "Pearson's correlation"}
_PAIR = '("Ada Brandt flew.", "She took a plane.")'
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
        help="entities, or a label per word",
        reads="CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the Hugging Face Hub",
        takes="a text, or a list of words",
        annotated="entities",
        load=lazy(f"{DATA}:load_data"),
    ),
    "relation": Entry(
        "boustro.tasks.relation",
        "RelationClassifier",
        RelationConfig,
        "relation_classifier",
        examples="pairs of places",
        does="Names the relation between two places of a text:",
        example='{"text": "Ada Brandt flew to Port Lisse.", "head": [0, 10], "tail": [19, 29]}',
        metrics={"f1": "macro F1", "precision": "macro precision", "recall": "macro recall"},
        help="the relation between two places of a text",
        reads="JSON lines with a text, its head, its tail and a label",
        takes="an object with text, head and tail",
        suits=Fields(has=RELATION_KEYS, also=(LABEL_KEY,)),
    ),
    "classify": Entry(
        "boustro.tasks.classifier",
        "Classifier",
        ClassifierConfig,
        "classifier",
        reads="JSON lines, CSV or TSV with a text and its label or labels",
        suits=Fields(**_TEXT, gold=_LABELS),
        annotated="label",
        num_texts=1,
    ),
    "pair": Entry(
        "boustro.tasks.pairs",
        "PairClassifier",
        PairConfig,
        "pair_classifier",
        examples="pairs",
        does="Labels pairs of texts as one of",
        example=_PAIR,
        help="a label per pair of texts",
        reads="JSON lines, CSV or TSV with two texts and a label",
        takes="two texts, or an object with sentence1 and sentence2",
        suits=Fields(texts=PAIR_KEYS, gold=dict.fromkeys((LABEL_KEY, "same"), _any), also=MARK_KEYS),
        num_texts=2,
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
        example=_PAIR,
        metrics=_NUMBER,
        help="a score per pair",
        reads="JSON lines, CSV or TSV with two texts and a score",
        takes="two texts, or an object with sentence1 and sentence2",
        suits=Fields(texts=PAIR_KEYS, gold={SCORE_KEY: _any}, also=MARK_KEYS),
    ),
    "regress": Entry(
        "boustro.tasks.classifier",
        "TextRegressor",
        RegressionConfig,
        "regressor",
        does="Scores texts",
        answer="a number",
        metrics=_NUMBER,
        help="a score per text",
        reads="JSON lines, CSV or TSV with a text and its score",
        suits=Fields(**_TEXT, gold={SCORE_KEY: _any}),
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
        help="answers to questions about a context",
        reads="JSON lines with context, question and answers, or SQuAD's JSON",
        takes="an object with question and context",
        suits=Fields(has=QUESTION_KEYS, also=("answers", "is_impossible")),
        is_known_first=True,
    ),
    "sense": Entry(
        "boustro.tasks.sense.task",
        "SenseTagger",
        SenseConfig,
        "sense-tagger",
        examples="words with a sense",
        pipeline="token-classification",
        does="Says which sense of an inventory a word has in its sentence",
        answer="key, how, ranked, for each word",
        example='{"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"]]}',
        metrics={"f1": "F1", "precision": "precision", "recall": "recall"},
        help="the sense of a word in its sentence",
        reads="JSON lines with words and senses, or the XML of Raganato et al. 2017 with its keys beside it",
        takes="an object with words and senses",
        suits=Fields(has=("senses",), gold=dict.fromkeys(WORD_KEYS, _any), also=DOCUMENT_KEYS),
    ),
    "embed": Entry(
        "boustro.tasks.embed.task",
        "SentenceEncoder",
        EmbedConfig,
        "sentence_encoder",
        examples="texts or pairs",
        pipeline="sentence-similarity",
        does="Makes a vector of a text, for comparison by the cosine",
        answer="a vector",
        metrics=_NUMBER,
        help="a vector of a text",
        reads="pairs of texts with a score or without one, neighbours:FILE for the sentences of texts, or texts, one a "
        "line (--head statistics)",
        suits=Fields(texts=PAIR_KEYS, also=(SCORE_KEY, *TEXT_KEYS)),
    ),
}
DEFAULT_TASK = next(iter(TASKS))
EXPORT = "export"
"""The kind of folder that `boustro export` writes, whatever the task."""


def task_class(name: str) -> "type[Task[Any, Any]]":
    """Return the class of a task; `ValueError` for an unknown name."""
    return choose(name, TASKS, "task").task()


def trained_folder(given: ModelPlace) -> Artefact:
    """Return the folder of a trained model: that of the package which a name means, else the one at this path."""
    return given if isinstance(given, Artefact) else packaged_tagger(str(given)) or Artefact(Path(given))


def task_of(given: ModelPlace) -> str:
    """Return the name of the task that wrote a folder; the default where that cannot be read, so that opening it says
    why."""
    folder = trained_folder(given)
    if folder.kind == EXPORT:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(folder.config()["task"])
    return next((name for name, entry in TASKS.items() if entry.folder == folder.kind), DEFAULT_TASK)


def kept_columns(folder: ModelPlace) -> dict[str, Any]:
    """Return the column names of the data that a folder was trained on (`reading.named_of`); none where it names none,
    or cannot be read, so that opening it says why."""
    from boustro.tasks.data.reading import KEPT

    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = dict(Artefact.of(folder).config()["record"].get(KEPT, {}))
        if (columns := kept.get("text_column")) is not None:
            kept["text_column"] = (columns,) if isinstance(columns, str) else tuple(columns)
        return kept
    return {}


def gives_none(folder: ModelPlace) -> bool:
    """Return whether the model of a folder may answer that a text has no label; not where that cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Artefact.of(folder).config()["labelling"].get("least") is not None
    return False


def saved_rule(folder: ModelPlace) -> int:
    """Return the number of the rule of words of a folder; the first one where it names none or cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        return int(Artefact.of(folder).config().get("words", 1))
    return 1


def read_counted(
    task: "type[Task[Any, Any]] | Task[Any, Any]", data: Any, options: "DataOptions"
) -> tuple[list[Any], Mapping[str, int]]:
    """Labelled examples of a task, and what was changed or left out, counted; raises as `Task.collect`."""
    notes: list[Note] = []
    return task.collect(data, options, notes), Counter(note.what for note in notes)


def read_examples(
    task: "type[Task[Any, Any]] | Task[Any, Any]", data: Path, options: "DataOptions", training: bool = False
) -> list[Sentence]:
    """Labelled examples of a task; what was repaired or left out is printed on standard error.

    Raises as `Task.read`; with `training` examples without labels are there too, where the task's training sets may
    have them. Else they are left out, or refused where they would be context.
    """
    from boustro.tasks.data import refuse_unlabelled

    lenient = task.lenient and not options.unlabelled and (training or not task.in_documents)
    examples, notices = read_counted(task, data, replace(options, unlabelled=True) if lenient else options)
    if not training:
        examples = [example for example in examples if example.is_labelled] if lenient else examples
        refuse_unlabelled(examples)
    print_notices({f"{what} ({data}; boustro check lists them)": n for what, n in notices.items()})
    return examples
