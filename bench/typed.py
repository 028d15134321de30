"""Types before labels: the map in the package that reads what a name is, and what it is worth.

    python bench/typed.py learn --wikipedia-folder WIKIPEDIA --held-out dev.txt … --out types
    python bench/typed.py measure --sets politics=dev.txt conll=dev2.txt

`learn` takes what an article says that its title is: the words before a preposition or a mark of "… was a Norwegian
chemist who …", and their last noun. Names elsewhere that are such a title, and no other article's, are learned from: by
ridge regression their vectors, of the mean of the states of their words, become those of "the name of a chemist" and
"Norwegian chemist", added. A noun with n names counts as much as √n. The states of the sentence encoder itself are
added to the result.

`measure` gives entity F1, precision and recall of `Tagger.from_labels` with the types of each set, as words, and how
far its probabilities are from the shares that are right.
"""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import boustro
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import load_encoder, open_encoder
from boustro.heads.factored import Runs, mean_vectors
from boustro.lab.adapt.names import highest_layers
from boustro.names import SHIPPED_SENTENCES
from boustro.tasks.calibrate import calibration
from boustro.tasks.label_types import STATES, DescribedStates
from boustro.text.words import split_text
from boustro.types import Entity, Sentence
from names import eights, lines_of, plain_title, said_of

NO_NOUNS = frozenset(
    "used known name surname title list member given made found built held set form type u family consisting home "
    "licensed situated case part number way kind term word example result fact track format site person one day time "
    "year season son daughter brother wife father".split()
)
NAME = re.compile(r"[A-Z][\w'’.&-]*(?: (?:of|de|the|and|for|von|van|du) [A-Z][\w'’.&-]*| [A-Z0-9][\w'’.&-]*)*")
STRENGTH, MAP_SHARE, OWN_SHARE = 1.0, 1.5, 1.2
"""Of the regression, in units of standardised states; what the map counts, and a word's own vector beside it. From half
to twice as much is within a point on gold names of five sets."""
PER_NOUN, PER_TITLE = 220, 5
WORDS = {
    "PER": "person", "LOC": "location", "ORG": "organisation", "MISC": "miscellaneous", "misc": "miscellaneous",
    "politicalparty": "political party", "astronomicalobject": "astronomical object", "theory": "theory",
    "chemicalcompound": "chemical compound", "chemicalelement": "chemical element",
    "academicjournal": "academic journal", "creative-work": "creative work",
}  # fmt: skip


def definition(text: str) -> tuple[str, str] | None:
    """What an article says that its title is, and the noun of it, where that says something."""
    found = said_of(text[:500].split("\n")[0])
    noun = found[-1].lower() if found else ""
    usable = noun not in NO_NOUNS and not noun.endswith(("ed", "ing")) and len(noun) > 2 and noun.isalpha()
    return (" ".join(found), noun) if usable else None


