"""How an encoder reads, for people, and whether another start piece suits its LM better.

The test is the perplexity of one paragraph: an LM that is not begun as it was trained predicts far worse.
"""

import contextlib
import json
import math
from collections.abc import Iterator
from typing import TypeGuard

import torch

from boustro.encoders.base import Encoder
from boustro.encoders.cache import cache_folder, words_per_second
from boustro.encoders.lm import LMEncoder
from boustro.encoders.transformer import PARAGRAPH, StateEncoder, TransformerEncoder
from boustro.store import fingerprint, read_json, write_file

CLEARLY, REMEMBERED = 1.5, "perplexities.json"
"""How many times lower another perplexity must be, and the file in the cache's folder that keeps them."""
CHEAP = 1e9
"""Parameters up to which `boustro fit` asks."""


def describe(encoder: Encoder) -> Iterator[dict[str, str]]:
    """For each LM of an encoder how it is read, what that costs, and what it says about start pieces."""
    words = PARAGRAPH.split()
    for part in getattr(encoder, "parts", [encoder]):
        facts = {"encoder": part.spec}
        if isinstance(part, TransformerEncoder):
            facts["start piece"] = " ".join(part.frame_text()) or "none"
        if isinstance(part, StateEncoder):
            identity = part.identity().to_dict()
            facts |= {
                "spaces": identity["spacing"],
                "window": f"{identity['window']:,} pieces",
                "layers": ", ".join(map(str, identity["layers"])),
                "read at": identity["pooling"],
            }
        facts["speed"] = f"{words_per_second(part, [words] * 5):,.0f} words a second"
        facts["bytes a word"] = f"{part.bytes_per_word:,}"
        if has_perplexity(part):
            found = perplexities(part)
            facts["perplexity of a paragraph"] = ", ".join(f"{value:,.1f} ({name})" for name, value in found.items())
        yield facts


def advice(encoder: Encoder, largest: float = math.inf) -> list[str]:
    """A sentence for every LM that predicts a paragraph clearly better after another start piece.

    The LM is loaded a second time, with its head; not one that is larger than `largest` parameters.
    """
    found = []
    for part in getattr(encoder, "parts", [encoder]):
        if has_perplexity(part) and part.num_parameters <= largest:
            known, used = perplexities(part), _name(part, part.start)
            best = min(known, key=known.__getitem__)
            if known[best] * CLEARLY < known[used]:
                found.append(
                    f"{part.spec} predicts English far better after the start piece {best!r} (perplexity "
                    f"{known[best]:,.0f}) than after {used!r} ({known[used]:,.0f}); give --start-piece {best!r}"
                )
    return found


def has_perplexity(encoder: Encoder) -> TypeGuard[LMEncoder]:
    """Whether it is a forward LM of others, wholly loaded in one place: ours record how they were trained."""
    return type(encoder) is LMEncoder and not encoder.backward and encoder.is_whole and not encoder.is_ours


def perplexities(encoder: LMEncoder) -> dict[str, float]:
    """The perplexity of a paragraph after each start piece that may be meant; computed once, and remembered."""
    memory, key, known = cache_folder() / REMEMBERED, fingerprint(encoder.weights(), encoder.start), {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        known = dict(read_json(memory))
    if key not in known:
        known[key] = _measure(encoder)
        with contextlib.suppress(OSError):  # without the memory it only takes longer
            write_file(memory, json.dumps(known, indent=1))
    return known[key]


@torch.inference_mode()
def _measure(encoder: LMEncoder) -> dict[str, float]:
    tokenizer, lm = encoder.tokenizer, encoder.language_model()
    pieces, found = tokenizer(PARAGRAPH, add_special_tokens=False)["input_ids"], {}
    begin = [[piece] for piece in (tokenizer.bos_token_id, tokenizer.eos_token_id) if piece is not None]
    for start in (encoder.start, [], *begin):
        ids = torch.tensor([[*start, *pieces]], device=encoder.device)
        logits = lm(input_ids=ids, use_cache=False).logits[0, len(start) : -1].float()  # all but the first piece
        loss = torch.nn.functional.cross_entropy(logits, ids[0, len(start) + 1 :])
        found[_name(encoder, start)] = math.exp(loss.item())
    return found


def _name(encoder: LMEncoder, start: list[int]) -> str:
    return " ".join(encoder.tokenizer.convert_ids_to_tokens(start)) or "none"
