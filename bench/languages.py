"""A language's pair beside controls that are made from scratch on the same machine: a masked LM, and a CRF without LMs.

    pip install sklearn-crfsuite
    boustro language --text raw.jsonl --train train.conll --dev dev.conll --out swahili
    python bench/languages.py --folder swahili --train train.conll --dev dev.conll

`--folder` is what `boustro language` wrote. Rows: its forward LM alone, its pair, without and with the memory of its
text, a masked LM (EuroBERT's body of the same size as one half) that reads as many pieces as both LMs together, all
with the options of its tagger (`--memory --spelling`), the pair without these, and a linear-chain CRF (CRFsuite,
L-BFGS) over each word's characters and shape and those of its neighbours. Mean ± standard deviation over seeds; the CRF
has none. All but the CRF choose their epoch on the development set. The report in `--folder` gets the masked LM;
taggers that it has are not trained again.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import sklearn_crfsuite
import tyro

from boustro.metrics.spans import score_entities
from boustro.tasks.data import read_data
from boustro.tasks.data.schemes import entities_to_bio, gold_entities, tags_to_entities
from boustro.types import Sentence
from gpt2_pair import boustro

LONGEST, AROUND = 4, (-2, -1, 1, 2)


def main(
    folder: Path,
    train: Path,
    dev: Path,
    seeds: int = 3,
    epochs: int = 20,
    mask_rate: float = 0.3,
) -> None:
    """Train what is missing, and print a row per system.

    Args:
        folder: A folder of boustro language.
        train: Labelled sentences to train on.
        dev: Labelled sentences to score on.
        seeds: Seeds of the heads.
        epochs: Passes of a head over the labelled sentences.
        mask_rate: Share of the pieces that the masked LM has to predict.
    """
    pieces = json.loads((folder / "plan.json").read_text("utf-8"))["tokens"]
    masked = folder / "masked"
    how = ("--objective", "masked", "--mask-rate", str(mask_rate), "--preset", "eurobert-mini", "--resume")
    size = ("--segment-length", "256", "--batch-segments", "16", "--tokens", str(2 * pieces), "--seed", "1")
    boustro("pretrain", "--shards", folder / "shards", *how, *size, "--out", masked)
    pair = f"{folder / 'forward'}+{folder / 'backward'}"
    rows = {
        "forward LM": (folder / "forward", 1),
        "masked LM": (f"masked:{masked}", 2),
        "pair": (pair, 2),
        "pair with the memory of its text": (f"memory:{folder / 'memory'}", 2),
    }
    given = ("--train", train, "--dev", dev, "--seeds", str(seeds), "--epochs", str(epochs))
    print("\n| system | pieces read | dev F1 |\n|---|---:|---:|")
    for names, options, out in ((rows, ("--memory", "--spelling"), "report"), (["pair"], (), "report-plain")):
        file = folder / f"{out}.json"
        compared = (rows[name][0] for name in names)
        boustro("compare", "--encoders", *compared, *given, *options, "--json", file, "--out", folder / out)
        systems = json.loads(file.read_text("utf-8"))["systems"]
        for name, system in zip(names, systems, strict=True):
            score, read, plain = system["dev"], rows[name][1] * pieces, "" if options else ", without these options"
            print(f"| {name}{plain} | {read / 1e6:.1f}M | {score['mean']:.2f} ± {score['sd']:.2f} |", flush=True)
    started = time.monotonic()
    value = crf_f1(read_data(train), read_data(dev))
    print(f"| CRF over characters and shapes ({time.monotonic() - started:,.0f} s) | 0 | {value:.2f} |")


def crf_f1(train: list[Sentence], dev: list[Sentence]) -> float:
    """Entity F1 of a CRF without a language model."""
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    tags = [entities_to_bio(gold_entities(s), len(s.words)) for s in train]
    crf.fit([list(features(s)) for s in train], tags)
    predicted = [tags_to_entities(list(bio), "bio") for bio in crf.predict([list(features(s)) for s in dev])]
    return score_entities([gold_entities(s) for s in dev], predicted).f1


def features(sentence: Sentence) -> Iterator[list[str]]:
    """For each word: itself, its beginnings and ends, its shape; the neighbours' words and shapes."""
    words = sentence.words
    for place, word in enumerate(words):
        lower, names = word.lower(), [f"shape={shape(word)}"]
        names += [f"word={lower}", *(f"begin={lower[:n]}" for n in range(1, LONGEST + 1))]
        names += [f"end={lower[-n:]}" for n in range(1, LONGEST + 1)]
        names += [f"inside={lower[i : i + 3]}" for i in range(len(lower) - 2)]
        for away in AROUND:
            if 0 <= place + away < len(words):
                other = words[place + away]
                names += [f"{away}:word={other.lower()}", f"{away}:shape={shape(other)}"]
            else:
                names.append(f"{away}:outside")
        yield names


def shape(word: str) -> str:
    """Capitals, small letters, digits and the rest, with repeated kinds once: "U.S.-born" is "A.A.-a"."""
    kinds = ["A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind)


if __name__ == "__main__":
    tyro.cli(main)
