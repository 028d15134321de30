"""Judges that score choices: causal LMs in one direction or both, or a masked LM.

A judge is given pieces in text order, and says how well a continuation fits its context, how likely it is alone, and
how well each of some words fits into a gap. Causal LMs score a word together with what stands after the gap, because
they do not see it before; a masked LM sees both sides and scores the word alone.

Scores of a continuation c for a context q (`SCORES`):

    forward       log p(c | q)                 of the forward LM
    forward-mean  the same, a piece
    forward-pmi   log p(c | q) - log p(c)      how much more likely the context makes it
    backward      log p(q | c)                 of the backward LM, which reads c and then predicts q from its end
    pair          forward + backward
    pair-pmi      forward-pmi + backward       both are the information that q and c share, up to what all c have alike

Controls, to stand beside every result: `length` (the longest continuation) and `prior` (log p(c) without the context).
Sources: Brown et al. 2020, section 2.4, and Holtzman et al. 2021, *Surface Form Competition* (PMI); the backward LM as
a channel model: Li et al. 2016, *A Diversity-Promoting Objective Function*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from boustro.choose import choose
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import load_config
from boustro.encoders.spec import Spec, load_encoder
from boustro.given import chunk_by_size
from boustro.lab.generation.both_ends.reader import EndReader, Ids
from boustro.lab.generation.canvas import Sides, between
from boustro.lab.generation.draws import Draws, in_order
from boustro.lab.generation.models import MaskedLM
from boustro.lab.generation.scores import MASKED_SCORES
from boustro.lab.generation.writer import BATCH, Writer
from boustro.models.pretrained import architecture_kind
from boustro.text.start import AUTO

DEFAULTS = {(True, False): "forward", (False, True): "backward", (True, True): "pair-pmi"}
"""By whether there is a forward and a backward LM."""
MASKED_DEFAULT, PMI = "one-shot-pmi", "-pmi"


@runtime_checkable
class Judge(Protocol):
    """`score` is the name of what is computed, `window` the most pieces of a context and a continuation."""

    tokenizer: Any
    score: str
    window: int

    def judge(self, contexts: Sequence[Ids], continuations: Sequence[Ids]) -> tuple[list[float], list[bool]]:
        """Return how well each continuation fits, and whether it is the one that a forward LM would write."""
        ...

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """Log-probabilities without a context."""
        ...

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """Return how well each word fits into each gap, given as the pieces on its left and on its right."""
        ...


def open_judge(
    model: str,
    score: str | None,
    device: str | None,
    masked_default: str = MASKED_DEFAULT,
    start_piece: str = AUTO,
) -> Judge:
    """Return the judge that a spec and the name of a score make; `ValueError` for what does not fit together."""
    parts = Spec.parse(model).parts
    path, revision = parts[0].place, parts[0].revision
    transformer = len(parts) == 1 and path.kind in (None, "model")
    if transformer and architecture_kind(load_config(path, revision)) == "masked":
        return MaskedJudge(model.removeprefix("masked:"), score or masked_default, device, start_piece)
    return CausalJudge(model, score, device, start_piece)


class CausalJudge:
    """A forward LM, a backward LM or one of each; the scores of `lab.judges`."""

    def __init__(self, model: str, score: str | None, device: str | None, start_piece: str = AUTO) -> None:
        encoder = load_encoder(model, "last", device=device, dtype="float32", start_piece=start_piece)
        parts = getattr(encoder, "parts", [encoder])
        if not all(type(part) is LMEncoder for part in parts) or len({part.backward for part in parts}) < len(parts):
            raise ValueError(f"{model}: expected a masked LM, a forward LM, a backward LM or one of each direction")
        readers = {part.backward: EndReader(part) for part in parts}
        self.forward, self.backward = readers.get(False), readers.get(True)
        self.tokenizer, self.window = parts[0].tokenizer, min(reader.room for reader in readers.values())
        self.score = score or DEFAULTS[self.forward is not None, self.backward is not None]
        needed = choose(self.score, SCORES, "score").signs
        if (self.forward is None and needed.keys() - {"backward"}) or (self.backward is None and "backward" in needed):
            lacking = "forward" if self.forward is None else "backward"
            raise ValueError(f"the score {self.score} needs a {lacking} LM, and {model} has none")

    def judge(self, contexts: Sequence[Ids], continuations: Sequence[Ids]) -> tuple[list[float], list[bool]]:
        """Score continuations by the chosen score; the second list says which the forward LM would write."""
        score = SCORES[self.score]
        evidence = weigh(contexts, continuations, self.forward, self.backward, tuple(score.signs))
        greedy = torch.zeros(len(contexts), dtype=torch.bool) if evidence.greedy is None else evidence.greedy
        return score.of(evidence).tolist(), greedy.tolist()

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """Of the forward LM, or else of the backward LM."""
        reader, pieces = self.forward, continuations
        if reader is None:
            reader, pieces = self.backward, [list(reversed(ids)) for ids in continuations]
        return CONTROLS["prior"].of(weigh([()] * len(pieces), pieces, reader, wanted=("prior",))).tolist()

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """Score words for gaps, each with what stands after the gap as one continuation."""
        contexts = [left for left, _ in gaps for _ in words]
        scores, _ = self.judge(contexts, [[*word, *right] for _, right in gaps for word in words])
        return torch.tensor(scores).view(len(gaps), len(words))


class MaskedJudge:
    """A masked LM; the scores of `lab.generation.scores`, with `-pmi` less the score without the context."""

    def __init__(self, model: str, score: str, device: str | None, start_piece: str = AUTO) -> None:
        names = [name + ending for name in MASKED_SCORES for ending in ("", PMI)]
        choose(score, dict.fromkeys(names), "score of a masked LM")
        self.score, self._pmi = score, score.endswith(PMI)
        self.writer = Writer(model, device=device, score=score.removesuffix(PMI), start_piece=start_piece)
        lm = self.writer.model
        assert isinstance(lm, MaskedLM)
        self.lm, self.tokenizer = lm, lm.tokenizer
        self.window = (lm.window or 2**31) - lm.num_frame_pieces - len(lm.prompt_end)

    def judge(self, contexts: Sequence[Ids], continuations: Sequence[Ids]) -> tuple[list[float], list[bool]]:
        """Score continuations; no continuation is called what the LM would write."""
        texts = [list(ids) for ids in continuations]
        scores, _ = self.writer.score_pieces([list(ids) for ids in contexts], texts)
        if self._pmi:
            scores = [score - alone for score, alone in zip(scores, self.prior(texts), strict=True)]
        return scores, [False] * len(texts)

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """Return the score without a context."""
        return self.writer.score_pieces([[]] * len(continuations), [list(ids) for ids in continuations])[0]

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """Score words for gaps. Words of one piece are scored in one reading of a gap, which is the same for all of
        them."""
        lengths = {length: [k for k, word in enumerate(words) if len(word) == length] for length in map(len, words)}
        framed = [([*left, *self.lm.prompt_end], right) for left, right in gaps]
        order = sorted(range(len(gaps)), key=lambda n: sum(map(len, gaps[n])))
        table = torch.zeros(len(gaps), len(words))
        for rows in chunk_by_size(order, lambda n: sum(map(len, framed[n])) + max(lengths), BATCH):
            for length, columns in lengths.items():
                read, blank = between(self.lm, [framed[n] for n in rows], length)
                golds = torch.tensor([list(words[k]) for k in columns], device=blank.device)
                if length == 1:
                    scores = read(blank)[:, 0, golds[:, 0]]
                else:
                    config, draws = self.writer.scoring, Draws(self.writer.scoring.seed, rows)
                    totals = [self.writer.score_of(read, gold.expand_as(blank), blank, config, draws) for gold in golds]
                    scores = torch.stack([total.log_probs for total in totals], 1)
                table[torch.tensor(rows)[:, None], torch.tensor(columns)] = scores.cpu()
        return table - torch.tensor(self.prior(words)) if self._pmi else table


PADDED_PIECES = 8192  # logits over a vocabulary of 50,000 take 1.6 GB in float32 at that size


@dataclass(frozen=True)
class Evidence:
    """(N,) sums of log-probabilities, in nats, of N contexts and continuations; None where an LM is lacking."""

    pieces: Tensor
    forward: Tensor | None = None
    greedy: Tensor | None = None
    """Whether each continuation is the one that the forward LM would write."""
    prior: Tensor | None = None
    backward: Tensor | None = None


class ChoiceScore(NamedTuple):
    """The kinds of evidence that a score adds up, with their signs, and whether it is divided by the pieces."""

    signs: dict[str, int]
    mean: bool = False

    def of(self, evidence: Evidence) -> Tensor:
        """Return (N,), larger for what fits better."""
        total = sum(sign * getattr(evidence, name) for name, sign in self.signs.items())
        return total / evidence.pieces if self.mean else total  # type: ignore[return-value]


SCORES: dict[str, ChoiceScore] = {
    "forward": ChoiceScore({"forward": 1}),
    "forward-mean": ChoiceScore({"forward": 1}, mean=True),
    "forward-pmi": ChoiceScore({"forward": 1, "prior": -1}),
    "backward": ChoiceScore({"backward": 1}),
    "pair": ChoiceScore({"forward": 1, "backward": 1}),
    "pair-pmi": ChoiceScore({"forward": 1, "prior": -1, "backward": 1}),
}
CONTROLS: dict[str, ChoiceScore] = {"length": ChoiceScore({"pieces": 1}), "prior": ChoiceScore({"prior": 1})}


def weigh(
    contexts: Sequence[Ids],
    continuations: Sequence[Ids],
    forward: EndReader | None,
    backward: EndReader | None = None,
    wanted: Sequence[str] = ("forward", "prior", "backward"),
) -> Evidence:
    """Return the wanted evidence about pairs of pieces in text order; every pair must fit into the LMs' windows."""
    evidence: dict[str, Tensor] = {}
    if forward is not None and "forward" in wanted:
        evidence["forward"], evidence["greedy"] = log_probs(forward, contexts, continuations)
    if forward is not None and "prior" in wanted:
        evidence["prior"] = log_probs(forward, [()] * len(continuations), continuations)[0]
    if backward is not None and "backward" in wanted:
        reversed_contexts = [list(reversed(context)) for context in contexts]
        evidence["backward"] = log_probs(backward, continuations, reversed_contexts)[0]
    return Evidence(torch.tensor([float(len(ids)) for ids in continuations]), **evidence)


