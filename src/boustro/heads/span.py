"""A head that labels spans instead of words, so that an entity may stand inside another.

Every span of at most L words is scored, label by label, against being none:

    words a b c, L = 2:    scores[0] = [0,1) [0,2)    scores[1] = [1,2) [1,3)    scores[2] = [2,3)  –

Scoring a span reads its words alone, so neither the batch nor its order changes a score. The words of a
batch lie end to end, and spans that run into the next sentence are scored too (views are cheaper than
gathers) but never trained on or predicted. What this does not do: mix layers (`heads/mix.py`), settle
overlaps (`heads/span_decoding.py`), read tags.

Source: chapter 11.5.2, equations 11.23 to 11.27. The loss takes all spans, none sampled away and none
weighted, because either would shift the probabilities; the null label's bias starts at the log odds of a
rare entity (Lin et al. 2017, section 3.3).

Shapes: N words, S sentences, d width of a word, H hidden, L longest span in words, C labels, E = 1 + C with
the null one.
"""

import math
from collections import Counter
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from boustro.heads.dropout import Dropout
from boustro.heads.span_decoding import Calibration, FoundSpan, GoldSpan, choose_threshold, clash_rule, resolve

Gold = Sequence[Sequence[GoldSpan]]  # per sentence (start, end, label id), in words of the sentence
PRIOR = 0.01  # share of spans that are entities, before anything is learned
FLOOR = 0.01  # calibration looks for thresholds from here on


