"""Models in a folder or on the Hub: config, tokenizer, revision, and fingerprints of what decides the numbers.

A fingerprint is a hash of file contents (weights, config, tokenizer): a file that is overwritten in place is another
model, whatever its name and size. A large file is hashed once; its hash is remembered with its size, modification time
and inode in the folder of the feature cache.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from boustro.encoders.cache import remembered
from boustro.errors import reason
from boustro.names import ADAPTATION, CHANNELS_FILE, ELMO, FUSION, MEMORY, NAMES, TABLE, is_path, source
from boustro.store import EDITABLE, MANIFEST, Artefact, ModelPlace, fingerprint, hash_file
from boustro.text.places import similar_name
from boustro.text.tokenizers import load_tokenizer

SUFFIXES = (".safetensors", ".bin", ".json", ".model", ".tiktoken")
PLAIN_TEXT = ("vocab.txt", "merges.txt")
RECORDS = {"training.json", "generation_config.json", "trainer_state.json", "training_args.bin"}
SPACED = {
    "4dbb1e577d56c68873d47ec715c8587bbaa472f01dea55065734045487ba44e2": (
        "bf346d64f6f0fbcefb4c1b6928a98241467dff36c6fbae5fe1785c4ff90667f4"
    ),
    "c90a70bebc6dc9d9dbbfed909d2a078906bf6a37cb8d5ef8812b15cb2f27d4f3": (
        "a6e2aa93b847ef20748a2634ffa8238652f44ea252155ab4adb073a99251f875"
    ),
}
"""SHA-256 of the package's tokenizers, and what it was while they had white space: trained folders name that one."""
IGNORED_FILES = EDITABLE | RECORDS | {MANIFEST, CHANNELS_FILE}
"""Files that change no number; the channels do where products are in int8, and are a fact beside the weights then."""
# hashing a file of gigabytes takes seconds, so hashes of large ones are kept by size and time
HASHES_FILE, LARGE_FILE_BYTES = "hashes.json", 64 * 2**20
SETTLED_SECONDS = 2.0  # a file modified more recently may change again with the same modification time


@contextlib.contextmanager
def naming(folder: str) -> Iterator[None]:
    """Yield a block that opens what a folder names; its error then begins with `folder`, a path and what it is."""
    try:
        yield
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"{folder}: {error}") from error


def load_config(place: ModelPlace, revision: str | None):
    """Return the model's config. Raises `FileNotFoundError` if there is no model, `ValueError` if its folder is
    incomplete."""
    artefact = Artefact.of(place)
    path = artefact.path
    if path.is_dir() and artefact.is_written:
        artefact.check("model")
    elif (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        raise ValueError(f"{path} is an adapter without its LM; merge it into the LM with peft's merge_and_unload")
    elif path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{path}: no config.json, so this is not a model folder, or an incomplete one")
    from transformers import AutoConfig

    folder, file = source(artefact)
    try:
        return AutoConfig.from_pretrained(folder, revision=revision, **file)
    except ImportError:
        raise
    except Exception as error:  # a damaged config makes transformers raise anything
        if not path.exists() and (near := similar_name(path)):
            raise FileNotFoundError(f"{artefact}: no such folder or model; did you mean {near!r}?") from error
        why = "there is no such folder" if is_path(artefact.name) and not path.exists() else reason(error)
        raise FileNotFoundError(f"{artefact}: no model could be loaded from this path or name: {why}") from error


def check_config(artefact: Artefact, revision: str | None) -> None:
    """Raise what `load_config` would; for a folder of ours without transformers, whose import takes seconds."""
    if not artefact.is_written or "config.json" not in artefact.check("model")["files"]:
        load_config(artefact, revision)


def find_file(place: Artefact, name: str, revision: str | None) -> Path | None:
    """Return the path of a file of a folder or of a model of the Hub; `FileNotFoundError` where the Hub has no such
    model."""
    if place.path.is_dir():
        path = place / name
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(str(place), name, revision=revision, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise FileNotFoundError(f"{place}: no model could be loaded from this path or name: {reason(error)}") from error
    return None if found is None else Path(found)


def load_tokenizer_of(place: ModelPlace, revision: str | None, fallback: Any) -> Any:
    """Return the model's tokenizer, or `fallback` if it has none."""
    try:
        return load_tokenizer(place, revision, to_read=True)
    except FileNotFoundError:
        if fallback is None:
            raise
        return fallback


def exact_revision(place: ModelPlace, revision: str | None) -> str | None:
    """Return the commit of a model in the Hub's cache, which transformers does not report; None for a folder."""
    if Path(place).exists():
        return None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(str(place), "config.json", revision=revision)
    return Path(config).parent.name if isinstance(config, str) else revision


def weights_fingerprint(place: ModelPlace, revision: str | None) -> str:
    """Return name@commit of a model of the Hub, else a hash over the file, or over the files of the folder."""
    artefact = Artefact.of(place)
    if artefact.path.is_file():
        return _hash(artefact.path)
    if not artefact.path.is_dir():
        return f"{artefact}@{revision}"
    return _fingerprint(artefact, _deciding(artefact))


def tokenizer_fingerprint(tokenizer: Any) -> str | None:
    """Of the folder that a tokenizer was loaded from; None for one of the Hub, which its commit identifies."""
    folder = getattr(tokenizer, "artefact", None) or Artefact(str(tokenizer.name_or_path or ""))
    names = [name for name in _deciding(folder) if "token" in name or name.startswith(("vocab", "merges", "spiece"))]
    return _fingerprint(folder, names) if names else None


def vocabulary_fingerprint(tokenizer: Any) -> str:
    """Of its pieces and their ids; remembered for the files of a folder."""
    files, make = tokenizer_fingerprint(tokenizer), lambda: fingerprint(tokenizer.get_vocab())
    return remembered(HASHES_FILE, f"vocabulary|{files}|{len(tokenizer)}", make) if files else make()


def _deciding(folder: Artefact) -> list[str]:
    """Names of the files that decide the numbers; those in the manifest, if there is one."""
    if folder.is_written:
        kind = folder.kind
        expected = kind if kind in (FUSION, ELMO, ADAPTATION, MEMORY, NAMES, TABLE) else "model"
        return [name for name in folder.check(expected)["files"] if Path(name).name not in IGNORED_FILES]
    paths = (p for p in sorted(folder.path.glob("*")) if p.suffix in SUFFIXES or p.name in PLAIN_TEXT)
    return [p.name for p in paths if p.is_file() and p.name not in IGNORED_FILES]


def _fingerprint(folder: Artefact, names: Iterable[str]) -> str:
    """Of files by their names, a tokenizer of the package as it was with white space."""
    hashes = {name: folder.sha256(name, _hash) for name in names}
    return fingerprint({name: SPACED.get(own, own) for name, own in hashes.items()})


def _hash(path: Path) -> str:
    """SHA-256 of a file, remembered for large files."""
    facts = path.stat()
    if facts.st_size < LARGE_FILE_BYTES:
        return hash_file(path)
    key = f"{os.path.realpath(path)}|{facts.st_size}|{facts.st_mtime_ns}|{facts.st_ino}"
    return remembered(HASHES_FILE, key, partial(hash_file, path), time.time() - facts.st_mtime > SETTLED_SECONDS)
