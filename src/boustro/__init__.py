"""Boustro gives a language model the other half of the sentence.

    tagger = boustro.Tagger().fit(["Ada left Vellmar."], [[("Ada", "PER"), ("Vellmar", "PLACE")]])
    tagger.save("ner")
    boustro.load("ner").predict("Okonkwo left Lisse.")

Names are imported when they are first used, so that `import boustro` is instant.
"""

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from boustro.version import __version__ as __version__

if TYPE_CHECKING:
    from boustro.apps.batch.labeller import Predictor as Predictor
    from boustro.apps.live.states import from_states as from_states
    from boustro.apps.live.stream import Live as Live
    from boustro.apps.live.watch import Watch as Watch
    from boustro.apps.runtime import load as load
    from boustro.encoders.spec import load_encoder as load_encoder
    from boustro.lab.generation.both_ends.infiller import Filled as Filled
    from boustro.lab.generation.both_ends.infiller import Infiller as Infiller
    from boustro.lab.generation.writer import Result as Result
    from boustro.lab.generation.writer import Writer as Writer
    from boustro.metrics.labels import LabelScore as LabelScore
    from boustro.metrics.questions import AnswerScore as AnswerScore
    from boustro.metrics.spans import SpanScore as SpanScore
    from boustro.tasks.answers import Answer as Answer
    from boustro.tasks.answers import Entities as Entities
    from boustro.tasks.answers import Label as Label
    from boustro.tasks.classifier import Classifier as Classifier
    from boustro.tasks.classifier import TextRegressor as TextRegressor
    from boustro.tasks.config import ClassifierConfig as ClassifierConfig
    from boustro.tasks.config import PairConfig as PairConfig
    from boustro.tasks.config import QuestionConfig as QuestionConfig
    from boustro.tasks.config import RegressionConfig as RegressionConfig
    from boustro.tasks.config import RelationConfig as RelationConfig
    from boustro.tasks.config import SimilarityConfig as SimilarityConfig
    from boustro.tasks.config import TaggerConfig as TaggerConfig
    from boustro.tasks.data import read_data as read_data
    from boustro.tasks.embed.task import SentenceEncoder as SentenceEncoder
    from boustro.tasks.pairs import PairClassifier as PairClassifier
    from boustro.tasks.pairs import PairRegressor as PairRegressor
    from boustro.tasks.questions import QuestionAnswerer as QuestionAnswerer
    from boustro.tasks.questions import SpanAnswer as SpanAnswer
    from boustro.tasks.relation import RelationClassifier as RelationClassifier
    from boustro.tasks.sense.examples import SenseSentence as SenseSentence
    from boustro.tasks.sense.examples import Target as Target
    from boustro.tasks.sense.task import Sense as Sense
    from boustro.tasks.sense.task import SenseTagger as SenseTagger
    from boustro.tasks.tagger import Tagger as Tagger
    from boustro.types import Entity as Entity
    from boustro.types import Sentence as Sentence

warnings.filterwarnings("ignore", "IProgress not found")  # of huggingface_hub in a notebook; our bars are text

_HOMES = {
    "load_encoder": "boustro.encoders.spec",
    "Filled": "boustro.lab.generation.both_ends.infiller",
    "Infiller": "boustro.lab.generation.both_ends.infiller",
    "Result": "boustro.lab.generation.writer",
    "Writer": "boustro.lab.generation.writer",
    "Predictor": "boustro.apps.batch.labeller",
    "from_states": "boustro.apps.live.states",
    "Live": "boustro.apps.live.stream",
    "Watch": "boustro.apps.live.watch",
    "load": "boustro.apps.runtime",
    "LabelScore": "boustro.metrics.labels",
    "AnswerScore": "boustro.metrics.questions",
    "SpanScore": "boustro.metrics.spans",
    "Entities": "boustro.tasks.answers",
    "Label": "boustro.tasks.answers",
    "read_data": "boustro.tasks.data",
    "Answer": "boustro.tasks.answers",
    "SpanAnswer": "boustro.tasks.questions",
    "Sense": "boustro.tasks.sense.task",
    "SenseSentence": "boustro.tasks.sense.examples",
    "Target": "boustro.tasks.sense.examples",
    "Entity": "boustro.types",
    "Sentence": "boustro.types",
}
"""Where names are, besides the classes of tasks and their options."""


if "OMP_WAIT_POLICY" not in os.environ and "torch" not in sys.modules:
    # Idle OpenMP threads wait for a shorter time in a loop, else they hold up those that have work beside another busy
    # program. OpenMP reads this once, when torch is loaded; what the user has set stands.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")


def _homes() -> dict[str, str]:
    """Where all names are."""
    from boustro.tasks import TASKS

    tasks = {entry.name: entry.module for entry in TASKS.values()}
    return _HOMES | tasks | {entry.config.__name__: entry.config.__module__ for entry in TASKS.values()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_homes())
    home = _HOMES.get(name) or ("" if name.startswith("_") else _homes().get(name))
    if not home:
        raise AttributeError(f"module 'boustro' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(home), name)
    except ImportError as error:
        from boustro.errors import lacks_package

        raise ImportError(lacks_package(error) or str(error), name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*_homes(), *(name for name in globals() if name.startswith("__"))})
