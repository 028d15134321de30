"""What could make the shipped pair better: short trainings that differ in one thing, judged by what their LMs tag.

    python bench/candidates.py --data ../shared/data --out candidates
    python bench/candidates.py --data ../shared/data --out candidates --only control qk-norm --seeds 1 2

Each candidate is a forward and a backward LM, trained on the same number of pieces: from random weights where the
candidate changes the body, the vocabulary or the schedule, and from the shipped weights where it changes the text. A
row has the parameters of a half, the validation loss of both halves in nats a piece (bits a character beside it, for
other vocabularies), and what `bench/unseen.py` measures. Every seed trains LMs of its own, for which one head is
trained; the spread over seeds is that of both. What is complete in --out is not computed again.
"""

import bz2
import functools
import json
import math
import statistics
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import tyro

import open_questions
import unseen
from boustro.names import locate_model
from boustro.store import write_file
from gpt2_pair import boustro
from ner import BUCKETS, Figures, spread
from open_questions import DIRECTIONS, WARM

VALIDATION = "wikipedia/validation.jsonl.bz2"
TEXTS = open_questions.TEXTS | {
    "news": ["news/reuters21578.jsonl.xz", "news/bbc2004.jsonl.xz", "news/abc2006.jsonl.xz"],
}
"""Texts for trials; some of them are for research only, so what is trained on them may not be shipped."""


@dataclass(frozen=True)
class Candidate:
    """What is other than in the control: options of `boustro lab pretrain`, the config of the body, pieces, text."""

    options: tuple[str, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)
    vocabulary: int = 8192
    text: str = ""


