"""Our LMs as a model of lm-evaluation-harness, registered as `boustro`.

A forward LM gives the log-probability of a continuation given its context; a backward LM that of the context given the
continuation, which re-ranks the choices; a pair adds them up (`generation.choices`); a masked LM has its own scores
(`generation.scores`). What is given to the harness as the log-likelihood is the score that was chosen.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from tqdm import tqdm

from boustro.choose import choose
from boustro.encoders.lm import LMEncoder
from boustro.encoders.spec import load_encoder
from boustro.generation.both_ends.pair import nearest_left
from boustro.generation.both_ends.reader import Ids, Reader
from boustro.generation.choices import CONTROLS, SCORES, weigh
from boustro.text.tokenizers import end_of_text_id

CHUNK = 1024
"""Requests scored together."""
CUT = "contexts longer than the window, of which the last pieces were read"
MULTIPLE_CHOICE = "boustro answers multiple choice only; for other tasks use lm-eval's own model hf over a forward LM"
DEFAULTS = {(True, False): "forward", (False, True): "backward", (True, True): "pair-pmi"}
"""By whether there is a forward and a backward LM."""


class BoustroLM(TemplateLM):
    """A forward LM, a backward LM or a pair; `counts` is what was noticed, such as contexts that were cut."""

    def __init__(self, model: str = "starter", score: str | None = None, device: str | None = None, **_: Any) -> None:
        """Load the LMs that a spec names.

        Raises `ValueError` for anything but a causal LM or a pair of them, and for a score that they do not have.
        """
        super().__init__()
        encoder = load_encoder(model, layers="last", device=device, dtype="float32")
        parts = getattr(encoder, "parts", [encoder])
        if not all(type(part) is LMEncoder for part in parts) or len({part.backward for part in parts}) < len(parts):
            raise ValueError(f"{model}: expected a forward LM, a backward LM or one of each")
        readers = {part.backward: Reader(part) for part in parts}
        self.forward, self.backward = readers.get(False), readers.get(True)
        self.tokenizer, self.counts = parts[0].tokenizer, Counter[str]()
        self.window = min(reader.window for reader in readers.values()) - 1
        self.score = score or DEFAULTS[self.forward is not None, self.backward is not None]
        needed = choose(self.score, SCORES, "score").signs
        if (self.forward is None and needed.keys() - {"backward"}) or (self.backward is None and "backward" in needed):
            lacking = "forward" if self.forward is None else "backward"
            raise ValueError(f"the score {self.score} needs a {lacking} LM, and {model} has none")

    @property
    def eot_token_id(self) -> int:
        """Stands for an empty context."""
        return end_of_text_id(self.tokenizer)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """The pieces of a text, without a frame."""
        return self.tokenizer(string, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        found: list[tuple[float, bool]] = []
        for start in tqdm(range(0, len(requests), CHUNK), desc="scoring", disable=disable_tqdm or None):
            found += self._scored(requests[start : start + CHUNK])
        return found

    def _scored(self, requests: Sequence[tuple[Any, list[int], list[int]]]) -> list[tuple[float, bool]]:
        contexts, continuations = [], []
        for (_, text), context, continuation in requests:
            if not continuation:
                raise ValueError(f"a choice has no pieces ({text!r}), and cannot be scored")
            contexts.append(self._fitting([] if context == [self.prefix_token_id] else context, continuation))
            continuations.append(continuation)
        score = SCORES[self.score]
        evidence = weigh(contexts, continuations, self.forward, self.backward, tuple(score.signs))
        greedy = [False] * len(requests) if evidence.greedy is None else evidence.greedy.tolist()
        return list(zip(score.of(evidence).tolist(), greedy, strict=True))

    def prior(self, choices: Sequence[str]) -> list[float]:
        """Log-probabilities of texts without their contexts, by the forward LM, or else by the backward LM."""
        pieces = [self.tok_encode(choice) for choice in choices]
        reader, reversed_pieces = self.forward, [own[::-1] for own in pieces]
        if reader is None:
            assert self.backward is not None
            reader, pieces = self.backward, reversed_pieces
        evidence = weigh([()] * len(pieces), pieces, reader, wanted=("prior",))
        return CONTROLS["prior"].of(evidence).tolist()

    def _fitting(self, context: Ids, continuation: Ids) -> Ids:
        room = self.window - len(continuation)
        if room < 0:
            raise ValueError(f"a choice has {len(continuation)} pieces, and the window only {self.window}")
        self.counts[CUT] += len(context) > room
        return nearest_left(context, room)

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)


register_model("boustro")(BoustroLM)  # as a decorator it would hide the type
