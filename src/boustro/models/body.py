"""The body of an LM or of a masked LM, whoever computes its states: code of ours or transformers.

`find_own` says of a place whether our own code reads it: a folder that Boustro wrote, of one file of weights, with a
Llama (`models.llama`) or a BERT (`models.bert`) in it, whose weights all have the shape that its config gives them.
Transformers must load any other. What has to be known of a body is asked of the body alone.

B rows, P pieces, D width of a state.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.models.blocks import states_up_to
from boustro.models.packed import PLAIN_FILE, StoredWeights, is_packed
from boustro.models.pretrained import architecture_kind
from boustro.models.products import INT8
from boustro.names import CHANNELS_FILE
from boustro.store import Artefact

Shapes = dict[str, tuple[int, ...]]


class Body(ABC):
    """Computes states, in `dtype`. `embeddings` has a row for each piece, `model` is that of transformers if there is
    one."""

    embeddings: Any
    num_parameters: int
    dtype: torch.dtype
    model: Any = None

    @abstractmethod
    def states(
        self, ids: Int[Tensor, "B P"], mask: Int[Tensor, "B P"] | None = None, cache: Any = None
    ) -> Sequence[Float[Tensor, "B P D"]]:
        """By layer; the mask is 1 for real pieces, 0 for padding. `cache` has earlier pieces, and is given these."""

    def last(self, ids: Tensor, mask: Tensor) -> Float[Tensor, "B P D"]:
        """Return the states of the last layer, where all blocks are loaded."""
        return self.states(ids, mask)[-1]

    def new_cache(self) -> Any:
        """Return an empty cache; masked LMs have none."""
        raise NotImplementedError


class TransformersBody(Body):
    """A model of transformers. Of `blocks`, those above layer `highest` are not computed, nor is the norm."""

    def __init__(self, model: Any, blocks: Sequence[nn.Module] = (), highest: int = 0) -> None:
        self.model, self._blocks, self._highest = model, blocks, highest
        self.embeddings, self.num_parameters = model.get_input_embeddings().weight, model.num_parameters()
        self.dtype, self._reads_on = model.dtype, architecture_kind(model.config) == "causal"
        self._cache = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def states(self, ids: Tensor, mask: Any = None, cache: Any = None, **given: Any) -> Sequence[Tensor]:
        given |= {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask})
        if self._reads_on:
            given["use_cache"] = cache is not None
        if cache is not None:
            given[self._cache] = cache
        if self._blocks:
            return states_up_to(self.model, self._blocks, self._highest, **given)
        return self.model(output_hidden_states=True, **given).hidden_states

    def last(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    def new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)


class PlainConfig(SimpleNamespace):
    """The config of a model as its file has it, with what is asked of one of transformers."""

    def get_text_config(self) -> "PlainConfig":
        """That of the LM: itself."""
        return self


OWN_BODIES = {"llama": "LlamaBody", "bert": "BertBody"}
"""The classes of bodies by the type of the model, whose module has its name.

    kind, defaults    what settings must be, and what those are that a file lacks: as in transformers, each version of
                      which writes other ones
    shapes(config)    of the weights, and of those that may be there besides, all or none; `None` where it reads no such
"""


@dataclass(frozen=True)
class Found:
    """A place that was looked at before a body is loaded from it.

    Attributes:
        config: Of the body that our own code computes; `None` where transformers must load it.
    """

    place: Artefact
    config: PlainConfig | None = None

    def only(self, model_type: str | None) -> "Found":
        """Leave models of other types to transformers."""
        return self if self.config and self.config.model_type == model_type else replace(self, config=None)

    @property
    def has_channels(self) -> bool:
        """Whether the products of the body can be computed in int8."""
        return self.config is not None and is_packed(self.place) and CHANNELS_FILE in self.place.files

    def channel_facts(self, compute: torch.dtype) -> list[str]:
        """Return the hash of what decides states besides the weights where products are in int8."""
        return [self.place.sha256(CHANNELS_FILE)] if compute == INT8 else []

    def load(self, compute: torch.dtype, device: torch.device, num_blocks: int | None = None) -> Body | None:
        """Return the body of this config, or its first blocks; `None` where transformers must load it."""
        config = self.config
        depth = config and (num_blocks or config.num_hidden_layers)
        return config and _own_class(config.model_type)(str(self.place), config, depth, compute, device)


def _own_class(model_type: str) -> Any:
    return getattr(import_module(f"boustro.models.{model_type}"), OWN_BODIES[model_type])


def find_own(place: Artefact) -> Found:
    """Seek a body that our own code computes; every byte of a packed folder is compared. Raises as
    `Artefact.check`."""
    found, packed = Found(place), is_packed(place)
    if place.kind != "model" or not (packed or (place / PLAIN_FILE).is_file()):
        return found
    place.check("model", verify=packed)
    settings = place.config()
    if settings.get("model_type") not in OWN_BODIES or "quantization_config" in settings:
        return found
    own = _own_class(settings["model_type"])
    config = PlainConfig(**{**own.kind, **own.defaults, **settings})
    with suppress(TypeError, ArithmeticError):  # of sizes that are no numbers, of which transformers tells
        if own.kind.items() <= vars(config).items() and (shapes := own.shapes(config)):
            wanted, besides = shapes
            if StoredWeights(place).shapes in (wanted, wanted | besides):
                return replace(found, config=config)
    return found
