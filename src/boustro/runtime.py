"""The name that users have for `boustro.apps.runtime`: `from boustro.runtime import load`."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("boustro.apps.runtime")
