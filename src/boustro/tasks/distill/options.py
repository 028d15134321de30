"""The options of `boustro distill`. torch is not imported here: command lines list these options."""

from dataclasses import dataclass

from boustro.heads.options import StepOptions
from boustro.options import Width, check_options


@dataclass(frozen=True, kw_only=True)
class DistillOptions(StepOptions):
    """What the student is, and how it learns."""

    head: str | None = None
    """Kind of the student's head. By default the teacher's."""
    hidden: Width | None = 512
    """Width inside the student's head; None for the width of its input."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)


DEFAULT_DISTILL = DistillOptions()
