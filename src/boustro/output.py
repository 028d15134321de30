"""What a command found, for people or for programs: `--json FILE`, and `--json -` for standard output."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

from boustro.store import check_file, write_file


def as_json(value: object, indent: int | None = None) -> str:
    """JSON as every file and every option of ours has it."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def check_output(file: Path | None) -> None:
    """Raise `OSError` for a `--json` that `give` could not write: before the work, not after it."""
    if file is not None and str(file) != "-":
        check_file(file)


def give(value: object, file: Path | None, show: Callable[[], None], indent: int | None = None) -> None:
    """JSON alone on standard output for `-`, else what people read, and JSON in the file if one is named."""
    if file is not None and str(file) == "-":
        print(as_json(value, indent))
        return
    if file is not None:
        write_file(file, as_json(value, indent) + "\n")
    show()


def only_errors(quiet: bool) -> contextlib.AbstractContextManager[object]:
    """A block of code that, where `quiet`, writes nothing to standard error; what it raises is said outside of it."""
    return contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