def log_probs(reader: EndReader, contexts: Sequence[Ids], written: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Return (N,) log-probability of what is written after each context, in the reader's order, and whether it is its
    choice.

    A context that several rows share is read once.
    """
    number = {context: n for n, context in enumerate(dict.fromkeys(map(tuple, contexts)))}
    order = sorted(range(len(written)), key=lambda n: (number[tuple(contexts[n])], len(written[n])))
    totals, greedy = torch.zeros(len(written)), torch.zeros(len(written), dtype=torch.bool)
    for rows in _batches(order, contexts, written):
        distinct = list(dict.fromkeys(tuple(contexts[n]) for n in rows))
        read, place = reader.read(distinct), {context: n for n, context in enumerate(distinct)}
        scores, chosen = read.judge([written[n] for n in rows], [place[tuple(contexts[n])] for n in rows])
        totals[rows], greedy[rows] = scores.sum(-1).cpu(), chosen.cpu()
    return totals, greedy


def _batches(order: Sequence[int], contexts: Sequence[Ids], written: Sequence[Ids]) -> Iterator[list[int]]:
    """Rows in order, with at most so many pieces when they are padded to the longest, or one row."""
    batch: list[int] = []
    widest = 0
    for row in order:
        size = len(contexts[row]) + len(written[row]) + 1
        if batch and max(widest, size) * (len(batch) + 1) > PADDED_PIECES:
            yield batch
            batch, widest = [], 0
        batch.append(row)
        widest = max(widest, size)
    if batch:
        yield batch


def best(scores: Tensor, sizes: Sequence[int]) -> list[int]:
    """Return the choice of each question, the first of equals (`draws`); its choices follow each other, `sizes` of
    each."""
    return [int(in_order(row[None])[0, 0]) for row in scores.split(list(sizes))]
