"""Texts and pairs for sentence vectors, and an encoder of them that is not trained."""

import boustro
from conftest import SENTENCES

MORE = [f"{name} {verb} the {thing} in {place}." for name in ("Ada", "Brandt", "Mira", "Okonkwo")
        for verb in ("sold", "painted", "lost") for thing in ("boat", "umbrella", "harbour map")
        for place in ("Lisse", "Vellmar")]  # fmt: skip
TEXTS = [*SENTENCES, *MORE]
PAIRS = [(a, b, float(a.split()[-1] == b.split()[-1]) + float(a.split()[1] == b.split()[1]))
         for a, b in zip(MORE, [*MORE[5:], *MORE[:5]], strict=True)]  # fmt: skip


def statistics(spec, **options):
    """An untrained encoder."""
    return boustro.SentenceEncoder(spec, "statistics", cache=False, dtype="float32", **options)
