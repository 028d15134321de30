"""`PromptClassifier`: labels texts by the words that an LM would write into a template's gap; no training.

    classifier = PromptClassifier("./my-biglm", "sentiment", calibrate=True)
    (answer,) = classifier.answer([{"text": "A delight from start to end."}])
    answer.label, answer.probabilities

The probability of a label is the mean of those of its words, normalised over the labels. A *content-free* text, such as
"N/A", should favour no label; what it favours is the *prior* of the model and the template. Calibration divides it out
(Zhao et al. 2021, *Calibrate Before Use*, section 5: the matrix W = diag(prior)⁻¹, without a bias):

    words     great -2.0, terrible -1.0         positive 0.27, negative 0.73
    prior     great -3.0, terrible -1.0         positive 0.12, negative 0.88
    divided   great +1.0, terrible  0.0         positive 0.73, negative 0.27

Words of several pieces are scored by `score`, by default left-to-right for a masked LM, a likelihood; for one piece all
of a masked LM's scores are the same. N texts, K words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from boustro.lab.generation.draws import in_order
from boustro.lab.generation.templates import PromptPieces, Template, open_template
from boustro.lab.judges import open_judge
from boustro.text.start import AUTO

MASKED_SCORE = "left-to-right"


@dataclass(frozen=True)
class Prompted:
    """The label of a text and the probabilities of all labels, and both before (or after) calibration."""

    label: str
    probabilities: dict[str, float]
    other_label: str
    """With calibration where it was not asked for, else without."""


class PromptClassifier:
    """An LM under a template.

    Args:
        model: A masked LM, a forward LM, a backward LM or a pair, such as `./my-biglm` or `starter`.
        template: A name in the package, a JSON file, or a `Template`.
        score: How words are scored: of a masked LM one of `boustro lab score`, of others one of `lab.judges`.
        calibrate: Divide out the prior.
        prompt_pieces: Read only the first pieces of each text.
        start_piece: What a causal LM is given before every text (`text.start`).
        device: Such as "cpu"; by default the best available.

    Raises `ValueError` for a template, a score or a model that does not fit.
    """

    def __init__(
        self,
        model: str,
        template: str | Template,
        *,
        score: str | None = None,
        calibrate: bool = False,
        prompt_pieces: int | None = None,
        start_piece: str = AUTO,
        device: str | None = None,
    ) -> None:
        self.template = open_template(template) if isinstance(template, str) else template
        self.judge = open_judge(model, score, device, MASKED_SCORE, start_piece)
        self.score, self.calibrate, self.model = self.judge.score, calibrate, model
        self.pieces = PromptPieces(self.template, self.judge.tokenizer, prompt_pieces)
        self.words = [pieces for words in self.pieces.words.values() for pieces in words]
        neutral = self.judge.word_scores(self.pieces.neutral(), self.words)
        # The mean over content-free texts of the probabilities of the labels, as logarithms.
        self._prior = self._label_scores(neutral).log_softmax(-1).logsumexp(0) - log(len(neutral))

    @property
    def prior(self) -> dict[str, float]:
        """The probabilities of the labels for a text without content."""
        return dict(zip(self.template.labels, self._prior.exp().tolist(), strict=True))

    @property
    def counts(self) -> Counter[str]:
        """Notices so far, and how often each was made."""
        return Counter({"texts were cut to their first pieces": self.pieces.num_cut})

    def answer(self, records: Sequence[Mapping[str, Any]], places: Sequence[str] | None = None) -> list[Prompted]:
        """Return the label of each record, whose texts have the template's keys; `places` are their names in messages.

        Raises `ValueError` for a record that lacks a text, and for one that does not fit into the window.
        """
        names = places or [f"record {n}" for n in range(1, len(records) + 1)]
        sides = [self.pieces.sides(record, name) for record, name in zip(records, names, strict=True)]
        longest = max(map(len, self.words))
        for (left, right), name in zip(sides, names, strict=True):
            if (size := len(left) + longest + len(right)) > self.judge.window:
                raise ValueError(
                    f"{name}: the template with its text has {size:,} pieces, and the window of {self.model} "
                    f"{self.judge.window:,}; give --prompt-pieces to read only the first pieces of each text"
                )
        plain = self._label_scores(self.judge.word_scores(sides, self.words)).log_softmax(-1)
        divided = (plain - self._prior).log_softmax(-1)
        chosen, other = (divided, plain) if self.calibrate else (plain, divided)
        labels = self.template.labels
        first, second = (in_order(side)[:, 0].tolist() for side in (chosen, other))  # "N/A" itself favours none of them
        rows = zip(chosen.exp().tolist(), first, second, strict=True)
        return [Prompted(labels[best], dict(zip(labels, row, strict=True)), labels[more]) for row, best, more in rows]

    def _label_scores(self, scores: Float[Tensor, "N K"]) -> Float[Tensor, "N L"]:
        """Return the logarithm of the mean probability of each label's words."""
        sizes = [len(words) for words in self.pieces.words.values()]
        parts = scores.float().split(sizes, dim=1)
        return torch.stack([part.logsumexp(1) - log(part.shape[1]) for part in parts], 1)
