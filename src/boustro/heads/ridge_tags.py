"""A head that finds entities without gradient descent, for a few dozen sentences: two ridge regressions.

    inside    is a word inside an entity?      from its vector
    type      what is an entity?               from the mean of its words' vectors

Neighbouring words inside are one entity, so two entities that touch become one (`heads.factored` says what is gained).
A word has the probability of being outside, or that of being inside times that of the entity's type; both are softmax
of scores times a scale, which has the least cross-entropy on sentences left out. The layers are averaged.

Where a stream has the probabilities of kinds of names (`encoders.base.Stream`), both begin there: a word is inside, and
an entity has the type that is called as a kind is, with those probabilities, as far as sentences left out bear it out.
A tagger that is made from what its types are called has more scores of words, for nouns that no network of names finds
(`fill_nouns`).

Sources: `heads.closed_form`, `heads.factored`. N words, S sentences, E entities, T types, d width.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.closed_form import KNOWN_SCALE, KnownMaps, LabelledWords, LinearSolution, ridge, ridge_scale
from boustro.heads.crf import entity_forms, entity_types
from boustro.heads.factored import Runs, aliases, find_runs, mean_vectors, read_runs
from boustro.heads.inputs import Kinship, sentence_starts
from boustro.heads.layout import check_lengths
from boustro.heads.options import HeadOptions

INSIDE, TYPE = 0, 1  # rows of the stored weights, which folders keep


class TwoRidges(nn.Module):
    """Weights and biases of both regressions, and the scales of their scores; of types the first rows are used."""

    scales: Tensor

    def __init__(self, width: int, num_labels: int, options: HeadOptions) -> None:
        super().__init__()
        self.maps = nn.ModuleList([nn.Linear(width, 2), nn.Linear(width, num_labels)])
        self.nouns: nn.Linear | None = None
        self.register_buffer("scales", torch.ones(2))
        self.requires_grad_(False)
        self.register_load_state_dict_pre_hook(_make_nouns)

    def learn(self, which: int, words: LabelledWords) -> None:
        """Set one of them."""
        solution = ridge(words)
        self.fill(which, solution, ridge_scale(words, solution.strength))

    @torch.no_grad()
    def fill(self, which: int, solution: LinearSolution, scale: float) -> None:
        """Set one of them to a solution for the first tags."""
        layer, count = self.maps[which], len(solution.bias)
        assert isinstance(layer, nn.Linear)
        layer.weight.zero_()[:count].copy_(torch.from_numpy(solution.weight))
        layer.bias.fill_(-torch.inf)[:count].copy_(torch.from_numpy(solution.bias))
        self.scales[which] = scale

    @torch.no_grad()
    def fill_nouns(self, solution: LinearSolution) -> None:
        """Set the scores of nouns: a word is also inside where the first and the largest other are above 0."""
        nouns = self.make_nouns(*solution.weight.shape)
        nouns.weight.copy_(torch.from_numpy(solution.weight))
        nouns.bias.copy_(torch.from_numpy(solution.bias))

    def make_nouns(self, count: int, width: int) -> nn.Linear:
        """Make so many scores of nouns, whose weights are not set."""
        self.nouns = nn.Linear(width, count).requires_grad_(False)
        return self.nouns

    def scores(self, which: int, x: Float[Tensor, "N d"]) -> Float[Tensor, "N C"]:
        """Of outside and inside, or of the types."""
        scores = self.maps[which](x)
        if which == INSIDE and self.nouns is not None:
            nouns = self.nouns(x)
            noun = torch.minimum(nouns[:, 0], nouns[:, 1:].amax(1))
            scores = torch.stack([scores[:, 0], torch.maximum(scores[:, 1], scores[:, 0] + noun)], dim=1)
        return self.scales[which] * scores

    def probabilities(self, which: int, x: Float[Tensor, "N d"]) -> Float[Tensor, "N C"]:
        """Return the softmax of `scores`."""
        return self.scores(which, x).softmax(-1)


def _make_nouns(body: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Make the scores of nouns where a folder has them."""
    if (weight := state.get(f"{prefix}nouns.weight")) is not None:
        assert isinstance(body, TwoRidges)
        body.make_nouns(*weight.shape)


