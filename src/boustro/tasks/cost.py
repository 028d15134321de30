"""`boustro fit --dry-run`: what the encoder must read before a head can be trained, and what that costs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from boustro.encoders.cache import cache_folder, features_to_write
from boustro.encoders.cost import num_words, words_per_second
from boustro.output import duration
from boustro.tasks.fitting import choose_context

if TYPE_CHECKING:
    from boustro.tasks.base import Task


def print_cost(task: "Task[Any, Any]", data: Sequence[Sequence[Any]]) -> None:
    """Print words, bytes and time for the examples of several sets, the training set first; a sample is read."""
    task.plan = choose_context(task.plan, data[0])
    read = [task.reader.sentences(own)[0] for own in data if own]
    words, encoder = sum(map(num_words, read)), task.encoder(cached=True)
    if cache := task.reader.cache:
        needed = features_to_write(encoder, read).values()
        size, seconds = (sum(own) for own in zip((0, 0.0), *needed, strict=True))
        where = f"{size / 2**20:,.1f} MB to write to {cache if isinstance(cache, str) else cache_folder()}"
    else:
        seconds = words / words_per_second(encoder, read[0])
        where = f"{words * encoder.bytes_per_word / 2**20:,.1f} MB in memory"
    print(
        f"{task.encoder_spec}: {words:,} words to read, {encoder.bytes_per_word:,} bytes each; "
        f"{where}, {duration(seconds)}"
    )
