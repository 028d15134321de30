"""What a comparison compares: encoders x heads x variants, each with several seeds.

A *system* is an encoder under a head, with one variant of the options; a *cell* is a system with a seed. A
system is called by what tells it from the others, and by no more:

    encoders ./lm/forward ./lm/backward, head mlp, --vary pooling=exit,exit+before dropout=0.1,0.3
    →  forward · exit · dropout=0.1     forward · exit · dropout=0.3     forward · exit+before · dropout=0.1     …
"""

import difflib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from boustro.encoders import spec_fingerprint
from boustro.heads.registry import head_class
from boustro.metrics.spans import is_span_tag
from boustro.options import OptionError
from boustro.store import fingerprint
from boustro.tasks.commands import HeadOptions, make_config
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.types import Sentence

CELL_FORMAT = 3  # of what a cell's folder holds; cells of an older one are computed again


@dataclass(frozen=True)
class System:
    """An encoder under a head with these options; `variant` holds those that are varied.

    `parts` are the parts of its name, one for each thing that differs between systems.
    """

    parts: tuple[str, ...]
    encoder: str
    head: str
    variant: dict[str, Any]
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """As tables have it."""
        return " · ".join(self.parts)

    def config(self) -> dict[str, Any]:
        """All settings of its taggers, the defaults too."""
        return asdict(make_config(**self.options, encoder=self.encoder, head=self.head))


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is compared, and on what. `ValueError` for an unknown head, option or value."""

    encoders: tuple[str, ...]
    heads: tuple[str, ...]
    seeds: int
    options: dict[str, Any]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None
    variants: tuple[dict[str, Any], ...] = ({},)
    _fingerprints: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.encoders or not self.heads or not self.variants:
            raise ValueError("nothing to compare: give at least one encoder, one head and one seed")
        for head in self.heads:
            head_class(head)
        for system in self.systems():
            system.config()
        for name, sentences in self.data().items():
            strange = next((t for s in sentences for t in s.tags or () if not is_span_tag(t)), None)
            if strange:
                raise ValueError(
                    f"{data_name(sentences)} ({name}): the tag {strange!r} marks no entity, and entities are compared; "
                    "train on labels of words with boustro fit, or say --scheme io if a run of one label is an entity"
                )

    def data(self) -> dict[str, list[Sentence]]:
        """The data sets that are there, by name."""
        return {"train": self.train, "dev": self.dev, **({"test": self.test} if self.test else {})}

    @property
    def judged_on(self) -> str:
        """The data set that the report is about: test where there is one, else dev."""
        return "test" if self.test else "dev"

    def systems(self) -> list[System]:
        """In the order of the table; what was named twice is there once."""
        encoders, heads = list(dict.fromkeys(self.encoders)), list(dict.fromkeys(self.heads))
        short = dict(zip(encoders, short_specs(encoders), strict=True))
        labels = variant_labels(self.variants)
        systems = []
        for encoder, head, (variant, label) in itertools.product(
            encoders, heads, zip(self.variants, labels, strict=True)
        ):
            parts = [short[encoder]] * (len(encoders) > 1) + [head] * (len(heads) > 1) + label
            systems.append(
                System(tuple(parts or [short[encoder]]), encoder, head, variant, {**self.options, **variant})
            )
        return systems

    def cell_name(self, system: System, seed: int) -> str:
        """The folder of a cell: it changes with the settings, the LMs' weights and the data, not with their place."""
        if not self._fingerprints:
            self._fingerprints.update({name: data_fingerprint(s) for name, s in self.data().items()})
        config = {**system.config(), "encoder": spec_fingerprint(system.encoder)}
        key = fingerprint(CELL_FORMAT, config, seed, self._fingerprints)
        safe = "".join(c if c.isalnum() or c in "-+." else "_" for c in system.encoder)[-60:]
        return f"{safe}-{system.head}-{seed}-{key[:8]}"


def variant_labels(variants: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What tells each variant from the others: words alone where they can mean one option only, else option=value.

    `[{"pooling": "exit", "dropout": 0.1}, {"pooling": "exit", "dropout": 0.3}]` → `[["dropout=0.1"], ["dropout=0.3"]]`
    """
    values = {k: list(dict.fromkeys(_written(v.get(k)) for v in variants)) for v in variants for k in v}
    varied = {k: found for k, found in values.items() if len(found) > 1}
    every = [value for found in varied.values() for value in found]

    def label(name: str, value: str) -> str:
        clear = all(v[0].isalpha() and every.count(v) == 1 for v in varied[name]) and "true" not in varied[name]
        return value if clear else f"{name}={value}"

    return [[label(k, _written(v)) for k, v in variant.items() if k in varied] for variant in variants]


def parse_variants(vary: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """`["pooling=exit,exit+before", "layers=last,all"]` → the four variants, as options.

    A value that holds a comma itself is parted from the others by `/`: `layers=all/0,2,4`.
    `OptionError` for an option that is unknown, and for a value that it cannot take.
    """
    axes: dict[str, list[Any]] = {}
    for text in vary:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise OptionError(f"--vary {text!r}: expected an option and its values, such as pooling=exit,exit+before")
        if name in axes:
            raise OptionError(f"--vary: {name} is given twice; name all its values at once")
        given = values.split("/" if "/" in values else ",")
        axes[name] = list(dict.fromkeys(parse_option(name, value) for value in given if value))
    return tuple(dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values()))


def parse_option(name: str, text: str) -> Any:
    """The value that `text` stands for, by the type of the option; `none` where it may be left out."""
    known = [f.name for f in fields(HeadOptions)]
    if name not in known:
        raise OptionError(f"--vary: there is no option {name!r}{_nearest(name, known)}")
    hint = get_type_hints(HeadOptions)[name]
    kinds = [
        k for k in (get_args(hint) if get_origin(hint) is not Literal else [hint]) or [hint] if k is not type(None)
    ]
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise OptionError(f"--vary {name}: {text!r} is not known{_nearest(text, get_args(kind))}")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise OptionError(f"--vary {name}: expected true or false, got {text!r}")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError as error:
        raise OptionError(f"--vary {name}: expected {kind.__name__}, got {text!r}") from error


def short_specs(specs: Sequence[str]) -> list[str]:
    """Paths by their last folders, as many as it takes to tell the specs apart.

    `["gpt2", "gpt2+./models/back", "backward:/old/back"]` → `["gpt2", "gpt2+back", "backward:back"]`
    """
    for depth in range(1, 1 + max(spec.count("/") + 1 for spec in specs)):
        short = [_shortened(spec, depth) for spec in specs]
        if len(set(short)) == len(set(specs)):
            return short
    return list(specs)


def _shortened(spec: str, depth: int) -> str:
    parts = []
    for part in [spec] if Path(spec).exists() else spec.split("+"):
        kind, colon, place = part.rpartition(":")
        parts.append(kind + colon + "/".join(place.rstrip("/").split("/")[-depth:]))
    return "+".join(parts)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": known are {', '.join(known)}" + (f"; did you mean {near[0]!r}?" if near else "")
