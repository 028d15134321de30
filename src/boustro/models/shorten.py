"""The config of a transformer that has only its first blocks: what is above them is then neither loaded nor computed.

    shortened(config of 32 blocks, 16)      the same with num_hidden_layers = 16, and lists of 32 entries cut to 16

transformers reads from the files only the weights that such a model has. This is right where a block computes the
same whatever the number of blocks: so in the architectures listed here, which a test compares with the whole model.
It is wrong, for example, for ALBERT (its groups of shared weights divide the depth), Gemma 3n and 4 (upper blocks share
keys and values, counted from the top) and MiniCPM3 (residuals are scaled by the depth). What is not listed is loaded
whole; blocks above the highest layer that is read are skipped there too (`models.blocks`).
"""

import copy

from transformers import PreTrainedConfig

CAUSAL = (
    "apertus biogpt bloom codegen cohere cohere2 exaone4 falcon gemma gemma2 gemma3 gemma3_text glm gpt2 gpt_bigcode "
    "gpt_neo gpt_neox gpt_oss gptj granite llama mistral mixtral modernbert-decoder mpt nemotron olmo olmo2 olmo3 opt "
    "persimmon phi phi3 qwen2 qwen3 qwen3_moe seed_oss smollm3 starcoder2 xglm"
)
MASKED = "bert camembert deberta-v2 distilbert electra eurobert modernbert roberta xlm-roberta"
VERIFIED = frozenset(f"{CAUSAL} {MASKED}".split())


def shortened(config: PreTrainedConfig, num_blocks: int) -> PreTrainedConfig | None:
    """A copy for the first `num_blocks` blocks, at least one; None for a config that is as short, or not to be cut.

    Of a model that also reads pictures, the blocks of the text are meant.
    """
    depth, num_blocks = getattr(config.get_text_config(), "num_hidden_layers", 0), max(num_blocks, 1)
    if num_blocks >= depth or config.model_type not in VERIFIED:
        return None
    short = copy.deepcopy(config)
    text = short.get_text_config()
    for name, value in vars(config.get_text_config()).items():
        if "layer" in name and isinstance(value, (list, tuple)) and len(value) == depth:
            setattr(text, name, value[:num_blocks])
    text.num_hidden_layers = num_blocks
    return short
