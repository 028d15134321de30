"""`boustro fit --dry-run`: what the encoder must read before a head can be trained, and what that costs."""

from collections.abc import Sequence
from typing import Any

from boustro.encoders.cache import cache_folder, features_to_write, num_words, words_per_second
from boustro.output import duration
from boustro.tasks.fitting import choose_context
from boustro.tasks.plan import Plan


def print_cost(plan: Plan[Any], data: Sequence[Sequence[Any]]) -> None:
    """Print words, bytes and time for the examples of several sets, the training set first; a sample is read."""
    reader = choose_context(plan, data[0]).reader
    read = [reader.sentences(own)[0] for own in data if own]
    words, encoder = sum(map(num_words, read)), reader.encoder(cached=True)
    if cache := reader.cache:
        needed = features_to_write(encoder, read).values()
        size, seconds = (sum(own) for own in zip((0, 0.0), *needed, strict=True))
        where = f"{size / 2**20:,.1f} MB to write to {cache if isinstance(cache, str) else cache_folder()}"
    else:
        seconds = words / words_per_second(encoder, read[0])
        where = f"{words * encoder.bytes_per_word / 2**20:,.1f} MB in memory"
    print(
        f"{reader.spec}: {words:,} words to read, {encoder.bytes_per_word:,} bytes each; {where}, {duration(seconds)}"
    )
