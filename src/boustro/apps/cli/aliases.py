"""Former names of commands, for a release: `boustro wsd`, now the task sense, `embed-fit`, now embed, and `rate`.

torch is imported when the command runs, so that its help does not wait for it.
"""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from boustro.apps.cli.commands import evaluate, fit
from boustro.generation.command import DEFAULT_TARGETS, score
from boustro.generation.options import TargetOptions
from boustro.heads.options import CentroidOptions, EmbeddingOptions, PoolingOptions, StatisticsOptions, Transformed
from boustro.options import OptionError, Positional, Seed, check_options
from boustro.output import DEFAULT_RUN, RunOptions, as_json, give, only_errors, print_notices
from boustro.store import read_json
from boustro.tasks.embed.options import NEIGHBOURS, EmbedConfig
from boustro.tasks.sense.options import SenseConfig
from boustro.text.places import TextFile

EXPECTED = {"fit": ("DATA",), "evaluate": ("DIR", "DATA"), "predict": ("DIR", "DATA")}
NOW = {
    "fit": "boustro fit --task sense --train DATA --out DIR",
    "evaluate": "boustro evaluate DIR DATA",
    "predict": "boustro predict DIR DATA --reads xml (or jsonl)",
}


def wsd(
    action: Positional[Literal["fit", "evaluate", "predict"]],
    places: Positional[tuple[Path, ...]],
    out: Path | None = None,
    encoder: str | None = None,
    senses: SenseConfig = SenseConfig(),  # noqa: B008 (frozen)
    centroids: CentroidOptions = CentroidOptions(),  # noqa: B008 (frozen)
    format: Literal["keys", "jsonl"] = "keys",
    json: Path | None = None,
    overwrite: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """The former name of boustro fit --task sense, and of evaluate and predict for its folders.

    Args:
        action: What to do.
        places: fit: the training data; evaluate and predict: a folder that fit wrote, and the data. Data are XML in the
            format of Raganato et al. 2017, with CORPUS.gold.key.txt beside CORPUS.data.xml, or JSON lines.
        out: fit: the folder to write.
        encoder: fit: spec of the encoder, by default starter; else where the encoder is now, if it has moved.
        format: predict: keys (a line per word: its id and its key) or jsonl (a line per word, all senses with scores).
        json: Write the record of fit, or the scores of evaluate, to this file (- for standard output).
        overwrite: fit: replace an existing folder at --out.
    """
    check_options(wsd, locals())
    if len(places) != len(EXPECTED[action]):
        given = " ".join(map(str, places)) or "nothing"
        raise OptionError(f"wsd {action} takes {' '.join(EXPECTED[action])}, not {given}")
    if (action == "fit") == (out is None):
        raise OptionError("wsd fit needs --out, the folder to write" if out is None else f"wsd {action} takes no --out")
    _say_new("wsd " + action, NOW[action], run)
    if out is not None:
        head = SenseConfig.default_head
        fit(
            places[0],
            out,
            None,
            "sense",
            encoder,
            head,
            1,
            senses,
            centroids,
            cross_validate=0,  # its scores would stand before the record
            overwrite=overwrite,
            run=run,
        )
        if json is not None:
            give(read_json(out / "config.json")["record"], json, lambda: None, indent=1)
    elif action == "evaluate":
        evaluate(places[0], places[1], json=json, encoder=encoder, run=run)
    else:
        _print_senses(places[0], places[1], format, encoder, run)


def _say_new(former: str, now: str, run: RunOptions) -> None:
    if not run.quiet:
        print(f"note: boustro {former} is now {now}", file=sys.stderr)


def _print_senses(folder: Path, data: Path, format: str, encoder: str | None, run: RunOptions) -> None:
    from boustro.tasks.sense.task import Sense, SenseTagger

    with only_errors(run.quiet):
        examples = SenseTagger.read(data)
        tagger = SenseTagger.from_pretrained(folder, encoder=encoder, cache=run.cache, device=run.device)
        answered = zip(examples, tagger.answer(examples), strict=True)
        senses = [Sense.of(example, answer) for example, answer in answered if example.target]
        print_notices(tagger.notices() | tagger.unknown_labels(examples))
        for number, sense in enumerate(senses):
            if format == "jsonl":
                print(as_json(sense.to_dict()))
            elif sense.key is not None:
                print(sense.target.name or number, sense.key)


def rate(
    file: Positional[TextFile],
    text_key: str = "text",
    prompt_key: str = "prompt",
    targets: TargetOptions = DEFAULT_TARGETS,
) -> None:
    """The former name of boustro score without --model.

    Args:
        file: JSON lines with a text and its target, or a list of targets.
        text_key: The key of the text, or a text with keys.
        prompt_key: The key of the prompt, whose first sentences are a control (lead-1).
    """
    _say_new("rate", f"boustro score {file}", DEFAULT_RUN)
    score(file, None, text_key, prompt_key, targets=targets)


@dataclass(frozen=True, kw_only=True)
class EmbedData:
    """What `embed-fit` learns from."""

    texts: Path | None = None
    """Raw texts, one a line or JSON lines. Alone they give the statistics; with --neighbours, training."""
    neighbours: bool = False
    """Train on sentences that follow each other in a text."""
    pairs: Path | None = None
    """Train on scored pairs: JSON lines with sentence1, sentence2 and score."""
    dev: Path | None = None
    """Scored pairs that choose the best epoch."""


def embed_fit(
    out: Path,
    data: EmbedData = EmbedData(),
    encoder: str | None = None,
    seed: Seed = 1,
    training: EmbedConfig = EmbedConfig(),  # noqa: B008 (frozen)
    trained: EmbeddingOptions = EmbeddingOptions(),  # noqa: B008 (frozen)
    transform: Transformed = "whitened",
    json: Path | None = None,
    overwrite: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """The former name of boustro fit --task embed.

    Args:
        out: Folder to write.
        encoder: Spec of the encoder, by default starter.
        seed: Random seed of the head's weights, the order of examples and dropout.
        transform: What is done to the vectors of texts, by their statistics; raw does nothing.
        json: Write the correlations on the development set to this file (- for standard output).
        overwrite: Replace an existing folder of sentence embeddings at --out.
    """
    check_options(embed_fit, locals())
    if data.texts is None and data.pairs is None:
        raise OptionError("nothing to learn from; give --texts, --pairs or both")
    if data.neighbours and data.texts is None:
        raise OptionError("--neighbours needs raw texts; give --texts")
    if data.neighbours and data.pairs:
        raise OptionError("give --neighbours or --pairs; for both: boustro fit --train PAIRS --weak neighbours:TEXTS")
    train = data.pairs or (Path(f"{NEIGHBOURS}{data.texts}") if data.neighbours else data.texts)
    assert train is not None
    learned = data.pairs is not None or data.neighbours
    head = EmbedConfig.default_head if learned else "statistics"
    pooling = {option.name: getattr(trained, option.name) for option in fields(PoolingOptions)}
    of_head = trained if learned else StatisticsOptions(transform=transform, **pooling)
    if learned and transform != StatisticsOptions().transform:
        raise OptionError("--transform is of statistics, and a head is trained here; leave it out")
    if not learned and trained != EmbeddingOptions(**pooling):
        raise OptionError("statistics are not trained; leave out the options of training, or give --pairs")
    _say_new("embed-fit", f"boustro fit --task embed --head {head} --train {train} --out {out}", run)
    fit(train, out, data.dev, "embed", encoder, head, seed, training, of_head, json=json, overwrite=overwrite, run=run)
