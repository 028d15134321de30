"""`--word-dropout`: which columns of an encoder's vectors know the word itself; `heads.dropout` drops them."""

from boustro.encoders.base import Encoder
from boustro.encoders.concat import ConcatEncoder
from boustro.encoders.lm import LMEncoder
from boustro.heads.dropout import CONTEXT, WordDropout, own_columns


def word_dropout(encoder: Encoder, share: float, concat: bool) -> WordDropout:
    """What drops this share of the words; `concat` where layers are concatenated.

    Raises `ValueError` for an encoder whose vectors have no part that knows the context alone.
    """
    streams = [(s.num_layers, s.width) for s in encoder.streams]
    return WordDropout(own_columns(_places(encoder), streams, concat), share)


def _places(encoder: Encoder) -> list[list[str]]:
    """Where each stream's words are read from."""
    parts = encoder.parts if isinstance(encoder, ConcatEncoder) else [encoder]
    causal = all(type(part) is LMEncoder for part in parts)  # a subclass sees the word where it reads `before`
    places = [lm.pooling.split("+") for lm in encoder.identity().lms]
    if not causal or not all(CONTEXT in names for names in places):
        raise ValueError(
            "--word-dropout needs words that are read before the LM has read them: causal LMs, forward or backward, "
            "with --pooling exit+before (their default)"
        )
    return places
