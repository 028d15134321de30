"""One causal LM at one end of a gap: it reads contexts once and then predicts what stands next to them.

A reader thinks in its own reading order, so that both directions look alike. For the text `a b ___ y z`:

    forward    context  <end> a b      writes  x1 x2 …   from left to right
    backward   context  <end> z y      writes  xn xn-1 … from right to left

A context begins with the LM's start piece. Pieces that were written so far are read
anew in every step, on top of the context's cached keys and values: a gap is short, a context is long.

Letters: G contexts, N rows (hypotheses, each of one context), W pieces written, P pieces of a context, V pieces of the
vocabulary.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.lm import LMEncoder
from boustro.lab.generation.models import refuse_narrow
from boustro.models.loss import find_finish
from boustro.text.tokenizers import end_of_text_id

Ids = Sequence[int]


class EndReader:
    """The whole LM of an encoder, with its head. `room` is the most pieces it reads after its start piece."""

    def __init__(self, encoder: LMEncoder) -> None:
        self.lm = encoder.language_model()
        refuse_narrow(self.lm, encoder.tokenizer, encoder.start, encoder.spec)
        head = self.lm.get_output_embeddings()
        assert head is not None, "a causal LM has a head"
        self.finish, self.head = find_finish(self.lm), head
        self.spec, self.backward = encoder.spec, encoder.backward
        self.device = encoder.device
        self.room = encoder.max_pieces - max(1, len(encoder.start))
        self._start, self._end = encoder.start, end_of_text_id(encoder.tokenizer)

    def frame(self, context: Ids) -> list[int]:
        """Return a context in text order → the LM's input: `[5, 7]` → `[0, 5, 7]`, or `[0, 7, 5]` for a backward LM.

        An LM that was trained without a start piece is given the end-of-text piece where the context is empty.
        """
        reading = list(reversed(context)) if self.backward else list(context)
        return [*self._start, *reading] or [self._end]

    def read(self, contexts: Sequence[Ids]) -> "ReadContexts":
        """Read contexts, each in text order."""
        return ReadContexts(self, [self.frame(context) for context in contexts])

    def states(self, **inputs: Any) -> tuple[Tensor, Any]:
        """Return the top states (N, P, D), and the cache of what was read."""
        output = self.lm.base_model(use_cache=True, **inputs)
        return output.last_hidden_state, output.past_key_values

    def log_probs(self, states: Tensor) -> Tensor:
        """Return (…, V) from top states (…, D)."""
        logits = self.head(states).float()
        return (logits if self.finish is None else self.finish(logits)).log_softmax(-1)


class ReadContexts:
    """Contexts that a reader has read, all but their last piece: that one is read with what is written after it."""

    @torch.inference_mode()
    def __init__(self, reader: EndReader, contexts: Sequence[Ids]) -> None:
        self.reader = reader
        self.last = [context[-1] for context in contexts]
        width = max(map(len, contexts)) - 1
        self.padding = torch.tensor([width + 1 - len(context) for context in contexts], device=reader.device)
        self.cache: Any = None
        if width:  # padded on the left, so that what is written follows the context directly
            ids = [[context[0]] * (width + 1 - len(context)) + list(context[:-1]) for context in contexts]
            _, self.cache = reader.states(
                input_ids=torch.tensor(ids, device=reader.device),
                **_places(self.padding, width, width),
            )
        self.width = width

    def next(self, written: Sequence[Ids], rows: Sequence[int] | None = None) -> Tensor:
        """Return (N, V) log-probabilities of the piece after what is written; row `n` belongs to context `rows[n]`.

        By default there is one row for each context.
        """
        return self._log_probs(written, rows, lambda states, ends: states[torch.arange(len(ends)), ends])

    def scores(self, written: Sequence[Ids], rows: Sequence[int] | None = None) -> Tensor:
        """Return (N, W) log-probability of each piece written, given those before it; 0 beyond a row's own end."""
        return self.judge(written, rows)[0]

    def judge(self, written: Sequence[Ids], rows: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of written pieces, and (N,) whether every piece of a row is the likeliest in its
        place."""
        width = max(map(len, written))
        wanted = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in written], device=self.reader.device)
        ends = torch.tensor([len(ids) for ids in written], device=self.reader.device)
        log_probs = self._log_probs(written, rows, lambda states, _: states[:, :width])
        beyond = torch.arange(width, device=ends.device) >= ends[:, None]
        scores = log_probs.gather(-1, wanted[..., None])[..., 0].masked_fill(beyond, 0.0)
        return scores, ((log_probs.argmax(-1) == wanted) | beyond).all(-1)

    @torch.inference_mode()
    def _log_probs(self, written: Sequence[Ids], rows: Sequence[int] | None, pick: Any) -> Tensor:
        reader, rows = self.reader, list(range(len(self.last))) if rows is None else list(rows)
        width = 1 + max(map(len, written))
        ids = [[self.last[row], *seq, *[0] * (width - 1 - len(seq))] for row, seq in zip(rows, written, strict=True)]
        chosen = torch.tensor(rows, device=reader.device)
        states, _ = reader.states(
            input_ids=torch.tensor(ids, device=reader.device),
            past_key_values=self._cache_of(chosen),
            **_places(self.padding[chosen], self.width + width, width),
        )
        ends = torch.tensor([len(pieces) for pieces in written], device=reader.device)
        return reader.log_probs(pick(states, ends))

    def _cache_of(self, rows: Tensor) -> Any:
        """Return the contexts' cache, row by row; what is read next is added to this copy only."""
        if self.cache is None:
            return None
        chosen = copy.copy(self.cache)
        chosen.layers = [copy.copy(layer) for layer in self.cache.layers]
        if len(rows) != len(self.last) or bool((rows != torch.arange(len(rows), device=rows.device)).any()):
            chosen.batch_select_indices(rows)
        return chosen


def _places(padding: Tensor, stop: int, width: int) -> dict[str, Tensor]:
    """Return the mask and the positions of columns `[stop - width, stop)`, of which the first `padding` are padding."""
    columns = torch.arange(stop, device=padding.device)
    positions = (columns[stop - width :] - padding[:, None]).clamp_min(0)
    return {"attention_mask": (columns >= padding[:, None]).long(), "position_ids": positions}
