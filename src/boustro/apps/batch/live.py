"""`boustro predict --live`: a text that arrives on standard input, or stands in a file, to events as JSON lines.

Every event is written as soon as it is known, and the text is one, lines and all; see `boustro.apps.live`.
"""

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from boustro.apps.batch.labeller import Labeller, Opened, Shown
from boustro.apps.live.events import DELAY
from boustro.options import OptionError
from boustro.output import RunOptions, as_json, only_errors
from boustro.text.documents import check_input, is_stream, open_binary, read_items

MOST_BYTES = 1 << 16
__all__ = ["DELAY", "predict_live"]


def predict_live(opened: Opened, file: str, delay: int, run: RunOptions) -> None:
    """See `boustro.apps.cli.commands.predict`; `ValueError` for what cannot stream, and for bytes that are no text."""
    from boustro.apps.live.stream import Live
    from boustro.tasks.tagger import Tagger

    check_input(file)
    once = file == "-" or is_stream(file)  # which is not looked at, because it can be read only once
    if not once and any(item and not item.is_line for item in islice(read_items(file), 1)):
        raise OptionError(f"--live reads one text, and {file} holds rows of data; leave it out to answer each row")
    with only_errors(run.quiet):
        model: Any = Labeller(opened, Shown("jsonl")).model
        if not isinstance(model, Tagger):
            raise OptionError(f"--live is for taggers, and this is a {type(model).__name__}; leave it out")
        live = Live(model, delay)
    with open_binary(Path(file)) as stream:
        for chunk in _texts(stream, file):
            for event in live.feed(chunk):
                print(as_json(event.to_dict()), flush=True)
    for event in live.end():
        print(as_json(event.to_dict()), flush=True)


def _texts(stream: Any, name: str) -> Iterator[str]:
    """What has come so far, again and again, without waiting for more; a character is never cut."""
    decoder, read = codecs.getincrementaldecoder("utf-8-sig")(), 0
    read_some = getattr(stream, "read1", stream.read)
    while chunk := read_some(MOST_BYTES):
        try:
            yield decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: no UTF-8 near byte {read + error.start:,} ({error.reason})") from error
        read += len(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: the text ends within a character") from error
