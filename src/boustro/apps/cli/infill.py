"""`boustro lab infill`: fill the gaps of texts from both ends.

torch is imported when the command runs, so that its help does not wait for it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from boustro.errors import count_of
from boustro.lab.generation.options import DEFAULT_LM, InfillOptions, LMOptions
from boustro.options import Positional
from boustro.output import as_json, console, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.text.files import DataFile
from boustro.text.places import LM
from boustro.text.tables import FileRow

if TYPE_CHECKING:
    from boustro.lab.generation.both_ends.infiller import Filled

DEFAULT_INFILL = InfillOptions()
INFILL_LINES = 16  # each batch is printed when it is filled; a gap costs several readings of its text


def infill(
    text: Positional[str],
    encoder: LM = "starter",
    format: Literal["text", "jsonl"] = "text",
    infilling: InfillOptions = DEFAULT_INFILL,
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Fill the gaps of texts (___, three underscores) with a forward and a backward LM, which write from both ends.

    Args:
        text: A text with gaps, a file with one a line (.gz, .bz2, .xz too), or - for standard input.
        encoder: Spec of a forward and a backward LM over one vocabulary, such as starter or gpt2+./backward.
        format: text (with --candidates also the other fillings of each gap, after a tab) or jsonl (an object a line,
            with the places of the gaps).
    """
    batches = _batches(text)
    from boustro.lab.generation.both_ends.infiller import Infiller

    terminal = console(wrap=False)
    with (
        only_errors(run.quiet),
        Progress("filling", "texts", shown=False if terminal.is_terminal else None) as bar,
        keeping(lambda: f"{count_of(bar.done, 'texts are')} printed"),
    ):
        infiller, number = Infiller(encoder, device=run.device, start_piece=run.start_piece, **vars(infilling)), 0
        for batch in batches:
            for result in infiller.fill_batch(batch, number):
                if format == "jsonl":
                    print(as_json(result.to_dict()))
                else:
                    terminal.print(_shown(result)) if terminal.is_terminal else print(_shown(result).plain)
            sys.stdout.flush()
            number += len(batch)
            bar.update(len(batch))
        print_notices(infiller.counts)


def _batches(text: str) -> Iterator[list[tuple[str, str]]]:
    """Return (text, place) of a text itself, or of the lines of a file as they arrive."""
    if text == "-" or _exists(text):
        if Path(text).is_dir():
            raise ValueError(f"{text} is a folder; name a text file in it")
        return ([(_text(item), item.place) for item in batch] for batch in DataFile(text).batches(INFILL_LINES))
    if "___" not in text and "\n" not in text and Path(text).suffix:
        raise FileNotFoundError(f"{text}: no such file, and as a text it has no gap; mark each gap with ___")
    return iter([[(text, "the text")]])


def _text(item: FileRow) -> str:
    value = item.value.get("text") if isinstance(item.value, dict) else item.value
    if not isinstance(value, str):
        raise ValueError(f"{item.place}: no text under 'text'")
    return value


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long for a path
        return False


def _shown(result: "Filled") -> Text:
    """Return a filled text, what was written in bold, and the other candidates."""
    shown = Text(result.filled)
    for gap in result.gaps:
        shown.stylize("bold", gap.start, gap.end)
    for gap in result.gaps:
        if gap.others:
            shown.append("\t" + " | ".join(other.text for other in gap.others))
    return shown