class SpanHead(nn.Module):
    """Scores of all spans, 0 the null label, 1…C the labels.

    The paper's symbols, for the span of words i…j (both in it):

        z_i             = ReLU(project(x_i))                        d → H, so that spans are H wide
        s_i = start(z_i), e_j = end(z_j)                            11.23, 11.24
        g_ij            = Σ_k a_k inside(z_k), a = softmax of attention(z_k) over i ≤ k ≤ j    11.26
        spanRep_ij      = [s_i; e_j; g_ij; width_(j-i)]             11.25, and an embedding of the width
        y_ij            = softmax(out(ReLU(U · spanRep_ij)))        11.27

    U · [s; e; g; width] is a sum of four affine maps, and a map of an average is the average of the mapped
    vectors. So U is folded into `start`, `end`, `inside` and `width`, which run once a word, not once a
    span; a span costs a sum, a ReLU and `out`.

    `threshold` is the probability from which on `predict` keeps a span, NaN until `calibrate` sets it; it
    is saved with the weights.
    """

    threshold: Tensor

    def __init__(
        self,
        width: int,
        num_labels: int,
        hidden: int = 256,
        max_span: int = 10,
        dropout: float = 0.3,
        max_words: int = 2048,
    ) -> None:
        """`max_words` bounds the memory of `predict`: so many words are scored at a time."""
        super().__init__()
        sizes = {"width": width, "num_labels": num_labels, "hidden": hidden}
        for name, value in (sizes | {"max_span": max_span, "max_words": max_words}).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self.num_labels, self.max_span, self.max_words = num_labels, max_span, max_words
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(width, hidden)
        self.start = nn.Linear(hidden, hidden, bias=False)
        self.end = nn.Linear(hidden, hidden, bias=False)
        self.inside = nn.Linear(hidden, hidden)
        self.attention = nn.Linear(hidden, 1)
        self.width = nn.Parameter(torch.zeros(max_span, hidden))
        self.out = nn.Linear(hidden, num_labels + 1)
        with torch.no_grad():  # else the first epoch only learns that most spans are none
            self.out.bias.zero_()
            self.out.bias[0] = math.log((1 - PRIOR) / (PRIOR / num_labels))
        self.register_buffer("threshold", torch.tensor(math.nan))

    def forward(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "N L E"]:
        """Logits: [i, w - 1] is the span [i, i + w); zeros where it would run past the last word."""
        z = F.relu(self.project(self.dropout(x.to(self.project.weight))))
        z = self.dropout(z)  # (N, H)
        start, end, inside = self.start(z), self.end(z), self.inside(z)
        attention = self.attention(z).squeeze(-1)  # (N,)
        mean, log_total = inside, attention  # of the spans of the width at hand
        scores = []
        for longer in range(min(self.max_span, max(1, len(x)))):  # an empty batch has an (empty) graph too
            num_starts = len(x) - longer
            if longer:  # one word joins: the average moves towards it by its share, so nothing ever cancels
                added = attention[longer:]
                log_total = torch.logaddexp(log_total[:num_starts], added)
                mean = torch.lerp(mean[:num_starts], inside[longer:], (added - log_total).exp().unsqueeze(-1))
            span = F.relu(start[:num_starts] + end[longer:] + mean + self.width[longer])  # (N - longer, H)
            scores.append(F.pad(self.out(self.dropout(span)), (0, 0, 0, longer)))
        missing = self.max_span - len(scores)
        return torch.stack([*scores, *[z.new_zeros(len(x), self.num_labels + 1)] * missing], dim=1)

    def loss(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"], gold: Gold) -> Float[Tensor, ""]:
        """Mean cross-entropy over all spans of at most `max_span` words; 0 for a batch without words.

        Gold spans that no span can reach teach nothing: count them with `count_unreachable`. Raises
        `ValueError` where `x`, `lengths` and `gold` do not fit each other.
        """
        inside = inside_sentence(check_lengths(x, lengths), self.max_span).to(x.device)  # (N, L)
        target = self._targets(lengths, gold).to(x.device)
        return F.cross_entropy(self(x)[inside], target[inside], reduction="sum") / inside.sum().clamp_min(1)

    def _targets(self, lengths: Int[Tensor, " S"], gold: Gold) -> Int[Tensor, "N L"]:
        """The class of every span; a span with several labels gets the first."""
        sizes = lengths.tolist()
        if len(sizes) != len(gold):
            raise ValueError(f"gold spans of {len(gold)} sentences, but {len(sizes)} lengths")
        classes: dict[tuple[int, int], int] = {}
        first = 0
        for number, (size, spans) in enumerate(zip(sizes, gold, strict=True), start=1):
            for start, end, label in spans:
                if not (0 <= start < end <= size and 0 <= label < self.num_labels):
                    raise ValueError(
                        f"sentence {number} of the batch: span [{start}, {end}) with label {label} does not fit "
                        f"{size} words and {self.num_labels} labels (0 to {self.num_labels - 1})"
                    )
                if end - start <= self.max_span:
                    classes.setdefault((first + start, end - start - 1), label + 1)
            first += size
        target = torch.zeros(first, self.max_span, dtype=torch.int64)
        if classes:
            rows, columns = zip(*classes, strict=True)
            target[list(rows), list(columns)] = torch.tensor(list(classes.values()))
        return target

    @torch.inference_mode()
    def predict(
        self,
        x: Float[Tensor, "N d"],
        lengths: Int[Tensor, " S"],
        threshold: float | None = None,
        overlap: str = "nested",
    ) -> list[list[FoundSpan]]:
        """Per sentence (start, end, label id, probability of the label), in order of position.

        A span gets its best label, and is kept if that label's probability is at least `threshold`: by
        default the calibrated one, and on a head that is not calibrated yet, if the label beats null. Then
        `resolve` settles overlaps ("nested" or "flat"). `ValueError` for an unknown `overlap`, a threshold
        outside [0, 1], or `lengths` that do not fit `x`.
        """
        clash_rule(overlap)
        if threshold is None:
            threshold = self.threshold.item()
        elif not 0 <= threshold <= 1:
            raise ValueError(f"threshold must be a probability from 0 to 1, not {threshold}")
        inside = inside_sentence(check_lengths(x, lengths), self.max_span)
        sentence = torch.arange(len(lengths)).repeat_interleave(lengths.cpu())  # (N,)
        first_word = lengths.cpu().cumsum(0) - lengths.cpu()  # (S,)
        found: list[list[FoundSpan]] = [[] for _ in range(len(lengths))]
        was_training = self.training
        self.eval()
        for begin in range(0, len(x), self.max_words):
            rows = slice(begin, begin + self.max_words)
            block = x[begin : begin + self.max_words + self.max_span - 1]  # and the words that its last spans reach
            probabilities = self(block)[: self.max_words].softmax(-1)
            best, label = (t.cpu() for t in probabilities[..., 1:].max(-1))  # (rows, L)
            keep = best > probabilities[..., 0].cpu() if math.isnan(threshold) else best.double() >= threshold
            start, longer = (keep & inside[rows]).nonzero(as_tuple=True)
            where = sentence[rows][start]
            offset = start + begin - first_word[where]
            columns = (where, offset, offset + longer + 1, label[start, longer], best[start, longer])
            for number, *span in zip(*(column.tolist() for column in columns), strict=True):
                found[number].append((span[0], span[1], span[2], span[3]))
        self.train(was_training)
        return [resolve(spans, overlap) for spans in found]

    def calibrate(
        self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"], gold: Gold, overlap: str = "nested"
    ) -> Calibration:
        """Set `threshold` to the one of the best entity F1 on these sentences; nothing is trained."""
        calibration = choose_threshold(self.predict(x, lengths, FLOOR, overlap), gold)
        self.threshold.fill_(calibration.threshold)
        return calibration


def check_lengths(x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Int[Tensor, " S"]:
    """The lengths on the CPU; `ValueError` if they are not those of the words of `x`."""
    lengths = lengths.cpu()
    if lengths.sum() != len(x) or (lengths < 0).any():
        raise ValueError(f"lengths of sentences sum to {int(lengths.sum())}, but there are {len(x)} words")
    return lengths


def inside_sentence(lengths: Int[Tensor, " S"], max_span: int) -> Bool[Tensor, "N L"]:
    """Which spans [i, i + w) end within the sentence that they begin in."""
    sentence_end = lengths.cumsum(0).repeat_interleave(lengths)
    span_end = torch.arange(len(sentence_end)).unsqueeze(1) + torch.arange(1, max_span + 1)
    return span_end <= sentence_end.unsqueeze(1)


def count_unreachable(gold: Gold, max_span: int, overlap: str = "nested") -> Counter[str]:
    """How many gold spans the head can never predict, by reason; empty where it can reach all.

    They are longer than `max_span`, or a second label on one span, or clash with other gold spans (as many
    as `resolve` leaves out when all are equally probable).
    """
    counts: Counter[str] = Counter()
    for spans in gold:
        distinct = set(spans)
        short = {span for span in distinct if span[1] - span[0] <= max_span}
        labels = {span[:2]: span for span in sorted(short, reverse=True)}
        standing = resolve([(*span, 1.0) for span in labels.values()], overlap)
        counts[f"gold spans of more than {max_span} words"] += len(distinct) - len(short)
        counts["gold spans with a second label"] += len(short) - len(labels)
        counts[f"gold spans that clash with another ({overlap})"] += len(labels) - len(standing)
    return +counts


def propose_max_span(gold: Gold, coverage: float = 0.999, cap: int = 16) -> int:
    """The fewest words that `coverage` of the gold spans fit in, at most `cap`: time grows with it.

    `ValueError` when there is no gold span, or `coverage` is not in (0, 1].
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage must be above 0 and at most 1, not {coverage}")
    widths = sorted(end - start for spans in gold for start, end, _ in spans)
    if not widths:
        raise ValueError("no gold span in the data, so nothing says how long spans may be; check the labels")
    return min(cap, widths[math.ceil(coverage * len(widths)) - 1])
