"""Encoders without and with a memory of raw text, side by side: `boustro lab memory` for each, then one table of all.

    python bench/memories.py --corpus tweets.jsonl.xz --max-documents 70000 --train wnut17/train.txt \
        --dev wnut17/dev.txt --encoders starter-forward starter masked:$MINILM --out memories \
        --options="--epochs 10"
    python bench/memories.py --data conll2003/train.txt --train conll2003/train.txt --dev conll2003/dev.txt \
        --encoders starter --command fewshot --out shots --options="--shots 4,16,64"

`--options` are those of `boustro compare` or `boustro fewshot`. `--data` names labelled files whose words the
memory reads, without their labels: those to learn from, or, where all texts are at hand before they are tagged, those
to score too. A memory that is complete in --out is not written again.
"""

import shlex
from pathlib import Path
from typing import Literal

import tyro

from gpt2_pair import boustro


def main(
    train: Path,
    dev: Path,
    out: Path,
    encoders: tuple[str, ...] = ("starter",),
    corpus: tuple[str, ...] = (),
    data: tuple[str, ...] = (),
    max_documents: int | None = None,
    words: int = 50_000,
    command: Literal["compare", "fewshot"] = "compare",
    options: str = "",
) -> None:
    """Write the memories and run the study.

    Args:
        train: Labelled data to learn from.
        dev: Labelled data to score.
        out: Where memories and the study go.
        encoders: Specs of encoders.
        corpus: Raw text that the memories read.
        data: Labelled files whose words they read.
        max_documents: At most so many documents of the raw text.
        words: How many words a memory keeps.
        command: The study.
        options: Its other options, as in a shell.
    """
    text = [*corpus, *(("--data", ",".join(map(str, data))) if data else ()), "--words", str(words)]
    text += ["--max-documents", str(max_documents)] if max_documents else []
    compared = []
    for number, encoder in enumerate(encoders, 1):
        compared += [encoder, with_memory(encoder, out / f"memory-{number}", *text)]
    files = ("--train", train, "--dev", dev, "--out", out / command, "--json", out / f"{command}.json")
    boustro(command, "--encoders", ",".join(compared), *files, *shlex.split(options))


def with_memory(encoder: str, folder: Path, *text: str | Path) -> str:
    """The spec of the encoder with a memory in this folder, which is written where it is not complete."""
    if not (folder / "manifest.json").is_file():
        boustro("lab", "memory", *text, "--encoder", encoder, "--out", folder)
    return f"memory:{folder}"


if __name__ == "__main__":
    tyro.cli(main)
