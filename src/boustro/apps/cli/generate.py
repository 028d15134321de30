"""`boustro lab generate` and `boustro lab score`.

torch is imported when a command runs, so that its help does not wait for it.

`boustro lab score` without a model: how good written texts are, against their targets and beside two controls.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boustro.encoders.options import Precision
from boustro.errors import count_of
from boustro.lab.generation.options import DEFAULT_LM, GenerationConfig, LMOptions, ScoreConfig, TargetOptions
from boustro.options import OptionError, Positional, check_options
from boustro.output import as_json, check_output, give, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.text.files import KEYS, DataFile
from boustro.text.patterns import FIELD, fill, pattern_text
from boustro.text.places import LM, TextFile
from boustro.text.rows import parse_record
from boustro.text.tables import FileRow

if TYPE_CHECKING:
    from boustro.lab.generation.writer import Result, Writer


LINES = 64  # each batch is printed when it is written, so this is how long a reader waits
DEFAULT_WRITING = GenerationConfig()
DEFAULT_SCORING = ScoreConfig()
DEFAULT_TARGETS = TargetOptions()


def generate(
    encoder: LM,
    file: Positional[TextFile] = "-",
    prompt_key: str = "prompt",
    writing: GenerationConfig = DEFAULT_WRITING,
    dtype: Precision = "float32",
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Continue prompts: one a line, or JSON lines with a prompt each; writes JSON lines as they are done.

    Args:
        encoder: A masked LM, such as boustro lab pretrain --objective prefix-suffix wrote, or a causal LM, such as
            starter-forward or gpt2.
        file: Prompts (.gz, .bz2, .xz too), or - for standard input. An object's other keys are kept.
        prompt_key: The key of the prompt in JSON lines, or a text with keys, such as "{title}: {body}".
        dtype: Precision of the computation.
    """
    check_options(generate, locals())
    keys = (prompt_key,)
    _run(file, keys, "writing", run.quiet, lambda: _open(encoder, writing, dtype, run), lambda writer: writer.write)