CANDIDATES = {
    "control": Candidate(),
    "batch-2048": Candidate(("--batch-segments", "8")),
    "batch-8192": Candidate(("--batch-segments", "32")),
    "lr-2e-3": Candidate(("--lr", "2e-3")),
    "lr-8e-3": Candidate(("--lr", "8e-3")),
    "decay-0.2": Candidate(("--decay", "0.2")),
    "decay-0.8": Candidate(("--decay", "0.8")),
    "qk-norm": Candidate(body={"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}),
    "untied": Candidate(body={"tie_word_embeddings": False}),
    "deeper": Candidate(
        body={"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 8}
        | {"num_attention_heads": 3, "num_key_value_heads": 3}
    ),
    "vocabulary-12288": Candidate(vocabulary=12288),
    "vocabulary-16384": Candidate(vocabulary=16384),
    "text-wikipedia": Candidate(WARM, text="wikipedia"),
    "text-messages": Candidate(WARM, text="messages"),
    "text-abstracts": Candidate(WARM, text="abstracts"),
    "text-news": Candidate(WARM, text="news"),
    "text-lower": Candidate(WARM, text="lower"),
}
"""By name. A text is a fifth of the pieces, beside Wikipedia."""


@dataclass(frozen=True)
class Bench:
    """Where the data are, where results go, and how long an LM trains."""

    data: Path
    out: Path
    tokens: int

    def shards(self, text: str, vocabulary: int) -> Path:
        """The token shards of a text."""
        folder = self.out / "shards" / f"{text}-{vocabulary}"
        if (folder / "config.json").is_file():
            return folder
        files = [self.data / name for name in TEXTS.get(text, ())]
        if text == "lower":
            files = [self.out / "lower.jsonl"]
            write_file(files[0], _lowered(self.data / TEXTS["wikipedia"][0]))
        elif text == "validation":
            files = [self.data / VALIDATION]
        if vocabulary == CANDIDATES["control"].vocabulary:
            pieces = ("--tokenizer", "starter")
        elif text == "wikipedia":
            pieces = ("--train-tokenizer", str(vocabulary))
        else:
            pieces = ("--tokenizer", self.shards("wikipedia", vocabulary) / "tokenizer")
        boustro("lab", "tokenize", *files, *pieces, "--out", folder)
        return folder

    def train(self, name: str, seed: int) -> list[Path]:
        """Both LMs of a candidate."""
        candidate, halves = CANDIDATES[name], []
        shards = [self.shards("wikipedia", candidate.vocabulary)]
        validation = self.shards("validation", candidate.vocabulary)
        given = ["--segment-length", "256", "--batch-segments", "16", "--lr", "4e-3", "--evaluations", "1"]
        given += ["--validation-pieces", "100000"]
        if candidate.text and candidate.text != "wikipedia":
            shards.append(self.shards(candidate.text, candidate.vocabulary))
            given += ["--shares", "0.8,0.2"]
        given += candidate.options
        for direction in DIRECTIONS:
            start = ["--preset", str(self.config(name))] if candidate.body else ["--preset", "mini"]
            if candidate.text:
                start = ["--init-from", f"starter-{direction}"]
            halves.append(self.out / "lms" / f"{name}-{seed}" / direction)
            where = [
                "--shards",
                ",".join(map(str, shards)),
                "--validation",
                validation,
                "--out",
                halves[-1],
                "--direction",
                direction,
            ]
            how = [*given, *start, "--tokens", str(self.tokens), "--seed", str(seed), "--resume"]
            boustro("lab", "pretrain", *where, *how)
        return halves

    def config(self, name: str) -> Path:
        """The `config.json` of a candidate's body: the shipped one with its changes."""
        file = self.out / "bodies" / f"{name}.json"
        shipped = json.loads((Path(locate_model("starter-forward")) / "config.json").read_text("utf-8"))
        excluded = {"direction", "sentinel", "dtype", "transformers_version"}
        write_file(file, json.dumps({k: v for k, v in shipped.items() if k not in excluded} | CANDIDATES[name].body))
        return file


def main(
    data: Path,
    out: Path,
    only: tuple[str, ...] = tuple(CANDIDATES),
    tokens: int = 500_000,
    seeds: tuple[int, ...] = (1, 2),
    sets: tuple[str, ...] = ("politics", "wnut17", "conll2003", "across"),
) -> None:
    """Train the candidates and print a row for each as it is ready.

    Args:
        data: The folder of the data sets.
        out: Where shards, LMs and figures go.
        only: Names of candidates.
        tokens: Pieces that each LM is trained on.
        seeds: Seeds of the LMs and of the heads.
        sets: Sets of `bench/unseen.py`; none trains the LMs and no tagger.
    """
    bench, figures = Bench(data, out, tokens), Figures(out / "figures.json")
    measured = [name for name in (*unseen.SETS, "across") if name in sets]
    keys = [(name, key) for name in measured for key in ("f1", *BUCKETS)]
    heads = (f"{name} {BUCKETS.get(key, 'F1')}" for name, key in keys)
    columns = ["candidate", "parameters", "forward", "backward", "bits a character", *heads]
    print("| " + " | ".join(columns) + " |\n|---|" + "---:|" * (len(columns) - 1))
    for name in only:
        rows: list[dict[str, float]] = []
        for seed in seeds:
            halves = bench.train(name, seed)
            pair = "+".join(map(str, halves))
            scores = unseen.score(pair, seed, data, sets, figures)
            rows.append({f"{n} {key}": scores[n][key] for n, key in keys} | _losses(bench, name, halves))
        cells = [f"{rows[0]['parameters'] / 1e6:.1f}M"]
        cells += [spread([row[key] for row in rows], 3) for key in (*DIRECTIONS, "bits")]
        cells += [spread([row[f"{n} {key}"] for row in rows]) for n, key in keys]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _losses(bench: Bench, name: str, halves: list[Path]) -> dict[str, float]:
    """Parameters of a half, nats a piece of each half, and bits a character of the mean of both."""
    runs = [json.loads((half / "training.json").read_text("utf-8")) for half in halves]
    nats = [run["validation_loss"] for run in runs]
    told = json.loads((bench.shards("validation", CANDIDATES[name].vocabulary) / "config.json").read_text("utf-8"))
    bits = statistics.fmean(nats) / math.log(2) * told["num_pieces"] / _characters(bench.data / VALIDATION)
    return {"parameters": runs[0]["num_parameters"], **dict(zip(DIRECTIONS, nats, strict=True)), "bits": bits}


@functools.cache
def _characters(file: Path) -> int:
    with bz2.open(file, "rt", encoding="utf-8") as lines:
        return sum(len(json.loads(line)["text"]) for line in lines)


def _lowered(file: Path, most: int = 5000) -> str:
    """The first articles in lower case, one JSON object a line."""
    with bz2.open(file, "rt", encoding="utf-8") as lines:
        return "".join(json.dumps({"text": json.loads(line)["text"].lower()}) + "\n" for line in islice(lines, most))


if __name__ == "__main__":
    tyro.cli(main)
