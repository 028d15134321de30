"""A tagger from what its types are called, before any entity is labelled.

    tagger = from_types(Tagger, {"politician": "", "political party": "", "law": "an act or a treaty"})
    tagger.predict("Ada Brandt leads the Liberal Party.")      # politician, political party

It answers the names that the network of `starter-large` finds. The type of a name is the one with the largest

    score(name, type) = v · m + 0.3 Σ_k P(k | name) P(k | type)        v = mean of W x + b over the words of the name

    x          the highest layers of a word, D values
    W, b       a ridge regression from the names of Wikipedia to what its articles say that they are (`DescribedStates`)
    m          the vector of "the name of a politician", or of a description, by the sentence encoder of the package
    P(k | ·)   probabilities of the kinds of names that the network knows: person, place, organisation, other

Names that are nearer to a kind that no type is called by are no entities. Where a type is plainly of such a kind, as a
city is a place and a politician a person, the kind must be nearer by `YIELD`: most places are then cities. A score is
linear in the mean of the words, so all is a `ridge` head, whose weights are written down in place of being learned. A
contrast between types in place of the regression knows those that it has seen better, and others worse (docs/log.md).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float
from safetensors.numpy import save_file

from boustro.arrays import read_arrays
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
    "OTHER": "book film song product event award law language disease chemical date amount food animal star idea "
    "vehicle",
}
"""Types of each kind, which tell the kind of other types."""
NEAREST_EXAMPLES, PLAIN_MARGIN = 3, 0.1
"""A type is plainly of a kind where the mean cosine with so many of its examples is that much higher than with those of
any other kind: city 0.27, politician 0.20, chemist 0.04."""
YIELD = 0.1
"""Of the score of a kind. From 0.05 on most cities are found; without a bound all persons are politicians."""
SHORTEST_PART = 4
"""Letters of the shortest part of a name without a space, musicalartist."""
LONGEST_CODE = 4
"""Letters of the longest name of a kind that is no word, `MISC`."""


@dataclass(frozen=True)
class DescribedStates:
    """A linear map from the states of words in names to vectors of what the names are said to be.

    The map has a byte for each weight, in units of each state's own.
    """

    map: Float[np.ndarray, "e D"]
    bias: Float[np.ndarray, " e"]

    @classmethod
    def load(cls, folder: Artefact) -> "DescribedStates":
        """Read a folder; `FileNotFoundError` or `ValueError` where it is missing or damaged."""
        with folder.opened(DESCRIBED_STATES, needs=(STATES_FILE,)):
            arrays = read_arrays(folder / STATES_FILE, folder.read(STATES_FILE))
            return cls(arrays["map"].astype(np.float32) * arrays["unit"], arrays["bias"])

    def save(self, path: Path, mean: Float[np.ndarray, " D"], made_by: Mapping[str, Any]) -> None:
        """Write a folder; the mean of the states is where rounding does no harm, and `made_by` says from what."""
        unit = np.maximum(np.abs(self.map).max(0), 1e-12) / 127
        rounded = np.rint(self.map / unit)
        bias = self.bias + (self.map - rounded * unit).astype(np.float64) @ mean
        arrays = {"map": np.ascontiguousarray(rounded, np.int8), "unit": unit, "bias": bias.astype(np.float32)}
        with write_folder(path, DESCRIBED_STATES, dict(made_by)) as folder:
            save_file(arrays, folder / STATES_FILE)


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

    means = given_labels(labels)
    alike = {name: f"{kind_names(name)[0]} names" for name, text in means.items() if text == name}  # PER and person
    check_labels(means | alike, several=True)
    says = spoken(means)
    said = {name: text for name, text in means.items() if name in says or len(kind_names(name)) > 1}
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
    yielding = plain_kinds(texts, means.keys() & said.keys()) - means.keys()
    behind = YIELD * np.array([name in yielding for name in said])
    _fill(head, read_types(texts, said), kinds_of_types(texts, kinds, said), behind)
    head.to(plan.device)
    silent = sorted(means.keys() - said.keys())
    notices = {SILENT.format(", ".join(silent)): len(silent)} if silent else {}
    train = {"name": "types by name", "sentences": 0, "fingerprint": ""}
    made = kind.of(plan)
    made.fitted = Fitted(plan, labelling, head, untrained_record(reader, head, train, notices))
    return made


def _fill(
    head: RidgeTagger,
    types: Float[np.ndarray, "T e"],
    kinds: Float[np.ndarray, "T K"],
    behind: Float[np.ndarray, " T"],
) -> None:
    """Write the weights of a head whose types are in this order, from their vectors, their kinds, and how much nearer
    than others they must be."""
    states = DescribedStates.load(Artefact(str(files("boustro") / "data" / "starter" / "types")))
    at = next(number for number, shape in enumerate(head.streams) if shape[4:])
    first, places = sum(head.widths[:at]), dict(head.streams[at][4])
    inside = np.zeros((2, sum(head.widths)), np.float32)
    inside[:, first + places.pop("O")] = 1, -1
    weight = np.zeros((len(types), sum(head.widths)), np.float32)
    weight[:, : states.map.shape[1]] = types @ states.map
    weight[:, first + np.array([*places.values()])] = OF_KINDS * kinds
    head.body.fill(INSIDE, LinearSolution(inside, np.array([-0.5, 0.5]), 0.0), KNOWN_SCALE)
    head.body.fill(TYPE, LinearSolution(weight, types @ states.bias - behind, 0.0), TYPE_SHARPNESS)


def read_types(encoder: "Encoder", means: Mapping[str, str]) -> Float[np.ndarray, "T e"]:
    """Vectors of length 1 of what types are called, and of their descriptions where they have any."""
    vectors = _read(encoder, [f"the name of a {_words(name)}" for name in means])
    if described := {number: text for number, (name, text) in enumerate(means.items()) if text != name}:
        vectors[[*described]] += _read(encoder, described.values())
    return _unit(vectors)


def kinds_of_types(encoder: "Encoder", kinds: Sequence[str], types: Iterable[str]) -> Float[np.ndarray, "T K"]:
    """Return the probability of each kind for each type: 1 for a type that is called as the kind is."""
    called = [aliases(kind) for kind in kinds]
    spelt = ([name for name in names if len(name) > LONGEST_CODE] or names for names in called)
    vectors = _unit(np.stack([_read(encoder, [name.lower() for name in names]).mean(0) for names in spelt]))
    labels = [*types]
    likely = np.exp(log_softmax(KIND_SHARPNESS * _read(encoder, [*map(_words, labels)]) @ vectors.T))
    own = np.array([[kind in kind_names(label) for kind in kinds] for label in labels])
    return np.where(own.any(1, keepdims=True), own, likely)


def plain_kinds(encoder: "Encoder", types: Iterable[str]) -> set[str]:
    """Return which of persons and places some type is plainly of; organisations and others are of too many kinds."""
    examples = {kind: _read(encoder, words.split()) for kind, words in EXAMPLES.items()}
    vectors = _read(encoder, [*map(_words, types)])
    near = np.stack([np.sort(vectors @ own.T)[:, -NEAREST_EXAMPLES:].mean(1) for own in examples.values()], axis=1)
    order, rows = near.argsort(1), np.arange(len(near))
    plain = near[rows, order[:, -1]] - near[rows, order[:, -2]] >= PLAIN_MARGIN
    return {[*EXAMPLES][kind] for kind in order[plain, -1]} & {"PERSON", "PLACE"}


def _words(label: str) -> str:
    """Of a type, or of the kind that it is short for: `LOC` is a place."""
    return readable(kind_names(label)[0] if len(label) <= LONGEST_CODE else label).lower()


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
    return _unit(np.stack([first[0, 0] for (first,) in encoder.encode(texts)]).astype(np.float32))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
