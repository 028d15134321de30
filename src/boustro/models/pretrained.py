"""Weights of transformers models: loaded quietly, whole, and with errors that say what is wrong with the folder.

transformers fills what a file of weights lacks with random numbers and goes on; here that is an error.
"""

from typing import Any

from transformers.utils import logging

from boustro.errors import lacks_memory, reason

UNUSED = "pooler"
"""What a masked LM's body has above its states; many files of weights lack it, and nothing here reads it."""


def load_pretrained(make: Any, name_or_path: str, **options: Any) -> Any:
    """`make.from_pretrained`, `make` being a class of transformers.

    Raises `ValueError` for weights that cannot be read, do not fit the config, or are not all there.
    """
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        model, told = make.from_pretrained(name_or_path, output_loading_info=True, **options)
    except Exception as error:  # a damaged file makes the libraries raise whatever they meet
        if isinstance(error, ImportError) or lacks_memory(error):
            raise
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {reason(error)}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
    missing = sorted(name for name in told["missing_keys"] if UNUSED not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {missing[0]}{more} are not there")
    return model
