"""Predictor: a trained folder as one callable on columns, for whatever maps a function over batches of rows.

    predictor = Predictor("ner")
    predictor({"text": ["Ada left.", "It rained."]})      # {"text": […], "entities": [[{"label": "PER", …}], []]}

    dataset.map(Predictor("ner"), batched=True)                              # datasets
    pandas.DataFrame(predictor(frame))                                       # pandas
    data.map_batches(Predictor, fn_constructor_args=("ner",), …)             # Ray Data

It can be pickled; the folder is opened by the process that uses it, when it uses it. Columns are those of the task's
JSON lines: `text` or `words`, `question` and `context`, `sentence1` and `sentence2`, and so on.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from boustro.apps.batch.each import answer_each
from boustro.apps.batch.rows import refuse_half_characters
from boustro.apps.serve.models import Served, name_folders, open_model


class Predictor:
    """A callable from columns to columns.

    Args:
        folder: A folder that `boustro fit`, `wsd fit` or `embed-fit` wrote.
        text: The column with the text, where it is not named "text".
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps; by default the best available.

    Raises `FileNotFoundError` and `ValueError` for what is no such folder.
    """

    def __init__(
        self, folder: str | Path, *, text: str = "text", encoder: str | None = None, device: str | None = None
    ) -> None:
        (self.folder,) = name_folders([str(folder)]).values()
        self.text, self.encoder, self.device = text, encoder, device

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "model"}

    def __repr__(self) -> str:
        return f"Predictor({str(self.folder)!r})"

    @cached_property
    def model(self) -> Served:
        """The folder, opened."""
        return open_model(self.folder.name, self.folder, self.device, self.encoder)

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The columns and, row by row, the fields of the answers, as further columns.

        Args:
            columns: Lists or arrays of one length by name; a data frame.

        Raises `ValueError`, with the number of the row, for what is no input.
        """
        lists = {str(name): _as_list(columns[name]) for name in columns}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        answers = self.answer(rows, [f"row {number}" for number in range(1, len(rows) + 1)])
        names = dict.fromkeys(name for answer in answers for name in answer)
        return {**lists, **{name: [answer.get(name) for answer in answers] for name in names}}

    def answer(self, values: Sequence[Any], places: Sequence[str]) -> list[dict[str, Any]]:
        """The answers to values of JSON (rows); `ValueError`, with its place, for one that is no input."""
        inputs = [self._parse(value, place) for value, place in zip(values, places, strict=True)]
        return self._outputs(inputs)

    def answer_each(self, values: Sequence[Any], places: Sequence[str]) -> list[dict[str, Any] | Exception]:
        """The same, with an error in place of an answer."""
        items = list(zip(values, places, strict=True))
        return answer_each(items, lambda item: self._parse(*item), self._outputs)

    def _outputs(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        outputs = self.model.answer(inputs).outputs
        return [output if isinstance(output, dict) else {"vector": output} for output in outputs]

    def _parse(self, value: Any, place: str) -> Any:
        if self.text != "text" and isinstance(value, Mapping) and self.text in value:
            value = {**value, "text": value[self.text]}
        refuse_half_characters(value, place)
        return self.model.parse(value, place)


def _as_list(values: Any) -> list[Any]:
    """The values of a column as Python has them: arrays and what is in them become lists."""
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    return [value.tolist() if hasattr(value, "tolist") else value for value in given]
