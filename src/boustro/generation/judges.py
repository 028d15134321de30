"""What scores choices: causal LMs in one direction or both, or a masked LM.

A judge is given pieces in text order, and says how well a continuation fits its context, how likely it is alone, and
how well each of some words fits into a gap. Causal LMs score a word together with what stands after the gap, because
they do not see it before; a masked LM sees both sides and scores the word alone.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from boustro.choose import choose
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import load_config
from boustro.encoders.spec import Spec, load_encoder
from boustro.generation.both_ends.reader import Ids, Reader
from boustro.generation.canvas import Sides, between
from boustro.generation.choices import CONTROLS, SCORES, weigh
from boustro.generation.draws import Draws
from boustro.generation.models import MaskedLM
from boustro.generation.scores import SCORES as MASKED_SCORES
from boustro.generation.writer import BATCH, Writer
from boustro.models.pretrained import architecture_kind
from boustro.store import kind_of
from boustro.text.documents import chunk_by_size
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
        """How well each continuation fits, and whether it is the one that a forward LM would write."""
        ...

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """Log-probabilities without a context."""
        ...

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """How well each word fits into each gap, given as the pieces on its left and on its right."""
        ...


def open_judge(
    model: str,
    score: str | None,
    device: str | None,
    masked_default: str = MASKED_DEFAULT,
    start_piece: str = AUTO,
) -> Judge:
    """The judge that a spec and the name of a score make; `ValueError` for what does not fit together."""
    parts = Spec.parse(model).parts
    path, revision = parts[0].place, parts[0].revision
    transformer = len(parts) == 1 and kind_of(path) in (None, "model")
    if transformer and architecture_kind(load_config(path, revision)) == "masked":
        return MaskedJudge(model.removeprefix("masked:"), score or masked_default, device, start_piece)
    return CausalJudge(model, score, device, start_piece)


class CausalJudge:
    """A forward LM, a backward LM or one of each; the scores of `generation.choices`."""

    def __init__(self, model: str, score: str | None, device: str | None, start_piece: str = AUTO) -> None:
        encoder = load_encoder(model, "last", device=device, dtype="float32", start_piece=start_piece)
        parts = getattr(encoder, "parts", [encoder])
        if not all(type(part) is LMEncoder for part in parts) or len({part.backward for part in parts}) < len(parts):
            raise ValueError(f"{model}: expected a masked LM, a forward LM, a backward LM or one of each direction")
        readers = {part.backward: Reader(part) for part in parts}
        self.forward, self.backward = readers.get(False), readers.get(True)
        self.tokenizer, self.window = parts[0].tokenizer, min(reader.room for reader in readers.values())
        self.score = score or DEFAULTS[self.forward is not None, self.backward is not None]
        needed = choose(self.score, SCORES, "score").signs
        if (self.forward is None and needed.keys() - {"backward"}) or (self.backward is None and "backward" in needed):
            lacking = "forward" if self.forward is None else "backward"
            raise ValueError(f"the score {self.score} needs a {lacking} LM, and {model} has none")

    def judge(self, contexts: Sequence[Ids], continuations: Sequence[Ids]) -> tuple[list[float], list[bool]]:
        """As `Judge`."""
        score = SCORES[self.score]
        evidence = weigh(contexts, continuations, self.forward, self.backward, tuple(score.signs))
        greedy = torch.zeros(len(contexts), dtype=torch.bool) if evidence.greedy is None else evidence.greedy
        return score.of(evidence).tolist(), greedy.tolist()

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """Of the forward LM, or else of the backward LM."""
        reader, pieces = self.forward, continuations
        if reader is None:
            reader, pieces = self.backward, [list(reversed(own)) for own in continuations]
        return CONTROLS["prior"].of(weigh([()] * len(pieces), pieces, reader, wanted=("prior",))).tolist()

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """As `Judge`; a word and what stands after the gap are one continuation."""
        contexts = [left for left, _ in gaps for _ in words]
        found, _ = self.judge(contexts, [[*word, *right] for _, right in gaps for word in words])
        return torch.tensor(found).view(len(gaps), len(words))


class MaskedJudge:
    """A masked LM; the scores of `generation.scores`, with `-pmi` less the score without the context."""

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
        """As `Judge`; no continuation is called what the LM would write."""
        texts = [list(own) for own in continuations]
        found, _ = self.writer.score_pieces([list(own) for own in contexts], texts)
        if self._pmi:
            found = [score - alone for score, alone in zip(found, self.prior(texts), strict=True)]
        return found, [False] * len(texts)

    def prior(self, continuations: Sequence[Ids]) -> list[float]:
        """The score without a context."""
        return self.writer.score_pieces([[]] * len(continuations), [list(own) for own in continuations])[0]

    def word_scores(self, gaps: Sequence[Sides], words: Sequence[Ids]) -> Float[Tensor, "N K"]:
        """As `Judge`; words of one piece, for which all scores are the same, are scored in one reading."""
        lengths = {length: [k for k, word in enumerate(words) if len(word) == length] for length in map(len, words)}
        framed = [([*left, *self.lm.prompt_end], right) for left, right in gaps]
        order = sorted(range(len(gaps)), key=lambda n: sum(map(len, gaps[n])))
        found = torch.zeros(len(gaps), len(words))
        for rows in chunk_by_size(order, lambda n: sum(map(len, framed[n])) + max(lengths), BATCH):
            for length, own in lengths.items():
                read, blank = between(self.lm, [framed[n] for n in rows], length)
                golds = torch.tensor([list(words[k]) for k in own], device=blank.device)
                if length == 1:
                    scores = read(blank)[:, 0, golds[:, 0]]
                else:
                    config, draws = self.writer.scoring, Draws(self.writer.scoring.seed, rows)
                    totals = [self.writer.score_of(read, gold.expand_as(blank), blank, config, draws) for gold in golds]
                    scores = torch.stack([total.log_probs for total in totals], 1)
                found[torch.tensor(rows)[:, None], torch.tensor(own)] = scores.cpu()
        return found - torch.tensor(self.prior(words)) if self._pmi else found
