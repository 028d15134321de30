"""What decides the numbers of an encoder, and nothing else: the key of its cached features, and what a folder of a
trained head says it was trained on.

    Identity          one LM, or what is made of several and has weights of its own (a fusion, a memory)
    JoinedIdentity    several side by side

`to_dict` gives each as JSON has it: the fields that are not `None`, and the rest beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Identity:
    """See the module; a local encoder and one that answers from elsewhere have the same fields.

    Attributes:
        weights: The fingerprint of the weights, wherever they lie.
        vocabulary: The fingerprint of the pieces, or those of several LMs.
        pooling: Where a word is read.
        context: "sentence" or "document"; `None` for what is made of encoders that have one each.
        direction: "forward", "backward" or "both", where that is no fact of the weights.
        rest: Further facts that decide the numbers, such as the layers.
    """

    weights: str
    vocabulary: str | list[Any]
    pooling: str
    context: str | None = None
    direction: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lms(self) -> tuple["Identity", ...]:
        """The parts that stand side by side: itself."""
        return (self,)

    def with_facts(self, **facts: Any) -> Self:
        """The same with further facts."""
        return replace(self, rest={**self.rest, **facts})

    def to_dict(self) -> dict[str, Any]:
        """See the module."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rest"}
        return {name: value for name, value in own.items() if value is not None} | dict(self.rest)


@dataclass(frozen=True, kw_only=True)
class JoinedIdentity:
    """The identities of encoders that stand side by side, and what is read besides their vectors."""

    lms: tuple[Identity, ...]
    rest: Mapping[str, Any] = field(default_factory=dict)

    def with_facts(self, **facts: Any) -> Self:
        """The same with further facts."""
        return replace(self, rest={**self.rest, **facts})

    def to_dict(self) -> dict[str, Any]:
        """See the module."""
        return {"parts": [lm.to_dict() for lm in self.lms], **self.rest}
