"""The name that users have for `boustro.apps.integrations`: `import boustro.integrations.spacy`."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("boustro.apps.integrations")
