"""`boustro cache`: what the feature cache holds, and an end to it.

What is slow to import is imported when the command runs, so that its help need not wait.
"""

from pathlib import Path
from typing import Literal

from boustro.options import Positional


def cache(action: Positional[Literal["list", "clear"]], folder: Path | None = None) -> None:
    """List the cached features, or clear them all.

    Args:
        action: What to do.
        folder: The cache; by default $BOUSTRO_CACHE or the user's cache folder.
    """
    from boustro.encoders.cache import cache_folder, clear_features, list_features

    act = list_features if action == "list" else clear_features
    act(folder or cache_folder())
