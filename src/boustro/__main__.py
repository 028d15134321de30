"""`boustro`, and `python -m boustro`, which is the same."""

import os
import signal
import sys
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are imported: there is nothing to put away."""
    os.write(2, b"boustro: interrupted\n")
    os._exit(130)  # Python's own way out would print a traceback of what is being imported


def main() -> int:
    """Run the command line; a command takes interruptions over while it runs (`apps.cli.main`)."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as of a job in the background
        signal.signal(signal.SIGINT, _stop)
    from boustro.apps.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
