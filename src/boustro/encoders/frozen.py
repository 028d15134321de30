"""An encoder by its spec, opened when it is first needed, which must be the one that something was trained on.

frozen = FrozenEncoder("starter", ReadingOptions(layers="last"))
frozen.open(cached=True).encode_all(sentences)
frozen.to_dict()       # {"encoder": the exact spec, "encoder_identity": …}, for the folder of what was trained
"""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from boustro.encoders.base import Encoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import exact_spec, load_encoder, with_cache
from boustro.names import is_shipped


class FrozenEncoder:
    """What a spec and options of reading name; the weights are loaded once, with and without the feature cache."""

    def __init__(
        self,
        spec: str,
        reading: ReadingOptions,
        *,
        cache: bool | str | Path = True,
        device: str | None = None,
        trained_on: list[Any] | None = None,
    ) -> None:
        """`trained_on` is `weights_of` the encoder that it must be, None for any."""
        self.spec, self.reading, self.cache, self.device, self.trained_on = spec, reading, cache, device, trained_on
        self._opened: dict[bool, Encoder] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    def open(self, cached: bool = False) -> Encoder:
        """The encoder, behind the cache if asked for; `ValueError` where it is not the one that it must be."""
        cached = cached and bool(self.cache)
        if cached not in self._opened:
            options = {name: value for name, value in asdict(self.reading).items() if value is not None}
            own = with_cache(self.open(), self.cache) if cached else None
            made = own or load_encoder(self.spec, device=self.device, **options)
            refuse_other_weights(made, self.spec, self.trained_on, "this folder was trained on", "train again")
            self._opened[cached] = made
        return self._opened[cached]

    def to_dict(self) -> dict[str, Any]:
        """The exact spec and the identity, as a folder's config.json holds them."""
        identity = self.open(cached=True).identity()
        return {"encoder": exact_spec(self.spec, identity), "encoder_identity": identity}


def refuse_other_weights(encoder: Encoder, spec: str, weights: list[Any] | None, what: str, otherwise: str) -> None:
    """`ValueError` where the LMs at a spec are not these `weights_of`; `None` is any. `what` they were made for."""
    if weights is not None and weights != weights_of(encoder.identity()):
        shipped = " (the pair of the package changes between versions)" if is_shipped(spec) else ""
        raise ValueError(
            f"the model at {spec!r} is not the one that {what}{shipped}; "
            f"name the right one with --encoder, or {otherwise}"
        )


@contextlib.contextmanager
def naming_folder(path: Path) -> Iterator[None]:
    """A block that opens the encoder of a folder; where there is none, the error names the folder and --encoder."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: its encoder was not found ({error}); name it with --encoder") from error


def weights_of(identity: dict[str, Any]) -> list[Any]:
    """The LMs of an encoder, by what they are and not by where they lie, and how their states are scaled."""
    parts = identity.get("parts", [identity])
    return [(part["weights"], part["vocabulary"], part.get("direction"), part.get("scales")) for part in parts]
