"""`boustro fit`, `evaluate` and `predict`: the tagger from a terminal.

torch is imported when a command runs, so that its help need not wait for it.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from tqdm import tqdm
from tyro.conf import Positional

from boustro.metrics.labels import LabelScore
from boustro.metrics.spans import SpanScore
from boustro.options import Seed, check_options
from boustro.output import as_json, check_output, give, only_errors
from boustro.store import claim
from boustro.tasks.data import load_data
from boustro.tasks.data.conll import format_document
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.render import as_html, as_terminal, as_text, html_head
from boustro.text.documents import is_stream, read_arriving
from boustro.types import Sentence

PREDICT_LINES = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """What may be chosen about a tagger; what is not given is the preset's."""

    crf: bool | None = None
    """Decode with a conditional random field, learned on top of the head."""
    decode: Literal["valid", "argmax"] | None = None
    """Without a CRF: the best valid sequence of tags, or the best tag of each word."""
    inside: Literal["bio", "io", "bioes"] | None = None
    """The tags that the head learns; what comes out is BIO always."""
    layers: str | None = None
    """all, last, or numbers such as 0,2,4."""
    combine: Literal["mix", "concat"] | None = None
    """What is done with several layers: mixed with learned shares, or concatenated."""
    pooling: str | None = None
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    spacing: Literal["natural", "always"] | None = None
    """The space before a word: as in running text, or always."""
    context: Literal["sentence", "document"] | None = None
    """What an LM reads: the sentence alone, or the document around it, up to its window."""
    sentinel: bool | None = None
    """Start each reading with the end-of-text piece, or not; by default as the LM was trained."""
    standardise: bool | None = None
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    project: int | None = None
    """Give every stream this width by a learned linear map."""
    hidden: int | None = None
    """Width inside the head."""
    max_span: int | None = None
    """The longest entity that a span head can find, in words."""
    dropout: float | None = None
    epochs: int | None = None
    lr: float | None = None
    batch_sentences: int | None = None
    weight_decay: float | None = None
    mix_epochs: int | None = None
    """Epochs that learn the mix of layers; then it is frozen."""
    mix_lr: float | None = None
    """How many times faster the mix learns."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """By default the fastest."""
    preset: Literal["default", "paper"] = "default"
    """The settings that measurement favoured, or those of the backward-LM paper, section 3.2."""

    def chosen(self) -> dict:
        """The preset and the options that were given."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


def fit(
    train: Path,
    out: Path,
    dev: Path | None = None,
    encoder: str = "starter",
    head: str = "mlp",
    seed: Seed = 1,
    options: HeadOptions = HeadOptions(),
    data_options: DataOptions = DEFAULT_OPTIONS,
    cache: bool = True,
    json: Path | None = None,
    overwrite: bool = False,
    device: str | None = None,
    quiet: bool = False,
) -> None:
    """Train a tagger on labelled sentences, the encoder staying frozen.

    Args:
        train: Labelled sentences: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the hub.
        out: Where the tagger folder is written.
        dev: Labelled sentences that choose the best epoch; without them the last one is kept.
        encoder: Spec of the encoder, such as starter, gpt2 or gpt2+./backward.
        head: The head: linear, mlp, block, bilstm or span.
        seed: Of the head's weights, the order of sentences and dropout.
        cache: Keep the features on disk, so that the next fit on these texts starts at once.
        json: Write the dev scores there (- for standard output).
        overwrite: Replace a tagger that stands at --out.
        device: cpu, cuda or mps; by default the best at hand.
        quiet: Write nothing to standard error but errors.
    """
    check_options(fit, locals())
    from boustro.encoders import check_spec
    from boustro.tasks.tagger import KIND, Tagger

    with only_errors(quiet):
        # What is wrong with the options is said first.
        tagger = Tagger(encoder, head, cache=cache, device=device, **options.chosen())
        check_output(json)
        check_spec(encoder)
        with claim(out, KIND, overwrite):
            sentences = read_labelled(train, data_options)
            dev_sentences = read_labelled(dev, data_options) if dev else None
            tagger.fit(sentences, dev_sentences, seed)
            tagger.save_pretrained(out)
        record = tagger.record
        _say_notices(record["notices"])
        _say(
            f"{out}: {record['head_parameters'] / 1e6:.2f}M parameters trained in {record['train_seconds']:.0f} s "
            f"after {record['encode_seconds']:.0f} s of encoding; best epoch {record['best_epoch']}"
        )
        if dev_sentences:
            score = tagger.score(dev_sentences, tagger.answer(dev_sentences, cached=True))
            give(score.to_dict(), json, lambda: _print_score(score), indent=1)


