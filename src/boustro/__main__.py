"""`python -m boustro` is `boustro`."""

import sys

from boustro.apps.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