def score(
    file: Positional[TextFile] = "-",
    encoder: LM | None = None,
    text_key: str = "text",
    prompt_key: str = "prompt",
    scoring: ScoreConfig = DEFAULT_SCORING,
    targets: TargetOptions = DEFAULT_TARGETS,
    dtype: Precision = "float32",
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Score texts: with --encoder by how probable an LM finds them, else against their targets.

    With a model each line is written again with log_prob and steps. Without one there is a table of ROUGE, BLEU, METEOR
    (without WordNet), variety and repetition, beside two controls.

    Args:
        file: JSON lines with a text, and with its prompt or its target, such as boustro lab generate writes; or - for
            standard input (.gz, .bz2, .xz too). A text that continues its prompt begins with its own space.
        encoder: A masked or a causal LM. By default texts are scored against their targets.
        text_key: The key of the text, or a text with keys.
        prompt_key: The key of the prompt. Without --encoder the first sentences of prompts are a control (lead-1).
        dtype: Precision of the computation.
    """
    check_options(score, locals())
    if encoder is not None:
        if targets != DEFAULT_TARGETS:
            raise OptionError("--target-key, --train, --by and --json are for scores against targets; remove --encoder")
        keys = (prompt_key, text_key)
        _run(file, keys, "scoring", run.quiet, lambda: _open(encoder, scoring, dtype, run), lambda writer: writer.score)
        return
    if scoring != DEFAULT_SCORING or dtype != "float32" or replace(run, quiet=False) != DEFAULT_LM:
        raise OptionError(
            "options of how an LM scores need --encoder; without it texts are scored against their targets"
        )
    with only_errors(run.quiet):
        rate(Path(file), text_key, prompt_key, targets)


def _open(encoder: str, options: Any, dtype: Precision, run: LMOptions) -> "Writer":
    from boustro.lab.generation.writer import Writer

    return Writer(encoder, dtype=dtype, device=run.device, start_piece=run.start_piece, **vars(options))


def _run(
    file: str,
    keys: tuple[str, ...],
    what: str,
    quiet: bool,
    open_writer: "Callable[[], Writer]",
    method: "Callable[[Writer], Callable[..., list[Result]]]",
) -> None:
    """Read records, give their values under `keys` to the writer's method, print the results."""
    (source := DataFile(file)).check()
    with (
        only_errors(quiet),
        Progress(what, "texts", total=None if quiet else source.count()) as bar,
        keeping(lambda: f"{count_of(bar.done, 'texts are')} printed"),
    ):
        writer, number = open_writer(), 0
        run = method(writer)
        for records in _records(source, keys):
            given = [tuple(pattern_text(key, record, place) for key in keys) for place, record in records]
            inputs = given if len(keys) > 1 else [one for (one,) in given]
            results = run(inputs, number, [place for place, _ in records])
            for (_, record), result in zip(records, results, strict=True):
                print(as_json(record | result.to_dict()))
            sys.stdout.flush()
            number += len(records)
            bar.update(len(records))
        print_notices(writer.counts)


def _records(file: DataFile, keys: tuple[str, ...]) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Yield (place, record) of the lines as they arrive; a line without an object is a prompt, if that is all."""
    for batch in file.batches(LINES, (*KEYS, *keys)):
        yield [(item.place, _record(item, keys)) for item in batch]


def _record(item: FileRow, keys: tuple[str, ...]) -> dict[str, Any]:
    value = item.value
    if item.is_line and value.lstrip().startswith("{"):
        return parse_record(value, item.place)
    if isinstance(value, str) and len(keys) == 1:
        return {keys[0]: value}
    if not isinstance(value, dict):
        raise ValueError(f'{item.place}: expected a JSON object such as {{"prompt": "The ferry", "text": " leaves."}}')
    return value


def rate(file: Path, text_key: str, prompt_key: str, options: TargetOptions) -> None:
    """Print the scores of the texts of JSON lines, and of their groups; see `boustro.apps.cli.generate.score`."""
    target_key, by = options.target_key, options.by
    check_output(options.json)
    from boustro.lab.generation.metrics import constant_text

    rows = [_Row.of(record, place, (text_key, target_key, prompt_key, by)) for place, record in _rows(file)]
    if not rows:
        raise ValueError(f"{file}: there is no text in this file")
    constant = None
    if options.train is not None:
        constant = constant_text([_texts(record, target_key, place)[0] for place, record in _rows(options.train)])
    scores = _scores(rows, constant)
    for value in sorted({row.group for row in rows if by is not None}):
        group_scores = _scores([row for row in rows if row.group == value], constant)
        scores |= {f"{value}: {name}": score for name, score in group_scores.items()}
    give(scores, options.json, lambda: _show(scores), indent=1)


class _Row(NamedTuple):
    """A written text, its targets, its prompt where there is one, and the group it is scored in."""

    text: str
    targets: list[str]
    prompt: str | None
    group: str

    @staticmethod
    def of(record: dict[str, Any], place: str, keys: tuple[str, str, str, str | None]) -> "_Row":
        text, target, prompt, by = keys
        prompt_text, given = record.get(prompt), record.get(by) if by else ""
        if not isinstance(given, (str, int)):
            raise ValueError(f"{place}: no value under the key {by!r} (found: {', '.join(map(str, record))})")
        texts = _texts(record, text, place), _texts(record, target, place)
        if not all(reference.strip() for reference in texts[1]):
            raise ValueError(f"{place}: a target under the key {target!r} is empty; remove it")
        return _Row(texts[0][0], texts[1], prompt_text if isinstance(prompt_text, str) else None, str(given))


def _scores(rows: Sequence[_Row], constant: str | None) -> dict[str, dict[str, float]]:
    """Scores of texts and of their controls."""
    from boustro.lab.generation.metrics import lead_sentences, score_texts

    targets = [row.targets for row in rows]
    scores = {"texts": score_texts([row.text for row in rows], targets)}
    prompts = [row.prompt for row in rows if row.prompt is not None]
    if len(prompts) == len(rows):
        scores["lead-1"] = score_texts([lead_sentences(prompt) for prompt in prompts], targets)
    if constant is not None:
        scores["constant"] = score_texts([constant] * len(rows), targets)
    return {name: score.to_dict() for name, score in scores.items()}


def _show(scores: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(scores.values())))
    width = max(10, *map(len, scores))
    print("".ljust(width), *(name.rjust(10) for name in names))
    for system, row in scores.items():
        print(system.ljust(width), *(f"{row[name]:.2f}".rjust(10) for name in names))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, record in DataFile(path).open("json"):
        if not isinstance(record, dict):
            raise ValueError(f"{place}: expected a JSON object with a text and its target")
        yield place, record


def _texts(record: dict[str, Any], key: str, place: str) -> list[str]:
    """Return a text, or several, under a key."""
    value = fill(key, record, place) if FIELD.search(key) else record.get(key)
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{place}: no text under the key {key!r} (found: {', '.join(map(str, record)) or 'nothing'})")
    return texts
