"""A tagger from what its types are called, before any entity is labelled.

    tagger = from_types(Tagger, {"politician": "", "political party": "", "law": "an act or a treaty"})
    tagger.predict("Ada Brandt leads the Liberal Party.")      # politician, political party

It answers the names that the network of `starter-large` finds, and nouns where a type has such, as diseases have. The
type of a name, or of nouns in a row, is the one with the largest

    score(name, type) = v · m + 0.3 Σ_k P(k | name) P(k | type)        v = mean of W x + b over the words of the name

    x          the highest layers of a word, D values
    W, b       a ridge regression from the names of Wikipedia, and the nouns of WordNet, to what these say that they are
    m          the vector of "the name of a politician", or of a description, by the sentence encoder of the package
    P(k | ·)   probabilities of the kinds of names that the network knows: person, place, organisation, other

Names that are nearer to a kind that no type is called by are no entities. Where a type is plainly of such a kind, as a
city is a place and a politician a person, the kind must be nearer by `YIELD`: most places are then cities. A score is
linear in the mean of the words, so all is a `ridge` head, whose weights are written down in place of being learned. A
contrast between types in place of the regression knows those that it has seen better, and others worse (docs/log.md).

Which nouns are of a type a second ridge regression tells, from W x + b of groups of nouns to how near the type is to
what they are (`Nouns`). A type whose members have names of their own, as cities have, has no nouns; nor has one whose
nouns are not told from others', as those of theories are not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save_file

from boustro.arrays import read_arrays, unit
from boustro.encoders.extended import log_softmax
from boustro.heads.closed_form import KNOWN_SCALE, LinearSolution
from boustro.heads.factored import aliases, factored_tags, kind_names
from boustro.heads.registry import make_head
from boustro.heads.ridge_tags import INSIDE, TYPE, RidgeTagger
from boustro.names import LARGE, SHIPPED_SENTENCES
from boustro.store import Artefact, write_folder
from boustro.tasks.label_names import DESCRIBED, SILENT, check_labels, given_labels, spoken
from boustro.tasks.labellings import readable
from boustro.tasks.plan import Fitted, make_plan, untrained_record
from boustro.tasks.tagger.tags import NamedTypes
from boustro.text.words import split_text

if TYPE_CHECKING:
    from boustro.encoders.base import Encoder
    from boustro.tasks.tagger import Tagger

OwnTagger = TypeVar("OwnTagger", bound="Tagger")
STATES = "starter-lm+starter-texts"
"""The first parts of `starter-large`, whose states the map reads; those of the pair add nothing (docs/log.md)."""
DESCRIBED_STATES, STATES_FILE = "described states", "states.safetensors"
OF_KINDS = 0.3
"""0.2 to 0.5 give within one point."""
TYPE_SHARPNESS = 8.0
"""Of the softmax over types; calibration errors are then 6 to 12 on four sets."""
KIND_SHARPNESS = 20.0
"""Of the kinds of a type, by the cosines of what both are called."""
EXAMPLES = {
    "PERSON": "person politician writer scientist athlete singer actor customer doctor king teacher employee artist",
    "PLACE": "place city country river mountain building street airport island region lake park",
    "ORGANISATION": "organisation company university team party agency bank band newspaper hospital government brand",
    "OTHER": "book film song product event award law language disease chemical food animal star idea vehicle",
    "MEASURE": "amount price quantity percentage date time duration hours age size number reason opinion question "
    "sentence",
}
"""Types of each kind, which tell the kind of other types; of measures and clauses neither names nor nouns tell."""
NEAREST_EXAMPLES, PLAIN_MARGIN = 3, 0.1
"""A type is plainly of a kind where the mean cosine with so many of its examples is that much higher than with those of
any other kind: city 0.27, politician 0.20, chemist 0.04; price 0.33, opening hours 0.32."""
NOT_TOLD = "types of amounts, times or clauses, which no name and no noun tells; label examples of them: {}"
NEAR_NOUN, NOUN_STRENGTH = 0.45, 20.0
"""The cosine from which on nouns teach a type; and the strength of the regression, in units of the mean variance."""
MEMBER, MEMBER_SLOPE = 0.6, 30.0
"""The cosine of a type with what a noun is at which it is one of the type as likely as not; and how fast that rises."""
NOUN_THRESHOLDS = np.arange(0.9, 3, 0.05)
"""Scores from which on a noun is taken, of which the first is taken that is enough; a noun of the type has 1."""
RIGHT_AND_COMMON, LEAST_COMMON = 1.1, 0.4
"""The share of nouns found that is right and the share of members that are nouns, together; the latter alone. 1.2 finds
a third fewer parts of bodies, and twice fewer products in tweets that are none; cities have 0, species 0.44."""
NOUN_SCALE = 0.25
"""Of the scores of nouns beside those of names; four of ten are then right that seem so, and with 1 as many of six."""
YIELD = 0.1
"""Of the score of a kind. From 0.05 on most cities are found; without a bound all persons are politicians."""
SHORTEST_PART = 4
"""Letters of the shortest part of a name without a space, musicalartist."""
LONGEST_CODE = 4
"""Letters of the longest name of a kind that is no word, `MISC`."""


IN_BYTES = ("states", "said", "spread")
"""Arrays of `Nouns` that are in bytes in the folder."""


@dataclass(frozen=True)
class Nouns:
    """Nouns in groups (G) of alike ones, by the vectors that `DescribedStates` makes of them where they stand in texts.

    Attributes:
        weight: How often each group is met; they sum to 1.
        centre: The mean of the vectors.
        states: The mean of each group, less `centre`.
        said: Vectors of length 1 of what nouns of each group are; 0 for groups of other words.
        spread: The covariance within groups.
    """

    weight: Float[np.ndarray, " G"]
    centre: Float[np.ndarray, " e"]
    states: Float[np.ndarray, "G e"]
    said: Float[np.ndarray, "G e"]
    spread: Float[np.ndarray, "e e"]

    def scores_of(
        self, types: Float[np.ndarray, "T e"], common: Float[np.ndarray, " T"]
    ) -> tuple[Float[np.ndarray, "F e"], Float[np.ndarray, " F"]]:
        """Return weights and biases of scores that are above 0 for nouns of a type, for those types that have any.

        `common` is the share of the members of each type that have no names of their own.
        """
        near = self.said @ types.T
        wanted = np.maximum(0, near - NEAR_NOUN) * self.weight[:, None]
        total = wanted.sum(0)
        gram = self.states.T @ (self.states * self.weight[:, None])
        gram += NOUN_STRENGTH * np.trace(gram) / len(gram) * np.eye(len(gram))
        weight = np.linalg.solve(gram, self.states.T @ (wanted - self.weight[:, None] * total))
        weight /= np.maximum(((self.states @ weight) * wanted).sum(0) / np.maximum(total, 1e-9), 1e-9)
        scores = self.states @ weight
        width = np.sqrt(np.maximum(np.einsum("eT,ef,fT->T", weight, self.spread, weight), 1e-12))
        z = torch.from_numpy((scores - NOUN_THRESHOLDS[:, None, None]) / width)
        found = torch.special.ndtr(z).numpy() * self.weight[:, None]  # (thresholds, G, T)
        right = (found / (1 + np.exp(-MEMBER_SLOPE * (near - MEMBER)))).sum(1) / np.maximum(found.sum(1), 1e-12)
        enough = (right + common >= RIGHT_AND_COMMON) & (common > LEAST_COMMON) & (total > 0)
        kept = np.flatnonzero(enough.any(0))
        bias = -NOUN_THRESHOLDS[enough[:, kept].argmax(0)] - self.centre @ weight[:, kept]
        return weight[:, kept].T, bias


@dataclass(frozen=True)
class DescribedStates:
    """A linear map from the states of words to vectors of what names and nouns are said to be.

    Attributes:
        map: The map; in the folder a weight has a byte, in units of each state's own.
        bias: What it adds.
        nominal: From states: above 0 a word is a noun, or an adjective as "renal" is.
        common: From the vector of a type: which share of its members have no names of their own.
        lags: From the vector of a type of persons: how much nearer to it than to "person" its members are than others;
            below 0 where they seem persons.
        nouns: What tells the nouns of a type.

    The last place of the three regressions is their bias.
    """

    map: Float[np.ndarray, "e D"]
    bias: Float[np.ndarray, " e"]
    nominal: Float[np.ndarray, " D1"]
    common: Float[np.ndarray, " e1"]
    lags: Float[np.ndarray, " e1"]
    nouns: Nouns

    @classmethod
    def load(cls, folder: Artefact) -> "DescribedStates":
        """Read a folder; `FileNotFoundError` or `ValueError` where it is missing or damaged."""
        with folder.opened(DESCRIBED_STATES, needs=(STATES_FILE,)):
            arrays = read_arrays(folder / STATES_FILE, folder.read(STATES_FILE))
            packed = {name: arrays[name] * arrays[f"{name}_unit"] for name in IN_BYTES}
            nouns = Nouns(arrays["weight"], arrays["centre"], **packed)
            lines = {name: arrays[name] for name in ("bias", "nominal", "common", "lags")}
            return cls(arrays["map"] * arrays["unit"], **lines, nouns=nouns)

    def save(self, path: Path, mean: Float[np.ndarray, " D"], made_by: Mapping[str, Any]) -> None:
        """Write a folder; the mean of the states is where rounding does no harm, and `made_by` says from what."""
        rounded, step = _bytes(self.map, 0)
        bias = self.bias + (self.map - rounded * step).astype(np.float64) @ mean
        arrays = {"map": rounded, "unit": step, "bias": bias, "weight": self.nouns.weight, "centre": self.nouns.centre}
        arrays |= {"nominal": self.nominal, "common": self.common, "lags": self.lags}
        for name in IN_BYTES:
            arrays[name], arrays[f"{name}_unit"] = _bytes(getattr(self.nouns, name), 1)
        kept = {name: own if own.dtype == np.int8 else own.astype(np.float32) for name, own in arrays.items()}
        with write_folder(path, DESCRIBED_STATES, dict(made_by)) as folder:
            save_file(kept, folder / STATES_FILE)


def _bytes(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an array in bytes, and the unit of each column (axis 0) or row (axis 1)."""
    step = np.maximum(np.abs(array).max(axis, keepdims=bool(axis)), 1e-12) / 127
    return np.ascontiguousarray(np.rint(array / step), np.int8), step.astype(np.float32)


