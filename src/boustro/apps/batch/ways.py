"""The ways of `boustro predict`, by who answers and what is read, and which options each of them has.

    predict ner a.txt b.csv            files         rows of files, by a trained folder
    predict ner DIR --out DIR          a folder      shards, with workers or Ray
    predict --labels a,b a.csv         labels        rows of files, by the names of labels
    predict --types a,b a.csv          types         the same, by the names of types of entities
    predict ner --states a.safetensors states        texts whose states another engine computed
    predict ner --live                 live          one text, lines and all, that arrives on standard input or
                                                     stands in a file

An option that a way does not have is refused, whatever it is. With --live every event is a line of JSON as soon as it
is known.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from boustro.apps.batch.command import OutputOptions, PredictOptions
from boustro.apps.batch.models import Opened, OpenedFolder, OpenedModel
from boustro.options import OptionError, command_line, option_name
from boustro.output import RunOptions, as_json, only_errors, print_notices
from boustro.store import Artefact
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.base import Task
from boustro.tasks.forms import FORMS
from boustro.text.documents import open_binary
from boustro.text.files import KEYS, DataFile


@dataclass(frozen=True)
class Prediction:
    """One run of `boustro.apps.batch.command.predict`, whose parameters these are."""

    folder: Path | None
    files: tuple[str, ...]
    answers: PredictOptions
    encoder: str | None
    output: OutputOptions
    how: RunOptions

    def run(self) -> None:
        """Answer; raises `OptionError` for an option that this way does not have."""
        way = WAYS[self.way]
        for name in sorted(self.given - {*way.options.split()}):
            having = [other.said for other in WAYS.values() if name in other.options.split()]
            why = f"is not read {way.said}" if len(having) > 1 or name in WAYS else f"is read {having[0]} alone"
            raise OptionError(f"--{option_name(name)} {why}; remove it")
        if (opened := way.answer(self)) is not None:
            from boustro.apps.batch.predict import predict_files

            predict_files(opened, self.sources, self.answers, self.output, self.how)

    @property
    def way(self) -> str:
        """A name in `WAYS`; `OptionError` where two ways are asked for."""
        asked = self.answers
        if asked.labels and asked.types:
            raise OptionError("--labels are of whole texts and --types of the names in them; give one of them")
        for name in ("labels", "types", "live", "states"):
            if getattr(asked, name):
                return name
        return "folder" if self.directories else "files"

    @property
    def given(self) -> set[str]:
        """The names of options that have another value than by default."""
        own = {} if self.encoder is None else {"encoder": self.encoder}
        for options in (self.answers, self.output):
            own |= {one.name: value for one in fields(options) if (value := getattr(options, one.name)) != one.default}
        return {*own}

    @property
    def directories(self) -> list[str]:
        """Those among the files."""
        return [file for file in self.files if Path(file).is_dir()]

    @cached_property
    def sources(self) -> list[DataFile]:
        """The files; `OptionError` for a folder of files."""
        if self.directories:
            named, first = f"predict {WAYS[self.way].said}", self.directories[0]
            if self.folder is None and Artefact(first).kind is not None:
                raise OptionError(f"{named} is without a model, and {first} is one; remove one of them")
            raise OptionError(f"{named} is not for a folder of files, such as {first}; name files")
        sources = [DataFile(file, keeps=len(self.files) == 1) for file in self.files]
        for source in sources:
            source.check()
        return sources

    @property
    def asked(self) -> Mapping[str, Any]:
        """How the model is asked."""
        return {"recall": self.answers.recall, "threshold": self.answers.threshold}

    @cached_property
    def opened(self) -> OpenedFolder:
        """The trained folder; `OptionError` for what it cannot be asked."""
        assert self.folder is not None
        opened = OpenedFolder(self.folder, self.encoder, self.how.device, self.how.cache, **self.asked)
        refuse_of_taggers(opened.task, **self.asked)
        return opened


def refuse_of_taggers(task: Any, recall: float | None, threshold: float | None = None) -> None:
    """Raise `OptionError` for what only taggers can be asked, and for both of it."""
    for name, value in (("recall", recall), ("threshold", threshold)):
        if value is not None and not hasattr(task, "with_recall"):
            raise OptionError(f"--{name} is for taggers, and this is a {task.__name__}; remove it")
    if recall is not None and threshold is not None:
        raise OptionError("--recall and --threshold both say how unlikely an answer may be; give one of them")


def _by_folder(given: Prediction) -> OpenedFolder:
    form = FORMS.get(given.answers.format or "")
    if form is not None and form.of_folders and not form.grows:
        raise OptionError(f"--format {form.name} is for a folder of files; end --out in .{form.name}")
    return given.opened


def _by_labels(given: Prediction) -> OpenedModel:
    from boustro.tasks.classifier import Classifier
    from boustro.tasks.label_names import told_labels

    asked = given.answers
    how: dict[str, Any] = {"several": asked.several, "none": asked.none, "encoder": given.encoder}
    texts = _texts(given)
    with only_errors(given.how.quiet):
        return _made(given, Classifier.from_labels(told_labels(asked.labels), texts, device=given.how.device, **how))


def _texts(given: Prediction) -> Iterator[str]:
    """Return the first texts of files that can be read again, which say what texts are like."""
    from boustro.tasks.classifier import Classifier
    from boustro.tasks.label_names import MOST_TEXTS
    from boustro.tasks.rows import Columns, parse_or_advise, read_rows

    reads, sources = given.answers.reads, [source for source in given.sources if not source.is_stream]
    columns = Columns.of(Classifier, given.answers.text_column, {})
    for source in sources if reads is None else ():
        columns.check(source, Classifier)
    rows = (row for row in read_rows(sources, reads, None, columns) if row and not (row.problem or row.is_empty))
    read = (parse_or_advise(row, Classifier, [], given.output.errors is not None) for row in rows)
    return islice((text for text in read if not isinstance(text, ValueError)), MOST_TEXTS)


def _by_types(given: Prediction) -> OpenedModel:
    from boustro.tasks.label_names import told_labels
    from boustro.tasks.tagger import Tagger

    with only_errors(given.how.quiet):
        return _made(given, Tagger.from_labels(told_labels(given.answers.types, "types"), device=given.how.device))


def _made(given: Prediction, model: Task[Any, Any]) -> OpenedModel:
    print_notices(model.record["notices"])
    return OpenedModel(model, **given.asked)


def _of_folder(given: Prediction) -> None:
    source, form = given.directories[0], FORMS[given.answers.format or "jsonl"]
    if len(given.files) > 1:
        raise ValueError(f"{source} is a folder, which is labelled alone; name no other file")
    if given.output.out is None:
        whole = command_line("predict", given.folder, source, out="answers")
        raise ValueError(f"{source} is a folder; name one for its answers, to label all of them: {whole}")
    if not form.of_folders:
        raise OptionError(f"--format {form.name}: of a folder of files answers are jsonl, parquet or arrow")
    from boustro.apps.batch.shards import predict_folder
    from boustro.tasks.answering import model_folder
    from boustro.tasks.rows import Columns

    opened = replace(given.opened, folder=model_folder(given.opened.artefact), cache=False)
    columns = Columns.of(opened.task, given.answers.text_column, opened.kept_columns)
    predict_folder(opened, columns, Path(source), form, given.output, given.how.quiet)


def _of_states(given: Prediction) -> None:
    from boustro.tasks.tagger import Tagger

    asked, opened = given.answers, given.opened
    kind: Any = opened.task
    if not issubclass(kind, Tagger):
        raise OptionError(f"--states is for taggers, and this is a {kind.__name__}; remove it")
    forms = [form for form in Tagger.formats if form not in TOOL_FORMATS]
    if asked.format not in (None, *forms):
        raise OptionError(f"--states prints its answers as {', '.join(forms)}; redirect them to a file")
    layers = asked.state_layers
    if layers is not None and not all(number.strip().isdigit() for number in layers.split(",")):
        raise OptionError(f"--state-layers {layers}: expected numbers of layers, such as 4,9,14")
    from boustro.apps.live.states import answer_states, read_states

    numbers = None if layers is None else [int(number) for number in layers.split(",")]
    with only_errors(given.how.quiet):
        model = kind.from_pretrained(opened.folder, encoder=opened.encoder, device=opened.device, given_states=True)
        model = opened.asking(model)
        for file in asked.states:
            shown = model.show(answer_states(model, read_states(file, numbers)), asked.format or "text")
            if asked.format == "jsonl":
                shown = as_json(shown | ({"file": str(file)} if len(asked.states) > 1 else {}))
            sys.stdout.write(f"{shown}\n")
        print_notices(model.notices())


def _live(given: Prediction) -> None:
    from boustro.apps.live.stream import DELAY, Live, arriving
    from boustro.tasks.tagger import Tagger

    if len(given.files) > 1 or given.answers.format not in (None, "jsonl"):
        raise OptionError("--live reads one text and writes JSON lines to standard output; redirect them to a file")
    (source,), delay = given.sources, given.answers.delay
    if not source.is_stream and source.open(keys=KEYS, words=True).form != "text":
        raise OptionError(f"--live reads one text, and {source.name} holds rows of data; remove it to answer each row")
    with only_errors(given.how.quiet):
        model: Any = given.opened.open()
        if not isinstance(model, Tagger):
            raise OptionError(f"--live is for taggers, and this is a {type(model).__name__}; remove it")
        live = Live(model, DELAY if delay is None else delay)
    with open_binary(source.path) as stream:
        for chunk in arriving(stream, source.name):
            for event in live.feed(chunk):
                print(as_json(event.to_dict()), flush=True)
    with only_errors(given.how.quiet):
        events = live.end()
    for event in events:
        print(as_json(event.to_dict()), flush=True)


class Way(NamedTuple):
    """How it is called in messages, the names of the options that it has, and what answers, or opens the model that
    answers the rows of files."""

    said: str
    options: str
    answer: Callable[[Prediction], Opened | None]


OF_ROWS = "format reads text_column explain out resume overwrite errors workers"
WAYS = {
    "files": Way("with a folder and files", f"{OF_ROWS} recall threshold encoder", _by_folder),
    "folder": Way("of a folder of files", "format text_column encoder out resume workers engine", _of_folder),
    "labels": Way("with --labels", f"{OF_ROWS} labels several none encoder", _by_labels),
    "types": Way("with --types", f"{OF_ROWS} types threshold", _by_types),
    "live": Way("with --live", "format live delay threshold encoder", _live),
    "states": Way("with --states", "format states state_layers recall threshold encoder", _of_states),
}
