"""`boustro score` without a model: how good written texts are, against their targets and beside two controls."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from boustro.generation.options import TargetOptions
from boustro.output import check_output, give
from boustro.text.documents import read_values
from boustro.text.patterns import FIELD, fill


def rate(file: Path, text_key: str, prompt_key: str, options: TargetOptions) -> None:
    """Print the scores of the texts of JSON lines, and of their groups; see `boustro.generation.command.score`."""
    target_key, by = options.target_key, options.by
    check_output(options.json)
    from boustro.metrics.generation import constant_text

    rows = [_Row.of(record, place, (text_key, target_key, prompt_key, by)) for place, record in _rows(file)]
    constant = None
    if options.train is not None:
        constant = constant_text([_texts(record, target_key, place)[0] for place, record in _rows(options.train)])
    scores = _scores(rows, constant)
    for value in sorted({row.group for row in rows if by is not None}):
        own = _scores([row for row in rows if row.group == value], constant)
        scores |= {f"{value}: {name}": score for name, score in own.items()}
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
        found, given = record.get(prompt), record.get(by) if by else ""
        if not isinstance(given, (str, int)):
            raise ValueError(f"{place}: no value under the key {by!r} (found: {', '.join(map(str, record))})")
        texts = _texts(record, text, place), _texts(record, target, place)
        if not all(own.strip() for own in texts[1]):
            raise ValueError(f"{place}: a target under the key {target!r} is empty; leave it out")
        return _Row(texts[0][0], texts[1], found if isinstance(found, str) else None, str(given))


def _scores(rows: Sequence[_Row], constant: str | None) -> dict[str, dict[str, float]]:
    """Scores of texts and of their controls."""
    from boustro.metrics.generation import lead, score_texts

    targets = [row.targets for row in rows]
    found = {"texts": score_texts([row.text for row in rows], targets)}
    prompts = [row.prompt for row in rows if row.prompt is not None]
    if len(prompts) == len(rows):
        found["lead-1"] = score_texts([lead(prompt) for prompt in prompts], targets)
    if constant is not None:
        found["constant"] = score_texts([constant] * len(rows), targets)
    return {name: score.to_dict() for name, score in found.items()}


def _show(scores: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(scores.values())))
    width = max(10, *map(len, scores))
    print("".ljust(width), *(name.rjust(10) for name in names))
    for system, own in scores.items():
        print(system.ljust(width), *(f"{own[name]:.2f}".rjust(10) for name in names))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, record in read_values(path):
        if not isinstance(record, dict):
            raise ValueError(f"{place}: expected a JSON object with a text and its target")
        yield place, record


def _texts(record: dict[str, Any], key: str, place: str) -> list[str]:
    """A text, or several, under a key."""
    value = fill(key, record, place) if FIELD.search(key) else record.get(key)
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{place}: no text under the key {key!r} (found: {', '.join(map(str, record)) or 'nothing'})")
    return texts
