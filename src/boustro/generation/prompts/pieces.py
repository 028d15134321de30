"""A filled template as piece ids: what stands before the gap, the words, and what stands after it.

    "Ada left. It was ___."    left "Ada left. It was"    words " great", " bad"    right "."

The space before the gap belongs to the word. A part that continues another one is split into pieces together with the
character before it, because tokenizers treat the beginning of a text in their own way.
"""

from typing import Any

from boustro.generation.prompts.template import Template
from boustro.text.patterns import FIELD

ANCHOR = "a"
Sides = tuple[list[int], list[int]]
"""The pieces before and after a gap."""


class PromptPieces:
    """The pieces of a template's words, and of texts in it; `num_cut` says how many records were cut.

    Raises `ValueError` for a word that the vocabulary does not have.
    """

    def __init__(self, template: Template, tokenizer: Any, most: int | None = None) -> None:
        self.template, self._tokenizer, self._most = template, tokenizer, most
        self.num_cut, before = 0, template.before
        self._keys = {key for field in FIELD.findall(before + template.after) for key in field.split("|")}
        spaced = before.endswith(" ")
        anchor = ANCHOR if spaced or before.endswith("}") else before[-1]
        self.words = {
            label: [self._after(anchor, f" {word}" if spaced else word) for word in own]
            for label, own in template.words.items()
        }
        for label, own in self.words.items():
            for word, pieces in zip(template.words[label], own, strict=True):
                if not pieces or tokenizer.unk_token_id in pieces:
                    raise ValueError(f"template {template.name}: the model's vocabulary has no pieces for {word!r}")

    def taught(self, equal: bool) -> dict[str, tuple[str, list[int]]]:
        """The word of each label that fine-tuning teaches, and its pieces: the first of the label's words.

        A masked LM sees how many pieces are hidden. So for it (`equal`) all words have the same number of them, the
        smallest one that every label has a word of; `ValueError` where there is none.
        """
        own = {
            label: list(zip(self.template.words[label], pieces, strict=True)) for label, pieces in self.words.items()
        }
        if not equal:
            return {label: known[0] for label, known in own.items()}
        common = set.intersection(*({len(pieces) for _, pieces in known} for known in own.values()))
        if not common:
            counts = "; ".join(", ".join(f"{word!r} {len(pieces)}" for word, pieces in known) for known in own.values())
            raise ValueError(
                f"template {self.template.name}: no number of pieces is common to the words of all labels ({counts}), "
                "and a masked LM would learn the number; give each label a word of as many pieces"
            )
        return {label: next(item for item in known if len(item[1]) == min(common)) for label, known in own.items()}

    def sides(self, record: Any, place: str) -> Sides:
        """The pieces of a record in the template; its texts are cut to their first `most` pieces."""
        return self._pieces(*self.template.sides(self._cut(record), place))

    def neutral(self) -> list[Sides]:
        """The template without a text, in several ways."""
        return [self._pieces(*sides) for sides in self.template.neutral_sides()]

    def _pieces(self, left: str, right: str) -> Sides:
        left = left[:-1] if left.endswith(" ") else left
        return self._ids(left), self._after(ANCHOR, right)

    def _cut(self, record: Any) -> Any:
        """A record whose texts have at most so many pieces."""
        if self._most is None or not isinstance(record, dict):
            return record
        texts = {key: self._first(record[key]) for key in self._keys if isinstance(record.get(key), str)}
        self.num_cut += any(record[key] != text for key, text in texts.items())
        return record | texts

    def _first(self, text: str) -> str:
        ends = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = ends["offset_mapping"]
        return text if self._most is None or len(offsets) <= self._most else text[: offsets[self._most - 1][1]]

    def _after(self, before: str, text: str) -> list[int]:
        """The pieces of a text that continues another one."""
        alone, whole = self._ids(before), self._ids(before + text)
        same = next((n for n, (one, other) in enumerate(zip(alone, whole, strict=False)) if one != other), len(alone))
        return whole[same:]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
