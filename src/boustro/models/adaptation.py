"""The folder of an adapted LM: the adapter, and which LM it belongs to, but not the LM itself.

adapter_model.safetensors   the adapter, megabytes (`lora`)
adapter_config.json         its shape
adaptation.json             an `Adaptation`
training.json               how it was trained
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from boustro.models.lora import CONFIG, WEIGHTS, save_lora
from boustro.store import fingerprint, kind_of, open_folder, read_folder, read_json, write_file

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
    """The blocks whose mask was removed, such as 1-4, or none."""
    start_piece: str
    """What it was given before every text (`text.start`)."""


def save_adaptation(folder: Path, adapted: Any, facts: Adaptation) -> None:
    """Write adapter and facts into a folder that `store.write_folder` opened."""
    save_lora(folder, adapted)
    write_file(folder / FACTS, json.dumps(asdict(facts), indent=1))


def find_adaptation(path: str) -> Adaptation | None:
    """The `Adaptation` in a folder; None for any other path or name. `ValueError` for a damaged one."""
    if kind_of(path) != KIND:
        return None
    with read_folder(path, KIND):
        return Adaptation(**read_json(Path(path) / FACTS))


def adapter_fingerprint(path: str) -> str:
    """Of the adapter's files, wherever the folder and its LM are."""
    files = open_folder(path, KIND)["files"]
    return fingerprint({name: files[name]["sha256"] for name in (WEIGHTS, CONFIG)})
