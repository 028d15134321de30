"""What is chosen about an export. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from boustro.options import Count, Range, check_options

Weights = Literal["float32", "float16", "int8"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How a trained folder is exported."""

    format: Literal["onnx", "html", "module"] = "onnx"
    """What is written: a folder for boustro predict, serve and batch; a page in one file, which tags texts in a browser
    without a network; a folder with the same as a JavaScript module."""
    precision: Weights = "float32"
    """Of the weights: float32; float16, which is computed in float32 after it is read; int8, which is computed in int8
    on the processor."""
    sentences: Count = 500
    """How many sentences the answers of the export are compared with those of the folder on."""
    agreement: Annotated[float, Range(0.0, 1.0)] | None = None
    """The least share of answers that must be the same, else nothing is written. By default 0.999 for float32 and
    float16, 0.97 for int8."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def least(self) -> float:
        """The share that is asked for."""
        return self.agreement if self.agreement is not None else LEAST[self.precision]


MODULE = "module"
"""The kind of a folder that holds a JavaScript module."""
LEAST: dict[str, float] = {"float32": 0.999, "float16": 0.999, "int8": 0.97}
