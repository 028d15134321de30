"""The folder of a trained task: the head, its labels, and which encoder it belongs to; never the encoder itself.

config.json          task, encoder, kind of head, options, labels, and what training recorded
head.safetensors     the head's weights
README.md            the model card
recall.json          of a tagger that can promise recall
memory.safetensors   of a tagger with --memory: mean vectors of the words of its training data, words.json
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save

from boustro.features.reader import naming_folder
from boustro.hardware import find_device
from boustro.heads.registry import make_head
from boustro.names import LARGE, LARGE_WITHOUT_NAMES
from boustro.store import Artefact, fingerprint, write_file, write_folder
from boustro.tasks import TASKS
from boustro.tasks.hub import write_card
from boustro.tasks.labellings import open_labelling
from boustro.tasks.plan import Fitted, load_companions, plan_of, save_companions
from boustro.version import __version__


def save_fitted(fitted: Fitted, path: str | Path) -> None:
    """Write the folder of a trained task; atomic."""
    with write_folder(path, TASKS[fitted.plan.task.name].folder) as folder:
        (folder / "head.safetensors").write_bytes(_weights(fitted))
        write_file(folder / "config.json", json.dumps(_config(fitted), indent=1, ensure_ascii=False))
        save_companions(fitted, folder)
        write_card(folder, Path(path).resolve().name)


def model_fingerprint(fitted: Fitted) -> str:
    """Fingerprint of the head, the labels, the options and the encoder of a model that nothing stands beside."""
    config = {name: value for name, value in _config(fitted).items() if name != "record"}
    return fingerprint(config, hashlib.sha256(_weights(fitted)).hexdigest())


def _weights(fitted: Fitted) -> bytes:
    return save({name: t.cpu().contiguous() for name, t in fitted.head.state_dict().items()})


def _config(fitted: Fitted) -> dict[str, Any]:
    plan, head = fitted.plan, fitted.head
    return {
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


def _encoder_of(saved: Mapping[str, Any]) -> str:
    """Return the spec of a folder's encoder; that of an older one whose `starter-large` had no network of names."""
    older = saved["encoder"] == LARGE and not any(stream[4:] for stream in saved["streams"])
    return LARGE_WITHOUT_NAMES if older else saved["encoder"]


def load_fitted(
    task: Any,
    path: Artefact,
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
    if make := task.untrained.get(path.kind):
        return make(task, path, encoder, cache=cache, device=device)
    with path.opened(TASKS[task.name].folder, verify=True):
        saved = path.config()
        kind = TASKS[task.name].config.check_head(saved["head"])
        options = TASKS[task.name].config.of_folder(path, saved["config"]), kind.options(**saved["head_options"])
        plan = plan_of(task, encoder or _encoder_of(saved), saved["head"], *options, cache=cache, device=device)
        plan = replace(plan, reader=plan.reader.of_weights(saved["encoder_identity"]), words=saved.get("words", 1))
        if given_states:
            plan = replace(plan, reader=plan.reader.with_given_states())
        labelling = open_labelling(**saved["labelling"])
        head = make_head(
            plan.head_kind,
            plan.head_options.for_data(saved["max_span"]),
            streams=[tuple(stream) for stream in saved["streams"]],
            labels=labelling.labels,
            side=int(saved.get("side", 0)),
        )
        head.load_state_dict(load_file(path / "head.safetensors"))
        head.temperature = float(saved.get("temperature", 1.0))
        plan, extras = load_companions(plan, path)
        fitted = Fitted(plan, labelling, head, saved["record"], extras)
    head.to(plan.device)
    with naming_folder(path.path):
        plan.reader.encoder()
    return fitted
