"""A trained model that answers inputs: what commands, the service and data frames ask through.

    answering = Answering(model)
    given = answering.parse({"text": "Ada left."}, "input 1")        # checked here, and nowhere after
    answering.outputs(answering.answer([given]))                     # [{"entities": [...]}]

Nothing here imports torch.
"""

from collections.abc import Callable, Sequence
from typing import Any

from boustro.names import NAMES
from boustro.store import MANIFEST, Artefact, ModelPlace
from boustro.tasks import EXPORT, TASKS, trained_folder
from boustro.tasks.answers import InputAnswer


class Answering:
    """A model behind one door: `parse` checks an input, `answer` takes what `parse` gave.

    Args:
        model: A trained `Task`.
        explain: Finds for the answers of a model what decided each, which outputs have as `explained`.
    """

    def __init__(self, model: Any, explain: Callable[[Any, Sequence[Any]], list[Any]] | None = None) -> None:
        self.model, self._explain = model, explain

    def parse(self, value: Any, place: str) -> Any:
        """Return the input that a JSON value stands for; `ValueError`, with the place, for what is none."""
        return self.model.inputs.parse_value(value, place)

    def answer(self, inputs: Sequence[Any]) -> list[InputAnswer[Any]]:
        """Answer inputs that `parse` gave."""
        return self.model.answer_checked(inputs)

    def explanations(self, answers: Sequence[InputAnswer[Any]]) -> list[dict[str, Any]]:
        """Return what decided each answer, as a field of its output; no field where nobody asked."""
        if self._explain is None:
            return [{} for _ in answers]
        return [{"explained": reasons} for reasons in self._explain(self.model, answers)]

    def outputs(self, answers: Sequence[InputAnswer[Any]]) -> list[dict[str, Any]]:
        """Return answers as JSON can hold them."""
        records = map(self.model.to_record, answers)
        return [record | why for record, why in zip(records, self.explanations(answers), strict=True)]


def model_folder(given: ModelPlace) -> Artefact:
    """Return a folder with a model that answers, also the tagger of the package by its name.

    Raises `FileNotFoundError` and `ValueError` for what is no such folder.
    """
    folder = trained_folder(given)
    if not folder.path.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; name a folder that boustro fit wrote")
    if folder.kind is None and folder.is_written:
        raise ValueError(f"{folder / MANIFEST}: damaged; write the folder again")
    kinds = [*(entry.folder for entry in TASKS.values()), EXPORT, NAMES]
    if folder.kind not in kinds:
        raise ValueError(f"{folder} is not one of the folders that can be served: {', '.join(kinds)}")
    return folder
