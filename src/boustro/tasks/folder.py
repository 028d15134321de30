"""The folder of a trained task: the head, its labels, and which encoder it belongs to; never the encoder itself.

config.json          task, encoder, kind of head, options, labels, and what training recorded
head.safetensors     the head's weights
README.md            the model card
recall.json          of a tagger that can promise recall
memory.safetensors   of a tagger with --memory: mean vectors of the words of its training data, words.json
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors.torch import load_file, save_file

from boustro import __version__
from boustro.features.weights import naming_folder
from boustro.hardware import find_device
from boustro.heads.registry import make_head
from boustro.store import read_folder, write_file, write_folder
from boustro.tasks import TASKS
from boustro.tasks.card import write_card
from boustro.tasks.data import data_name
from boustro.tasks.data.fingerprint import data_fingerprint
from boustro.tasks.hub import download
from boustro.tasks.labellings import open_labelling
from boustro.tasks.saved import read_config
from boustro.types import Sentence

if TYPE_CHECKING:
    from boustro.tasks.base import Task

AnyTask = TypeVar("AnyTask", bound="Task[Any, Any]")


def save_task(task: "Task[Any, Any]", path: str | Path) -> None:
    """Write the folder of a trained task; atomic."""
    head, labelling = task.trained_head(), task.labelling
    assert labelling is not None
    config = {
        "version": __version__,
        "task": task.name,
        **task.reader.to_dict(),
        "head": task.head_kind,
        "config": asdict(task.config),
        "streams": head.streams,
        "max_span": head.options.max_span,
        "side": head.side,
        "temperature": head.temperature,
        "labelling": labelling.to_dict(),
        "record": task.record,
    }
    with write_folder(path, TASKS[task.name].folder) as folder:
        save_file({name: t.cpu().contiguous() for name, t in head.state_dict().items()}, folder / "head.safetensors")
        write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
        task.save_rest(folder)
        write_card(folder, Path(path).resolve().name)


def load_task(
    cls: type[AnyTask],
    path: str | Path,
    *,
    revision: str | None,
    encoder: str | None,
    cache: bool | str | Path,
    device: str | None,
) -> AnyTask:
    """See `Task.from_pretrained`."""
    path = download(path, revision)
    find_device(device)  # is there, before the folder is read
    with read_folder(path, TASKS[cls.name].folder, verify=True):
        saved = read_config(path)
        task = cls(encoder or saved["encoder"], saved["head"], cache=cache, device=device, **saved["config"])
        labelling = task.labelling = open_labelling(**saved["labelling"])
        task.head = make_head(
            task.head_kind,
            replace(task.config, max_span=saved["max_span"]),
            streams=tuple((int(layers), int(width)) for layers, width in saved["streams"]),
            labels=labelling.labels,
            side=int(saved.get("side", 0)),
        )
        task.head.load_state_dict(load_file(path / "head.safetensors"))
        task.head.temperature = float(saved.get("temperature", 1.0))
        task.load_rest(path)
        task.record = saved["record"]
        task.reader = task.reader.of_weights(saved["encoder_identity"])
    task.head.to(task.device)
    with naming_folder(path):
        task.encoder()
    return task


def describe(sentences: Sequence[Sentence]) -> dict[str, Any]:
    """What a record says of a data set."""
    return {"name": data_name(sentences), "sentences": len(sentences), "fingerprint": data_fingerprint(sentences)}
