"""The head that answers questions: the span of the context that is most probably the answer, or no answer.

    z       = ReLU(W · [h; f])                                   every word; f are its side features
    q~_i    = Σ_j softmax_j(k(z_i) · k(q_j)) q_j                 the question as word i of the context sees it
    m_i     = BiLSTM(ReLU(V · [z_i; q~_i; z_i * q~_i; f_i]))     match and context, over the context's words
    u       = Σ_j softmax_j(w · s_j) s_j,   s = BiLSTM(q)        the question as a whole
    score   (i, j) = a · g_i + b · g_j + c · ReLU(A g_i + B g_j + l_{j-i}),   g = ReLU(U · [m; m * u])

One softmax runs over all spans of at most `max_span` words of the whole context, and over "no answer" where the
training data have such questions. Several gold spans share the probability: the loss is the negative log of their sum.

Sources: aligned question and side features, Chen et al. 2017 (DrQA), section 3.2; attention and its product with the
context, Seo et al. 2017; one softmax over spans, Lee et al. 2017 (RaSoR); the no-answer score and its threshold,
Rajpurkar, Jia and Liang 2018.

S questions, N words of a batch, n of them of contexts; d width, h hidden width, L longest span.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import Dropout, both_ways, lstm_weights
from boustro.heads.decoding import ContextSpans, read_scores
from boustro.heads.layout import check_lengths, pad, texts_of, unpad
from boustro.heads.options import SpanOptions

SPAN_WIDTH = 32
AnswerBounds = list[tuple[int, int]]


class BothWays(nn.Module):
    """An LSTM in each direction over padded rows; what follows a sequence's end changes nothing."""

    def __init__(self, width: int, half: int) -> None:
        super().__init__()
        self.there, self.back = (nn.LSTM(width, half, batch_first=True) for _ in range(2))

    def forward(self, x: Float[Tensor, "n e"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "n k"]:
        """Return the states of both directions, joined; a graph that is exported reads one sequence."""
        if torch.compiler.is_exporting():
            return both_ways()(x, lstm_weights(self.there, self.back))
        padded, mask = pad(x, lengths)
        steps = torch.arange(mask.shape[1], device=x.device).expand_as(mask)
        flipped = (lengths[:, None] - 1 - steps).where(mask, steps)[..., None]
        there, _ = self.there(padded)
        back, _ = self.back(padded.gather(1, flipped.expand_as(padded)))
        return torch.cat([there, back.gather(1, flipped.expand_as(back))], dim=2)[mask]


class SpanReader(nn.Module):
    """Scores of spans and of no answer; see the module. The last `side` columns of its input are side features."""

    def __init__(self, width: int, num_labels: int, options: SpanOptions, side: int = 0) -> None:
        super().__init__()
        hidden, self.side, self.max_span = options.hidden or width, side, options.max_span or 16
        half = max(1, hidden // 2)
        self.dropout = Dropout(options.dropout)
        self.enter, self.key = nn.Linear(width, hidden), nn.Linear(hidden, hidden)
        self.merge = nn.Linear(3 * hidden + side, 2 * half)
        self.context, self.question = BothWays(2 * half, half), BothWays(hidden, half)
        self.weigh, self.ask = nn.Linear(2 * half, 1), nn.Linear(2 * half, 2 * half)
        self.leave, self.ends = nn.Linear(4 * half, hidden), nn.Linear(hidden, 2)
        self.first, self.last = nn.Linear(hidden, SPAN_WIDTH), nn.Linear(hidden, SPAN_WIDTH, bias=False)
        self.lengths = nn.Parameter(torch.zeros(self.max_span, SPAN_WIDTH))
        self.out = nn.Linear(SPAN_WIDTH, 1, bias=False)
        self.null = nn.Linear(hidden, 1) if num_labels > 1 else None

    def forward(
        self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " P"]
    ) -> tuple[Float[Tensor, "n L"], Float[Tensor, " S"]]:
        """Scores of the spans that begin at each word of a context, -inf past its end, and of no answer per question.

        `lengths` (P = 2S) are those of question, context, question, …
        """
        asked = (torch.arange(len(lengths), device=x.device) % 2 == 0).repeat_interleave(lengths)
        return self.compare(x[asked], lengths[0::2], x[~asked], lengths[1::2])

    def compare(
        self,
        question: Float[Tensor, "m d"],
        of_question: Int[Tensor, " S"],
        context: Float[Tensor, "n d"],
        of_context: Int[Tensor, " S"],
    ) -> tuple[Float[Tensor, "n L"], Float[Tensor, " S"]]:
        """Score spans from the words of all questions and those of all contexts, with the lengths of each."""
        side = context[:, context.shape[1] - self.side :]
        question, context = (self.dropout(F.relu(self.enter(words))) for words in (question, context))
        aligned = self._align(question, of_question, context, of_context)
        merged = F.relu(self.merge(torch.cat([context, aligned, context * aligned, side], dim=1)))
        states = self.context(self.dropout(merged), of_context)
        whole = self.ask(self._summary(question, of_question))[texts_of(of_context, context.shape[0])]
        g = self.dropout(F.relu(self.leave(self.dropout(torch.cat([states, states * whole], dim=1)))))
        if self.null is None:
            return self._spans(g, of_context), g.new_full((of_context.shape[0],), -torch.inf)
        highest = pad(g, of_context)[0].amax(1)  # g is not negative, so padding never counts
        return self._spans(g, of_context), self.null(highest).squeeze(1)

    def _align(self, question: Tensor, of_question: Tensor, context: Tensor, of_context: Tensor) -> Tensor:
        """Return (n, h): for each word of a context the question's words, weighted by how they match it."""
        words, there = pad(question, of_question)
        keys, _ = pad(F.relu(self.key(question)), of_question)
        queries, inside = pad(F.relu(self.key(context)), of_context)
        match = queries @ keys.transpose(1, 2) / math.sqrt(keys.shape[2])
        return unpad(match.masked_fill(~there[:, None], -torch.inf).softmax(2) @ words, inside)

    def _summary(self, question: Tensor, lengths: Tensor) -> Tensor:
        """Return (S, k): the weighted mean of the question's states."""
        states, there = pad(self.question(question, lengths), lengths)
        weights = self.weigh(states).squeeze(2).masked_fill(~there, -torch.inf).softmax(1)
        return torch.bmm(weights[:, None], states).squeeze(1)

    def _spans(self, g: Float[Tensor, "n h"], lengths: Tensor) -> Float[Tensor, "n L"]:
        """Return the score of [i, i + w) at row i and column w - 1."""
        num_words = g.shape[0]
        start, end = self.ends(g).unbind(1)
        first, last = self.first(g), self.last(g)
        end, last = F.pad(end, (0, self.max_span)), F.pad(last, (0, 0, 0, self.max_span))
        columns = []
        for longer in range(self.max_span):
            reached = slice(longer, longer + num_words)
            joint = self.out(F.relu(first + last[reached] + self.lengths[longer])).squeeze(1)
            columns.append(start + end[reached] + joint)
        stop = lengths.cumsum(0)[texts_of(lengths, num_words), None]
        ends = torch.arange(1, num_words + 1, device=g.device)[:, None] + torch.arange(self.max_span, device=g.device)
        return torch.stack(columns, 1).masked_fill(ends > stop, -torch.inf)


class QuestionHead(Head):
    """Answers in the context. Each example is two sentences: a question, and its context.

    Targets are for each question its gold spans, half-open in words of the context; [] where there is no answer, `None`
    where nobody knows. The prediction is a `ContextSpans`. A second label, `NO_ANSWER`, lets a question have no answer:
    it has none where `null` is above `threshold`, which is 0 until `calibrate` sets it; it is saved with the weights.
    """

    parts = 2
    body: SpanReader
    threshold: Tensor

    def __init__(
        self,
        kind: str,
        make_body: Callable[..., nn.Module],
        options: SpanOptions,
        streams: Sequence[tuple[int, int]],
        labels: Sequence[str],
        side: int = 0,
    ) -> None:
        """Make the head; arguments as of `Head`."""
        super().__init__(kind, partial(make_body, side=side), options, streams, labels, side)
        self.register_buffer("threshold", torch.zeros(()))

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S T"]:
        """Scores per question: span [i, i + w) at i · L + w - 1, and no answer last; -inf where there is none."""
        check_lengths(lengths, len(vectors))
        lengths = lengths.to(vectors.device)
        spans, null = self.body(vectors, lengths)
        padded, inside = pad(spans, lengths[1::2])
        padded = padded.masked_fill(~inside[..., None], -torch.inf).flatten(1)
        return torch.cat([padded, null[:, None]], dim=1)

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Float[Tensor, " T"]:
        """Return the scores of one question; `given` are the rows of its words, and those of the context's."""
        question, context = (vectors[rows] for rows in given)
        lengths = (torch.ones_like(rows).sum()[None] for rows in given)
        spans, null = self.body.compare(question, next(lengths), context, next(lengths))
        return torch.cat([spans.flatten(), null])

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Sequence[AnswerBounds | None]) -> Tensor:
        """Mean over the questions of -log of the probability of all gold spans; 0 for one that cannot be answered."""
        scores, longest = self.scores(vectors, lengths), self.body.max_span
        gold = torch.zeros(scores.shape, dtype=torch.bool)
        for number, spans in enumerate(targets):
            for start, end in spans or ():
                if end - start <= longest:
                    gold[number, start * longest + end - start - 1] = True
            gold[number, -1] = spans == [] and self.body.null is not None
        gold = gold.to(scores.device)
        some = gold.any(1)
        scores, gold = scores[some], gold[some]
        right = scores.masked_fill(~gold, -torch.inf).logsumexp(1)
        return (scores.logsumexp(1) - right).sum() / max(1, len(targets))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[ContextSpans]:
        scores = self.scores(vectors, lengths).detach().float().cpu().numpy()
        return read_scores(scores, self.body.max_span, self.threshold.item())

    def calibrate(self, candidates: list[ContextSpans], targets: Callable[[list[ContextSpans]], float]) -> None:
        """Set `threshold` to what `targets` chooses for the answers to all questions of the development set."""
        self.threshold.fill_(targets(candidates))
