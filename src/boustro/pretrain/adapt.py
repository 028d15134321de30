"""What every adaptation of an LM shares: its options, the adapter under the loop, and the folder that comes of it.

What it is trained on is another file's: hidden pieces of running text (`adapt_text`), or labelled sentences
(`tasks.adapt_labels`). The LM itself stays as it is, without any dropout of its own; what is trained, saved in a
checkpoint and written is the adapter alone. With no step at all the folder holds its first weights, which change
nothing: the LM with its mask removed, read as `unmasked:OUT`.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from boustro.models.adaptation import KIND, Adaptation, save_adaptation
from boustro.models.lora import LoraWeights, add_lora
from boustro.pretrain.config import AdaptConfig, options_as_json
from boustro.pretrain.loop import Loop
from boustro.pretrain.processes import say


class Adapting:
    """One adaptation of `model`, a transformer without its head, which is changed in place.

    Raises `ValueError` for an adapter that does not fit and `ImportError` without peft, before anything is computed.
    """

    def __init__(self, model: nn.Module, base: Adaptation, config: AdaptConfig, head: nn.Module | None = None) -> None:
        torch.manual_seed(config.seed)
        self.base, self.config = base, config
        self.adapted = add_lora(model, config.shape)
        self.weights = LoraWeights(self.adapted, head)
        self.num_parameters = sum(p.numel() for p in self.weights.parameters())

    def train(
        self,
        loss: Callable[[int], Tensor],
        validate: Callable[[], float] | None,
        steps: int,
        facts: dict[str, Any],
        describe: Callable[[float | None], dict[str, Any]],
    ) -> dict[str, Any]:
        """Run the loop and write the folder; returns what is written to `training.json`.

        `facts` are what decides the weights besides the options that all ways share; `describe` says what came of the
        run, given the last validation loss.
        """
        known = asdict(self.base) | asdict(self.config.shape)
        loop = Loop(self.weights, loss, validate, steps, self.config, known | facts)
        if finished := loop.finished(KIND):
            return finished
        say(
            f"{self.base.base}, mask removed in blocks {self.base.blocks}: {self.num_parameters / 1e6:.2f}M parameters "
            f"trained in {steps:,} steps"
        )
        results = describe(loop.run())
        training = {
            "config": options_as_json(self.config),
            "run": loop.facts,
            "num_parameters": self.num_parameters,
            **json.loads(json.dumps(results, default=str)),
            "history": loop.history,
        }
        save_adaptation(self.config.out, self.adapted, self.base, training)
        loop.finish()
        return training
