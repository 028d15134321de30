"""Systems that a study compares, named by what differs between them, and the options that are varied.

encoders ./lm/forward ./lm/backward, head mlp, --vary pooling=exit,exit+before --vary dropout=0.1,0.3
→  forward · exit · dropout=0.1     forward · exit · dropout=0.3     forward · exit+before · dropout=0.1     …
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from boustro.choose import choose, unknown
from boustro.heads.registry import owners
from boustro.options import OptionError, unread
from boustro.tasks.config import TaskConfig

SHOTS = "K"
"""In a variant, how many examples are drawn to train on."""


@dataclass(frozen=True)
class System:
    """An encoder under a head; `variant` holds its values of the options that are varied, and its K.

    `parts` are the parts of its name, one for each thing that differs between the systems of a study.
    """

    parts: tuple[str, ...]
    encoder: str
    head: str
    variant: dict[str, Any]

    @property
    def name(self) -> str:
        """Name in tables."""
        return " · ".join(self.parts)

    @property
    def shots(self) -> int | None:
        """K, `None` for all of the training set."""
        return self.variant.get(SHOTS)


def name_systems(chosen: Iterable[tuple[str, str, dict[str, Any]]]) -> list[System]:
    """Return the systems of (encoder, head, variant) triples; equal triples give one system."""
    triples: list[tuple[str, str, dict[str, Any]]] = []
    for triple in chosen:
        triples += [triple] if triple not in triples else []
    encoders, heads = (list(dict.fromkeys(names)) for names in zip(*[t[:2] for t in triples], strict=True))
    short = dict(zip(encoders, short_specs(encoders), strict=True))
    systems = []
    for (encoder, head, variant), label in zip(triples, variant_labels([v for *_, v in triples]), strict=True):
        parts = [short[encoder]] * (len(encoders) > 1) + [head] * (len(heads) > 1) + label
        systems.append(System(tuple(parts or [short[encoder]]), encoder, head, variant))
    return systems


def find_name(name: str, names: Sequence[str]) -> int:
    """Return the position of a system in the table; `ValueError` with the nearest name for an unknown one."""
    return choose(name, {known: place for place, known in enumerate(names)}, "system")


def variant_labels(variants: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the parts of each variant's name: the value where it can belong to one option only, else option=value.

    `[{"pooling": "exit", "dropout": 0.1}, {"pooling": "exit", "dropout": 0.3}]` → `[["dropout=0.1"], ["dropout=0.3"]]`
    """
    values = {k: list(dict.fromkeys(_written(v.get(k)) for v in variants)) for v in variants for k in v}
    varied = {k: settings for k, settings in values.items() if len(settings) > 1}
    every = [value for settings in varied.values() for value in settings]

    def label(name: str, value: str) -> str:
        clear = all(v[0].isalpha() and every.count(v) == 1 for v in varied[name]) and "true" not in varied[name]
        return value if clear else f"{name}={value}"

    return [[label(k, _written(v)) for k, v in variant.items() if k in varied] for variant in variants]


def options_of(
    config: type[TaskConfig], head: str, options: Mapping[str, Any], variant: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options that a task is made with: of `options`, which are for several heads, those that this one has,
    and the variant.

    A varied preset replaces options, other varied options replace its values. Where a variant does not read what others
    read, such as a threshold without a CRF, it goes without.
    """
    kind, varied = config.check_head(head), dict(variant)
    preset = config.preset(varied.pop("preset", "default"))
    kept = {name: v for name, v in {**options, **preset}.items() if kind.has(name) or not owners(name, config.heads())}
    without = unread(kind.options, {name: v for name, v in {**kept, **varied}.items() if kind.has(name)})
    return {name: value for name, value in kept.items() if name not in without} | varied


def refuse_variants(
    config: type[TaskConfig], head: str, options: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]
) -> None:
    """`OptionError` for a varied option that the head does not have, and for a value outside its range."""
    for variant in variants:
        config.choose(head, "default", options_of(config, head, options, variant))


def parse_variants(
    vary: Sequence[str], config: type[TaskConfig], heads: Sequence[str] = ()
) -> tuple[dict[str, Any], ...]:
    """`["pooling=exit,exit+before", "layers=last,all"]` → the four variants, of the options of a task and of its heads.

    Values that contain commas are separated by `/` instead: `layers=all/0,2,4`. `OptionError` for an unknown option
    and for a value of another type.
    """
    axes: dict[str, list[Any]] = {}
    for text in vary:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise OptionError(f"--vary {text!r}: expected an option and its values, such as pooling=exit,exit+before")
        if name in axes:
            raise OptionError(f"--vary: {name} is given twice; give all its values at once")
        given = values.split("/" if "/" in values else ",")
        axes[name] = list(dict.fromkeys(_parse_value(name, value, config, heads) for value in given if value))
    return tuple(dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values()))


def _parse_value(name: str, text: str, config: type[TaskConfig], heads: Sequence[str]) -> Any:
    """Return the value that `text` means, by the option's type; `preset` is an option too."""
    owner = [config, *(config.check_head(head).options for head in heads or [config.default_head])]
    known: dict[str, Any] = {"preset": Literal[*config.presets]}
    for each in owner:
        hints = get_type_hints(each)
        known |= {option.name: hints[option.name] for option in fields(each)}
    if name not in known:
        raise OptionError(f"--vary: {unknown(name, known, 'option')}")
    kind: Any = known[name]
    if get_origin(kind) is not Literal and get_args(kind):  # X | None
        kind = next(k for k in get_args(kind) if k is not type(None))
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise OptionError(f"--vary {name}: {unknown(text, get_args(kind), 'value')}")
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
    """Specs with each path cut to its last folders, as many as are needed to keep the specs different.

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
        kind, colon, path = part.rpartition(":")
        parts.append(kind + colon + "/".join(path.rstrip("/").split("/")[-depth:]))
    return "+".join(parts)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
