"""One causal LM as an encoder of words; reads forward or backward.

A backward LM gets the pieces reversed, and a word is looked up where that reading meets it: this file and
its base are the only ones that know.
"""

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from boustro.encoders.loading import load_model
from boustro.encoders.transformer import TransformerEncoder
from boustro.encoders.windows import Window, plan_windows
from boustro.models.kinds import architecture_kind
from boustro.text.tokenizers import end_of_text_id


class LMEncoder(TransformerEncoder):
    """Reads as the model's config says, forward by default; a sentinel stands before a reading where it says so."""

    default_pooling = "exit+before"

    def _frame(
        self, config: Any, direction: Literal["forward", "backward"] | None = None, sentinel: bool | None = None
    ) -> tuple[list[int], list[int]]:
        """The end-of-text piece before a reading, where the model was trained with it or `sentinel` asks for it."""
        refuse_what_is_no_causal_lm(config, self._path)
        self.backward = (direction or getattr(config, "direction", "forward")) == "backward"
        wanted = getattr(config, "sentinel", False) if sentinel is None else sentinel
        return ([end_of_text_id(self.tokenizer)] if wanted else []), []

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "direction": "backward" if self.backward else "forward"}

    def language_model(self) -> PreTrainedModel:
        """The whole LM: this very `model` under the head that predicts pieces."""
        lm = load_model(self._path, self.model.config, self._revision, self.model.dtype, AutoModelForCausalLM)
        setattr(lm, lm.base_model_prefix, self.model)
        lm.tie_weights()
        return lm.to(self.device).eval().requires_grad_(False)

    @property
    def sentinel(self) -> int | None:
        """The piece that stands before every reading, where there is one."""
        return self._prefix[0] if self._prefix else None

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        return plan_windows(text, num_pieces, self._window, -len(self._prefix))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Without an attention mask: a causal LM never looks at the padding on its right."""
        return self._states(input_ids=ids, use_cache=False)


def refuse_what_is_no_causal_lm(config: Any, path: str) -> None:
    """Raise `ValueError` for a model that was not trained to read one way, and say what would fit."""
    name, kind = config.model_type, architecture_kind(config)
    if kind == "masked":
        raise ValueError(f"{path} is a masked LM ({name}), which reads both ways already; name it masked:{path}")
    if kind is None:
        raise ValueError(f"{path} is no causal LM but a {name}; a causal LM is wanted here, such as gpt2")
