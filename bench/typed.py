"""Types before labels: the map in the package that reads what a name or a noun is, and what it is worth.

    apt-get install wordnet-base                       # /usr/share/wordnet
    python bench/typed.py learn --texts terms/*.jsonl --things terms/things.tsv --wordnet /usr/share/wordnet \
        --wikipedia-folder WIKIPEDIA --out types        # the texts and the things are those of bench/terms.py data
    python bench/typed.py measure --sets politics=dev.txt conll=dev2.txt

`learn` takes names that stand in texts where Wikipedia has an article about one thing of this name, which says what it
is, such as "Norwegian chemist": by ridge regression their vectors, of the mean of the states of their words, become
those of "the name of a chemist" and "Norwegian chemist", added. A noun with n names counts as much as √n. The states of
the sentence encoder itself are added to the result. Half of the weight have nouns in small letters: WordNet says the
next two kinds above them, and explains them. Which words are nouns, or adjectives as "renal" is, is learned from words
that WordNet has as nothing else. Which share of the members of a type are no names, is learned from the titles of
articles that these write small, and from the kinds and the instances that WordNet has of nouns; and how much a type of
persons is behind "person", from its names and those of other persons.

`measure` gives entity F1, precision and recall of `Tagger.from_labels` with the types of each set, as words, and how
far its probabilities are from the shares that are right.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import boustro
from boustro.arrays import unit
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import load_encoder, open_encoder
from boustro.heads.factored import Runs, mean_vectors
from boustro.lab.adapt.names import highest_layers
from boustro.lab.adapt.options import ThingAdaptOptions
from boustro.lab.adapt.terms import Lessons, find_lessons, read_things
from boustro.names import SHIPPED_SENTENCES
from boustro.tasks.calibrate import calibration
from boustro.tasks.label_types import OF_KINDS, STATES, DescribedStates, Nouns, kinds_of_types, read_types, read_words
from boustro.tasks.tagger.tags import CLOSED_WORDS
from boustro.text.languages import small_words
from boustro.types import Sentence
from names import lines_of, plain_title, said_of

NO_NOUNS = frozenset(
    "used known name surname title list member given made found built held set form type u family consisting home "
    "licensed situated case part number way kind term word example result fact track format site person one day time "
    "year season son daughter brother wife father".split()
)
STRENGTH, MAP_SHARE, OWN_SHARE = 1.0, 1.5, 1.2
"""Of the regression, in units of standardised states; what the map counts, and a word's own vector beside it. From half
to twice as much is within a point on gold names of five sets."""
PER_NOUN, PER_NAME, LEAST_NAMES = 220, 5, 15
NOUNS_SHARE = 0.5
"""Of the weight of the regression. 0.3 to 0.7 give within half a point on the names of four sets."""
PER_LEMMA, PER_KIND, LONGEST_LEMMA = 10, 150, 3
GROUPS, OTHER_GROUPS, OTHER_WEIGHT, OTHER_WORDS = 500, 60, 0.3, 30_000
"""Groups of nouns, and of other words, what all of these weigh beside all nouns, and how many are looked at."""
ENDINGS = {
    "noun": "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y", "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e", "adv": "",
}  # fmt: skip
"""Ends of words, and those of their lemmas."""
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


class WordNet:
    """Parts of speech of words, what nouns are, and which words are written small."""

    def __init__(self, folder: Path) -> None:
        lines = lambda name: [s for s in (folder / name).read_text("utf-8").splitlines() if s[:1] != " "]  # noqa: E731
        rows = {pos: [line.split() for line in lines(f"index.{pos}")] for pos in ENDINGS}
        self.senses = {pos: {row[0]: row[6 + int(row[3]) :] for row in rows[pos]} for pos in ENDINGS}
        self.odd = {pos: dict(line.split()[:2] for line in lines(f"{pos}.exc")) for pos in ENDINGS}
        self.nouns, self.below, self.instances = dict[str, tuple[str, list[str], str]](), Counter[str](), Counter[str]()
        self.small = {lemma for pos in ("verb", "adj", "adv") for lemma in self.senses[pos]}
        for line in lines("data.noun"):
            own, pointers, gloss = self._record(line)
            above = [at for sign, at in pointers if sign in ("@", "@i")]
            self.small.update(word for word in own if word.islower())
            self.nouns[line.split()[0]] = own[0].replace("_", " "), above, gloss.strip().split(";")[0].strip('" ')
            self.below.update(at for sign, at in pointers if sign == "@")
            self.instances.update(at for sign, at in pointers if sign == "@i")
        self.relational, other = set[str](), set[str]()
        for line in lines("data.adj"):
            own, pointers, _ = self._record(line)
            (self.relational if any(sign == "\\" for sign, _ in pointers) else other).update(w.lower() for w in own)
        self.relational -= other

    @staticmethod
    def _record(line: str) -> tuple[list[str], list[tuple[str, str]], str]:
        """Words, signs and places of what they point to, and the gloss."""
        head, _, gloss = line.partition("|")
        f = head.split()
        at = 4 + 2 * int(f[3], 16)
        pointers = [(f[at + 1 + 4 * n], f[at + 2 + 4 * n]) for n in range(int(f[at]))]
        return [word.partition("(")[0] for word in f[4:at:2]], pointers, gloss

    def lemma(self, word: str, pos: str) -> str | None:
        """That of a word in small letters."""
        pairs = [pair.split(":") for pair in ENDINGS[pos].split()]
        made = [word.removesuffix(end) + own for end, own in pairs if word.endswith(end) and len(word) > len(end) + 2]
        return next((own for own in (word, self.odd[pos].get(word), *made) if own in self.senses[pos]), None)

    def is_nominal(self, word: str) -> bool | None:
        """Whether a word is a noun or a relational adjective; `None` where it may be either."""
        low = word.lower()
        if low in CLOSED_WORDS or low in small_words() or not any(map(str.isalpha, low)):
            return False
        if word[:1].isupper() or any(map(str.isdigit, word)):
            return None
        lemmas = {pos: self.lemma(low, pos) for pos in ENDINGS}
        adjective = lemmas["adj"]
        have = {pos for pos, lemma in lemmas.items() if lemma}
        if have in ({"noun"}, {"adj"}) and (have == {"noun"} or adjective in self.relational):
            return True
        return False if have and "noun" not in have and adjective not in self.relational else None

    def above(self, place: str) -> list[str]:
        """The kinds above a noun, the nearest first."""
        found = list[str]()
        while (up := self.nouns[place][1]) and len(found) < 12:
            place = up[0]
            found.append(self.nouns[place][0])
        return found


@dataclass
class Told:
    """Mentions: the means of their states, the texts that say what each is, and how much it counts."""

    states: np.ndarray
    said: list[tuple[str, ...]]
    weight: np.ndarray

    @cached_property
    def vectors(self) -> np.ndarray:
        """(N, e): those of what is said, added."""
        encoder = load_encoder(SHIPPED_SENTENCES, reads="text", cache=False)
        texts = [*dict.fromkeys(text for said in self.said for text in said)]
        vector = dict(zip(texts, read_words(encoder, [text.split() for text in texts]), strict=True))
        return unit(np.stack([sum(vector[text] for text in said) for said in self.said]))


def states_of(encoder: Any, sentences: Sequence[Sentence]) -> np.ndarray:
    """(N, D) float16: those of the words of sentences."""
    read = list[np.ndarray]()
    for first in range(0, len(sentences), 2000):
        read.append(highest_layers(encoder, sentences[first : first + 2000]).astype(np.float16))
        print(f"{min(first + 2000, len(sentences)):,} of {len(sentences):,} sentences", flush=True)
    return np.concatenate(read)


def told_names(states: np.ndarray, lessons: Lessons) -> Told:
    """Names of articles, of no noun and of no name many."""
    starts, of_noun, of_name = np.cumsum([0, *map(len, lessons.sentences)]), Counter[str](), Counter[str]()
    spans, said = list[tuple[int, int]](), list[tuple[str, ...]]()
    for number in np.random.default_rng(3).permutation(len(lessons.sentences)):
        words, at = lessons.sentences[number].words, int(starts[number])
        for found in lessons.mentions[number]:
            name, noun = " ".join(words[found.start : found.end]), found.label.split()[-1].lower()
            if not name[:1].isupper() or of_noun[noun] >= PER_NOUN or of_name[name] >= PER_NAME:
                continue
            of_noun[noun] += 1
            of_name[name] += 1
            spans.append((at + found.start, at + found.end))
            said.append((found.label, f"the name of a {noun}"))
    weight = np.array([of_noun[noun.removeprefix("the name of a ")] ** -0.5 for _, noun in said])
    return Told(mean_vectors(states, Runs(*map(np.array, zip(*spans, strict=True)))), said, weight)


def told_nouns(states: np.ndarray, wordnet: WordNet, texts: Sequence[Sentence]) -> tuple[Told, np.ndarray, np.ndarray]:
    """Nouns of texts; the weights (D + 1,) of what is one, and states of words (N, D) that are none."""
    words = [word for sentence in texts for word in sentence.words]
    is_nominal = [wordnet.is_nominal(word) for word in words]
    counts = Counter(map(str.lower, words))
    told = np.random.default_rng(3).permutation([n for n, own in enumerate(is_nominal) if own is not None])[:150_000]
    weight = np.array([counts[words[n].lower()] ** -0.4 for n in told])
    target = np.array([[1.0 if is_nominal[n] else -1.0] for n in told])
    made, bias = ridge(states[told].astype(np.float32), target, weight, 0.1)
    nominal = np.append(made[0], bias)
    scores = [states[n : n + 20_000].astype(np.float32) @ made[0] + bias[0] for n in range(0, len(states), 20_000)]
    places, said, weight = noun_mentions(wordnet, texts, np.concatenate(scores) > 0)
    means = mean_vectors(states, Runs(*map(np.array, zip(*places, strict=True))))
    others = [n for n in told if not is_nominal[n]][:OTHER_WORDS]
    return Told(means, said, weight), nominal, states[others].astype(np.float32)


def noun_mentions(
    wordnet: WordNet, texts: Sequence[Sentence], nominal: np.ndarray
) -> tuple[list[tuple[int, int]], list[tuple[str, ...]], np.ndarray]:
    """Where nouns in small letters stand, of no noun and of no kind many; what each is; and how much it counts."""
    of_lemma, of_kind = Counter[str](), Counter[str]()
    places, said, own = list[tuple[int, int]](), list[tuple[str, ...]](), list[tuple[str, str]]()
    starts = np.cumsum([0, *map(len, texts)])
    for number in np.random.default_rng(3).permutation(len(texts)):
        at, words = int(starts[number]), texts[number].words
        for start, stop, lemma in nouns_in(words, wordnet, nominal[at : at + len(words)]):
            noun = wordnet.senses["noun"][lemma][0]
            above = wordnet.above(noun)
            if len(above) < 2 or of_lemma[lemma] >= PER_LEMMA or of_kind[above[0]] >= PER_KIND:
                continue
            of_lemma[lemma] += 1
            of_kind[above[0]] += 1
            places.append((at + start, at + stop))
            said.append((f"the name of a {above[0]}", wordnet.nouns[noun][2], f"the name of a {above[1]}"))
            own.append((lemma, above[0]))
    return places, said, np.array([of_kind[kind] ** -0.5 * of_lemma[lemma] ** -0.3 for lemma, kind in own])


def nouns_in(words: Sequence[str], wordnet: WordNet, nominal: np.ndarray) -> Iterator[tuple[int, int, str]]:
    """The longest nouns that WordNet has."""
    small = [word[:1].islower() for word in words]
    at = 0
    while at < len(words):
        for stop in range(min(at + LONGEST_LEMMA, len(words)), at, -1):
            own = words[at:stop]
            if all(small[at:stop]) and nominal[stop - 1] and (len(own) == 1 or own[0] not in CLOSED_WORDS):
                lemma = wordnet.lemma("_".join(own).lower(), "noun")
                if lemma and (len(own) > 1 or len(lemma) > 2):
                    yield at, stop, lemma
                    at = stop
                    break
        else:
            at += 1


def common_share(encoder: Any, wordnet: WordNet, folder: Path) -> np.ndarray:
    """From the vector of a type and 1: how many of its members have no names of their own."""
    small, capital = Counter[str](), Counter[str]()
    for path in sorted(folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            if found := definition(record["text"]):
                title = plain_title(record)
                low, rest = title[:1].lower() + title[1:], record["text"][len(title) + 1 : 2500]
                is_small = low.islower() and bool(re.search(rf"\b{re.escape(low)}\b", rest))
                small[found[1]] += is_small
                capital[found[1]] += not is_small and bool(re.search(rf"[a-z,] {re.escape(title)}\b", rest))
    told = {noun: small[noun] + capital[noun] for noun in small | capital if small[noun] + capital[noun] >= 3}
    shares = {noun: ((small[noun] + 0.5) / (count + 1), count**0.5) for noun, count in told.items()}
    for lemma, (place, *_) in wordnet.senses["noun"].items():
        name, below, instances = lemma.replace("_", " "), wordnet.below[place], wordnet.instances[place]
        if wordnet.nouns[place][0].lower() == name and below + instances >= 4 and name not in told:
            named = not {"person", "social group", "geographical area", "region"}.isdisjoint(
                [name, *wordnet.above(place)]
            )
            shares[name] = (0.0 if named else below / (below + 3 * instances), 0.3)
    share, weight = map(np.array, zip(*shares.values(), strict=True))
    return line(read_types(encoder, {name: name for name in shares}), share, weight, 2e-3)


def groups_of(vectors: np.ndarray, weight: np.ndarray, number: int) -> np.ndarray:
    """(N,): to which of so many groups each belongs, by k-means of vectors of length 1."""
    rng = np.random.default_rng(0)
    middles = vectors[rng.choice(len(vectors), number, replace=False)].copy()
    for _ in range(12):
        own = np.concatenate([(vectors[n : n + 4000] @ middles.T).argmax(1) for n in range(0, len(vectors), 4000)])
        sums = sum_by(own, vectors * weight[:, None], number)
        met = np.bincount(own, minlength=number) > 0
        middles[met] = unit(sums[met])
        middles[~met] = vectors[rng.integers(len(vectors), size=int((~met).sum()))]
    return np.unique(own, return_inverse=True)[1]


def sum_by(groups: np.ndarray, rows: np.ndarray, number: int) -> np.ndarray:
    """(G, d): the sums of the rows of each group."""
    sums = np.zeros((number, rows.shape[1]))
    np.add.at(sums, groups, rows)
    return sums


def group_nouns(vectors: np.ndarray, told: Told, others: np.ndarray) -> Nouns:
    """From the vectors of nouns (N, e), and of words that are none."""
    of_noun = groups_of(said := told.vectors, told.weight, GROUPS)
    of_other = groups_of(unit(others), np.ones(len(others)), OTHER_GROUPS)
    own, rest = of_noun.max() + 1, of_other.max() + 1
    weight = told.weight / told.weight.sum()
    each = np.bincount(of_noun, weight)
    means = sum_by(of_noun, vectors * weight[:, None], own) / each[:, None]
    left = vectors - means[of_noun]
    counts = np.bincount(of_other)
    total = np.append(each, OTHER_WEIGHT * counts / counts.sum()) / (1 + OTHER_WEIGHT)
    means = np.concatenate([means, sum_by(of_other, others, rest) / counts[:, None]])
    what = np.concatenate([unit(sum_by(of_noun, said * weight[:, None], own)), np.zeros((rest, said.shape[1]))])
    centre = total @ means
    return Nouns(total, centre, means - centre, what, left.T @ (left * weight[:, None]))


def lags_of(encoder: Any, names: Told, vectors: np.ndarray) -> np.ndarray:
    """From the vector of a type of persons and 1: by how much less than others its names are nearer to it than to
    "person", where as many of them as of others are told right."""
    nouns = np.array([noun.removeprefix("the name of a ") for _, noun in names.said])
    counts = Counter(nouns.tolist())
    often = [noun for noun, count in counts.items() if count >= LEAST_NAMES]
    kinds = kinds_of_types(encoder, ["PERSON", "PLACE", "ORGANISATION", "OTHER"], often)
    types = {noun: noun for noun, own in zip(often, kinds, strict=True) if own.argmax() == 0}
    person = read_types(encoder, {"person": "person"})[0]
    x = read_types(encoder, types)
    ours = np.isin(nouns, [*types])
    vectors, nouns, weight = vectors[ours], nouns[ours], names.weight[ours]
    lags = list[float]()
    for noun, own, likely in zip(types, x, kinds_of_types(encoder, ["PERSON"], types)[:, 0], strict=True):
        ahead = vectors @ (own - person) - OF_KINDS * (1 - likely)
        order, is_own = np.argsort(ahead), nouns == noun
        of_own = np.cumsum((weight * is_own)[order]) / (weight * is_own).sum()
        of_others = np.cumsum((weight * ~is_own)[order]) / (weight * ~is_own).sum()
        lags.append(float(ahead[order][np.argmin(np.abs(of_own + of_others - 1))]))
    return line(x, np.array(lags), np.ones(len(x)), 1e-4)


def line(x: np.ndarray, y: np.ndarray, weight: np.ndarray, strength: float) -> np.ndarray:
    """Weights of vectors of length 1, and behind them a bias."""
    x, mean, middle = x.astype(np.float64), np.average(x, axis=0, weights=weight), np.average(y, weights=weight)
    gram = (x - mean).T @ ((x - mean) * weight[:, None]) + strength * weight.sum() * np.eye(x.shape[1])
    solved = np.linalg.solve(gram, (x - mean).T @ ((y - middle) * weight))
    return np.append(solved, middle - mean @ solved)


def learn(wikipedia_folder: Path, wordnet: Path, texts: tuple[str, ...], things: Path, out: Path) -> None:
    """Write the map."""
    options = ThingAdaptOptions(corpus=texts, things=things, sentences=10**9)
    lessons = find_lessons(options, read_things(options))
    encoder, net = open_encoder(STATES, ReadingOptions(layers="last")), WordNet(wordnet)
    states = states_of(encoder, lessons.sentences)
    names = told_names(states, lessons)
    nouns, nominal, others = told_nouns(states, net, lessons.sentences)
    made, bias, mean = solve(names, nouns, encoder.streams[0].width)
    reader = load_encoder(SHIPPED_SENTENCES, reads="text", cache=False)
    groups = group_nouns(nouns.states @ made.T + bias, nouns, others @ made.T + bias)
    lags = lags_of(reader, names, names.states @ made.T + bias)
    told = {"names": len(names.said), "nouns": len(nouns.said), "sentences": len(lessons.sentences)}
    own = DescribedStates(made, bias, nominal, common_share(reader, net, wikipedia_folder), lags, groups)
    own.save(out, mean, told | {"encoder": STATES})
    print(json.dumps(told))


def ridge(x: np.ndarray, y: np.ndarray, weight: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights (e, D) and bias (e,), of standardised states."""
    weight = (weight / weight.mean()).astype(np.float32)
    mean, spread, middle = (x * weight[:, None]).mean(0), x.std(0) + 1e-3, (y * weight[:, None]).mean(0)
    z = (x - mean) / spread
    gram = z.T @ (z * weight[:, None]) + strength * len(z) * np.eye(len(mean), dtype=np.float32)
    made = (np.linalg.solve(gram, z.T @ ((y - middle) * weight[:, None])) / spread[:, None]).T
    return made, middle - made @ mean


def solve(names: Told, nouns: Told, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The map (e, D), its bias, and the mean of the states; those of the sentence encoder stand from `first` on."""
    x, y = np.concatenate([names.states, nouns.states]), np.concatenate([names.vectors, nouns.vectors])
    shares = (names.weight * (1 - NOUNS_SHARE) / names.weight.sum(), nouns.weight * NOUNS_SHARE / nouns.weight.sum())
    weight = np.concatenate(shares) * len(x)
    made, bias = ridge(x, y, weight, STRENGTH)
    mean, width = (x * weight[:, None]).mean(0), y.shape[1]
    middle = bias + made @ mean
    made = MAP_SHARE * made
    bias = middle - made @ mean
    own = x[:, first : first + width] + x[:, first + width : first + 2 * width]  # a word's last state and its first one
    share = OWN_SHARE / np.linalg.norm(own, axis=1).mean()
    for at in (first, first + width):
        made[:, at : at + width] += share * np.eye(width, dtype=np.float32)
    return made.astype(np.float32), bias, mean


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