def titles(folder: Path) -> dict[str, tuple[str, str]]:
    """What is said of each title that one article has, where three titles have its noun."""
    found = defaultdict[str, list[tuple[str, str] | None]](list)
    for path in sorted(folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            found[plain_title(record)].append(definition(record["text"]))
    known = {t: own[0] for t, own in found.items() if len(own) == 1 and own[0] and t[:1].isupper() and len(t) > 2}
    counts = Counter(noun for _, noun in known.values())
    return {title: own for title, own in known.items() if counts[own[1]] >= 3}


def sentences_with(
    folder: Path, known: dict[str, tuple[str, str]], apart: set[tuple[str, ...]]
) -> Iterator[tuple[Sentence, list[Entity]]]:
    """Sentences of articles, not their first ones, with names of titles, of which no noun and no title is frequent."""
    of_noun, of_title = Counter[str](), Counter[str]()
    for path in sorted(folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            for text in re.split(r"(?<=[a-z0-9)][.!?]) (?=[A-Z])|\n", record["text"].partition("\n")[2]):
                runs = (
                    [m for m in NAME.finditer(text) if m.group().rstrip(".'’") in known] if 30 < len(text) < 400 else []
                )
                own = [m.group().rstrip(".'’") for m in runs]
                wanted = any(of_noun[known[t][1]] < PER_NOUN and of_title[t] < PER_TITLE for t in own)
                if not wanted or not 30 < len(text) < 400:
                    continue
                parts = [*split_text(text, "text")]
                words = parts[0].sentence.words if len(parts) == 1 else ()
                if not 5 < len(words) < 70 or not eights(words).isdisjoint(apart):
                    continue
                begins = {place[0]: n for n, place in enumerate(parts[0].places)}
                ends = {place[1]: n + 1 for n, place in enumerate(parts[0].places)}
                spans = [
                    (begins.get(m.start()), ends.get(m.start() + len(t)), t) for m, t in zip(runs, own, strict=True)
                ]
                entities = [Entity(t, start, end) for start, end, t in spans if start is not None and end is not None]
                of_noun.update(known[e.label][1] for e in entities)
                of_title.update(e.label for e in entities)
                if entities:
                    yield parts[0].sentence, entities


def learn(wikipedia_folder: Path, out: Path, held_out: tuple[Path, ...] = (), words: int = 900_000) -> None:
    """Write the map, from sentences of so many words."""
    random.seed(5)
    apart = {own for path in held_out for s in boustro.read_data(path) for own in eights(s.words)}
    known = titles(wikipedia_folder)
    rows = [*sentences_with(wikipedia_folder, known, apart)]
    random.shuffle(rows)
    ends = np.cumsum([len(sentence) for sentence, _ in rows])
    rows = rows[: int(np.searchsorted(ends, words))]
    encoder = open_encoder(STATES, ReadingOptions(layers="last"))
    means = list[np.ndarray]()
    for first in range(0, len(rows), 2000):
        some = rows[first : first + 2000]
        states = highest_layers(encoder, [sentence for sentence, _ in some]).astype(np.float32)
        starts = np.cumsum([0, *(len(sentence) for sentence, _ in some)])
        spans = [(at + e.start, at + e.end) for at, (_, own) in zip(starts, some, strict=False) for e in own]
        means.append(mean_vectors(states, Runs(*map(np.array, zip(*spans, strict=True)))))
        print(f"{first + len(some):,} of {len(rows):,} sentences", flush=True)
    said = [known[e.label] for _, own in rows for e in own]
    states, mean = solve(np.concatenate(means), said, encoder.streams[0].width)
    states.save(out, mean, {"names": len(said), "encoder": STATES})


def solve(x: np.ndarray, said: list[tuple[str, str]], first: int) -> tuple[DescribedStates, np.ndarray]:
    """The map from states (N, D), and their mean; those of the sentence encoder stand from `first` on."""
    encoder = load_encoder(SHIPPED_SENTENCES, reads="text", cache=False)
    texts = [*dict.fromkeys(text for phrase, noun in said for text in (phrase, f"the name of a {noun}"))]
    vectors = [own[0, 0] for (own,) in encoder.encode([text.split() for text in texts])]
    unit = dict(zip(texts, vectors, strict=True))
    y = np.stack([unit[phrase] + unit[f"the name of a {noun}"] for phrase, noun in said]).astype(np.float32)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    counts = Counter(noun for _, noun in said)
    weight = np.array([counts[noun] ** -0.5 for _, noun in said], np.float32)
    weight /= weight.mean()
    mean, spread, middle = (x * weight[:, None]).mean(0), x.std(0) + 1e-3, (y * weight[:, None]).mean(0)
    z = (x - mean) / spread
    gram = z.T @ (z * weight[:, None]) + STRENGTH * len(z) * np.eye(len(mean), dtype=np.float32)
    solved = MAP_SHARE * (np.linalg.solve(gram, z.T @ ((y - middle) * weight[:, None])) / spread[:, None]).T
    bias = middle - solved @ mean
    width = len(middle)
    own = x[:, first : first + width] + x[:, first + width : first + 2 * width]  # a word's last state and its first one
    share = OWN_SHARE / np.linalg.norm(own, axis=1).mean()
    for at in (first, first + width):
        solved[:, at : at + width] += share * np.eye(width, dtype=np.float32)
    return DescribedStates(solved, bias), mean


def measure(sets: tuple[str, ...], sentences: int = 700) -> None:
    """A line a set; `sentences` is how many of each are read, drawn at random."""
    for own in sets:
        name, _, path = own.partition("=")
        gold = [s for s in boustro.read_data(path) if s.is_labelled]
        random.Random(5).shuffle(gold)
        said = lambda tag: tag if tag == "O" else tag[:2] + WORDS.get(tag[2:], tag[2:])  # noqa: E731
        gold = [replace(s, tags=tuple(map(said, s.tags or ())), document="") for s in gold[:sentences]]
        types = sorted({tag[2:] for s in gold for tag in s.tags or () if tag != "O"})
        tagger = boustro.Tagger.from_labels(types)
        answers = tagger.answer(gold, cached=True)
        score: Any = tagger.fitted.score(gold, answers)
        error = (calibration(tagger.fitted, gold, answers, None) or {}).get("error", np.nan)
        parts = f"precision {score.precision:.1f}, recall {score.recall:.1f}, calibration error {100 * error:.1f}"
        print(f"{name}: F1 {score.f1:.1f}, {parts}; {json.dumps(types)}", flush=True)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"learn": learn, "measure": measure})