def _on_line(vectors: Float[np.ndarray, "T e"], line: Float[np.ndarray, " e1"]) -> Float[np.ndarray, " T"]:
    """Return what a regression gives for vectors; its last place is its bias."""
    return vectors @ line[:-1] + line[-1]


def from_types(
    kind: type[OwnTagger],
    labels: Iterable[Any] | Mapping[Any, str],
    device: str | None,
    reader: "Encoder | None" = None,
) -> OwnTagger:
    """Make a tagger of a class; for the arguments and for errors see `Tagger.from_labels`.

    `reader` is `starter-large` where it is open already, whatever layers it keeps.
    """
    from boustro.encoders.spec import load_encoder

    means = given_labels(labels, "types")
    alike = {name: f"{kind_names(name)[0]} names" for name, text in means.items() if text == name}  # PER and person
    check_labels(means | alike, several=True)
    says = spoken(means)
    said = {name: text for name, text in means.items() if name in says or _is_kind(name)}
    if not said:
        raise ValueError(f"the names {', '.join(means)} say nothing of what they mean; describe them: {DESCRIBED}")
    plan = make_plan(kind, LARGE, "ridge", layers="last", device=device)
    reader = reader or plan.reader.encoder()
    texts = load_encoder(SHIPPED_SENTENCES, reads="text", device=device, cache=False)
    kinds = [own for stream in reader.streams for own, _ in stream.tells if own != "O"]
    said |= {own: own for own in kinds if not any(own in kind_names(name) for name in said)}
    said = dict(sorted(said.items()))  # as the head has its types
    labelling = NamedTypes("named", factored_tags([*said]), [own for own in said if own not in means])
    # Of each stream the last layer is read, and all of it.
    streams = [replace(stream, num_layers=1, components=None).shape for stream in reader.streams]
    head = make_head("ridge", plan.head_options, streams, labelling.labels)
    assert isinstance(head, RidgeTagger)
    near = nearest_kinds(texts, [name for name in said if name in means])
    states = DescribedStates.load(Artefact(str(files("boustro") / "data" / "starter" / "types")))
    vectors = read_types(texts, said)
    behind = _behind([*said], means.keys(), near, _on_line(vectors, states.lags))
    asked = [number for number, name in enumerate(said) if name in means]
    _fill(head, vectors, kinds_of_types(texts, kinds, said), behind, asked, states)
    head.to(plan.device)
    silent = sorted(means.keys() - said.keys())
    told = {SILENT: silent, NOT_TOLD: [name for name, kind in near.items() if kind == ("MEASURE", True)]}
    notices = {text.format(", ".join(names)): len(names) for text, names in told.items() if names}
    train = {"name": "types by name", "sentences": 0, "fingerprint": ""}
    made = kind.of(plan)
    made.fitted = Fitted(plan, labelling, head, untrained_record(reader, head, train, notices))
    return made


