"""`boustro rate`: how good written texts are, beside two controls."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from boustro.output import check_output, give
from boustro.text.documents import read_values


def rate(
    file: Positional[Path],
    train: Path | None = None,
    text_key: str = "text",
    target_key: str = "target",
    prompt_key: str = "prompt",
    json: Path | None = None,
) -> None:
    """Score written texts against their targets: ROUGE, BLEU, METEOR (without WordNet), variety and repetition.

    Args:
        file: JSON lines with a text and its target, or a list of targets, such as boustro generate writes of prompts
            that have a target. With prompts too, their first sentences are scored as a control (lead-1).
        train: JSON lines with targets, of which the most typical is scored as a control (constant).
        text_key: The key of the written text.
        target_key: The key of the target.
        prompt_key: The key of the prompt.
        json: Write the scores to this file (- for standard output).
    """
    from boustro.metrics.generation import constant_text, lead, score_texts

    check_output(json)
    rows = list(_rows(file))
    targets = [_texts(record, target_key, place) for place, record in rows]
    texts = [_texts(record, text_key, place)[0] for place, record in rows]
    scores = {"texts": score_texts(texts, targets).to_dict()}
    if all(isinstance(record.get(prompt_key), str) for _, record in rows):
        scores["lead-1"] = score_texts([lead(record[prompt_key]) for _, record in rows], targets).to_dict()
    if train is not None:
        constant = constant_text([_texts(record, target_key, place)[0] for place, record in _rows(train)])
        scores["constant"] = score_texts([constant] * len(rows), targets).to_dict()
    give(scores, json, lambda: _show(scores), indent=1)


def _show(scores: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(scores.values())))
    print("".ljust(10), *(name.rjust(10) for name in names))
    for system, own in scores.items():
        print(system.ljust(10), *(f"{own[name]:.2f}".rjust(10) for name in names))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, record in read_values(path):
        if not isinstance(record, dict):
            raise ValueError(f"{place}: expected a JSON object with a text and its target")
        yield place, record


def _texts(record: dict[str, Any], key: str, place: str) -> list[str]:
    """A text, or several, under a key."""
    value = record.get(key)
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{place}: no text under the key {key!r} (found: {', '.join(map(str, record)) or 'nothing'})")
    return texts
