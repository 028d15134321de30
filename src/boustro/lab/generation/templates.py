"""Templates: a text with fields and one gap, and the words that stand for each label; JSON files, not code.

    {"text": "{text|sentence} All in all, it was ___.",          fields as in `text.patterns`
     "labels": {"negative": ["terrible", "bad"], "positive": ["great"]},
     "aliases": {"0": "negative", "1": "positive"},               other names of the labels, as data have them
     "neutral": ["", "N/A"]}                                      what stands for an empty text; these by default

Those in `boustro/data/prompts` are known by their names. The words of a label are its *verbalisers* (Schick and Schütze
2021, section 3): any of them stands for it. Fine-tuning learns to write one of them (`PromptPieces.taught`), and
leaves the template with these words in the model's folder (`TEMPLATE_FILE`).

A filled template as piece ids: what stands before the gap, the words, and what stands after it.

    "Ada left. It was ___."    left "Ada left. It was"    words " great", " bad"    right "."

The space before the gap belongs to the word. A part that continues another one is split into pieces together with the
character before it, because tokenizers treat the beginning of a text in their own way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from boustro.choose import choose, suggestion
from boustro.text.patterns import FIELD, fill

NEUTRAL = ("", "N/A", "...")
TEMPLATE_KEYS = ("about", "text", "labels", "aliases", "neutral")
TEMPLATE_FILE = "template.json"
"""In a folder of a fine-tuned LM."""


def split_gaps(text: str) -> list[str]:
    """Return the parts of a text between its gaps: `"a ___ b"` → `["a ", " b"]`."""
    return re.split("_{3,}", text)


@dataclass(frozen=True)
class Template:
    """A pattern before the gap and one after it, and the words of each label."""

    name: str
    before: str
    after: str
    words: dict[str, tuple[str, ...]]
    aliases: dict[str, str]
    neutral: tuple[str, ...] = NEUTRAL

    @property
    def labels(self) -> list[str]:
        """In the file's order."""
        return list(self.words)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a file, which `read_template` reads."""
        labels = {label: list(words) for label, words in self.words.items()}
        text = f"{self.before}___{self.after}"
        return {"text": text, "labels": labels, "aliases": self.aliases, "neutral": list(self.neutral)}

    def sides(self, record: Any, place: str) -> tuple[str, str]:
        """Return the texts before and after the gap; `ValueError`, with the place, for a record without a text."""
        left, right = fill(self.before, record, place).lstrip(), fill(self.after, record, place)
        if not left:
            raise ValueError(f"{place}: there is no text before the gap of the template {self.name}")
        return left, right

    def neutral_sides(self) -> list[tuple[str, str]]:
        """Return the sides with each neutral text in place of all fields, where something is left before the gap."""
        sides = []
        for text in self.neutral:
            left, right = (FIELD.sub(lambda _, neutral=text: neutral, side) for side in (self.before, self.after))
            sides += [(left.lstrip(), right)] if left.strip() else []
        return sides

    def label(self, value: Any, place: str) -> str:
        """Return the label that a value of the data means; `ValueError`, with the place, for an unknown one."""
        name = str(value)
        name = self.aliases.get(name, name)
        if name in self.words:
            return name
        known = [*self.words, *self.aliases]
        raise ValueError(
            f"{place}: the template {self.name} has no label {name!r} (known: {', '.join(known)}"
            f"{suggestion(name, known)})"
        )


def known_templates() -> dict[str, Any]:
    """Return the files in the package, by name."""
    folder = files("boustro").joinpath("data", "prompts")
    return {file.name.removesuffix(".json"): file for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def open_template(name: str) -> Template:
    """Return the template of a name in the package, or of a JSON file; `ValueError` or `OSError` for what is none."""
    import json

    file = Path(name) if name.endswith(".json") else choose(name, known_templates(), "template")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{name}: not a JSON file ({error})") from None
    return read_template(Path(name).name.removesuffix(".json"), value, name)


def template_of(model: str) -> Template:
    """Return the template that an LM was fine-tuned on; `ValueError` where its folder has none."""
    if not (file := Path(model) / TEMPLATE_FILE).is_file():
        raise ValueError(f"{model} was not fine-tuned on a template; name one with --template")
    return replace(open_template(str(file)), name=Path(model).name)


def read_template(name: str, value: Any, place: str) -> Template:
    """Return the template that a JSON value stands for; `ValueError`, with the place, for anything else."""
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise ValueError(f"{place}: expected an object with a text and its labels (see: boustro help generation)")
    for key in value:
        if key not in TEMPLATE_KEYS:
            raise ValueError(f"{place}: {key!r} is no part of a template{suggestion(key, TEMPLATE_KEYS)}")
    sides = split_gaps(value["text"])
    if len(sides) != 2:
        raise ValueError(f"{place}: the text has {len(sides) - 1} gaps; mark the one for the label's word with ___")
    if not sides[0].strip():
        raise ValueError(f"{place}: there is no text before the gap; a word is judged by what comes before it")
    if sides[1][:1].isalnum() or sides[1].startswith("{"):
        raise ValueError(f"{place}: the text after the gap must begin with a space or a punctuation mark")
    if not FIELD.search(value["text"]):
        raise ValueError(f"{place}: the text has no field such as {{text}}, so all answers would be the same")
    words = {str(label): _words(label, given, place) for label, given in _mapping(value, "labels", place).items()}
    if len(words) < 2:
        raise ValueError(f"{place}: expected at least two labels")
    every = [word for label_words in words.values() for word in label_words]
    if twice := next((word for word in every if every.count(word) > 1), None):
        raise ValueError(f"{place}: the word {twice!r} stands twice among the labels")
    aliases = {str(alias): str(label) for alias, label in _mapping(value, "aliases", place).items()}
    for alias, label in aliases.items():
        choose(label, words, f"label of the alias {alias!r} in {place}")
    neutral = value.get("neutral", list(NEUTRAL))
    if not isinstance(neutral, list) or not neutral or not all(isinstance(text, str) for text in neutral):
        raise ValueError(f"{place}: neutral must be a list of texts")
    made = Template(name, *sides, words=words, aliases=aliases, neutral=tuple(neutral))
    if not made.neutral_sides():
        raise ValueError(f"{place}: with its neutral texts nothing stands before the gap; give others")
    return made


def _mapping(value: Mapping[str, Any], key: str, place: str) -> Mapping[Any, Any]:
    mapping = value.get(key, {})
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{place}: {key} must be an object")
    return mapping


def _words(label: Any, value: Any, place: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) and w.strip() == w != "" for w in words):
        raise ValueError(f"{place}: the label {label!r} needs a word or a list of words, without spaces around them")
    return tuple(words)


ANCHOR = "a"
TemplateSides = tuple[list[int], list[int]]
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
            label: [self._after(anchor, f" {word}" if spaced else word) for word in label_words]
            for label, label_words in template.words.items()
        }
        for label, word_pieces in self.words.items():
            for word, pieces in zip(template.words[label], word_pieces, strict=True):
                if not pieces or tokenizer.unk_token_id in pieces:
                    raise ValueError(f"template {template.name}: the model's vocabulary has no pieces for {word!r}")

    def taught(self, equal: bool) -> dict[str, tuple[str, list[int]]]:
        """Return the word of each label that fine-tuning teaches, and its pieces: the first of the label's words.

        A masked LM sees how many pieces are hidden. So for it (`equal`) all words have the same number of them, the
        smallest one that every label has a word of; `ValueError` where there is none.
        """
        by_label = {
            label: list(zip(self.template.words[label], pieces, strict=True)) for label, pieces in self.words.items()
        }
        if not equal:
            return {label: known[0] for label, known in by_label.items()}
        common = set.intersection(*({len(pieces) for _, pieces in known} for known in by_label.values()))
        if not common:
            counts = "; ".join(
                ", ".join(f"{word!r} {len(pieces)}" for word, pieces in known) for known in by_label.values()
            )
            raise ValueError(
                f"template {self.template.name}: no number of pieces is common to the words of all labels ({counts}), "
                "and a masked LM would learn the number; give each label a word of as many pieces"
            )
        return {label: next(item for item in known if len(item[1]) == min(common)) for label, known in by_label.items()}

    def sides(self, record: Any, place: str) -> TemplateSides:
        """Return the pieces of a record in the template; its texts are cut to their first `most` pieces."""
        return self._pieces(*self.template.sides(self._cut(record), place))

    def neutral(self) -> list[TemplateSides]:
        """Return the template without a text, in several ways."""
        return [self._pieces(*sides) for sides in self.template.neutral_sides()]

    def _pieces(self, left: str, right: str) -> TemplateSides:
        left = left[:-1] if left.endswith(" ") else left
        return self._ids(left), self._after(ANCHOR, right)

    def _cut(self, record: Any) -> Any:
        """Return a record whose texts have at most so many pieces."""
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
        """Return the pieces of a text that continues another one."""
        alone, whole = self._ids(before), self._ids(before + text)
        same = next((n for n, (one, other) in enumerate(zip(alone, whole, strict=False)) if one != other), len(alone))
        return whole[same:]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
