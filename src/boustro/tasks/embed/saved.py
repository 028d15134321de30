"""Folders of sentence encoders that version 0.1 wrote, opened as this version's.

config.json              encoder, options, and what training recorded
statistics.safetensors   the first component and the arrays of the transform
words.json               how often each word occurs in the texts
head.safetensors         the head's weights, where one was trained
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from boustro.encoders.spec import split_kind, split_revision, split_spec
from boustro.features.weights import naming_folder
from boustro.heads.registry import make_head
from boustro.heads.vectors import SIDE_FEATURES
from boustro.store import MANIFEST, read_folder, read_json, reading
from boustro.tasks import TASKS
from boustro.tasks.fitted import Fitted
from boustro.tasks.labellings.vectors import PairVectorLabelling, VectorLabelling
from boustro.tasks.plan import make_plan
from boustro.tasks.saved import complete_record, upgrade_reading

STATISTICS, HEAD, WORDS = "statistics.safetensors", "head.safetensors", "words.json"
TRAINED = ("hidden", "dropout")


def is_former(folder: Path) -> bool:
    """Whether version 0.1 wrote this folder."""
    config = folder / "config.json"
    return (folder / MANIFEST).is_file() and config.is_file() and "options" in read_json(config)


def open_former(task: Any, path: Path, *, encoder: str | None, cache: bool | str | Path, device: str | None) -> Fitted:
    """What a folder has, see `Task.from_pretrained`; `task` is the class."""
    with read_folder(path, TASKS[task.name].folder, verify=True):
        saved = read_json(path / "config.json")
        spec, options = upgrade_options(encoder or saved["encoder"], saved["options"])
        trained = saved["head"]
        options.pop("smoothing", None)
        if trained is not None:
            own = {name: trained["options"][name] for name in TRAINED}
            options = {name: value for name, value in options.items() if name != "transform"} | own
        kind = "statistics" if trained is None else "embedding"
        plan = make_plan(task, spec, kind, cache=cache, device=device, **options)
        plan = replace(plan, reader=plan.reader.of_weights(saved["encoder_identity"]))
        words = read_json(path / WORDS) if (path / WORDS).is_file() else None
        made = VectorLabelling if trained is None else PairVectorLabelling
        labelling = made(made.scheme_name, (), words)
    with naming_folder(path):
        streams = [(stream.num_layers, stream.width) for stream in plan.reader.encoder().streams]
    head = make_head(kind, plan.head_options, streams, (), side=SIDE_FEATURES)
    with reading(path, "make it again"):
        weights = load_file(path / HEAD) if trained is not None else _statistics(path)
        head.load_state_dict(head.state_dict() | weights)
    record = complete_record(saved["record"], saved["record"].get("pairs", 0), plan.reader.encoder(), head)
    return Fitted(plan, labelling, head.to(plan.device).eval(), record)


def upgrade_options(spec: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The spec and the options of version 0.1 as this version has them."""
    options = upgrade_reading(options)
    pooled, states = options.pop("pooling"), options.pop("states")
    if pooled == "echo":
        spec, pooled = echo_spec(spec), "mean"
    return spec, {**options, "text_pooling": pooled, "pooling": states}


def echo_spec(spec: str) -> str:
    """The spec of the same LMs given the text twice: `"starter"` → `"repeated:starter-forward+repeated:…"`.

    Raises `ValueError` for a part that is no plain causal LM.
    """
    parts = []
    for name in split_spec(spec):
        kind = split_kind(split_revision(name)[0])[0]
        if kind not in ("", "repeated:"):
            raise ValueError(f"{name}: pooling echo reads a text twice with a causal LM, not with kind {kind!r}")
        parts.append(name if kind else f"repeated:{name}")
    return "+".join(parts)


def _statistics(path: Path) -> dict[str, Any]:
    arrays = load_file(path / STATISTICS) if (path / STATISTICS).is_file() else {}
    names = {name: "body.component" if name == "component" else f"body.transform.{name}" for name in arrays}
    return {names[name]: array for name, array in arrays.items()}
