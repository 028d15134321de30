"""Labelled sentences in the documents that they were taken from, so that LMs read what stands around them.

    labelled     Ada left .
    document     It rained. Ada left. Nobody knew.
    →            It rained .  |  Ada left . (labelled)  |  Nobody knew .

A sentence of a document is a labelled one if both have the same characters, whatever the spaces and the words. Each
labelled sentence stands in one place, the first that is free.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from boustro.text.words import split_text
from boustro.types import Sentence

NOT_FOUND = "training sentences that stand in none of the documents, read as they are"
AROUND = "sentences of documents around them, read as context only"


def in_documents(
    labelled: Sequence[Sentence], texts: Iterable[str], every: bool = False
) -> tuple[list[Sentence], dict[str, int]]:
    """The sentences of all texts with a labelled one, in order, then labelled ones that no text has; and counts.

    Args:
        labelled: Sentences; those of texts keep their words and labels, and get the text as their document.
        texts: Documents.
        every: Keep the sentences of texts without a labelled one, too.
    """
    free: dict[str, list[int]] = defaultdict(list)
    for number in reversed(range(len(labelled))):
        free[_letters(labelled[number])].append(number)
    found: list[Sentence] = []
    placed: set[int] = set()
    around = 0
    for place, text in enumerate(texts, start=1):
        sentences, own = [], set()
        for part in split_text(text, f"text {place}"):
            if left := free.get(_letters(part.sentence)):
                own.add(number := left.pop())
                sentences.append(replace(labelled[number], document=part.sentence.document))
            else:
                sentences.append(part.sentence)
        found += sentences if own or every else []
        around += len(sentences) - len(own) if own else 0
        placed |= own
    rest = [sentence for number, sentence in enumerate(labelled) if number not in placed]
    return [*found, *rest], {AROUND: around, NOT_FOUND: len(rest)}


def _letters(sentence: Sentence) -> str:
    return "".join("".join(sentence.words).split())