class RidgeTagger(Head):
    """A tagger of two ridge regressions. Targets are tag ids (N,); the prediction for a sentence is (tag ids (W,),
    probabilities (W,))."""

    closed_form = knows_kinds = True
    has_likely_words = True
    body: TwoRidges

    def __init__(self, *given: Any) -> None:
        """Make the head; arguments as of `Head`, `ValueError` for labels that are not tags of entities."""
        super().__init__(*given)
        self.forms = entity_forms(self.labels)
        if "O" not in self.labels or not self.forms:
            raise ValueError("a ridge head finds entities, and the training data have none; use another head")

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N d"]:
        """Return the vectors of the words; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return vectors

    def solve(
        self, pooled: Float[Tensor, "N d"], targets: Int[Tensor, " N"], lengths: Tensor, kin: Kinship | None = None
    ) -> None:
        """Train on words."""
        x, starts = pooled.cpu().numpy(), sentence_starts(lengths.cpu().numpy())
        kinds, runs = self._entities(targets.cpu().numpy(), starts)
        known = self._known(x.shape[1])
        self.body.learn(INSIDE, LabelledWords(x, (kinds >= 0).astype(np.int64), 2, starts, kin, known[INSIDE]))
        if not len(runs.first):  # such as a part of a small training set
            if (alone := known[TYPE]) is not None:
                self.body.fill(TYPE, alone.solution, KNOWN_SCALE)
            return  # else no word is inside, so no type is asked for
        means, entity_starts = mean_vectors(x, runs), runs.per_sentence(starts)
        types = LabelledWords(means, kinds[runs.first], len(self.forms), entity_starts, kin, known[TYPE])
        self.body.learn(TYPE, types)

    def _known(self, width: int) -> tuple[KnownMaps | None, KnownMaps | None]:
        """Return the probabilities of the kinds of names, for inside and for types: a type is trusted to be the kind
        that it is called as, and a word to be inside by the kinds of all types."""
        at = next((n for n, shape in enumerate(self.streams) if shape[4:]), None)
        if at is None:
            return None, None
        mix, first = list(self.mixes)[at], sum(self.widths[:at])
        kinds = {kind: place for kind, place in self.streams[at][4] if kind != "O"}
        weight, places = np.zeros((len(kinds), width), np.float32), [*kinds.values()]
        weight[np.arange(len(kinds)), first + np.array(places, int)] = 1 / mix.scale[0, places].cpu().numpy()
        bias = mix.mean[0, places].cpu().numpy()
        called = np.array([[kind in aliases(name) for kind in kinds] for name in entity_types(self.labels)], float)
        inside = called.any(0) * 1.0
        return KnownMaps(weight, bias, np.stack([-inside, inside])), KnownMaps(weight, bias, called)

    def candidates(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """None: its entities have no probabilities that a promise about recall could rest on."""
        return [[] for _ in lengths]

    @torch.no_grad()
    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[tuple[np.ndarray, ...]]:
        x = self.pool(vectors, lengths)

        def types(runs: Runs) -> np.ndarray:
            means = torch.from_numpy(mean_vectors(x.cpu().numpy(), runs)).to(x.device)
            return self.body.probabilities(TYPE, means).cpu().numpy()

        p = self.body.probabilities(INSIDE, x).cpu().numpy()
        return read_runs(p, types, self.labels, lengths.cpu().numpy(), self.words)

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Float[Tensor, "N C"]:
        """Scores of outside, inside and the types of each word; those of an entity are the mean of its words'."""
        x = vectors
        return torch.cat([self.body.scores(INSIDE, x), self.body.scores(TYPE, x)], dim=1)

    def _entities(self, ids: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, Runs]:
        """Return the type of each word, -1 outside, and the entities."""
        kind_of, begins = np.full(len(self.labels), -1), np.zeros(len(self.labels), bool)
        for kind, form in enumerate(self.forms):
            kind_of[[tag for tag in form[:4] if tag >= 0]] = kind
            begins[[tag for tag in (form.single, form.first) if tag >= 0]] = not form.joined
        return kind_of[ids], find_runs(kind_of[ids], begins[ids], starts)
