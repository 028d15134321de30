"""One name for a model, by the bytes of the files that decide its numbers: weights, config and tokenizer.

A file that is overwritten in its place is another model, whatever its size; so files are hashed, not asked for their
names. A large file is hashed once: its hash is remembered with its size, time of change and inode, in the folder of
the feature cache.
"""

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from boustro.encoders.cache import cache_folder
from boustro.models import adaptation, elmo, fusion, lora
from boustro.store import EDITABLE, MANIFEST, fingerprint, hash_file, open_folder, read_json, write_file

OWN_KINDS = {fusion.WEIGHTS: fusion.KIND, elmo.WEIGHTS: elmo.KIND, lora.WEIGHTS: adaptation.KIND}
"""Folders that hold no transformers model, by a file of theirs."""
SUFFIXES = (".safetensors", ".bin", ".json", ".model", ".tiktoken")
PLAIN_TEXT = ("vocab.txt", "merges.txt")
NO_MATTER = EDITABLE | {MANIFEST, "training.json", "generation_config.json", "trainer_state.json", "training_args.bin"}
"""Files that change no number."""
REMEMBERED, LARGE = "hashes.json", 64 * 2**20
SETTLED_SECONDS = 2.0
"""A file that was changed later than this ago may change again without a new time."""


def weights_fingerprint(name_or_path: str, revision: str | None) -> str:
    """name@commit of a model of the hub, else a hash over the files of the folder."""
    path = Path(name_or_path)
    if not path.is_dir():
        return f"{name_or_path}@{revision}"
    return fingerprint({name: _hash(path / name) for name in _deciding(path)})


def tokenizer_fingerprint(tokenizer: Any) -> str | None:
    """Of the folder that a tokenizer was read from; None for one of the hub, which its commit names."""
    path = Path(str(tokenizer.name_or_path or ""))
    files = [name for name in _deciding(path) if "token" in name or name.startswith(("vocab", "merges", "spiece"))]
    return fingerprint({name: _hash(path / name) for name in files}) if files else None


def _deciding(path: Path) -> list[str]:
    """Names of the files that decide the numbers; those that a manifest lists, where there is one."""
    if (path / MANIFEST).is_file():
        kind = next((kind for name, kind in OWN_KINDS.items() if (path / name).is_file()), "model")
        return [name for name in open_folder(path, kind)["files"] if Path(name).name not in NO_MATTER]
    found = (p for p in sorted(path.glob("*")) if p.suffix in SUFFIXES or p.name in PLAIN_TEXT)
    return [p.name for p in found if p.is_file() and p.name not in NO_MATTER]


def _hash(path: Path) -> str:
    """SHA-256 of a file, remembered where that takes long."""
    facts = path.stat()
    if facts.st_size < LARGE:
        return hash_file(path)
    memory = cache_folder() / REMEMBERED
    key = f"{os.path.realpath(path)}|{facts.st_size}|{facts.st_mtime_ns}|{facts.st_ino}"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        known = dict(read_json(memory))
    if key in known:
        return known[key]
    found = hash_file(path)
    if time.time() - facts.st_mtime > SETTLED_SECONDS:
        with contextlib.suppress(OSError):  # a memory that cannot be written costs time alone
            write_file(memory, json.dumps(known | {key: found}, indent=1))
    return found
