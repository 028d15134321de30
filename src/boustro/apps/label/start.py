"""What a session starts from, as the options say: labelled sentences, or a tagger."""

import shlex
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from boustro.apps.label.answers import Answer
from boustro.apps.label.background import Background, Source
from boustro.apps.label.manner import SPANS, Manner
from boustro.apps.label.options import LabelOptions
from boustro.apps.label.session import Session
from boustro.apps.label.texts import Form, Text, holds_documents, read_to_label, read_whole
from boustro.encoders.spec import Spec
from boustro.options import OptionError
from boustro.output import RunOptions
from boustro.tasks import TASKS
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.tagger import Tagger


def make_source(
    encoder: str | None, options: LabelOptions, reading: DataOptions, run: RunOptions, manner: Manner = SPANS
) -> Source:
    """What encodes, and from what the tagger starts.

    Raises `OptionError` for both a tagger and another encoder, for a head that is not the task's, and for options of
    entities with whole texts; and what opening them raises.
    """
    config = TASKS[options.task].config
    training = {} if options.epochs is None else {"epochs": options.epochs}
    head = options.head or config.default_head
    config.check_head(head, next(iter(training), None))
    common: dict[str, Any] = {"cache": run.cache, "device": run.device, "head": head, "pool": options.pool}
    common |= {"task": options.task, "training": training, "examples": _examples(options.train, reading, manner)}
    if manner.whole:
        _refuse_of_entities(options)
        common |= {"pool_mentions": False, "context": "sentence", "reading": {"pooling": config().pooling}}
    else:
        common |= {"context": options.context, "pool_mentions": options.pool_mentions}
    if options.tagger is None:
        spec = config().default_encoder() if encoder is None else encoder
        Spec.parse(spec).check()
        return Source(encoder=spec, spelling=options.spelling, **common)
    tagger = Tagger.from_pretrained(options.tagger, cache=run.cache, device=run.device)
    if encoder not in (None, tagger.encoder_spec):
        raise OptionError("--tagger has an encoder of its own; leave --encoder out")
    if tagger.labelling is None or not tagger.labelling.units.has_spans:
        raise ValueError(f"{options.tagger} labels every word; boustro label is for entities")
    kept = {name: getattr(tagger.config, name) for name in ("pooling", "spacing", "start_piece", "dtype", "quantise")}
    if options.context == "sentence":
        tagger.read_single_sentences()
    read = {name: value for name, value in kept.items() if value is not None}
    spelling = options.spelling or tagger.config.spelling
    return Source(encoder=tagger.encoder_spec, spelling=spelling, tagger=tagger, reading=read, **common)


def read_texts(texts: Path, options: LabelOptions, reading: DataOptions, manner: Manner) -> list[Text]:
    """What is labelled: sentences, or whole texts; raises as `texts.read_to_label` and `read_whole`."""
    if manner.whole:
        return read_whole(texts, options.form, options.sentences)
    if options.sentences:
        raise OptionError("--sentences is for labels of whole texts; entities are labelled sentence by sentence")
    return read_to_label(texts, options.form, reading)


def starting_labels(given: Iterable[str], source: Source) -> list[str]:
    """Those that were given, then those of the tagger and of the examples."""
    used = {e.label for answer in source.examples for e in answer.entities}
    own = source.tagger.types if source.tagger else []
    return list(dict.fromkeys([*given, *own, *sorted(used)]))


def folder_beside(answers: Path, task: str) -> Path:
    """A folder for what was learned, which does not exist: labelled.jsonl → labelled-tagger, labelled-tagger-2, …"""
    stem = answers.name.partition(".")[0] or answers.name
    names = (f"{stem}-{TASKS[task].folder}{f'-{n}' * (n > 1)}" for n in count(1))
    return next(place for name in names if not (place := answers.with_name(name)).exists())


def next_command(texts: Path, form: Form, session: Session, work: Background) -> str:
    """The command that trains on the answers as the session read them; `form` is that of the file of texts."""
    source, out = work.source, session.file.path
    words = ["boustro", "fit", "--train", str(out)]
    words += ["--documents", str(texts)] if work.context == "document" and holds_documents(texts, form) else []
    config = TASKS[source.task].config
    words += ["--pool-mentions"] if source.pool_mentions and work.context == "document" else []
    words += ["--spelling"] if source.spelling else []
    words += ["--head", work.head] if work.head != config.default_head else []
    words += ["--encoder", source.encoder] if source.encoder != config().default_encoder() else []
    words += [word for name, value in source.training.items() for word in (f"--{name}", str(value))]
    return shlex.join([*words, "--out", str(folder_beside(out, source.task))])


def _refuse_of_entities(options: LabelOptions) -> None:
    """`OptionError` for options that only entities have."""
    given = {"--tagger": options.tagger is not None, "--spelling": options.spelling}
    for name in (name for name, is_given in given.items() if is_given):
        raise OptionError(f"{name} is for entities, and these are labels of whole texts; leave it out")


def _examples(path: Path | None, reading: DataOptions, manner: Manner) -> tuple[Answer, ...]:
    """Labelled sentences or texts; `ValueError` where they have no labels."""
    if path is None:
        return ()
    texts = read_whole(path, "auto") if manner.whole else read_to_label(path, "auto", reading)
    if any(text.gold is None for text in texts):
        raise ValueError(f"{path}: --train needs labelled sentences; these have no labels")
    return tuple(manner.answer.of(text, text.gold or (), "") for text in texts)
