"""Options of studies."""

from dataclasses import asdict, dataclass
from typing import Any

from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import read_labelled

__all__ = ["HeadOptions", "make_config", "read_labelled"]


@dataclass(frozen=True, kw_only=True)
class HeadOptions(TaggerConfig):
    """Options of the taggers that are compared."""

    def chosen(self) -> dict[str, Any]:
        """All of them."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SystemConfig(TaggerConfig):
    """With the encoder and the head."""

    encoder: str
    head: str


def make_config(**chosen: Any) -> SystemConfig:
    """All settings of a system."""
    return SystemConfig.make(**{"encoder": "starter", "head": "mlp", **chosen})
