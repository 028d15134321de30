"""`boustro`, and `python -m boustro`, which is the same."""

import gc
import os
import signal
import sys
from types import FrameType

OBJECTS = 50_000
"""Objects after which garbage is looked for: 700, as Python has it, cost a tenth of a short command's time, since
imports make hundreds of thousands that stay."""


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are imported: there is nothing to put away."""
    os.write(2, b"boustro: interrupted\n")
    os._exit(130)  # Python's own way out would print a traceback of what is being imported


def main() -> int:
    """Run the command line; a command takes interruptions over while it runs (`apps.cli.main`)."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as of a job in the background
        signal.signal(signal.SIGINT, _stop)
    gc.set_threshold(OBJECTS)
    from boustro.apps.cli.main import main as run

    code = run()
    http = sys.modules.get("boustro.apps.serve.http")
    if http and http.computes_beside():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    gc.freeze()  # else Python looks through all objects at its end, for half a second
    return code


if __name__ == "__main__":
    sys.exit(main())
