"""boustro fuse: two LMs named by their specs become towers, and a fusion is trained over them.

Here and not in `pretrain`, because what a spec names is for the encoders to know; the training is `pretrain.fuse`.
What is slow to import is imported when the command runs, so that its help need not wait.
"""

from typing import Any

from boustro.pretrain.config import FuseConfig


def fuse(config: FuseConfig) -> dict[str, Any]:
    """Train a fusion of a forward and a backward LM by predicting each piece from all others.

    Raises `ValueError` for LMs that do not fit each other or the shards, before anything is computed.
    """
    from boustro.models.fusion import KIND
    from boustro.pretrain.output import run_output

    with run_output(config, KIND, config.checkpoint):
        return _fuse(config)


def _fuse(config: FuseConfig) -> dict[str, Any]:
    from boustro.encoders import exact_spec, load_encoder
    from boustro.encoders.fused import SIDES, facts_of, lms_of, tower_window, towers_of
    from boustro.pretrain.fuse import train_fusion

    forward, backward = lms_of(load_encoder(f"{config.forward}+{config.backward}", layers="last"))
    window = tower_window(forward, backward)
    if config.segment_length > window:
        raise ValueError(
            f"the two LMs read {window:,} pieces together; lower --segment-length {config.segment_length:,}"
        )
    sides = SIDES[config.train_lms]
    facts = {
        "forward": exact_spec(config.forward, forward.identity()),
        "backward": exact_spec(config.backward, backward.identity()),
        "trained": sides,
        "towers": facts_of(forward, backward, sides),
    }
    lms = {side: {"forward": forward, "backward": backward}[side].language_model() for side in sides}
    return train_fusion(towers_of(forward, backward), forward.vocabulary(), config, facts, lms, forward.tokenizer)
