"""A causal LM that is given the text several times over and read in the last copy, which has seen all of it.

    repeated:PATH      [S] p0 p1 p2 ⏎ p0 p1 p2        states of the second p0 p1 p2
    repeated:3:PATH    [S] p0 p1 p2 ⏎ p0 p1 p2 ⏎ p0 p1 p2        of the third

Between copies stands the text `between`. The window holds all copies, so that of a long text only a part
of it fits. `before` is the state of what stands before the word in the last copy, and has seen the
word in the copies before. With one copy all is as without this file.

Sources: Springer et al. 2024 (echo embeddings); for sequence labelling, with early exit, Kukić et al. 2026, who
fine-tune; here all stays frozen. `layers` makes the early exit: no block above the highest one is computed.
"""

from collections.abc import Sequence
from typing import Any, Literal

from boustro.encoders.lm import LMEncoder
from boustro.encoders.windows import Window, plan_centred_windows

SMALLEST_WINDOW = 2


class RepeatedEncoder(LMEncoder):
    """Raises `ValueError` for a number of copies that is none, or that the model's window cannot hold."""

    def __init__(self, name_or_path: str, *, copies: str | int = 2, **options: Any) -> None:
        if not str(copies).isdecimal() or int(copies) < 1:
            raise ValueError(
                f"{options.get('spec') or name_or_path}: {copies!r} is no number of copies, such as 2 or 3"
            )
        self._copies = int(copies)
        super().__init__(name_or_path, **options)

    def _frame(
        self,
        config: Any,
        direction: Literal["forward", "backward"] | None = None,
        sentinel: bool | None = None,
        between: str = "\n",
    ) -> tuple[list[int], list[int]]:
        self._between = list(self.tokenizer(between, add_special_tokens=False)["input_ids"]) if between else []
        return super()._frame(config, direction, sentinel)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "copies": self._copies, "between": self._between}

    def _room(self, window: int) -> int:
        room = (super()._room(window) - (self._copies - 1) * len(self._between)) // self._copies
        if room < SMALLEST_WINDOW:
            raise ValueError(f"{self.spec}: the model's window of {window:,} pieces cannot hold {self._copies} copies")
        return room

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        """A state of the last copy knows both sides, so it is taken from the window in whose middle it stands."""
        if self._copies == 1:
            return super()._plan(text, num_pieces)
        return plan_centred_windows(text, num_pieces, self._window, -1)

    def _row(self, pieces: Sequence[int]) -> list[int]:
        once = list(pieces)
        return [*self._prefix, *(once + self._between) * (self._copies - 1), *once, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        return super()._origin(num_pieces) + (self._copies - 1) * (num_pieces + len(self._between))
