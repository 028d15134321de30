"""The config.json of a trained folder, as this version writes it, whatever version wrote it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boustro.encoders.base import Encoder
from boustro.heads.base import Head
from boustro.heads.registry import HEADS
from boustro.store import read_json
from boustro.text.start import RECORDED


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder of version 0.1.0 or later."""
    return _upgrade(read_json(folder / "config.json"))


def _upgrade(saved: Mapping[str, Any]) -> dict[str, Any]:
    config = upgrade_reading(saved["config"])
    if "task" in saved:
        return _with_head_options({**saved, "config": config})
    labelling, record = dict(saved["labelling"]), dict(saved["record"])
    encoder, head = config.pop("encoder"), config.pop("head")
    config["tag_scheme"] = config.pop("inside")
    for name in ("mix_lr", "project", "weight_decay"):  # no options any more
        config.pop(name, None)
    labelling["scheme"] = labelling.pop("inside")
    record["dev_curve"] = record.pop("dev_f1", [])
    made = {"streams": saved["head"]["streams"], "max_span": saved["head"]["max_span"]}
    changed = {"task": "tag", "encoder": encoder, "head": head, "config": config, "labelling": labelling}
    return _with_head_options({**saved, **changed, **made, "record": record})


def _with_head_options(saved: dict[str, Any]) -> dict[str, Any]:
    """Earlier versions kept options of the head, and without effect those of all other heads, beside the task's."""
    names = {name for kind in HEADS.values() for name in kind.option_names()}
    config = {name: value for name, value in saved["config"].items() if name not in names}
    moved = {name: value for name, value in saved["config"].items() if name in names}
    return {**saved, "config": config, "head_options": moved | saved.get("head_options", {})}


def upgrade_reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reading options as this version names them, reading what they read.

    Version 0.1 had `sentinel`, the end-of-text piece or none; without it only LMs of ours had a start piece.
    """
    options = dict(options)
    before = {True: "eos", False: "none", None: RECORDED}[options.pop("sentinel", None)]
    return {"start_piece": before, **options}


def complete_record(record: Mapping[str, Any], examples: int, encoder: Encoder, head: Head) -> dict[str, Any]:
    """What version 0.1 recorded of a sense tagger or a sentence encoder, with what every record has now.

    `examples` is the number that was learned from; how the head did epoch by epoch is kept where it was recorded.
    """
    train = {"name": "", "sentences": examples, "fingerprint": "unknown"}
    own = {name: value for name, value in record.items() if name not in ("train", "dev")}
    facts = {"encoder_parameters": encoder.num_parameters, "head_parameters": sum(p.numel() for p in head.parameters())}
    scores = {"dev_scores": None, "losses": [], "dev_curve": [], "best_epoch": 1, "layer_weights": {}, "notices": {}}
    times = {"encode_seconds": 0.0, "train_seconds": 0.0}
    return {"seed": 1, **scores, **times, **facts, **own, "train": train, "dev": None}
