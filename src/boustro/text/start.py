"""The start piece: what an LM is given before the first piece of a text, as in its training.

    Llama, Gemma, Mistral            <s> or <bos>, which their tokenizers put before a text
    GPT-2, Qwen, OLMo, SmolLM2       `<|endoftext|>`, which stood between documents; their tokenizers put nothing
    a causal LM of ours              the end-of-text piece, which its config records (`sentinel`)

Without any piece before it, the first piece of a text is where the LM's attention rests when it has nothing to look at:
its state says little about the piece (Xiao et al. 2024, attention sinks), and the first word is lost.
What a tokenizer puts after a text is never read: the text goes on.
"""

from typing import Any

from boustro.choose import suggestion
from boustro.text.tokenizers import end_of_text_id

AUTO = "auto"
RUN_UP = "Here is a sentence from a text, as it was written by its author some time ago."
"""What an LM of others reads before a text: see docs/llm.md for what it is worth."""
END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>")


def frame_of(tokenizer: Any, text: str = "a") -> tuple[list[int], list[int]]:
    """Return the pieces that a tokenizer puts before and after a text: `([2], [])` for Gemma's `<bos>`."""
    plain, framed = (tokenizer(text, add_special_tokens=special)["input_ids"] for special in (False, True))
    if not plain:  # a vocabulary without this text
        cut = int(framed[:1] == [tokenizer.bos_token_id])
        return framed[:cut], framed[cut:]
    for start in range(len(framed) - len(plain) + 1):
        if framed[start : start + len(plain)] == plain:
            return framed[:start], framed[start + len(plain) :]
    raise ValueError(f"{tokenizer.name_or_path}: the tokenizer frames texts in a way that is not known here")


def start_pieces(tokenizer: Any, config: Any, wanted: str = AUTO, *, backward: bool = False) -> list[int]:
    """Return the pieces before every text that an LM reads, in reading order; `ValueError` for an unknown piece.

    `wanted` is one of

        auto        what the LM's config records, if it is one of ours, else what the tokenizer puts before a text, else
                    the piece between documents (`between_documents`)
        none        nothing
        bos, eos    the tokenizer's piece for the beginning or the end of a text
        PIECE       a piece of the vocabulary, such as <s>

    A tokenizer does not know what a backward LM of others begins with: it is given nothing.
    """
    if wanted == AUTO and (is_recorded(config) or backward):
        return _recorded(tokenizer, config)
    if wanted == AUTO:
        return frame_of(tokenizer)[0] or between_documents(tokenizer, config)
    if wanted == "none":
        return []
    if wanted == "eos":
        return [end_of_text_id(tokenizer)]
    vocabulary = tokenizer.get_vocab()
    piece_id = tokenizer.bos_token_id if wanted == "bos" else vocabulary.get(wanted)
    if piece_id is None:
        known = tokenizer.all_special_tokens
        raise ValueError(
            f"the start piece {wanted!r} is not in the vocabulary of {tokenizer.name_or_path}: give auto, none, bos, "
            f"eos or a piece, such as {', '.join(known[:3])}{suggestion(wanted, known)}"
        )
    return [piece_id]


def between_documents(tokenizer: Any, config: Any) -> list[int]:
    """Return the piece that stood between documents in training, or nothing where none is known.

    The name decides, not the role: a chat model's end of sequence is the end of a turn, and SmolLM2 files
    `<|endoftext|>` as the unknown piece too. Else it is what the config says texts begin or end with.
    """
    vocabulary, known = tokenizer.get_vocab(), set(tokenizer.all_special_ids)
    named = [vocabulary[name] for name in END_OF_TEXT if vocabulary.get(name) in known]
    roles = (getattr(config, "bos_token_id", None), tokenizer.bos_token_id, tokenizer.eos_token_id)
    return [*named, *(piece for piece in roles if piece in known)][:1]


def run_up_pieces(tokenizer: Any, config: Any, wanted: str = AUTO, *, backward: bool = False) -> list[int]:
    """Return the pieces of a text before the text, in reading order: behind it for a backward LM.

    `wanted` is auto, `RUN_UP` for a forward LM that is not ours; none; or the text itself.
    """
    if wanted == "none" or (wanted == AUTO and (backward or is_recorded(config))):
        return []
    text = RUN_UP if wanted == AUTO else wanted.rstrip()
    pieces = tokenizer(text + "\n", add_special_tokens=False)["input_ids"]
    return pieces[::-1] if backward else pieces


def is_recorded(config: Any) -> bool:
    """Return whether it is the config of an LM of ours, which says what the LM was given."""
    return hasattr(config, "sentinel") or hasattr(config, "direction")


def _recorded(tokenizer: Any, config: Any) -> list[int]:
    """`sentinel` is a list of pieces, or true for the piece that the config calls the beginning of a text."""
    sentinel, begin = getattr(config, "sentinel", False), getattr(config, "bos_token_id", None)
    if isinstance(sentinel, list) or not sentinel:
        return list(sentinel or [])
    return [end_of_text_id(tokenizer) if begin is None else begin]
