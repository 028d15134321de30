"""What tests of pretraining share: small shards, and a command of which any option can be replaced."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from boustro.apps.cli.main import main

WEEK = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def weeks(starts: Iterable[int], num_days: int = 12) -> list[str]:
    """Texts of days from different ones on: whoever has read the neighbours of a day knows it."""
    return [" ".join(WEEK[(start + n) % 7] for n in range(num_days)) for start in starts]


def write_shards(folder: Path, documents: Iterable[str], *tokenizer: str) -> Path:
    """Shards of these documents at `folder`; by default with a new tokenizer of 300 pieces."""
    text = folder.with_suffix(".txt")
    text.write_text("\n\n".join(documents), "utf-8")
    tokenizer = tokenizer or ("--train-tokenizer", "300")
    assert main(["lab", "tokenize", str(text), "--out", str(folder), "--workers", "1", *tokenizer]) == 0
    return folder


def pretrain_words(usual: Mapping[str, object], options: Iterable[object]) -> list[str]:
    """The words of `boustro lab pretrain`, uncompiled; `options` take the place of usual ones with the same name."""
    return replacing(["lab", "pretrain", "--no-compile", *(word for pair in usual.items() for word in pair)], *options)


def replacing(words: Iterable[object], *options: object) -> list[str]:
    """The words of a command; options take the place of earlier ones with the same name, and of their values."""
    new = [*map(str, options)]
    kept, taken = list[str](), False
    for word in map(str, words):
        taken = word in new if word.startswith("--") else taken
        kept += [word] * (not taken)
    return [*kept, *new]