def _behind(
    said: Sequence[str], asked: Set[str], near: Mapping[str, tuple[str, bool]], lags: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Return by how much nearer than others each type must be: kinds that are not asked for, where a type is plainly of
    them, and persons beside types of persons."""
    kinds = {name for name in ("PERSON", "PLACE") if (name, True) in near.values()} - asked
    behind = YIELD * np.array([name in kinds for name in said])
    of_persons = [n for n, name in enumerate(said) if near.get(name, ("",))[0] == "PERSON" and not _is_kind(name)]
    if of_persons:
        persons = [name in asked and "PERSON" in kind_names(name) for name in said]
        behind += max(0.0, -float(lags[of_persons].mean())) * np.array(persons)
    return behind


def _is_kind(name: str) -> bool:
    return len(kind_names(name)) > 1


def _fill(
    head: RidgeTagger,
    types: Float[np.ndarray, "T e"],
    kinds: Float[np.ndarray, "T K"],
    behind: Float[np.ndarray, " T"],
    asked: Sequence[int],
    states: DescribedStates,
) -> None:
    """Write the weights of a head whose types are in this order, from their vectors, their kinds, how much nearer than
    others they must be, and which are asked for."""
    at = next(number for number, shape in enumerate(head.streams) if shape[4:])
    first, places = sum(head.widths[:at]), dict(head.streams[at][4])
    inside = np.zeros((2, sum(head.widths)), np.float32)
    inside[:, first + places.pop("O")] = 1, -1
    weight = np.zeros((len(types), sum(head.widths)), np.float32)
    weight[:, : states.map.shape[1]] = types @ states.map
    weight[:, first + np.array([*places.values()])] = OF_KINDS * kinds
    head.body.fill(INSIDE, LinearSolution(inside, np.array([-0.5, 0.5]), 0.0), KNOWN_SCALE)
    head.body.fill(TYPE, LinearSolution(weight, types @ states.bias - behind, 0.0), TYPE_SHARPNESS)
    weight, bias = states.nouns.scores_of(types[asked], _on_line(types[asked], states.common))
    if len(bias):
        nouns = np.zeros((1 + len(bias), sum(head.widths)), np.float32)
        nouns[:, : states.map.shape[1]] = np.concatenate([states.nominal[None, :-1], weight @ states.map])
        bias = np.append(states.nominal[-1], weight @ states.bias + bias)
        head.body.fill_nouns(LinearSolution(NOUN_SCALE * nouns, NOUN_SCALE * bias, 0.0))


def read_types(encoder: "Encoder", means: Mapping[str, str]) -> Float[np.ndarray, "T e"]:
    """Vectors of length 1 of what types are called, and of their descriptions where they have any."""
    vectors = _read(encoder, [f"the name of a {_words(name)}" for name in means])
    if described := {number: text for number, (name, text) in enumerate(means.items()) if text != name}:
        vectors[[*described]] += _read(encoder, described.values())
    return unit(vectors)


def kinds_of_types(encoder: "Encoder", kinds: Sequence[str], types: Iterable[str]) -> Float[np.ndarray, "T K"]:
    """Return the probability of each kind for each type: 1 for a type that is called as the kind is."""
    called = [aliases(kind) for kind in kinds]
    spelt = ([name for name in names if len(name) > LONGEST_CODE] or names for names in called)
    labels = [*types]
    *means, read = _read_each(encoder, *([name.lower() for name in names] for names in spelt), [*map(_words, labels)])
    likely = np.exp(log_softmax(KIND_SHARPNESS * read @ unit(np.stack([one.mean(0) for one in means])).T))
    own = np.array([[kind in kind_names(label) for kind in kinds] for label in labels])
    return np.where(own.any(1, keepdims=True), own, likely)


def nearest_kinds(encoder: "Encoder", types: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return the kind that each type is nearest to, and whether it is plainly of it."""
    *examples, vectors = _read_each(encoder, *map(str.split, EXAMPLES.values()), [*map(_words, types)])
    near = np.stack([np.sort(vectors @ own.T)[:, -NEAREST_EXAMPLES:].mean(1) for own in examples], axis=1)
    order, rows = near.argsort(1), np.arange(len(near))
    plain = near[rows, order[:, -1]] - near[rows, order[:, -2]] >= PLAIN_MARGIN
    return {name: ([*EXAMPLES][kind], bool(own)) for name, kind, own in zip(types, order[:, -1], plain, strict=True)}


def _words(label: str) -> str:
    """Of a type, or of the kind that it is short for: `LOC` is a place."""
    return readable(kind_names(label)[0] if len(label) <= LONGEST_CODE else label).lower()


def _read_each(encoder: "Encoder", *lists: Sequence[str]) -> list[Float[np.ndarray, "S e"]]:
    """Read the texts of several lists together."""
    return np.split(_read(encoder, chain(*lists)), np.cumsum([*map(len, lists)])[:-1])


def _read(encoder: "Encoder", texts: Iterable[str]) -> Float[np.ndarray, "S e"]:
    known = encoder.tokenizer.backend_tokenizer.token_to_id
    parts = [[word for part in split_text(text, "text") for word in part.sentence.words] for text in texts]
    return read_words(encoder, [[part for word in words for part in _apart(word, known)] for words in parts])


def _apart(word: str, known: Callable[[str], int | None]) -> list[str]:
    """Return a word, or the two that it is written from without a space: musicalartist → musical, artist."""
    cuts = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1) if word.islower() and known(word) is None else ()
    pairs = [(word[:cut], word[cut:]) for cut in cuts]
    pairs = [pair for pair in pairs if all(map(known, pair))]  # 0 is of no word
    return [*min(pairs, key=lambda pair: sum(known(part) or 0 for part in pair))] if pairs else [word]


def read_words(encoder: "Encoder", texts: Sequence[Sequence[str]]) -> Float[np.ndarray, "S e"]:
    """Vectors of length 1 of texts that are split into words."""
    return unit(np.stack([first[0, 0] for (first,) in encoder.encode(texts)]).astype(np.float32))
