"""Weights of a model's files that the loaded model does not have, and which of them must not be passed over.

transformers passes them over without a word. Most are meant for something else; some change the numbers:

    passed over   an LM head, where the states are read        lm_head.weight, language_model.lm_head.weight
                  another head                                  classifier.weight, cls.seq_relationship.bias
                  blocks above the highest that is read         model.layers.9.mlp.up_proj.weight
                  masks and positions that are computed now     h.0.attn.bias, rotary_emb.inv_freq
                  what reads pictures, sound or later pieces    visual.blocks.0.mlp.fc1.weight
    refused       scales of quantised weights                   model.layers.0.mlp.up_proj.weight_scale
                  parts that the config does not speak of       model.layers.0.self_attn.q_norm.weight
                  blocks above those of the config              model.layers.12.mlp.up_proj.weight
"""

import re
from collections.abc import Iterable
from typing import Any

from torch import nn

COMPUTED = re.compile(r"(inv_freq|position_ids|token_type_ids|_float_tensor|causal_mask|_extra_state)$")
MASKS = re.compile(r"\b(attn|attention)\.(masked_)?bias$")
APART = re.compile(r"(^|\.)(pooler|seq_relationship|mtp|\w*(vision|visual|audio)\w*|multi_modal_projector)\.")
TEXT_HEAD = re.compile(r"^language_model\.lm_head\.weight$")


def wrongly_unread(model: Any, names: Iterable[str], num_blocks: int) -> list[str]:
    """Those of the `names` that must not be passed over; by its config, the files have `num_blocks` blocks."""
    return sorted(name for name in names if _matters(model, name, num_blocks))


def _matters(model: Any, name: str, num_blocks: int) -> bool:
    if any(pattern.search(name) for pattern in (COMPUTED, MASKS, APART, TEXT_HEAD)):
        return False
    parts, module = name.split("."), model
    in_body, in_block = parts[0] == model.base_model_prefix, False
    if in_body and parts[0] not in model._modules:  # of a model with a head, in one without
        parts = parts[1:]
    elif parts[0] not in model._modules:  # the other way round
        module = model.base_model
    start = module
    while len(parts) > 1 and (child := module._modules.get(parts[0])) is not None:
        module, parts = child, parts[1:]
        if isinstance(module, nn.ModuleList) and not in_block:
            in_block = True
            if parts[0].isdecimal() and parts[0] not in module._modules:
                return int(parts[0]) >= num_blocks
    if (module._parameters | module._buffers).get(parts[0]) is not None:
        return len(parts) > 1  # as weight.absmax; otherwise a buffer that is computed
    return in_body or module is not start
