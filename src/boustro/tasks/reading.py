"""What stands beside a tagger's head and reads the training set otherwise than what is answered later."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import Beside, Fitted, Plan, Taught


class Memory(Beside):
    """The mean vectors of the words of all training sentences, in the folder; see `features.training`."""

    name = "memory"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> Taught:
        from boustro.features.training import REMEMBERED, read_remembering

        read = read_remembering(plan.reader, examples, unread, labelling.side(examples), seed)
        reader, inputs, without = read
        return Taught(reader, inputs, {REMEMBERED: len(unread)} if unread else {}, without)

    def save(self, fitted: Fitted, folder: Path) -> None:
        from boustro.encoders.word_means import save_means

        if fitted.plan.reader.memory is not None:
            save_means(folder, fitted.plan.reader.memory)

    def load(self, plan: Plan[Any], folder: Path) -> tuple[Plan[Any], None]:
        from dataclasses import replace

        from boustro.encoders.word_means import read_means

        return replace(plan, reader=plan.reader.with_memory(read_means(folder))), None


class Cut(Beside):
    """Fewer words behind each word than the text has (`live`); see `features.training`."""

    name = "live"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> Taught:
        from boustro.features.training import cut_inputs
        from boustro.tasks.fitting import read_plainly

        inputs = read_plainly(plan, labelling, examples).inputs
        inputs, cut = cut_inputs(plan.reader.encoder(), plan.reader.reading.context, examples, inputs, seed)
        return Taught(plan.reader, inputs, cut)
