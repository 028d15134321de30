"""States that know what a thing is: text and things for `boustro lab adapt --things`, and what it gains.

    apt-get install wordnet-base                       # /usr/share/wordnet
    python bench/terms.py data --wikipedia-folder WIKIPEDIA --wordnet /usr/share/wordnet --held-out ner names … \
        --texts WIKIPEDIA/train-AC.jsonl.bz2=12000 abstracts.jsonl.xz=12000 tweets.jsonl.xz=8000 … --out terms
    boustro lab adapt terms/*.jsonl --things terms/things.tsv --lm masked:MINILM --out minilm
    python bench/terms.py few --sets conll=dev.txt … --encoders masked:minilm --cache few

`data` writes names of articles with what these say ("Norwegian chemist"), titles that are written small ("jazz", "music
genre") and nouns with what WordNet says, the next kind above and the gloss; and sentences of each file, of which none
has eight words in a row with a file of `--held-out`.

`few` gives F1 of logistic regression over words, four draws of 20 and 60 sentences, on 200 others, over the highest
states of an encoder alone, of `starter-large`, of it without the body, and with the encoder in place of the body or
beside. `heads` gives F1 of a head of the package with its defaults, over specs. Source: Bogdanov et al. 2024.
"""

import bz2
import json
import lzma
import math
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import boustro
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import open_encoder
from boustro.lab.adapt.names import highest_layers
from boustro.store import write_file
from names import lines_of, plain_title
from typed import WordNet, definition

# data --------------------------------------------------------------------------------------------------------------

PER_RECORD = 6


def nouns_of(net: WordNet) -> dict[str, str]:
    """Of lemmas that are nouns alone and have at most three senses, the first: the next kind above and its gloss."""
    other, found = {lemma for pos in ("verb", "adj", "adv") for lemma in net.senses[pos]}, {}
    for lemma, senses in net.senses["noun"].items():
        if len(lemma) < 4 or lemma in other or len(senses) > 3 or any(c.isdigit() for c in lemma):
            continue
        _, up, gloss = net.nouns[senses[0]]
        if up and net.nouns[up[0]][1]:
            found[lemma.replace("_", " ")] = f"{net.nouns[up[0]][0]}: {gloss}"
    return found


