"""Configs of the folders whose states are computed without transformers, by `models.llama` and `models.bert`.

They are folders that Boustro wrote, of one file of weights, all of which have the shape that their config gives them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from boustro.models.packed import PLAIN_FILE, StoredWeights, is_packed
from boustro.store import MANIFEST, kind_of, open_folder, read_json

Shapes = dict[str, tuple[int, ...]]


class PlainConfig(SimpleNamespace):
    """The config of a model as its file has it, with what is asked of one of transformers."""

    def get_text_config(self) -> "PlainConfig":
        """That of the LM: itself."""
        return self


def plain_config(
    path: str,
    model_type: str,
    kind: Mapping[str, Any],
    defaults: Mapping[str, Any],
    shapes: Callable[[PlainConfig], Shapes],
    unread: Callable[[Shapes], Shapes],
) -> PlainConfig | None:
    """The config of a folder of ours whose settings have the values of `kind`; `None` for any other folder.

    A setting that the file lacks has the value of `kind` or `defaults`, which are those of transformers: each version
    of it writes other ones. The weights have exactly the `shapes`, or besides these, all `unread` ones. Raises as
    `store.open_folder`.
    """
    folder = Path(path)
    packed = is_packed(folder)
    if (
        not (folder / MANIFEST).is_file()
        or kind_of(folder) != "model"
        or not (packed or (folder / PLAIN_FILE).is_file())
    ):
        return None
    open_folder(folder, "model", verify=packed)
    config = {**kind, **defaults, **read_json(folder / "config.json")}
    is_other = config.get("model_type") != model_type or "quantization_config" in config
    if is_other or any(config[name] != value for name, value in kind.items()):
        return None
    wanted = shapes(made := PlainConfig(**config))
    return made if StoredWeights(folder).shapes in (wanted, wanted | unread(wanted)) else None