def evaluate(
    tagger: Positional[Path],
    data: Positional[Path],
    json: Path | None = None,
    data_options: DataOptions = DEFAULT_OPTIONS,
    encoder: str | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> None:
    """Score a tagger on labelled sentences: entity-level precision, recall and F1, as conlleval has them.

    Args:
        tagger: A tagger folder.
        data: Labelled sentences: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the hub.
        json: Write the scores there (- for standard output).
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps; by default the best at hand.
        quiet: Write nothing to standard error but errors.
    """
    from boustro.tasks.tagger import Tagger

    with only_errors(quiet):
        check_output(json)
        sentences = read_labelled(data, data_options)
        model = Tagger.from_pretrained(tagger, encoder=encoder, device=device)
        _say_notices(model.unknown_labels(sentences))
        score = model.score(sentences, model.answer(sentences, cached=True))
        _say_notices(model.encoder(cached=True).counts)
        give(score.to_dict(), json, lambda: _print_score(score), indent=1)


def predict(
    tagger: Positional[Path],
    files: Positional[tuple[str, ...]] = ("-",),
    format: Literal["text", "jsonl", "conll", "html"] = "text",
    encoder: str | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> None:
    """Tag text, one document a line, each line as soon as it has come.

    Args:
        tagger: A tagger folder.
        files: Text files (.gz, .bz2, .xz too), streams such as /dev/stdin, or - for standard input.
        format: text (coloured in a terminal), jsonl (a line each, with character offsets, and with the file where
            there are several), conll (each line a document) or html.
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps; by default the best at hand.
        quiet: Write nothing to standard error but errors.
    """
    from boustro.tasks.tagger import Tagger

    _refuse_missing(files)
    console = Console(highlight=False, soft_wrap=True)
    with (
        only_errors(quiet),
        tqdm(desc="tagging", unit=" lines", disable=console.is_terminal or None, leave=False) as bar,
    ):
        model = Tagger.from_pretrained(tagger, encoder=encoder, device=device)
        if format == "html":
            print(html_head(", ".join("Standard input" if file == "-" else file for file in files), model.types))
        for batch in read_batches(files):
            for (file, text), answer in zip(batch, model.answer_texts([text for _, text in batch]), strict=True):
                if format == "jsonl":
                    row = {"text": text, "entities": [e.to_dict() for e in answer.entities]}
                    print(as_json(row | ({"file": file} if len(files) > 1 else {})))
                elif format == "conll":
                    print(format_document(answer.tagged), end="")
                elif format == "html":
                    print(f"<p>{as_html(text, answer.entities)}</p>")
                elif console.is_terminal:
                    console.print(as_terminal(text, answer.entities))
                else:
                    print(as_text(text, answer.entities))
            sys.stdout.flush()
            bar.update(len(batch))
        _say_notices(model.encoder().counts)


def read_labelled(data: Path, options: DataOptions) -> list[Sentence]:
    """Sentences of a file or data set; what was not taken over as it stands is said on standard error."""
    labelled = load_data(data, options)
    _say_notices({f"{what} ({data}; boustro check lists them)": n for what, n in labelled.counts().items()})
    return labelled.sentences


def read_batches(files: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """(file, line) pairs of all files, PREDICT_LINES at a time, fewer where more would have to be waited for."""
    batch: list[tuple[str, str]] = []
    for file in files:
        if batch and is_stream(file):  # to open it may take long
            yield batch
            batch = []
        for line in read_arriving(Path(file)):
            if line is not None:
                batch.append((file, line[1]))
            if batch and (line is None or len(batch) == PREDICT_LINES):
                yield batch
                batch = []
    if batch:
        yield batch


def _refuse_missing(files: Sequence[str]) -> None:
    for file in files:
        if Path(file).is_dir():
            raise ValueError(f"{file} is a folder; name the text files in it")
        if file != "-" and not Path(file).exists():
            raise FileNotFoundError(f"{file}: no such file; give a text file, or - for standard input")


def _print_score(score: SpanScore | LabelScore) -> None:
    if isinstance(score, LabelScore):
        rows, what = list(score.per_label.items()), "words"
    else:
        rows, what = [*score.per_type.items(), ("all", score.total)], "entities"
    print(f"{'':12} {'precision':>9} {'recall':>7} {'F1':>7} {what:>9}")
    for label, c in rows:
        print(f"{label:12} {c.precision:9.2f} {c.recall:7.2f} {c.f1:7.2f} {c.gold:9,}")
    if isinstance(score, LabelScore):
        print(f"accuracy {score.accuracy:.2f} over {score.num_labelled:,} {score.unit}")


def _say_notices(counts: Mapping[str, int]) -> None:
    for what, count in counts.items():
        if count:
            _say(f"note: {count:,} {what}")


def _say(message: str) -> None:
    print(message, file=sys.stderr)
