"""LoRA: a trained low-rank change of the matrices of a frozen transformer, through the library peft.

A matrix W becomes W + alpha / rank · B A, of which only A and B are trained. B starts as zeros, so an untrained adapter
changes nothing. For W of 256 x 256 and rank 16:

    A  16 x 256    B  256 x 16        8,192 weights instead of 65,536

The matrices are those of all linear layers in the blocks, without embeddings and head. The
files are in peft's own format. Source: Hu et al. 2021.

The folder of an adapted LM: the adapter, and which LM it belongs to, but not the LM itself.

adapter_model.safetensors   the adapter, megabytes (`lora`)
adapter_config.json         its shape
adaptation.json             an `Adaptation`
training.json               how it was trained
"""

import json
import re
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from boustro.errors import lacks_memory, reason
from boustro.models.blocks import find_blocks
from boustro.names import ADAPTATION
from boustro.store import Artefact, fingerprint, write_file

VOCABULARY = re.compile(
    r"\b(?:embed_tokens|wte|embed_in|word_embeddings)\.(?:.*weight$|lora_embedding_A)"
    r"|\b(?:lm_head|embed_out)\.(?!lora_A).*weight$"
)
ADAPTER_FILE, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"  # the names that peft looks for


@dataclass(frozen=True, kw_only=True)
class LoraShape:
    """Rank, scale and dropout of an adapter, and how many of the upper blocks it changes, by default all."""

    rank: int
    alpha: float
    dropout: float
    upper: int | None = None


def find_peft() -> Any:
    """Return the library; `ImportError` with the install command if it is missing."""
    try:
        import peft
    except ImportError as error:
        raise ImportError("an adapted LM needs peft; install it with: pip install 'boustro[adapt]'") from error
    return peft


def add_lora(model: nn.Module, shape: LoraShape) -> Any:
    """`model`, a transformer without its head, with a new adapter, as peft's model; `model` itself is changed.

    Raises `ImportError` without peft.
    """
    changed = "all-linear" if shape.upper is None else linear_layers(model, shape.upper)
    how: Any = {"lora_alpha": shape.alpha, "lora_dropout": shape.dropout, "target_modules": changed}
    config = find_peft().LoraConfig(r=shape.rank, **how)
    return _put_on(model, config).eval()


def linear_layers(model: Any, upper: int) -> list[str]:
    """Return the names of the linear layers in the upper blocks of a transformer."""
    from transformers.pytorch_utils import Conv1D  # GPT-2's linear layer

    blocks = find_blocks(model, model.config.get_text_config().num_hidden_layers)[-upper:]
    inside = {part for block in blocks for part in block.modules() if isinstance(part, (nn.Linear, Conv1D))}
    return [name for name, part in model.named_modules() if part in inside]


class LoraWeights(nn.Module):
    """The adapter without the model, and a head if there is one: what a run trains, saves and resumes."""

    def __init__(self, adapted: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__()
        layers: list[Any] = [m for m in adapted.modules() if isinstance(m, find_peft().tuners.lora.LoraLayer)]
        self.parts = nn.ModuleList(part for m in layers for part in (m.lora_A, m.lora_B, m.lora_dropout))
        self.head = head


def save_lora(folder: Path, adapted: Any) -> None:
    """Write an adapter's weights and config into a folder that `store.write_folder` opened; equal runs, equal bytes."""
    weights = find_peft().get_peft_model_state_dict(adapted, save_embedding_layers=False)
    save_file({name: weights[name].cpu().contiguous() for name in sorted(weights)}, folder / ADAPTER_FILE)
    config = adapted.peft_config["default"].to_dict() | {"base_model_name_or_path": None, "inference_mode": True}
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    write_file(folder / ADAPTER_CONFIG, json.dumps(plain, indent=1, sort_keys=True))


def merge_lora(model: nn.Module, folder: Path) -> None:
    """Add an adapter's change to `model` in memory; `ImportError` without peft, `ValueError` for an unfit one."""
    peft = find_peft()
    try:
        adapted = _put_on(model, peft.LoraConfig.from_pretrained(str(folder)))
        done = peft.set_peft_model_state_dict(adapted, load_file(folder / ADAPTER_FILE))
    except Exception as error:
        if lacks_memory(error):
            raise
        raise ValueError(f"{folder} does not fit this model: {reason(error)}") from error
    marks = ("lora_", "modules_to_save", "trainable_tokens")
    if missing := [n for n in done.missing_keys if any(part in n for part in marks)] + list(done.unexpected_keys):
        raise ValueError(f"{folder} does not fit this model: {missing[0]} and {len(missing) - 1} more do not match")
    adapted.merge_and_unload()
    model.requires_grad_(False)


def num_rows(folder: Path) -> int | None:
    """Return how many rows the vocabulary of an adapter has, where it trained any of them."""
    with safe_open(folder / ADAPTER_FILE, "pt") as file:
        for name in file.keys():  # noqa: SIM118 (no mapping)
            if VOCABULARY.search(name):
                rows, *width = file.get_slice(name).get_shape()
                return width[0] if "lora_embedding_A" in name else rows
    return None


def is_of_whole_lm(folder: Path) -> bool:
    """Return whether an adapter was trained on an LM with its head: its names then begin with the body's,
    `model.layers`."""
    with safe_open(folder / ADAPTER_FILE, "pt") as file:
        names = [name.removeprefix("base_model.model.") for name in file.keys()]  # noqa: SIM118 (no mapping)
    return all(name.startswith(("model.", "transformer.", "gpt_neox.", "lm_head.", "embed_out.")) for name in names)


def _put_on(model: nn.Module, config: Any) -> Any:
    with warnings.catch_warnings():  # peft warns about GPT-2's transposed layers and handles them correctly
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers, about a call of peft
        return find_peft().get_peft_model(model, config)


ADAPTATION_FILE = "adaptation.json"
MASK_KEPT = "none"


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """An LM as it was when its adapter was trained."""

    base: str
    """Exact spec of the LM, without its kind."""
    direction: Literal["forward", "backward", "both"]
    weights: str
    """Fingerprint of its weights."""
    vocabulary: str
    blocks: str
    """The blocks whose causal mask was removed, such as 1-4, or none."""
    start_piece: str
    """What it was given before every text (`text.start`)."""


def save_adaptation(folder: Path, adapted: Any, facts: Adaptation) -> None:
    """Write adapter and facts into a folder that `store.write_folder` opened."""
    save_lora(folder, adapted)
    write_file(folder / ADAPTATION_FILE, json.dumps(asdict(facts), indent=1))


def find_adaptation(path: Artefact) -> Adaptation | None:
    """Return the `Adaptation` in a folder; None for any other path or name. `ValueError` for a damaged one."""
    if path.kind != ADAPTATION:
        return None
    with path.opened(ADAPTATION):
        return Adaptation(**path.json(ADAPTATION_FILE))


def adapter_fingerprint(path: Artefact) -> str:
    """Of the adapter's files, wherever the folder and its LM are."""
    files = path.check(ADAPTATION)["files"]
    return fingerprint({name: files[name]["sha256"] for name in (ADAPTER_FILE, ADAPTER_CONFIG)})
