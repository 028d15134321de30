"""Options of studies."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from boustro.output import print_notices
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import load_data
from boustro.tasks.data.reading import DataOptions
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class HeadOptions(TaggerConfig):
    """Options of the taggers that are compared."""

    def chosen(self) -> dict[str, Any]:
        """All of them."""
        return asdict(self)


def read_labelled(data: Path, options: DataOptions) -> list[Sentence]:
    """Sentences of a file or data set; what was repaired or left out is printed on standard error."""
    labelled = load_data(data, options)
    print_notices({f"{what} ({data}; boustro check lists them)": n for what, n in labelled.counts().items()})
    return labelled.sentences


@dataclass(frozen=True, kw_only=True)
class SystemConfig(TaggerConfig):
    """With the encoder and the head."""

    encoder: str
    head: str


def make_config(**chosen: Any) -> SystemConfig:
    """All settings of a system."""
    return SystemConfig.make(**{"encoder": "starter", "head": "mlp", **chosen})
