"""`boustro pretrain`; torch is imported when it runs, so that its help need not wait for it."""

from typing import Any

from boustro.pretrain.config import PretrainConfig


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Train a model on token shards, see `pretrain.run`."""
    from boustro.pretrain import run

    return run.pretrain(config)
