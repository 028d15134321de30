"""Every objective by name, and what it needs: the kind of model that it trains, and pieces of the tokenizer.

`check_objective` says before a run what would otherwise go wrong in the middle of it, or worse, nowhere: a masked
architecture under the causal objective sees what it is to predict, and trains without any error.

    check_objective("masked", LlamaConfig(), tokenizer)
    ValueError: objective 'masked' trains masked LMs and 'llama' is a causal one, which fits: causal, cloze

A new objective is a file and a line in `OBJECTIVES`; `pretrain.objectives.RECIPES` says how each is trained.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from transformers import PretrainedConfig

from boustro.models.pretrained import Kind, architecture_kind
from boustro.objectives.causal import causal
from boustro.objectives.cloze import cloze
from boustro.objectives.masked import masked
from boustro.objectives.masked_next import masked_next
from boustro.objectives.replaced import replaced
from boustro.objectives.sentence_pair import sentence_pair
from boustro.objectives.span import span
from boustro.objectives.words import word_starts

Unit = Literal["piece", "word"]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A pure function, and what it needs."""

    make: Callable[..., Any]
    summary: str
    kind: Kind
    """The kind of model that it trains."""
    model_types: tuple[str, ...] = ()
    """The only architectures that have its heads; none named: any of the kind."""
    special: tuple[str, ...] = ()
    """Special pieces that the tokenizer must have."""


OBJECTIVES: dict[str, Objective] = {
    "causal": Objective(make=causal, summary="the next piece, forward or backward", kind="causal"),
    "masked": Objective(make=masked, summary="hidden pieces, or words", kind="masked", special=("mask",)),
    "span": Objective(make=span, summary="hidden runs of words, and their boundary", kind="masked", special=("mask",)),
    "sentence-pair": Objective(
        make=sentence_pair,
        summary="hidden pieces, and whether the second text follows the first",
        kind="masked",
        model_types=("bert",),
        special=("mask", "cls", "sep", "pad"),
    ),
    "replaced": Objective(
        make=replaced,
        summary="which pieces a small generator has replaced",
        kind="masked",
        model_types=("electra",),
        special=("mask",),
    ),
    "cloze": Objective(make=cloze, summary="every piece from both its sides, by two one-way LMs", kind="causal"),
    "masked-next": Objective(
        make=masked_next, summary="hidden pieces, each from the state before it, without the mask", kind="causal"
    ),
}


def fitting_objectives(config: PretrainedConfig) -> list[str]:
    """The objectives that an architecture can be trained with."""
    kind = architecture_kind(config)
    return [
        name
        for name, objective in OBJECTIVES.items()
        if objective.kind == kind and (not objective.model_types or config.model_type in objective.model_types)
    ]


def check_objective(name: str, config: PretrainedConfig, tokenizer: Any, unit: Unit = "piece") -> Objective:
    """The objective of this name, if the architecture and the tokenizer fit it.

    `unit` is what is hidden as a whole. Raises `ValueError` for an unknown name, and for what does not fit, saying
    what would.
    """
    if name not in OBJECTIVES:
        near = difflib.get_close_matches(name, OBJECTIVES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown objective {name!r}: known are {', '.join(OBJECTIVES)}{hint}")
    objective, kind, fitting = OBJECTIVES[name], architecture_kind(config), fitting_objectives(config)
    if name not in fitting:
        fits = f"which fits: {', '.join(fitting)}" if fitting else "which fits none"
        if objective.kind != kind:
            other = "neither a causal nor a masked one" if kind is None else f"a {kind} one"
            raise ValueError(
                f"objective {name!r} trains {objective.kind} LMs and {config.model_type!r} is {other}, {fits}"
            )
        only = " or ".join(objective.model_types)
        raise ValueError(f"objective {name!r} needs the heads of {only}, and not {config.model_type!r}, {fits}")
    missing = [piece for piece in objective.special if getattr(tokenizer, f"{piece}_token_id") is None]
    if missing:
        added = ", ".join(f"'{piece}_token': '<|{piece}|>'" for piece in missing)
        without = [other for other, needs in OBJECTIVES.items() if not needs.special]
        raise ValueError(
            f"objective {name!r} needs a tokenizer with a {' and a '.join(missing)} piece, and this one has none; add "
            f"it with tokenizer.add_special_tokens({{{added}}}), save the tokenizer and tokenize the corpus with it "
            f"(without it fit: {', '.join(without)})"
        )
    if unit == "word" and objective.kind == "masked":
        word_starts(tokenizer)  # says what is wrong
    return objective
