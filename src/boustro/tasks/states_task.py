"""What a tagger does with the states of an LM that runs elsewhere or beside it: see `tasks.states`, `tasks.watch`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from boustro.apps.live.events import DELAY, EVERY
from boustro.options import check_options
from boustro.tasks.answers import Entities
from boustro.tasks.base import Task

if TYPE_CHECKING:
    from boustro.tasks.watch import OnEvent, Watch


class StatesTask(Task[str, Entities]):
    """A task over running text that can answer from states."""

    def from_states(
        self, pieces: Sequence[int], states: Mapping[int, Any], text: str | None = None, name: str = "the states given"
    ) -> Entities:
        """The entities of a text whose pieces an LM has read already, such as in vLLM or llama.cpp.

        Args:
            pieces: (P,) ids, with the start piece where the LM has one.
            states: By the number of the layer, (P, D) each: 0 is the embeddings, k the states after k blocks, the last
                one after the final norm. Of every layer that the tagger reads.
            text: What the pieces spell, to be sure.
            name: For messages.

        What else the tagger reads, such as a backward LM, is computed here. Raises `ValueError` where there is no LM
        that reads forward, where layers are missing, for states of another width, with NaN or infinities or far from
        those of training, for pieces of another vocabulary, that do not begin with the start piece, or that do not
        spell the text.
        """
        from boustro.tasks.states import GivenStates, answer_states

        return self.result(answer_states(self, GivenStates(pieces=pieces, layers=states, text=text, name=name)))

    def watch(
        self,
        model: Any,
        delay: int | None = DELAY,
        *,
        every: int = EVERY,
        prompt: bool = False,
        on_event: "OnEvent | None" = None,
    ) -> "Watch":
        """Tag what `model.generate` writes, from the states that it computes, see `tasks.watch`.

        Args:
            model: The causal LM of transformers that the tagger was trained on, with its head.
            delay: As for `live`; with `None` nothing is told before the end of a text.
            every: How many pieces are read at once; events are as late.
            prompt: Tag the prompt too.
            on_event: Called with the number of the text and the event, while it is written.

        Use it as `with tagger.watch(model) as seen:`; `seen[0]` is the first text. Raises `ValueError` for another
        model, for beams, assisted generation and static caches, and as `live`.
        """
        from boustro.tasks.watch import Watch

        if every < 1:
            raise ValueError(f"every is {every}: give a number of pieces, at least 1")
        return Watch(self, model, delay, every, prompt, on_event)

    @classmethod
    def from_pretrained(cls, path: str | Path, *, given_states: bool = False, **where: Any) -> Self:
        """As `Task.from_pretrained`; with `given_states` the weights of a causal LM are not loaded, because its states
        will be given (`from_states`, `watch`)."""
        if not given_states:
            return super().from_pretrained(path, **where)
        from boustro.tasks.folder import load_fitted
        from boustro.tasks.hub import download

        check_options(Task.from_pretrained, where)
        made, folder = object.__new__(cls), download(path, where.pop("revision", None))
        where = {"encoder": None, "cache": True, "device": None} | where
        made.fitted = load_fitted(cls, folder, given_states=True, **where)
        return made
