"""What a session starts from, as the options say: labelled sentences, or a tagger."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from boustro.encoders.spec import check_spec
from boustro.options import OptionError
from boustro.output import RunOptions
from boustro.serve.labelling.answers import Answer
from boustro.serve.labelling.background import Source
from boustro.serve.labelling.options import LabelOptions
from boustro.serve.labelling.texts import read_to_label
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.tagger import Tagger


def make_source(encoder: str | None, options: LabelOptions, reading: DataOptions, run: RunOptions) -> Source:
    """What encodes, and from what the tagger starts.

    Raises `OptionError` for both a tagger and another encoder, and what opening them raises.
    """
    config = TaggerConfig.make(epochs=options.epochs)
    common: dict[str, Any] = {"cache": run.cache, "device": run.device, "head": options.head, "pool": options.pool}
    common |= {"context": options.context, "pool_mentions": options.pool_mentions}
    common |= {"training": {"epochs": options.epochs}, "examples": _examples(options.train, reading)}
    if options.tagger is None:
        spec = config.default_encoder() if encoder is None else encoder
        check_spec(spec)
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


def starting_labels(given: Iterable[str], source: Source) -> list[str]:
    """Those that were given, then those of the tagger and of the examples."""
    used = {e.label for answer in source.examples for e in answer.entities}
    own = source.tagger.types if source.tagger else []
    return list(dict.fromkeys([*given, *own, *sorted(used)]))


def _examples(path: Path | None, reading: DataOptions) -> tuple[Answer, ...]:
    """Labelled sentences; `ValueError` where they have no labels."""
    if path is None:
        return ()
    texts = read_to_label(path, "auto", reading)
    if any(text.gold is None for text in texts):
        raise ValueError(f"{path}: --train needs labelled sentences; these have no labels")
    return tuple(Answer(text.sentence, text.gold or ()) for text in texts)
