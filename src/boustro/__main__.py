"""`python -m boustro` is `boustro`."""

import sys

from boustro.cli import main

if __name__ == "__main__":
    sys.exit(main())
