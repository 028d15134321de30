"""`boustro generate` and `boustro score`.

torch is imported when a command runs, so that its help does not wait for it.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.encoders.options import Precision
from boustro.generation.options import DEFAULT_LM, GenerationConfig, LMOptions, ScoreConfig, TargetOptions
from boustro.options import OptionError, Positional, check_options
from boustro.output import as_json, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.text.documents import KEYS, Item, check_input, count_items, read_batches
from boustro.text.patterns import text_of
from boustro.text.places import LM, TextFile
from boustro.text.rows import parse_record

if TYPE_CHECKING:
    from boustro.generation.writer import Result, Writer

LINES = 64
DEFAULT_WRITING = GenerationConfig()
DEFAULT_SCORING = ScoreConfig()
DEFAULT_TARGETS = TargetOptions()


def generate(
    model: LM,
    file: Positional[TextFile] = "-",
    prompt_key: str = "prompt",
    writing: GenerationConfig = DEFAULT_WRITING,
    dtype: Precision = "float32",
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Continue prompts: one a line, or JSON lines with a prompt each; writes JSON lines as they are done.

    Args:
        model: A masked LM, such as one that boustro pretrain --objective prefix-suffix wrote, or a causal LM, such as
            starter-forward or gpt2.
        file: Prompts (.gz, .bz2, .xz too), or - for standard input. An object's other keys are kept.
        prompt_key: The key of the prompt in JSON lines, or a text with keys, such as "{title}: {body}".
        dtype: Precision of the computation.
    """
    check_options(generate, locals())
    keys = (prompt_key,)
    _run(file, keys, "writing", run.quiet, lambda: _open(model, writing, dtype, run), lambda writer: writer.write)


def score(
    file: Positional[TextFile] = "-",
    model: LM | None = None,
    text_key: str = "text",
    prompt_key: str = "prompt",
    scoring: ScoreConfig = DEFAULT_SCORING,
    targets: TargetOptions = DEFAULT_TARGETS,
    dtype: Precision = "float32",
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Score texts: with --model by how probable an LM finds them, else against their targets.

    With a model each line is written again with log_prob and steps. Without one there is a table of ROUGE, BLEU, METEOR
    (without WordNet), variety and repetition, beside two controls.

    Args:
        file: JSON lines with a text, and with its prompt or its target, such as boustro generate writes; or - for
            standard input (.gz, .bz2, .xz too). A text that continues its prompt begins with its own space.
        model: A masked or a causal LM. By default texts are scored against their targets.
        text_key: The key of the text, or a text with keys.
        prompt_key: The key of the prompt. Without --model the first sentences of prompts are a control (lead-1).
        dtype: Precision of the computation.
    """
    check_options(score, locals())
    if model is not None:
        if targets != DEFAULT_TARGETS:
            raise OptionError(
                "--target-key, --train, --by and --json are for scores against targets; leave out --model"
            )
        keys = (prompt_key, text_key)
        _run(file, keys, "scoring", run.quiet, lambda: _open(model, scoring, dtype, run), lambda writer: writer.score)
        return
    if scoring != DEFAULT_SCORING or dtype != "float32" or replace(run, quiet=False) != DEFAULT_LM:
        raise OptionError("options of how an LM scores need --model; without it texts are scored against their targets")
    from boustro.generation.rating import rate

    with only_errors(run.quiet):
        rate(Path(file), text_key, prompt_key, targets)


def _open(model: str, options: Any, dtype: Precision, run: LMOptions) -> "Writer":
    from boustro.generation.writer import Writer

    return Writer(model, dtype=dtype, device=run.device, start_piece=run.start_piece, **vars(options))


def _run(
    file: str,
    keys: tuple[str, ...],
    what: str,
    quiet: bool,
    open_writer: "Callable[[], Writer]",
    method: "Callable[[Writer], Callable[..., list[Result]]]",
) -> None:
    """Read records, give their values under `keys` to the writer's method, print the results."""
    check_input(file)
    with (
        only_errors(quiet),
        Progress(what, "texts", total=None if quiet else count_items(file)) as bar,
        keeping(lambda: f"{bar.done:,} texts are printed"),
    ):
        writer, number = open_writer(), 0
        run = method(writer)
        for records in _records(file, keys):
            given = [tuple(text_of(key, record, place) for key in keys) for place, record in records]
            inputs = given if len(keys) > 1 else [one for (one,) in given]
            results = run(inputs, number, [place for place, _ in records])
            for (_, record), result in zip(records, results, strict=True):
                print(as_json(record | result.to_dict()))
            sys.stdout.flush()
            number += len(records)
            bar.update(len(records))
        print_notices(writer.counts)


def _records(file: str, keys: tuple[str, ...]) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """(place, record) of the lines as they arrive; a line without an object is a prompt, if that is all."""
    for batch in read_batches([file], LINES, (*KEYS, *keys)):
        yield [(item.place, _record(item, keys)) for _, item in batch]


def _record(item: Item, keys: tuple[str, ...]) -> dict[str, Any]:
    value = item.value
    if item.is_line and value.lstrip().startswith("{"):
        return parse_record(value, item.place)
    if isinstance(value, str) and len(keys) == 1:
        return {keys[0]: value}
    if not isinstance(value, dict):
        raise ValueError(f'{item.place}: expected a JSON object such as {{"prompt": "The ferry", "text": " leaves."}}')
    return value
