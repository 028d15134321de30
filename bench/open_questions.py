"""What the backward-LM paper leaves open, as runs that can be repeated; docs/questions.md has the answers so far.

    python bench/open_questions.py --data ../shared/data --out questions [--only widths] [--tokens 500000]

    widths    forward LMs of three sizes, each beside backward LMs of three sizes, standardised or not (section 4.1)
    masked    a masked LM in the backward LM's place, after as many pieces and after as many seconds of training; and a
              masked LM of the whole pair's size, after the pair's pieces
    last      only the last layer of each LM
    domain    both LMs of the package go on, on raw text of the domain and on as many pieces of Wikipedia
    cost      what the backward LM adds where the forward LM runs anyway, and whether that one still writes the same

Every step of the other questions is a `boustro` command, printed before it runs, and is skipped if its result is
complete: an interrupted run goes on. All LMs of a question have the tokenizer of the package, the same seed and the
same schedule. One LM of each kind is trained, so a difference of a point may be the LM's own; the spread is that of the
heads.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from transformers import AutoModelForCausalLM

from boustro.encoders.base import ConcatEncoder, Encoder
from boustro.encoders.lm import LMEncoder
from boustro.encoders.spec import load_encoder
from boustro.store import write_file
from boustro.tasks.data import read_data
from boustro.types import Sentence
from gpt2_pair import boustro

SENTENCES = 500
WARM = ("--lr", "1e-3")  # for LMs that go on: the default rate makes them forget more
SIZES, DIRECTIONS = ("tiny", "mini", "small"), ("forward", "backward")
TEXTS = {
    "wikipedia": ["wikipedia/train-AA.jsonl.bz2"],
    "messages": ["user_text/tweets.jsonl.xz", "user_text/reddit.jsonl.xz"],
    "abstracts": ["biomedical/abstracts.jsonl.xz"],
}
LABELLED = {"conll2003": ("--train-sentences", "4000", "--epochs", "8"), "wnut17": ("--epochs", "10")}
LABELLED["bc5cdr"] = LABELLED["wnut17"]
WHOLE = {
    "model_type": "eurobert",
    "architectures": ["EuroBertForMaskedLM"],
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "tie_word_embeddings": True,
}
"""A masked LM of 10.2M parameters over 8,192 pieces; the pair has 10.4M."""


@dataclass(frozen=True)
class Bench:
    """Where the data are, where results go, and how long an LM trains."""

    data: Path
    out: Path
    tokens: int
    seeds: int

    def shards(self, text: str) -> Path:
        """The token shards of a text."""
        folder = self.out / "shards" / text
        if not (folder / "config.json").is_file():
            boustro(
                "lab",
                "tokenize",
                *(self.data / name for name in TEXTS[text]),
                "--tokenizer",
                "starter",
                "--out",
                folder,
            )
        return folder

    def train(self, name: str, *options: str | Path, text: str = "wikipedia", tokens: int | None = None) -> Path:
        """A trained LM; the folder of a finished one is left as it is."""
        folder = self.out / "lms" / name
        size = ["--segment-length", "256", "--batch-segments", "16", "--tokens", str(tokens or self.tokens)]
        boustro(
            *(
                "lab",
                "pretrain",
                "--shards",
                self.shards(text),
                "--out",
                folder,
                "--resume",
                "--seed",
                "1",
                "--lr",
                "4e-3",
            ),
            *size,
            *options,
        )
        return folder

    def compare(self, name: str, labelled: str, *encoders: str | Path, vary: str = "") -> None:
        """The table of encoders on a labelled set."""
        folder, out = self.data / "ner" / labelled, self.out / f"{name}-{labelled}"
        files = ("--train", folder / "train.txt", "--dev", folder / "dev.txt", "--out", out, "--json", f"{out}.json")
        varied = ("--vary", vary) if vary else ()
        boustro(
            *("compare", "--encoders", ",".join(encoders), *files, "--seeds", str(self.seeds)),
            *varied,
            *LABELLED[labelled],
        )


def widths(bench: Bench) -> None:
    """One backward LM for several forward LMs, and the reverse."""
    lms = {
        (size, d): bench.train(f"{size}-{d}", "--preset", size, "--direction", d) for size in SIZES for d in DIRECTIONS
    }
    pairs = [f"{lms[a, 'forward']}+{lms[b, 'backward']}" for a in SIZES for b in SIZES]
    alone = [lms[size, "forward"] for size in SIZES]
    bench.compare("widths", "conll2003", *alone, *pairs, vary="standardise=true,false")


def masked(bench: Bench) -> None:
    """A masked LM beside the forward LM, or alone."""
    forward, backward = (bench.train(f"mini-{d}", "--preset", "mini", "--direction", d) for d in DIRECTIONS)
    how = ("--objective", "masked", "--mask-rate", "0.3")
    equal = bench.train("masked-pieces", *how, "--preset", "eurobert-mini")
    pieces = round(bench.tokens * _speed(equal) / _speed(backward))
    longer = bench.train("masked-seconds", *how, "--preset", "eurobert-mini", tokens=pieces)
    config = bench.out / "whole.json"
    write_file(config, json.dumps(WHOLE))
    whole = bench.train("masked-whole", *how, "--preset", config, tokens=2 * bench.tokens)
    pairs = [f"{forward}+{other}" for other in (backward, f"masked:{equal}", f"masked:{longer}")]
    bench.compare("masked", "conll2003", forward, *pairs, f"masked:{equal}", f"masked:{longer}", f"masked:{whole}")


def last(bench: Bench) -> None:
    """What is lost where an LM gives its last states only."""
    bench.compare("last", "conll2003", "starter-forward", "starter", vary="layers=all/last")


def domain(bench: Bench) -> None:
    """Ten minutes on the user's own text, and what is forgotten."""
    pairs = {}
    for text in TEXTS:
        halves = (
            bench.train(f"{text}-{d}", "--init-from", f"starter-{d}", "--direction", d, *WARM, text=text)
            for d in DIRECTIONS
        )
        pairs[text] = "+".join(map(str, halves))
    for labelled, text in (("wnut17", "messages"), ("bc5cdr", "abstracts")):
        bench.compare("domain", labelled, "starter", pairs["wikipedia"], pairs[text])
    bench.compare("domain", "conll2003", "starter", *pairs.values())