def things(wikipedia_folder: Path, wordnet_folder: Path) -> dict[str, str]:
    """From the articles that alone have their title, and from WordNet: what is what."""
    net = WordNet(wordnet_folder)
    said, own = defaultdict[str, list[tuple[str, str] | None]](list), set[str]()
    for path in sorted(wikipedia_folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            title = plain_title(record)
            said[title].append(definition(record["text"]))
            low = title[:1].lower() + title[1:]
            # an article about Reading, the town, does not have the word small
            if low.islower() and len(low) > 3 and low.isascii() and f" {low}" in record["text"][len(title) + 1 : 2000]:
                own.add(title)
    known = {t: one[0] for t, one in said.items() if len(one) == 1 and one[0] and t[:1].isupper() and len(t) > 2}
    counts = Counter(noun for _, noun in known.values())
    known = {t: what for t, (what, noun) in known.items() if counts[noun] >= 3}
    terms = {t.lower(): what for t, what in known.items() if t in own and (" " in t or t.lower() not in net.small)}
    return {t: what for t, what in known.items() if t not in own} | terms | nouns_of(net)


def eights(text: str) -> set[int]:
    """Hashes of all eight words in a row."""
    own = re.findall(r"\w+", text.lower())
    return {hash(tuple(own[n : n + 8])) for n in range(len(own) - 7)}


def strings(value: Any) -> Iterator[str]:
    """All that stand in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(own, str) for own in value):
        yield " ".join(value)
    elif isinstance(value, list | dict):
        for own in value.values() if isinstance(value, dict) else value:
            yield from strings(own)


def held_out_texts(folders: Sequence[Path]) -> Iterator[str]:
    """Each text of the files in folders: JSON lines, or a word a line."""
    for path in sorted(file for folder in folders for file in ([folder] if folder.is_file() else folder.rglob("*"))):
        if path.suffix in (".xz", ".bz2", ".jsonl"):
            opened: Any = {".xz": lzma, ".bz2": bz2}.get(path.suffix)
            with opened.open(path, "rt", encoding="utf-8") if opened else path.open(encoding="utf-8") as file:
                for line in file:
                    yield from strings(json.loads(line)) if line.startswith("{") and line.endswith("}\n") else [line]
        elif path.suffix in (".txt", ".conllu"):
            column = 1 if path.suffix == ".conllu" else 0
            for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
                rows = [line.split() for line in block.split("\n") if line.strip() and not line.startswith("# ")]
                yield " ".join(row[column] for row in rows if len(row) > column)


def sentences(path: Path, number: int) -> Iterator[str]:
    """Sentences of the records of a file, at most a few of each, or of a few long ones as many as are needed."""
    with (bz2 if path.suffix == ".bz2" else lzma).open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["text"]
            lines = re.split(r"(?<=[a-z0-9)][.!?]) (?=[A-Z])|\n", text)
            lines = [own for own in lines if 40 < len(own) < 300]
            yield from random.sample(lines, min(len(lines), PER_RECORD if len(text) < 300_000 else number // 20))


def data(
    wikipedia_folder: Path, wordnet: Path, texts: tuple[str, ...], out: Path, held_out: tuple[Path, ...] = ()
) -> None:
    """Write `things.tsv`, and a file of texts for each FILE=SENTENCES, unless they are there."""
    out.mkdir(parents=True, exist_ok=True)
    if not (file := out / "things.tsv").is_file():
        write_file(file, "".join(f"{t}\t{what}\n" for t, what in things(wikipedia_folder, wordnet).items()))
    apart = set[int]()
    for path, number in ((Path(given), int(count)) for given, _, count in (own.rpartition("=") for own in texts)):
        target = out / f"{path.parent.name}-{path.name.partition('.')[0]}.jsonl"
        if target.is_file():
            continue
        apart = apart or set(chain.from_iterable(map(eights, held_out_texts(held_out))))
        random.seed(5)
        kept = [*islice((text for text in sentences(path, number) if eights(text).isdisjoint(apart)), number)]
        write_file(target, "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in kept))
        print(f"{target.name}: {len(kept):,} sentences, {time.process_time():.0f} CPU s", flush=True)


# what it is worth --------------------------------------------------------------------------------------------------

PLACES = {"starter-lm": slice(0, 1152), "starter-texts": slice(1152, 1920)}
"""The columns of a body in all of `starter-large`."""
COARSE = {"person": "PER", "location": "LOC", "organization": "ORG"}
OF_ENCODER = frozenset({"alone", "in place", "beside"})
SENTENCES, JUDGED, LARGE = 400, 200, "starter-large"


def runs_of(types: Sequence[str]) -> set[tuple[int, int, str]]:
    """Runs of one type other than O."""
    found, at = set[tuple[int, int, str]](), 0
    while at < len(types):
        end = at + 1
        while end < len(types) and types[end] == types[at]:
            end += 1
        found |= {(at, end, types[at])} if types[at] != "O" else set()
        at = end
    return found


def scaled(x: np.ndarray) -> np.ndarray:
    """Columns of one spread, and rows of about the length 1."""
    x = x.astype(np.float32)
    return (x - x.mean(0)) / ((x.std(0) + 1e-3) * math.sqrt(x.shape[1]))


def tagged(path: Path) -> list[tuple[tuple[str, ...], list[str]]]:
    """Words and their types of sentences drawn from a file; those of Few-NERD as CoNLL-2003 calls them."""
    found = list[tuple[tuple[str, ...], list[str]]]()
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        rows = [line.split() for line in block.split("\n") if line.strip() and not line.startswith("-DOCSTART-")]
        if rows:
            tags = [row[-1].removeprefix("B-").removeprefix("I-") for row in rows]
            types = [COARSE.get(tag.partition("-")[0], tag) for tag in tags]
            found.append((tuple(row[0] for row in rows), types))
    random.Random(5).shuffle(found)
    return found[:SENTENCES]


def scores_of(x: np.ndarray, types: Sequence[Sequence[str]], k: int, draws: int, first_judged: int = 0) -> list[float]:
    """F1 of each draw; with `first_judged` those before it are learned from alone, and those from it on judged."""
    from sklearn.linear_model import LogisticRegression

    starts, scores = np.cumsum([0, *map(len, types)]), []
    for draw in range(draws):
        order = [*range(first_judged or len(types))]
        random.Random(draw).shuffle(order)
        learn, judge = order[:k], order[k : k + JUDGED]
        if first_judged:
            judge = [*range(first_judged, min(len(types), first_judged + JUDGED))]
        rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in learn])
        values, vectors = np.linalg.eigh((own := x[rows]) @ own.T)  # the same regression in as many columns as rows
        kept = values > 1e-6 * values[-1]
        turn = own.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        tags = np.concatenate([types[n] for n in learn])
        if len({*tags}) < 2:
            scores.append(0.0)
            continue
        model = LogisticRegression(C=30, max_iter=200).fit(own @ turn, tags)
        right = marked = there = 0
        for n in judge:
            answers, gold = runs_of(model.predict(x[starts[n] : starts[n + 1]] @ turn)), runs_of(types[n])
            right, marked, there = right + len(answers & gold), marked + len(answers), there + len(gold)
        scores.append(200 * right / max(1, marked + there))
    return scores


def few(
    sets: tuple[str, ...],
    encoders: tuple[str, ...],
    cache: Path,
    compare: tuple[str, ...] = ("starter-large", "without", "body", "alone", "in place"),
    sizes: tuple[int, ...] = (20, 60),
    draws: int = 4,
) -> None:
    """A line for each NAME=DEV.txt, or NAME=LEARN.txt,DEV.txt, of sets and each size; an encoder is a spec of one LM in
    place of a body, or of one for each, joined by `+`. What was measured is in `few.jsonl` in `cache`, and is not
    measured again. `compare` may have `beside`, too."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / "few.jsonl"
    told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    known = {(own["encoder"], own["set"], own["k"], own["how"]): own["f1"] for own in told}
    for spec in encoders:
        for name, _, path in (given.partition("=") for given in sets):
            parts = [tagged(Path(own)) for own in path.split(",")]
            shared = set.intersection(*({t for _, types in part for t in types} for part in parts))
            gold = [boustro.Sentence(words) for part in parts for words, _ in part]
            types = [[t if t in shared else "O" for t in types] for part in parts for _, types in part]
            states = Readings(spec, cache / f"{name}.npy", gold)
            for k in sizes:
                means = list[str]()
                for how in compare:
                    key = (spec if how in OF_ENCODER else LARGE if how == LARGE else states.body, name, k, how)
                    if key not in known:
                        known[key] = scores_of(states.read(how), types, k, draws, len(parts[0]) if parts[1:] else 0)
                        with file.open("a", encoding="utf-8") as more:
                            row = dict(zip(("encoder", "set", "k", "how"), key, strict=True)) | {"f1": known[key]}
                            more.write(json.dumps(row) + "\n")
                    means.append(f"{how} {np.mean(known[key]):.1f}")
                print(f"{spec} {name} {k}: {', '.join(means)}", flush=True)


class Readings:
    """The states (W, D) that are compared, read when they are wanted; those of `starter-large` are kept in a file."""

    def __init__(self, spec: str, file: Path, gold: Sequence[boustro.Sentence]) -> None:
        self._file, self._gold = file, gold
        bodies = {part: "starter-texts" if part.startswith("masked:") else "starter-lm" for part in spec.split("+")}
        self._parts = {body: part for part, body in bodies.items()}
        self.body = "+".join(sorted(self._parts))

    @cached_property
    def _large(self) -> np.ndarray:
        if not self._file.is_file():
            np.save(self._file, highest(LARGE, self._gold))
        return np.load(self._file)

    @cached_property
    def own(self) -> dict[str, np.ndarray]:
        return {body: highest(path, self._gold) for body, path in sorted(self._parts.items())}

    def read(self, how: str) -> np.ndarray:
        """What is compared: all of `starter-large`, the bodies in it, the encoder alone, or both."""
        if how == LARGE:
            return scaled(self._large)
        if how == "without":
            left = np.ones(self._large.shape[1], bool)
            for body in self._parts:
                left[PLACES[body]] = False
            return scaled(self._large[:, left])
        if how == "body":
            return scaled(np.hstack([self._large[:, PLACES[body]] for body in sorted(self._parts)]))
        if how == "alone":
            return scaled(np.hstack([*self.own.values()]))
        if how == "beside":
            return np.hstack([self.read(LARGE), self.read("alone")])
        replaced = self._large.copy()
        for body, states in self.own.items():
            replaced[:, PLACES[body]] = states
        return scaled(replaced)


def highest(spec: str, gold: Sequence[boustro.Sentence]) -> np.ndarray:
    """The highest layer of each word."""
    return highest_layers(open_encoder(spec, ReadingOptions(layers="last")), gold)


def heads(
    sets: tuple[str, ...],
    encoders: tuple[str, ...],
    cache: Path,
    head: str = "ridge",
    sizes: tuple[int, ...] = (20,),
    draws: int = 4,
) -> None:
    """F1 of a head of the package, with its defaults, over specs of encoders, on the draws of `few`."""
    for name, _, path in (given.partition("=") for given in sets):
        gold = [s for s in boustro.read_data(path) if s.is_labelled]
        random.Random(5).shuffle(gold)
        gold = [boustro.Sentence(s.words, s.tags) for s in gold[:SENTENCES]]
        for k, spec in product(sizes, encoders):
            scores = list[float]()
            for draw in range(draws):
                order = [*range(len(gold))]
                random.Random(draw).shuffle(order)
                tagger: Any = boustro.Tagger(spec, head, cache=cache).fit([gold[n] for n in order[:k]])
                scores.append(tagger.evaluate([gold[n] for n in order[k : k + JUDGED]]).value)
            each = ", ".join(f"{f1:.1f}" for f1 in scores)
            print(f"{name} {k} {head} {spec}: {np.mean(scores):.1f} ({each})", flush=True)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"data": data, "few": few, "heads": heads})
