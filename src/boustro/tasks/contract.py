"""Contract of a task's own class: what it reads, what its examples and inputs are, and what its answers mean.

An *example* is what the head learns from, such as a `Sentence`; an *input* is what `predict` is given, such as a
running text, which may become several examples. What the head learns from examples is the labelling's
(`tasks.labellings`), which the kind of head chooses. `tasks.base` writes everything else once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from boustro.errors import say_found
from boustro.given import as_text
from boustro.output import as_json
from boustro.tasks import TEXT_KEYS
from boustro.tasks.answers import Input, InputAnswer, InputPart
from boustro.tasks.beside import Thresholds
from boustro.tasks.data import data_name
from boustro.tasks.data.reading import DataOptions, Note, named_columns, warn_of
from boustro.tasks.data.units import Offsets
from boustro.tasks.plan import Companion, Fitted, Plan
from boustro.text.words import join_words
from boustro.types import Sentence

Result = TypeVar("Result")


class Contract(ABC, Generic[Input, Result]):
    """The parts of a task's own class; those without a default must be given."""

    name: ClassVar[str]
    """As in `TASKS`."""
    formats: ClassVar[tuple[str, ...]] = ("text", "jsonl", "html")
    """How `boustro predict` can print its answers."""

    columns: "ClassVar[tuple[str, ...]] | property" = ("label", "score", "probabilities")
    """What a table says of an answer, see `cells`."""
    texts: ClassVar[tuple[str, ...]] = TEXT_KEYS[:1]
    """The keys of an input's texts, which columns of a table may be named for."""
    text_keys: ClassVar[tuple[tuple[str, ...], ...]] = tuple((key,) for key in TEXT_KEYS)
    """All keys that they may have, each time together."""
    in_documents: ClassVar[bool] = False
    """Whether its examples are sentences, read in the documents that they stand in."""
    offsets: ClassVar[Offsets | None] = None
    """Where its inputs have places in characters, which may be given in another unit."""
    given: ClassVar[str] = "a text"
    """What an input is, for messages."""
    lenient: ClassVar[Mapping[str, Any]] = {}
    """Options of `read` for a training set, which may have what `is_labelled` says is only context."""
    example: ClassVar[Any] = "Ada Brandt flew to Port Lisse."
    """An input as JSON has it, see `parse_value`."""

    @staticmethod
    @abstractmethod
    def collect(data: Any, options: DataOptions, notes: list[Note]) -> list[Any]:
        """Labelled examples of a file, a data set or Python lists; what was changed or left out goes to `notes`.

        Raises `FileNotFoundError`, `ValueError` with file:line for bad data, and `OptionError` for options that the
        data of this task do not have.
        """

    @classmethod
    def read(cls, data: Any, text_column: str | Sequence[str] = (), label_column: str | None = None) -> list[Any]:
        """Read labelled data, with the columns of a table by their names; a warning counts what was changed or left
        out."""
        return cls.read_by(data, named_columns(text_column, label_column))

    @classmethod
    def read_by(cls, data: Any, options: DataOptions) -> list[Any]:
        """Read labelled data by options; warns as `read`."""
        notes: list[Note] = []
        examples = cls.collect(data, options, notes)
        warn_of(notes, data_name(examples))
        return examples

    @staticmethod
    def named_examples(config: Any) -> list[Any]:
        """Examples without words of the labels that the options name, so that these stay labels."""
        return []

    @classmethod
    def known_by_names(cls, fitted: Any) -> Any:
        """Return what knows the labels of a trained model by their names, without learning; `None` where nothing
        does, or where the model begins there."""
        return None

    @staticmethod
    def is_labelled(example: Any) -> bool:
        """Whether the head learns from this example of a training set. By default it does."""
        return True

    @staticmethod
    def parts(example: Any) -> tuple[Sentence, ...]:
        """The sentences of an example, which are encoded; as many as its heads have `parts`."""
        return (example,)

    @classmethod
    def running_texts(cls, examples: Iterable[Any]) -> Iterator[str]:
        """The texts of examples, each with all its parts; sentences of one document that follow each other are one."""

        def document(numbered: tuple[int, Any]) -> str | int:
            return next((part.document for part in cls.parts(numbered[1]) if part.document), numbered[0])

        for _, group in groupby(enumerate(examples), document):
            yield " ".join(join_words(part.words) for _, example in group for part in cls.parts(example))

    @classmethod
    def shared(cls, example: Any) -> tuple[Sentence, ...]:
        """The sentences that tell of its answer what other examples of them have: those stay together where parts are
        left out, or drawn (`tasks.folds`). By default all its parts."""
        return cls.parts(example)

    @staticmethod
    def without_each(example: Any) -> Iterator[Any] | None:
        """For each of the words of an example the example without it, or `None` for one that is never left out.

        `None` for all of it where an example has more answers than one, so that no word has an effect on the whole.
        """
        return None

    @staticmethod
    def as_examples(given: Iterable[Any]) -> list[Any]:
        """Examples that are answered, checked; `ValueError`, with the place, for what is none."""
        return list(given)

    @staticmethod
    def as_input(given: Any, place: str) -> Any:
        """An input as the task needs it; `ValueError`, with the place, for anything else."""
        return as_text(given, place)

    @staticmethod
    def is_input(given: Any) -> bool:
        """Whether this is a single input, and not several."""
        return isinstance(given, str)

    @staticmethod
    def labelled(given: Any, label: Any, place: str) -> Any:
        """An input and its label, given from Python, as `read` takes them; `ValueError` with the place.

        By default a tuple of both; a pair of texts becomes the first two of three.
        """
        return (*given, label) if isinstance(given, tuple) else (given, label)

    @staticmethod
    def parse_line(line: str, place: str) -> Any:
        """The input on a line of a file; `ValueError`, with the place, where there is none."""
        return line

    @classmethod
    def parse_value(cls, value: Any, place: str) -> Any:
        """The input that a JSON value stands for: a text, or an object with a `text`; `ValueError` for others."""
        if isinstance(value, Mapping):
            key = next((key for key in TEXT_KEYS if key in value), None)
            if key is None:
                raise ValueError(f"{place}: no text under 'text' ({say_found(value)})")
            value = value[key]
        return cls.as_input(value, place)

    @staticmethod
    @abstractmethod
    def split(given: Any, name: str) -> Iterable[InputPart]:
        """The examples of an input, each with the places of its words."""

    @abstractmethod
    def result(self, answer: InputAnswer[Input]) -> Result:
        """Return the result of `predict` for an input."""

    @abstractmethod
    def to_record(self, answer: InputAnswer[Input]) -> dict[str, Any]:
        """Return the answer, without the input, as JSON can hold it."""

    def empty_answer(self) -> dict[str, Any] | None:
        """Return the record of an input without a text, which the model is not asked for; `None` where it is."""
        return dict.fromkeys(self.columns)  # type: ignore[arg-type]

    @abstractmethod
    def show(self, answer: InputAnswer[Input], form: str, colour: bool = False) -> Any:
        """The answer for an input, printable, in one of `formats`; jsonl is a dict, with the input."""

    def cells(self, answer: InputAnswer[Input]) -> list[Any]:
        """Return the cells of the answer in a table, one for each of `columns`; what is no text and no number is
        JSON."""
        record: Any = self.to_record(answer)
        values = [record[name] for name in self.columns]  # type: ignore[union-attr]
        return [value if value is None or isinstance(value, (str, int, float)) else as_json(value) for value in values]

    @staticmethod
    def resolve_options(plan: Plan[Any], train: Sequence[Any], weak: bool) -> Plan[Any]:
        """The plan with what its options leave to the labelled examples, and to whether there are weak ones. By default
        nothing."""
        return plan

    @classmethod
    def without_training(cls, path: Path, encoder: str | None, **how: Any) -> Fitted | None:
        """Return what a folder of another kind gives this task without any training; `None` for all others."""
        return None

    @staticmethod
    def companions(config: Any) -> tuple[Companion, ...]:
        """Return the companions of the head with these options, in the order of training."""
        return (Thresholds(),)