def cost(bench: Bench) -> None:
    """Time of the forward LM, and of the pair, for sentences read one by one; its logits beside plain transformers."""
    sentences = read_data(bench.data / "ner" / "conll2003" / "dev.txt")[:SENTENCES]
    pair = load_encoder("starter", context="sentence", dtype="float32")
    assert isinstance(pair, ConcatEncoder)
    forward, backward = pair.parts
    assert isinstance(forward, LMEncoder)
    print("\n| encoder | parameters | ms a sentence, median | 95th percentile |\n|---|---:|---:|---:|")
    for name, encoder in (("forward LM", forward), ("backward LM", backward), ("both", pair)):
        taken = sorted(_seconds(encoder, sentence) for sentence in sentences)
        middle, slow = (1000 * taken[int(share * len(taken))] for share in (0.5, 0.95))
        print(f"| {name} | {encoder.num_parameters / 1e6:.1f}M | {middle:.1f} | {slow:.1f} |", flush=True)
    ids = torch.tensor([[0, *range(100, 200)]])
    lms: list[Any] = [
        forward.language_model(),
        AutoModelForCausalLM.from_pretrained(forward.model.name_or_path, dtype=torch.float32),
    ]
    with torch.no_grad():
        ours, plain = (lm(ids).logits for lm in lms)
        written = [lm.generate(ids, max_new_tokens=50, do_sample=False).tolist() for lm in lms]
    logits = "bit-equal" if torch.equal(ours, plain) else "not equal"
    text = "the same" if written[0] == written[1] else "other"
    print(f"the forward LM after this, beside plain transformers: logits {logits}, {text} 50 pieces written")


def _seconds(encoder: Encoder, sentence: Sentence) -> float:
    started = time.perf_counter()
    list(encoder.encode([sentence]))
    return time.perf_counter() - started


def _speed(folder: Path) -> float:
    """Pieces a second of a training run."""
    run = json.loads((folder / "training.json").read_text("utf-8"))
    return run["pieces_seen"] / run["seconds"]


QUESTIONS: dict[str, Callable[[Bench], None]] = {
    "widths": widths,
    "masked": masked,
    "last": last,
    "domain": domain,
    "cost": cost,
}


def main(
    data: Path, out: Path, only: tuple[str, ...] = tuple(QUESTIONS), tokens: int = 500_000, seeds: int = 3
) -> None:
    """Run the questions one after the other; their tables are printed as they are ready.

    Args:
        data: The folder of the data sets.
        out: Where LMs and results go.
        only: Names of questions.
        tokens: Pieces that each LM is trained on.
        seeds: Seeds of the heads.
    """
    for name in only:
        QUESTIONS[name](Bench(data, out, tokens, seeds))


if __name__ == "__main__":
    tyro.cli(main)
