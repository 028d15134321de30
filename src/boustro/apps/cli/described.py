"""How an encoder reads, for people, and whether another start piece suits its LM better.

The test is the first word of a text. Its vector should be that of the same word further on; where nothing, or a piece
that the LM does not know as a beginning, stands before it, the LM's attention rests on it (an attention sink, Xiao et
al. 2024): its state is many times larger than others and says little about the word. For each piece that may begin a
text:

    distance    1 - cos(vector after the piece, vector after the start piece and a plain sentence), each dimension
                standardised; the mean over the first words of `MESSAGES` messages and the layers that are read
    sink        the size of the state of the text's first piece beside the median of all pieces, in the layer where it
                is largest
"""

import math
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from boustro.encoders.base import Encoder, base_parts
from boustro.encoders.cache import remembered, words_per_second
from boustro.encoders.lm import LMEncoder
from boustro.encoders.sentences import TextVectors
from boustro.encoders.transformer import PARAGRAPH, StateEncoder, TransformerEncoder
from boustro.models.packed import told_change
from boustro.names import is_shipped
from boustro.store import fingerprint
from boustro.text.start import RUN_UP, run_up_pieces

CLEARLY, FIRST_WORDS_FILE = 1.5, "first-words.json"
"""How many times nearer first words must be after another piece, and the file in the cache's folder that keeps that."""
CHEAP = 5e8
"""Parameters up to which `boustro fit` asks."""
# messages that are measured, pieces of each that are read, and start pieces that are tried
MESSAGES, PIECES, CANDIDATES = 50, 24, 12


class FirstWords(NamedTuple):
    """How the first words of texts are read after a piece, see the module."""

    distance: float
    sink: float


def describe_encoder(encoder: Encoder) -> Iterator[dict[str, str]]:
    """For each LM of an encoder how it is read, what that costs, and what it says about start pieces."""
    words = PARAGRAPH.split()
    for part in base_parts(encoder):
        facts = {"encoder": part.spec}
        if isinstance(part, LMEncoder):
            facts["start piece"] = _name(part, part.start)
            facts["run-up"] = part.tokenizer.decode(part.before[len(part.start) :]).strip() or "none"
        elif isinstance(part, TransformerEncoder):
            facts["frame"] = " ".join(part.frame_text())
        elif isinstance(part, TextVectors):
            facts |= part.facts()
        if isinstance(part, TransformerEncoder) and (change := told_change(part.config)):
            facts["packed"] = change
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
        if is_asked(part):
            for name, first in first_words(part).items():
                facts[f"first words after {name}"] = f"{first.distance:.2f} off; first state {first.sink:,.0f} times"
        yield facts


def advice(encoder: Encoder, largest: float = math.inf) -> list[str]:
    """Return a sentence for every LM of at most `largest` parameters that reads first words clearly better after
    another piece than the start piece that is used."""
    sentences = []
    for part in base_parts(encoder):
        if is_asked(part) and part.num_parameters <= largest and not is_shipped(part.spec):
            known, used = first_words(part), _name(part, part.start)
            best = min(known, key=lambda name: known[name].distance)
            if known[best].distance * CLEARLY < known[used].distance:
                sentences.append(
                    f"{part.spec} reads the first word of a text better after the start piece {best!r} "
                    f"({known[best].distance:.2f} off) than after {used!r} ({known[used].distance:.2f} off); give "
                    f"--start-piece {best!r}"
                )
    return sentences


def is_asked(encoder: Encoder) -> TypeGuard[LMEncoder]:
    """Return whether it is a forward LM of others, which does not record how it was trained."""
    return type(encoder) is LMEncoder and not encoder.backward and not encoder.trained_by_boustro


def first_words(encoder: LMEncoder) -> dict[str, FirstWords]:
    """By start piece that may be meant; computed once, and remembered."""
    key = fingerprint(encoder.weights(), encoder.start, encoder.layers)
    measured = remembered(FIRST_WORDS_FILE, key, partial(_measure, encoder))
    return {name: FirstWords(*figures) for name, figures in measured.items()}


def _measure(encoder: LMEncoder) -> dict[str, FirstWords]:
    tokenizer = encoder.tokenizer
    messages = (files("boustro") / "data" / "sample" / "messages.txt").read_text("utf-8").split("\n")[:MESSAGES]
    given = [encoder.pieces(words := text.split(), [False] + [True] * (len(words) - 1)) for text in messages]
    texts, ends = [pieces.ids[:PIECES].tolist() for pieces in given], [int(pieces.bounds[1]) - 1 for pieces in given]
    plain = run_up_pieces(tokenizer, encoder.config, RUN_UP)
    wanted = encoder.states_after([*encoder.start, *plain], texts)
    every = torch.cat(wanted)
    mean, spread = every.mean(0), every.std(0).clamp_min(1e-6)

    def at_first_words(states: list[Tensor]) -> Tensor:
        """Return (S, L, D), standardised."""
        return (torch.stack([one[end] for one, end in zip(states, ends, strict=True)]) - mean) / spread

    measured = {}
    special = [[piece] for piece in tokenizer.all_special_ids[:CANDIDATES]]
    for start in (encoder.start, [], *special):
        states = encoder.states_after(start, texts)
        near = torch.nn.functional.cosine_similarity(at_first_words(states), at_first_words(wanted), dim=-1)
        sizes = [one.norm(dim=-1) for one in states]  # (P, L)
        first = torch.stack([one[0] for one in sizes]).median(0).values
        sink = (first / torch.cat(sizes).median(0).values).max()
        measured[_name(encoder, start)] = FirstWords(1 - near.mean().item(), sink.item())
    return measured


def _name(encoder: LMEncoder, start: list[int]) -> str:
    return " ".join(encoder.tokenizer.convert_ids_to_tokens(start)) or "none"
