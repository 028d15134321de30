"""`boustro`, and `python -m boustro`, which is the same."""

import os
import signal
import sys
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are imported: there is nothing to put away."""
    os.write(2, b"boustro: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line; `apps.cli.main` takes interruptions over."""
    signal.signal(signal.SIGINT, _stop)
    from boustro.apps.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
