"""Whether an encoder is the one that something was trained on, by its weights and not by where they lie."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from boustro.encoders.base import Encoder
from boustro.names import is_shipped


def weights_of(identity: Mapping[str, Any]) -> list[Any]:
    """The LMs of an encoder, by what they are and not by where they lie, and how their states are scaled.

    `identity` is as `Identity.to_dict` gives it.
    """
    parts = identity.get("parts", [identity])
    return [(part["weights"], part["vocabulary"], part.get("direction"), part.get("scales")) for part in parts]


def refuse_other_weights(encoder: Encoder, spec: str, weights: list[Any] | None, trained: str) -> None:
    """`ValueError` where the LMs at a spec are not these `weights_of`; `None` is any. `trained` ends its sentence."""
    if weights is not None and weights != weights_of(encoder.identity().to_dict()):
        shipped = " (the pair of the package changes between versions)" if is_shipped(spec) else ""
        raise ValueError(
            f"the model at {spec!r} is not the one that {trained}{shipped}; "
            "name the right one with --encoder, or train again"
        )


@contextlib.contextmanager
def naming_folder(path: Path) -> Iterator[None]:
    """A block that opens the encoder of a folder; where there is none, the error names the folder and --encoder."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: its encoder was not found ({error}); name it with --encoder") from error
