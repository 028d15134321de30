"""Folders of sense taggers that version 0.1 wrote, opened as this version's.

config.json              options, the exact encoder, the prior, and what training recorded
senses.json              for every lemma and part of speech its senses and their counts; WordNet's first senses
centroids.safetensors    a vector per sense, in the order of senses.json; the arrays of the transform
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from boustro.features.weights import naming_folder
from boustro.heads.centroids import SIDE_FEATURES
from boustro.heads.registry import make_head
from boustro.store import read_folder, read_json, reading
from boustro.tasks import TASKS
from boustro.tasks.fitted import Fitted
from boustro.tasks.labellings.senses import SenseLabelling
from boustro.tasks.plan import make_plan
from boustro.tasks.saved import complete_record, upgrade_reading

SENSES, VECTORS = "senses.json", "centroids.safetensors"


def is_former(folder: Path) -> bool:
    """Whether version 0.1 wrote this folder."""
    return (folder / SENSES).is_file()


def open_former(task: Any, path: Path, *, encoder: str | None, cache: bool | str | Path, device: str | None) -> Fitted:
    """What a folder has, see `Task.from_pretrained`; `task` is the class."""
    with read_folder(path, TASKS[task.name].folder, verify=True, needs=(SENSES, VECTORS)):
        config, senses = read_json(path / "config.json"), read_json(path / SENSES)
        weights = load_file(path / VECTORS)
        options = upgrade_reading(config["options"])
        plan = make_plan(task, encoder or config["encoder"], None, cache=cache, device=device, **options)
        plan = replace(plan, reader=plan.reader.of_weights(config["encoder_identity"]))
        labelling = _labelling(senses)
    with naming_folder(path):
        streams = [(stream.num_layers, stream.width) for stream in plan.reader.encoder().streams]
    head = make_head(plan.head_kind, plan.head_options, streams, labelling.labels, side=SIDE_FEATURES)
    with reading(path, "train again"):
        head.load_state_dict(head.state_dict() | _weights(weights, config, labelling))
    record = complete_record(config["record"], int(labelling.counts.sum()), plan.reader.encoder(), head)
    return Fitted(plan, labelling, head.to(plan.device).eval(), record)


def _labelling(senses: dict[str, Any]) -> SenseLabelling:
    own = senses["senses"]
    sizes = {f"{lemma} {pos}": len(counts) for lemma, pos, counts in own}
    keys = [key for *_, counts in own for key in counts]
    first = {f"{lemma} {pos}": key for lemma, pos, key in senses["first"]}
    return SenseLabelling("senses", keys, sizes, [n for *_, counts in own for n in counts.values()], first)


def _weights(
    arrays: dict[str, torch.Tensor], config: dict[str, Any], labelling: SenseLabelling
) -> dict[str, torch.Tensor]:
    """The same under the names of this version's head."""
    found = {f"body.{name}": array for name, array in arrays.items()}
    counts = torch.from_numpy(labelling.counts)
    return {**found, "body.counts": counts, "body.prior": torch.tensor(float(config["prior"]))}
