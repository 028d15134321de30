"""Texts made from the values of a record.

    record     {"context": "Ada left in May.", "answers": [{"text": "May"}], "question": "When?"}

    "context"                                 Ada left in May.         a key alone
    "{answers.0.text} of: {context}"          May of: Ada left in May.
    "{sentence|text}"                         the first of several keys that the record has

A dot leads into an object, a number into a list.
"""

import re
from collections.abc import Mapping
from typing import Any

FIELD = re.compile(r"\{([^{}\s]+)\}")


def pattern_text(key: str, record: Any, place: str, option: str = "") -> str:
    """Return the text of a key or, where it has fields, of a pattern. Raises as `fill`; `option` chooses other keys."""
    if FIELD.search(key):
        return fill(key, record, place, option)
    return _text(record, key, place, option)


def fill(pattern: str, record: Any, place: str, option: str = "") -> str:
    """Return the text of a pattern.

    Raises `ValueError`, with the place, for a record that is no object and for a field without a text.
    """
    return FIELD.sub(lambda field: _text(record, field[1], place, option), pattern)


def _text(record: Any, field: str, place: str, option: str) -> str:
    text = next((value for key in field.split("|") if (value := _value(record, key)) is not None), None)
    if isinstance(text, str):
        return text
    keys = ", ".join(map(str, record)) or "nothing" if isinstance(record, Mapping) else type(record).__name__
    advice = f"; name it with {option}" if option else ""
    raise ValueError(f"{place}: no text under the key {field!r}{advice} (found: {keys})")


def _value(record: Any, key: str) -> Any:
    if isinstance(record, Mapping) and key in record:  # a key may have dots of its own
        return record[key]
    value = record
    for part in key.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value
