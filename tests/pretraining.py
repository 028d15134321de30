"""What tests of pretraining share: small shards, and a command of which any option can be replaced."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from boustro.apps.cli.main import main


def write_shards(folder: Path, documents: Iterable[str], *tokenizer: str) -> Path:
    """Shards of these documents at `folder`; by default with a new tokenizer of 300 pieces."""
    text = folder.with_suffix(".txt")
    text.write_text("\n\n".join(documents), "utf-8")
    tokenizer = tokenizer or ("--train-tokenizer", "300")
    assert main(["tokenize", str(text), "--out", str(folder), "--workers", "1", *tokenizer]) == 0
    return folder


def pretrain_words(usual: Mapping[str, object], options: Iterable[object]) -> list[str]:
    """The words of `boustro pretrain`, uncompiled; `options` take the place of usual ones with the same name."""
    options = [*options]
    kept = (word for name, value in usual.items() if name not in options for word in (name, value))
    return ["pretrain", "--no-compile", *map(str, kept), *map(str, options)]
