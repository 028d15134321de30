"""What trains on words: texts in batches of similar length, and a transformer that is read at words."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from boustro.encoders.reading import Row

POOL_BATCHES = 50  # texts are sorted by length within this many batches, not within the corpus


class WordReader(nn.Module):
    """A linear layer, initialised at random, over the top states of a transformer at the ends of words."""

    def __init__(self, model: PreTrainedModel, outputs: int) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(model.config.get_text_config().hidden_size, outputs)

    def forward(self, input_ids: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """(W, outputs) of the words of all rows, row by row; `places` are positions in the flattened batch."""
        is_piece = torch.arange(input_ids.shape[1], device=input_ids.device) < lengths[:, None]
        states = self.model(input_ids=input_ids, attention_mask=is_piece.long(), use_cache=False).last_hidden_state
        return self.head(states.flatten(0, 1)[places].float())


def row_tensors(rows: Sequence[Row]) -> dict[str, Tensor]:
    """What `WordReader` takes; rows are padded with their first piece."""
    lengths = [len(row.ids) for row in rows]
    ids = torch.tensor([row.ids + [row.ids[0]] * (max(lengths) - len(row.ids)) for row in rows])
    places = np.concatenate([number * ids.shape[1] + row.columns for number, row in enumerate(rows)])
    return {"input_ids": ids, "lengths": torch.tensor(lengths), "places": torch.from_numpy(places)}


def make_batches(lengths: Sequence[int], batch_words: int, seed: int) -> list[list[int]]:
    """Numbers of texts, batch by batch, in an order that the seed decides; each text is in one batch.

    A batch has at most `batch_words` words, including padding; a longer text is a batch of its own.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(lengths)).tolist()
    batches: list[list[int]] = []
    pool: list[int] = []
    words = 0
    for place, number in enumerate(order, 1):
        pool.append(number)
        words += lengths[number]
        if place == len(order) or words >= POOL_BATCHES * batch_words:
            batches.append([])
            for i in sorted(pool, key=lambda i: lengths[i]):
                if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > batch_words:
                    batches.append([])
                batches[-1].append(i)
            pool, words = [], 0
    return [batches[i] for i in generator.permutation(len(batches))]


def steps_for(num_batches: int, total: int, words: int | None) -> int:
    """How many batches of a pass over `total` words have `words` of them, at least one; by default a whole pass."""
    wanted = total if words is None else words
    return max(1, round(num_batches * wanted / total)) if wanted else 0
