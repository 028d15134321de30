"""Output of commands, and how they run: results for people or for programs (`--json FILE`, `--json -`), notices."""

import contextlib
import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.errors import count_of
from boustro.store import check_file, write_file

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a command runs; none of these options changes the results."""

    cache: bool = True
    """Keep the features on disk, so that the next command on these texts does not compute them again."""
    device: str | None = None
    """cpu, cuda, mps, or auto (a large encoder is spread over GPUs, CPU memory and disk). By default the best one."""
    quiet: bool = False
    """Write nothing to standard error except errors."""


DEFAULT_RUN = RunOptions()
COLOUR_VARIABLES = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Variables by which users say that a file or a pipe shows colours, see `rich.console.Console.is_terminal`."""


class SpelledNumber(float):
    """A number of JSON that Python would write otherwise, with its `digits`: `1.10`, `1E5`, `1e400`."""

    digits: str

    def __new__(cls, digits: str) -> "SpelledNumber":
        made = super().__new__(cls, digits)
        made.digits = digits
        return made

    def __getnewargs__(self) -> Any:
        return (self.digits,)


def as_json(value: object, indent: int | None = None, default: Callable[[object], object] | None = None) -> str:
    """JSON as every file and every option of ours has it; `default` makes values of other types fit.

    What Unicode calls a line end is written as an escape, so that a value is one line to every reader of lines. Numbers
    that JSON does not have (not a number, infinity) are null; a `SpelledNumber` stays as it is.
    """
    try:
        if indent is None and _has_spelled(value):
            text = _spelled(value, default)
        else:
            text = json.dumps(value, ensure_ascii=False, indent=indent, default=default, allow_nan=False)
    except ValueError:
        made = json.loads(json.dumps(value, default=default), parse_constant=lambda name: None)
        text = json.dumps(made, ensure_ascii=False, indent=indent)
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _has_spelled(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_spelled, value.values()))
    return any(map(_has_spelled, value)) if isinstance(value, (list, tuple)) else type(value) is SpelledNumber


def _spelled(value: object, default: Callable[[object], object] | None) -> str:
    if isinstance(value, SpelledNumber):
        return value.digits
    if isinstance(value, dict):
        keys = (json.dumps({key: None}, ensure_ascii=False).removesuffix("null}")[1:] for key in value)
        return (
            f"{{{', '.join(key + as_json(one, None, default) for key, one in zip(keys, value.values(), strict=True))}}}"
        )
    assert isinstance(value, (list, tuple))
    return f"[{', '.join(as_json(one, None, default) for one in value)}]"


def check_output(file: Path | None) -> None:
    """Raise `OSError` for a `--json` that `give` could not write: before the work, not after it."""
    if file is not None and str(file) != "-":
        check_file(file)


def check_target(path: Path, replace: bool, option: str) -> None:
    """Raise `OSError` where a file cannot be written, and `FileExistsError` where one would be replaced unasked."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no ordinary file"
        raise OSError(errno.EINVAL, f"this is {what}; name a file for {option}", str(path))
    if path.exists() and not replace:
        raise FileExistsError(f"{path} exists; give --overwrite to replace it, or another {option}")


def keep_file(path: Path, replace: bool) -> None:
    """Check an `--out` that is written at the end, as `check_target` does, and that something can be written there."""
    check_target(path, replace, "--out")
    check_file(path)


def give(value: object, file: Path | None, show: Callable[[], None], indent: int | None = None) -> None:
    """JSON alone on standard output for `-`, else what people read, and JSON in the file if one is named."""
    if file is not None and str(file) == "-":
        print(as_json(value, indent))
        return
    if file is not None:
        write_file(file, as_json(value, indent) + "\n")
    show()


def only_errors(quiet: bool) -> contextlib.AbstractContextManager[object]:
    """Return a block of code that, where `quiet`, writes nothing to standard error; what it raises is said outside of
    it."""
    return contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Yield a block of a command whose warnings are lines on standard error, each said once."""
    told = set[str]()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, UserWarning):
                show(message, category, *place)
            elif str(message) not in told:
                told.add(str(message))
                print(f"note: {message}", file=sys.stderr)

        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = note
        yield


@contextlib.contextmanager
def keeping(kept: Callable[[], str], *errors: type[Exception]) -> Iterator[None]:
    """Around a block: where it is interrupted (Ctrl-C, SIGTERM) or raises one of these errors, the command says what
    is kept and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, *errors) as stop:
        if said := kept():
            stop.add_note(said)
        raise


def print_notices(counts: Mapping[str, int]) -> None:
    """Print what was noticed and how often, on standard error; nothing for what was not."""
    for what, count in counts.items():
        if count:
            print(f"note: {count_of(count, what)}", file=sys.stderr)


def console(width: int | None = None, *, wrap: bool = True) -> "Console":
    """Return what prints on standard output: words of users in it are never markup or emoji codes.

    Args:
        width: In characters; by default the terminal's.
        wrap: Break long lines at the width.
    """
    from rich.console import Console

    return Console(width=width, markup=False, emoji=False, highlight=False, soft_wrap=not wrap)


def terminal() -> "Console | None":
    """Return what prints on standard output where that is a terminal, or is called one (`COLOUR_VARIABLES`)."""
    if not sys.stdout.isatty() and not COLOUR_VARIABLES & os.environ.keys():
        return None  # importing rich takes a fiftieth of a first answer
    made = console(wrap=False)
    return made if made.is_terminal else None


def duration(seconds: float) -> str:
    """In seconds, minutes or hours, with about two digits: 5400 → "about 90 minutes"."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"about {seconds / length:,.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"about {count_of(round(seconds), 'seconds')}"
