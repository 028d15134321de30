"""Which sentences a K-shot study trains on: published random draws, and the paper's filter.

`draw_sentences` orders the sentences at random and walks through them, taking each one that holds a type
which fewer than K taken sentences hold so far, until every type has K:

    K = 1, in this order:  [LOC] takes   [LOC] skips   [LOC, PER] takes   → every type has one

The order comes from a hash of the draw's number and the sentence itself, so a draw is the same whatever
the order of the file, and anybody can make it again. In one draw the sentences of a smaller K are always among
those of a larger one: as long as a type is short of the smaller K, every sentence that holds it is taken by both.

`paper_draw` is section 3.4 of the backward-LM paper, as its code has it: the first K sentences in the
order of the file whose tags are exactly {O, B-X, I-X}, for each type X. There is only one such draw.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from boustro.metrics.spans import parse_tag
from boustro.types import Sentence


def entity_types(sentences: Sequence[Sentence]) -> list[str]:
    """The types of tagged sentences, sorted."""
    return sorted({parse_tag(tag)[1] for s in sentences for tag in s.tags or () if tag != "O"})


def draw_sentences(sentences: Sequence[Sentence], shots: int, draw: int) -> np.ndarray:
    """Indices, ascending, of the sentences of draw number `draw` with at least `shots` sentences a type.

    A type that fewer sentences hold gets all of them: `short_types` tells. `ValueError` for fewer than 1 shot.
    """
    _check(shots)
    held = [{parse_tag(tag)[1] for tag in s.tags or () if tag != "O"} for s in sentences]
    missing = {label: min(shots, count) for label, count in Counter(t for types in held for t in types).items()}
    taken = []
    for index in _random_order(sentences, draw):
        if not missing:
            break
        if missing.keys() & held[index]:
            taken.append(index)
            for label in missing.keys() & held[index]:
                missing[label] -= 1
                if not missing[label]:
                    del missing[label]
    return np.array(sorted(taken), np.int64)


def paper_draw(sentences: Sequence[Sentence], shots: int, draw: int = 1) -> np.ndarray:
    """Indices, ascending, of the paper's K-shot set; it depends on no draw number."""
    _check(shots)
    left = dict.fromkeys(entity_types(sentences), shots)
    taken = []
    for index, sentence in enumerate(sentences):
        found = set(sentence.tags or ())
        labels = {parse_tag(tag)[1] for tag in found} - {""}
        if len(labels) == 1:
            (label,) = labels
            if left[label] and found == {"O", f"B-{label}", f"I-{label}"}:
                left[label] -= 1
                taken.append(index)
    return np.array(taken, np.int64)


def short_types(sentences: Sequence[Sentence], chosen: np.ndarray, shots: int) -> dict[str, int]:
    """Types that fewer than `shots` of the chosen sentences hold, and how many do."""
    counts = Counter(
        label for i in chosen for label in {parse_tag(tag)[1] for tag in sentences[i].tags or () if tag != "O"}
    )
    return {label: counts[label] for label in entity_types(sentences) if counts[label] < shots}


DRAWS: dict[str, Callable[[Sequence[Sentence], int, int], np.ndarray]] = {"sound": draw_sentences, "paper": paper_draw}


def _random_order(sentences: Sequence[Sentence], draw: int) -> list[int]:
    """By a hash of the draw, the sentence, and how many equal sentences stand before it."""
    seen: Counter[tuple] = Counter()
    keys = []
    for index, sentence in enumerate(sentences):
        content = (sentence.words, sentence.tags)
        seen[content] += 1
        blob = "\x1f".join(
            ("boustro draw", str(draw), str(seen[content]), *sentence.words, "\x1e", *(sentence.tags or ()))
        )
        keys.append((hashlib.sha256(blob.encode("utf-8", "surrogatepass")).digest(), index))
    return [index for _, index in sorted(keys)]


def _check(shots: int) -> None:
    if shots < 1:
        raise ValueError(f"{shots} sentences a type: at least 1 is needed")
