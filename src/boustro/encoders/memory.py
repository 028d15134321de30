"""An encoder with a memory of words, `memory:DIR`: what each word was in raw text that was read beforehand.

For every word the encoder has a further stream: the mean of its vectors in the raw text and of its vector at hand
(`encoders.extended`). A word that the text did not have in any case is its vector at hand. The folder, which `boustro
memory` writes, names the encoder that read the text; with another one, or one that reads otherwise, it is refused.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from boustro.encoders.base import Encoder, Identity
from boustro.encoders.extended import PooledEncoder
from boustro.encoders.loading import naming, weights_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.word_means import KIND, load_means
from boustro.store import kind_of, read_folder, read_json

FREE = {"context", "dtype", "window", "quantise"}
"""Facts of an encoder's identity that may differ between the raw text and later texts."""
BY_LAYER = ("layers", "scales")
"""Facts that have a value for each layer; a memory is about the highest."""


class MemoryEncoder(PooledEncoder):
    """`load` makes an encoder of a spec (`spec.open_encoder`).

    Raises `FileNotFoundError` and `ValueError` if the folder or its encoder is missing, damaged or changed, and
    `ValueError` for options that read other vectors than the folder has.
    """

    def __init__(
        self,
        path: str,
        reading: ReadingOptions,
        *,
        load: Callable[..., Encoder],
        spec: str,
        device: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self._weights = weights_fingerprint(path, None)
        known, config = load_means(Path(path))
        with naming(f"{path} is a memory of {config['encoder']}"):
            base = load(config["encoder"], reading, device=device)
        super().__init__(base, "sentence", known)
        self.spec, self.tokenizer = spec, getattr(base, "tokenizer", tokenizer)
        if other := sorted(_differing(reading_facts(base), config["reading"])):
            raise ValueError(
                f"{path}: {config['encoder']} read the text of this memory with other {', '.join(other)}; "
                "read in the same way, or write the memory anew with boustro memory"
            )
        if [means.shape[1:] for means in known.means] != [(stream.width,) for stream in base.streams]:
            raise ValueError(f"{path}: damaged (vectors of another width); write the memory folder again")

    def identity(self) -> Identity:
        base = self.base.identity()
        return Identity(
            weights=self._weights,
            vocabulary=[lm.vocabulary for lm in base.lms],
            pooling=", ".join(lm.pooling for lm in base.lms),
            rest={"mentions": self.within, "case": "any", "base": base.to_dict()},
        )


def reading_facts(encoder: Encoder) -> Any:
    """What decides the vectors of an encoder's highest layer."""

    def facts(value: Any) -> Any:
        if isinstance(value, Mapping):
            kept = {name: facts(fact) for name, fact in value.items() if name not in {*FREE, *BY_LAYER}}
            highest = {name: value[name][-1] for name in BY_LAYER if name in value}
            return kept | {name: fact for name, fact in highest.items() if (name, fact) != ("scales", 1)}
        return [facts(item) for item in value] if isinstance(value, (list, tuple)) else value

    return facts(encoder.identity().to_dict())


def _differing(here: Any, there: Any) -> set[str]:
    """The names of the facts in which two encoders differ, such as pooling; `parts` where they have other parts."""
    parts, others = (facts.get("parts", [facts]) if isinstance(facts, Mapping) else [] for facts in (here, there))
    if len(parts) != len(others) or not all(isinstance(part, Mapping) for part in others):
        return {"parts"}
    pairs = zip(parts, others, strict=True)
    return {name for a, b in pairs for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def named_by_memory(path: str) -> list[str]:
    """The spec of the encoder that a memory's folder names; empty for any other folder."""
    if kind_of(path) != KIND:
        return []
    with read_folder(path, KIND):
        return [read_json(Path(path) / "config.json")["encoder"]]
