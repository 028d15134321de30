"""Our LMs as a model of lm-evaluation-harness, registered as `boustro`.

A forward LM gives the log-probability of a continuation given its context; a backward LM that of the context given the
continuation, which re-ranks the choices; a pair adds them up (`generation.judges`); a masked LM has its own scores
(`generation.scores`). What is given to the harness as the log-likelihood is the score that was chosen.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from boustro.generation.both_ends.pair import nearest_left
from boustro.generation.both_ends.reader import Ids
from boustro.generation.judges import open_judge
from boustro.progress import Progress
from boustro.text.start import AUTO
from boustro.text.tokenizers import end_of_text_id

CHUNK = 1024
"""Requests scored together."""
CUT = "contexts longer than the window, of which the last pieces were read"
MULTIPLE_CHOICE = "boustro answers multiple choice only; for other tasks use lm-eval's own model hf over a forward LM"


class BoustroLM(TemplateLM):
    """A judge of choices; `counts` is what was noticed, such as contexts that were cut."""

    def __init__(
        self,
        model: str = "starter",
        score: str | None = None,
        device: str | None = None,
        start_piece: str = AUTO,
        **_: Any,
    ) -> None:
        """Load the LMs that a spec names. Raises as `open_judge`."""
        super().__init__()
        self.judge = open_judge(model, score, device, start_piece=start_piece)
        self.tokenizer, self.score, self.counts = self.judge.tokenizer, self.judge.score, Counter[str]()
        self._lines_to = sys.stderr  # the command silences the harness's own bars

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
        contexts = [
            self._fitting([] if context == [self.prefix_token_id] else context, continuation, text)
            for (_, text), context, continuation in requests
        ]
        continuations = [continuation for _, _, continuation in requests]
        found: list[tuple[float, bool]] = []
        shown = False if disable_tqdm else None
        with Progress("scoring", "choices", total=len(requests), shown=shown, lines_to=self._lines_to) as bar:
            for start in range(0, len(requests), CHUNK):
                part = slice(start, start + CHUNK)
                found += zip(*self.judge.judge(contexts[part], continuations[part]), strict=True)
                bar.update(len(continuations[part]))
        return found

    def prior(self, choices: Sequence[str]) -> list[float]:
        """Log-probabilities of texts without their contexts."""
        return self.judge.prior([self.tok_encode(choice) for choice in choices])

    def _fitting(self, context: Ids, continuation: Ids, text: str) -> Ids:
        """What of a context fits into the window."""
        if not continuation:
            raise ValueError(f"a choice has no pieces ({text!r}), and cannot be scored")
        room = self.judge.window - len(continuation)
        if room < 0:
            raise ValueError(f"a choice has {len(continuation)} pieces, and the window only {self.judge.window}")
        self.counts[CUT] += len(context) > room
        return nearest_left(context, room)

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)


register_model("boustro")(BoustroLM)  # as a decorator it would hide the type
