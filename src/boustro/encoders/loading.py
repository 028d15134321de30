"""Pretrained models from a folder or the hub: quietly, safely, and with errors that say what is missing."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from transformers import AutoConfig, AutoModel

from boustro.errors import reason
from boustro.models.pretrained import load_pretrained
from boustro.names import is_path
from boustro.store import MANIFEST, open_folder
from boustro.text.tokenizers import load_tokenizer


def load_config(name_or_path: str, revision: str | None):
    """The model's config; refuses a folder that is half-written or holds no model."""
    path = Path(name_or_path)
    if path.is_dir() and (path / MANIFEST).is_file():
        open_folder(path, "model")
    elif path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{path}: no config.json, so this is no model folder, or a half-written one")
    try:
        return AutoConfig.from_pretrained(name_or_path, revision=revision)
    except ImportError:
        raise
    except Exception as error:  # a damaged config makes transformers raise whatever it meets
        why = "there is no such folder" if is_path(name_or_path) and not path.exists() else reason(error)
        raise FileNotFoundError(f"{name_or_path}: no model could be loaded from this path or name: {why}") from error


def load_model(name_or_path: str, config: Any, revision: str | None, dtype: torch.dtype, make: Any = AutoModel):
    """The model, by default without its LM head; quietly, since the head's weights are left over on purpose."""
    return load_pretrained(make, name_or_path, config=config, revision=revision, dtype=dtype)


def load_tokenizer_of(name_or_path: str, revision: str | None, fallback: Any) -> Any:
    """The model's tokenizer, or `fallback` when it brings none."""
    try:
        return load_tokenizer(name_or_path, revision)
    except FileNotFoundError:
        if fallback is None:
            raise
        return fallback


def exact_revision(name_or_path: str, revision: str | None) -> str | None:
    """The commit at which a model of the hub lies in the hub's cache; a local folder has none.

    transformers does not say which commit it read (5.23 no longer does, at least), so the cache is asked.
    """
    if Path(name_or_path).is_dir():
        return None
    config = try_to_load_from_cache(name_or_path, "config.json", revision=revision)
    return Path(config).parent.name if isinstance(config, str) else revision
