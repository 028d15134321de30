"""`boustro`, and `python -m boustro`, which is the same."""

import atexit
import gc
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, NoReturn

FIRST_OBJECTS, OBJECTS = 500_000, 50_000
"""Objects after which garbage is looked for, first and later: 700, as Python has it, cost a tenth of a short command's
time, since imports make hundreds of thousands that stay."""
MANY_OBJECTS = {"torch", "onnxruntime"}
"""Packages that make hundreds of thousands of objects."""


def _settle(phase: str, facts: dict[str, Any]) -> None:
    """After the first look, leave what is there out of all later ones."""
    if phase == "stop":
        gc.callbacks.remove(_settle)
        gc.freeze()
        gc.set_threshold(OBJECTS)


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are imported: there is nothing to put away."""
    os.write(2, b"boustro: interrupted\n")
    os._exit(130)  # Python's own way out would print a traceback of what is being imported


def main() -> int:
    """Run the command line; a command takes interruptions over while it runs (`apps.cli.main`)."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as of a job in the background
        signal.signal(signal.SIGINT, _stop)
    gc.set_threshold(FIRST_OBJECTS)
    gc.callbacks.append(_settle)
    from boustro.apps.cli.main import main as run

    code = run()
    if MANY_OBJECTS & sys.modules.keys():
        _leave(code)
    return code


def _leave(code: int) -> NoReturn:
    """End the process as Python does, without taking its objects apart one by one, which takes a tenth of a second.

    A thread that computes while a server answers (`apps.serve`) goes with it: stopped inside torch, it would abort.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
