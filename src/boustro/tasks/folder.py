"""The folder of a trained task: the head, its labels, and which encoder it belongs to; never the encoder itself.

config.json          task, encoder, kind of head, options, labels, and what training recorded
head.safetensors     the head's weights
README.md            the model card
recall.json          of a tagger that can promise recall
memory.safetensors   of a tagger with --memory: mean vectors of the words of its training data, words.json
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from boustro import __version__
from boustro.encoders.extended import PLACES, load_names
from boustro.features.reader import naming_folder
from boustro.hardware import find_device
from boustro.heads.bodies import PerWord
from boustro.heads.factored import factored_tags
from boustro.heads.registry import make_head
from boustro.heads.tagging import TaggingHead
from boustro.heads.training import TrainLog
from boustro.names import EXTENDED, NAMES, is_shipped, locate_extended
from boustro.store import kind_of, read_folder, read_json, write_file, write_folder
from boustro.tasks import TASKS
from boustro.tasks.fitting import head_facts
from boustro.tasks.hub import write_card
from boustro.tasks.labellings import open_labelling
from boustro.tasks.labellings.tags import TagLabelling
from boustro.tasks.plan import Fitted, load_beside, make_plan, plan_of, save_beside
from boustro.text.words import RULE


def save_fitted(fitted: Fitted, path: str | Path) -> None:
    """Write the folder of a trained task; atomic."""
    plan, head = fitted.plan, fitted.head
    config = {
        "version": __version__,
        "task": plan.task.name,
        **plan.reader.to_dict(),
        "head": plan.head_kind,
        "words": plan.words,
        "config": asdict(plan.config),
        "streams": head.streams,
        "head_options": asdict(plan.head_options),
        "max_span": head.options.longest or None,
        "side": head.side,
        "temperature": head.temperature,
        "labelling": fitted.labelling.to_dict(),
        "record": fitted.record,
    }
    with write_folder(path, TASKS[plan.task.name].folder) as folder:
        save_file({name: t.cpu().contiguous() for name, t in head.state_dict().items()}, folder / "head.safetensors")
        write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
        save_beside(fitted, folder)
        write_card(folder, Path(path).resolve().name)


def load_fitted(
    task: Any,
    path: Path,
    *,
    encoder: str | None,
    cache: bool | str | Path,
    device: str | None,
    given_states: bool = False,
) -> Fitted:
    """Open a trained folder, see `Task.from_pretrained`; `task` is the class.

    With `given_states`, the weights of a causal LM are not loaded, see `Reader.with_given_states`.
    """
    find_device(device)  # is there, before the folder is read
    if kind_of(path) == NAMES and "tags" in TASKS[task.name].config.labellings:
        return names_fitted(task, path, encoder, cache=cache, device=device)
    with read_folder(path, TASKS[task.name].folder, verify=True):
        saved = read_json(path / "config.json")
        kind = TASKS[task.name].config.check_head(saved["head"])
        options = TASKS[task.name].config.make(**saved["config"]), kind.options(**saved["head_options"])
        plan = plan_of(task, encoder or saved["encoder"], saved["head"], *options, cache=cache, device=device)
        plan = replace(plan, reader=plan.reader.of_weights(saved["encoder_identity"]), words=saved.get("words", 1))
        if given_states:
            plan = replace(plan, reader=plan.reader.with_given_states())
        labelling = open_labelling(**saved["labelling"])
        head = make_head(
            plan.head_kind,
            plan.head_options.fitted(saved["max_span"]),
            streams=[tuple(stream) for stream in saved["streams"]],
            labels=labelling.labels,
            side=int(saved.get("side", 0)),
        )
        head.load_state_dict(load_file(path / "head.safetensors"))
        head.temperature = float(saved.get("temperature", 1.0))
        plan, extras = load_beside(plan, path)
        fitted = Fitted(plan, labelling, head, saved["record"], extras)
    head.to(plan.device)
    with naming_folder(path):
        plan.reader.encoder()
    return fitted


def names_fitted(task: Any, path: Path, encoder: str | None = None, **how: Any) -> Fitted:
    """A tagger of the kinds of names that a folder of `boustro names` knows, without any training: a linear head that
    reads nothing but the logarithms of the network's probabilities."""
    _, facts = load_names(path)
    if not facts["kinds"]:
        raise ValueError(f"{path}: its names have no kinds; give boustro names the option --kinds, or train a tagger")
    spec = encoder or next((name for name in EXTENDED if locate_extended(name) == str(path)), f"{NAMES}:{path}")
    plan = make_plan(task, spec, "linear", layers="last", crf=False, **how)  # words have the network's probabilities
    plan = replace(plan, words=RULE if is_shipped(spec) else facts.get("words", 1))
    reader = plan.reader.encoder()
    labelling = TagLabelling("bio", factored_tags(facts["kinds"]))
    streams = [stream.shape for stream in reader.streams]
    head = make_head("linear", plan.head_options, streams, labelling.labels)
    tags, num_kinds = len(labelling.labels), len(facts["kinds"])
    weight = np.zeros((tags, sum(head.widths)), np.float32)
    place, kinds = np.split(np.eye(PLACES + num_kinds, dtype=np.float32), [PLACES])
    weight[0, -PLACES - num_kinds :] = place[0]
    weight[1:, -PLACES - num_kinds :] = np.repeat(place[1:], num_kinds, 0) + np.tile(kinds, (2, 1))
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    head.body.fill(weight, np.zeros(tags, np.float32))
    record = {"seed": 0, "encode_seconds": 0.0, "train_seconds": 0.0, "notices": {}, "dev": None, "dev_scores": None}
    train = {"name": "names", "sentences": facts["record"]["sentences"], "fingerprint": facts["text"]}
    log = TrainLog([0.0], [], 1, 1)
    head.to(plan.device)
    return Fitted(plan, labelling, head, record | {"train": train, **head_facts(reader, head, log)})
