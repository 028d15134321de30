"""A head that labels spans instead of words, so that entities may be nested.

Every span of at most L words is scored for every label and for the null label:

    words a b c, L = 2:    scores[0] = [0,1) [0,2)    scores[1] = [1,2) [1,3)    scores[2] = [2,3)  –

The words of a batch are end to end; spans that run into the next sentence are scored too (views are cheaper than
gathers) but never trained on or predicted. The loss takes all spans, without sampling or weights, because either would
shift the probabilities.

Source: Jurafsky and Martin, chapter 11.5.2, equations 11.23 to 11.27; Lin et al. 2017, section 3.3 (initial bias of the
null label). N words, S sentences, d width, H hidden, L longest span, C labels, E = 1 + C with the null label.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import Dropout
from boustro.heads.layout import check_lengths
from boustro.heads.options import SpanOptions
from boustro.heads.span import FLOOR, FoundSpan, GoldSpans, choose_threshold, decode_spans

PRIOR = 0.01  # share of spans that are entities, before training


class SpanHead(Head):
    """Targets and predictions are, per sentence, tuples (start, end, label id), a prediction with its probability."""

    body: "SpanScorer"

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: GoldSpans) -> Tensor:
        return self.body.loss(vectors, lengths, targets)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[list[FoundSpan]]:
        return self.body.predict(vectors, lengths)

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Float[Tensor, "N L E"]:
        """Return the probabilities of all spans; those that run past their sentence mean nothing."""
        x = F.pad(vectors, (0, 0, 0, self.body.max_span))
        return self.body(x)[: vectors.shape[0]].softmax(-1)

    def candidates(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[list[FoundSpan]]:
        """Spans of a lower probability, too."""
        return self.body.predict(vectors, lengths, FLOOR)

    def calibrate(self, candidates: list[list[FoundSpan]], targets: GoldSpans) -> None:
        """Set the probability threshold of predicted spans."""
        self.body.threshold.fill_(choose_threshold(candidates, targets))


class SpanScorer(nn.Module):
    """Scores of all spans, 0 the null label, 1…C the labels.

    The paper's symbols, for the span of words i…j (both included):

        z_i             = ReLU(project(x_i))                        d → H
        s_i = start(z_i), e_j = end(z_j)                            11.23, 11.24
        g_ij            = Σ_k a_k inside(z_k), a = softmax of attention(z_k) over i ≤ k ≤ j    11.26
        spanRep_ij      = [s_i; e_j; g_ij; width_(j-i)]             11.25, and an embedding of the width
        y_ij            = softmax(out(ReLU(U · spanRep_ij)))        11.27

    U · [s; e; g; width] is a sum of four affine maps, and a map of an average is the average of the mapped
    vectors. So U is folded into `start`, `end`, `inside` and `width`, which run once per word, not once per
    span; a span costs a sum, a ReLU and `out`.

    `threshold` is the lowest probability of a predicted span, NaN until `SpanHead.calibrate` sets it; it is saved with
    the weights.
    """

    threshold: Tensor
    max_words = 2048
    """Words that `predict` scores at once, which bounds its memory."""

    def __init__(self, width: int, num_labels: int, options: SpanOptions) -> None:
        super().__init__()
        self.num_labels, self.max_span = num_labels, options.max_span or 10
        hidden = options.hidden or width
        self.dropout = Dropout(options.dropout)
        self.project = nn.Linear(width, hidden)
        self.start = nn.Linear(hidden, hidden, bias=False)
        self.end = nn.Linear(hidden, hidden, bias=False)
        self.inside = nn.Linear(hidden, hidden)
        self.attention = nn.Linear(hidden, 1)
        self.width = nn.Parameter(torch.zeros(self.max_span, hidden))
        self.out = nn.Linear(hidden, num_labels + 1)
        with torch.no_grad():  # else the first epoch only learns that most spans are not entities
            self.out.bias.zero_()
            self.out.bias[0] = math.log((1 - PRIOR) / (PRIOR / num_labels))
        self.register_buffer("threshold", torch.tensor(math.nan))

    def forward(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "N L E"]:
        """Logits: [i, w - 1] is the span [i, i + w); zeros where it would run past the last word."""
        z = F.relu(self.project(self.dropout(x.to(self.project.weight))))
        z = self.dropout(z)  # (N, H)
        start, end, inside = self.start(z), self.end(z), self.inside(z)
        attention = self.attention(z).squeeze(-1)  # (N,)
        mean, log_total = inside, attention  # of the spans of the current width
        scores = []
        some = self.max_span if torch.compiler.is_exporting() else min(self.max_span, max(1, len(x)))
        for longer in range(some):  # an empty batch needs an (empty) graph too
            num_starts = x.shape[0] - longer
            if longer:  # one more word: the average moves towards it by its share, so nothing cancels
                added = attention[longer:]
                log_total = torch.logaddexp(log_total[:num_starts], added)
                mean = torch.lerp(mean[:num_starts], inside[longer:], (added - log_total).exp().unsqueeze(-1))
            span = F.relu(start[:num_starts] + end[longer:] + mean + self.width[longer])  # (N - longer, H)
            scores.append(F.pad(self.out(self.dropout(span)), (0, 0, 0, longer)))
        missing = self.max_span - len(scores)
        return torch.stack([*scores, *[z.new_zeros(x.shape[0], self.num_labels + 1)] * missing], dim=1)

    def loss(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"], gold: GoldSpans) -> Float[Tensor, ""]:
        """Mean cross-entropy over all spans of at most `max_span` words; 0 for a batch without words.

        Gold spans that cannot be predicted have no effect (`count_unreachable` counts them). Raises
        `ValueError` where `x`, `lengths` and `gold` do not fit each other.
        """
        check_lengths(lengths, len(x))
        inside = inside_sentence(lengths.cpu(), self.max_span).to(x.device)  # (N, L)
        target = self._targets(lengths, gold).to(x.device)
        return F.cross_entropy(self(x)[inside], target[inside], reduction="sum") / inside.sum().clamp_min(1)

    def _targets(self, lengths: Int[Tensor, " S"], gold: GoldSpans) -> Int[Tensor, "N L"]:
        """Return the class of every span; a span with several labels gets the first."""
        sizes = lengths.tolist()
        if len(sizes) != len(gold):
            raise ValueError(f"gold spans of {len(gold)} sentences, but {len(sizes)} lengths")
        target = np.zeros((sum(sizes), self.max_span), np.int64)
        first = 0
        for number, (size, spans) in enumerate(zip(sizes, gold, strict=True), start=1):
            for start, end, label in reversed(spans):
                if not (0 <= start < end <= size and 0 <= label < self.num_labels):
                    raise ValueError(
                        f"sentence {number} of the batch: span [{start}, {end}) with label {label} does not fit "
                        f"{size} words and {self.num_labels} labels (0 to {self.num_labels - 1})"
                    )
                if end - start <= self.max_span:
                    target[first + start, end - start - 1] = label + 1
            first += size
        return torch.from_numpy(target)

    @torch.inference_mode()
    def predict(
        self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"], threshold: float | None = None
    ) -> list[list[FoundSpan]]:
        """Per sentence (start, end, label id, probability of the label), in order of position.

        A span gets its best label, and is kept if the probability of that label is at least `threshold`: by
        default the calibrated one; before calibration, if the label is more probable than null. `resolve` then removes
        spans that cross. Raises `ValueError` for `lengths` that do not fit `x`.
        """
        check_lengths(lengths, len(x))
        threshold = self.threshold.item() if threshold is None else threshold
        was_training = self.training
        self.eval()
        blocks = [np.zeros((0, self.max_span, self.num_labels + 1), np.float32)]
        for begin in range(0, len(x), self.max_words):
            block = x[begin : begin + self.max_words + self.max_span - 1]  # and the words that its last spans reach
            blocks.append(self(block)[: self.max_words].softmax(-1).cpu().numpy())
        self.train(was_training)
        return decode_spans(np.concatenate(blocks), lengths.cpu().numpy(), threshold)


def inside_sentence(lengths: Int[Tensor, " S"], max_span: int) -> Bool[Tensor, "N L"]:
    """Return which spans [i, i + w) end within the sentence that they begin in."""
    sentence_end = lengths.cumsum(0).repeat_interleave(lengths)
    span_end = torch.arange(len(sentence_end)).unsqueeze(1) + torch.arange(1, max_span + 1)
    return span_end <= sentence_end.unsqueeze(1)
