"""The folder of an adapted LM: what was trained, and which LM it belongs to; never the LM itself.

    adapter_model.safetensors   the adapter, megabytes (`lora`)
    adapter_config.json         its shape
    adaptation.json             base: the LM's exact spec, its direction and fingerprints; blocks: which were unmasked
    training.json               how it was trained

`blocks` is a range such as 1-4, or none for an LM whose mask was kept.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from boustro.models.lora import CONFIG, WEIGHTS, save_lora
from boustro.store import fingerprint, kind_of, open_folder, read_folder, read_json, write_file, write_folder

KIND = "low-rank adaptation"
FACTS = "adaptation.json"
MASK_KEPT = "none"


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """An LM as it was when its adapter was trained."""

    base: str
    """Exact spec of the LM, without its kind."""
    direction: Literal["forward", "backward"]
    weights: str
    """Fingerprint of its weights."""
    vocabulary: str
    blocks: str


def save_adaptation(out: Path, adapted: Any, facts: Adaptation, training: dict[str, Any]) -> None:
    """Write the whole folder; an older one of the kind is replaced."""
    with write_folder(out, KIND) as folder:
        save_lora(folder, adapted)
        write_file(folder / FACTS, json.dumps(asdict(facts), indent=1))
        write_file(folder / "training.json", json.dumps(training, indent=1))


def find_adaptation(path: str) -> Adaptation | None:
    """What a folder says of itself; None for a path or a name that is no such folder.

    Raises `ValueError` for one that is damaged.
    """
    if kind_of(path) != KIND:
        return None
    with read_folder(path, KIND):
        return Adaptation(**read_json(Path(path) / FACTS))


def adapter_fingerprint(path: str) -> str:
    """One name for what an adapter does to its LM, wherever that lies."""
    files = open_folder(path, KIND)["files"]
    return fingerprint({name: files[name]["sha256"] for name in (WEIGHTS, CONFIG)})
