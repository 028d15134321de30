"""Pairs of a prompt and a target text as piece ids: from JSON lines, from labelled texts in a template, of many tasks.

    pair              prompt E | target              E: end of text, which ends a prompt; a causal LM learns one more E
    with a template   before | word | after          the text before the gap, a word of the label, what follows

A mixture of tasks has at most `task_cap` pairs of each task in an epoch, so a task's share grows with its size up to
the cap (Raffel et al. 2020, section 3.5.2: examples-proportional mixing). Some pairs are held back and measured: all
of tasks that are held out, and a few of each of the others, which are held in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from boustro.choose import unknown
from boustro.generation.models import MaskedLM, OpenedLM
from boustro.generation.prompts.pieces import PromptPieces
from boustro.generation.prompts.template import Template, open_template
from boustro.objectives.examples import keyed_generator
from boustro.output import as_json
from boustro.pretrain.distributed import say
from boustro.roads.options import MixtureOptions, Seq2SeqConfig
from boustro.text.documents import read_values
from boustro.text.patterns import FIELD, text_of
from boustro.text.tokenizers import end_of_text_id

HELD_IN, HELD_OUT = "held-in", "held-out"


@dataclass(frozen=True)
class Pair:
    """Piece ids of a prompt, with its frame and its end, and of its target."""

    prompt: list[int]
    target: list[int]
    after: list[int] = field(default_factory=list)
    """What stands after the target, of a template."""
    end: tuple[int, ...] = ()
    """What a causal LM writes at the end."""
    task: str = ""
    record: Any = None
    """What it was read from."""

    def facts(self) -> tuple:
        """What decides the training."""
        return self.prompt, self.target, self.after, self.end, self.task


class PairReader:
    """Reads files of pairs for an LM, as the options say."""

    def __init__(self, config: Seq2SeqConfig, model: OpenedLM) -> None:
        self.config, self.model = config, model
        self.template = _taught(open_template(config.template), model) if config.template else None
        pieces = self.template and PromptPieces(self.template, model.tokenizer, config.prompt_pieces)
        self._template_pieces = pieces
        self._end = end_of_text_id(model.tokenizer)
        self._num_cut = 0

    def read(self, path: Path) -> list[Pair]:
        """The pairs of a file. Says how many are left out, longer than the window, and how many prompts are cut.

        Raises `ValueError`, with file and line, for a line without both texts, and where no pair is left.
        """
        make = self._plain if self._template_pieces is None else self._prompted
        model, found, long, before = self.model, [], 0, self._cut()
        for place, record in read_values(path):
            pair = make(record, place)
            num_pieces = sum(map(len, (pair.prompt, pair.target, pair.after, model.after))) + 1
            if model.window is not None and num_pieces > model.window:
                long += 1
            else:
                found.append(pair)
        if cut := self._cut() - before:
            say(f"{path}: {cut:,} prompts were cut to their first {self.config.prompt_pieces:,} pieces")
        if long:
            say(f"{path}: {long:,} pairs are longer than the window of {model.window:,} pieces and left out")
        if not found:
            raise ValueError(
                f"{path}: no pair is left that fits into the window; give --prompt-pieces to cut the prompts"
            )
        return found

    def _cut(self) -> int:
        return self._num_cut if self._template_pieces is None else self._template_pieces.num_cut

    def _plain(self, record: Any, place: str) -> Pair:
        config, model, most = self.config, self.model, self.config.prompt_pieces
        texts = [
            text_of(key, _first(record, key), place, option)
            for key, option in ((config.prompt_key, "--prompt-key"), (config.target_key, "--target-key"))
        ]
        prompt, target = (model.pieces(text) for text in texts)
        if not prompt or not target:
            raise ValueError(f"{place}: the {'target' if prompt else 'prompt'} is empty")
        if most and len(prompt) > most:
            prompt, self._num_cut = prompt[:most], self._num_cut + 1
        task, end = self._task(record, place), (self._end,)
        return Pair([*model.before, *prompt, self._end], target, end=end, task=task, record=record)

    def _prompted(self, record: Any, place: str) -> Pair:
        assert self.template is not None and self._template_pieces is not None
        value = record.get(self.config.label_key) if isinstance(record, dict) else None
        if value is None:
            raise ValueError(f"{place}: no label under the key {self.config.label_key!r}; name it with --label-key")
        left, after = self._template_pieces.sides(record, place)
        target = self._template_pieces.words[self.template.label(value, place)][0]
        prompt = [*self.model.before, *left, *self.model.prompt_end]
        return Pair(prompt, target, after, task=self._task(record, place), record=record)

    def _task(self, record: Any, place: str) -> str:
        key = self.config.mixture.task_key
        if key is None:
            return ""
        if not isinstance(task := record.get(key), str):
            raise ValueError(f"{place}: no task under the key {key!r}; name it with --task-key")
        return task


def _taught(template: Template, model: OpenedLM) -> Template:
    """The template with the one word of each label that is taught."""
    taught = PromptPieces(template, model.tokenizer).taught(isinstance(model, MaskedLM))
    return template.with_words({label: word for label, (word, _) in taught.items()})


def _first(record: Any, key: str) -> Any:
    """The record; of a list of texts under a key the first alone."""
    if isinstance(record, dict) and not FIELD.search(key) and isinstance(value := record.get(key), list) and value:
        return {**record, key: value[0]}
    return record


@dataclass(frozen=True)
class Mixture:
    """Pairs to train on, by task, and those that are measured, by task in their groups."""

    tasks: dict[str, list[Pair]]
    measured: dict[str, dict[str, list[Pair]]]
    cap: int | None
    num_short: int = 0
    """Tasks with so few pairs that at most half of them, fewer than were asked for, are held back."""

    @staticmethod
    def of(pairs: Sequence[Pair], dev: Sequence[Pair], options: MixtureOptions, seed: int) -> "Mixture":
        """Hold back what the options say; `ValueError` for an unknown task, and where nothing is left to train on."""
        tasks = _by_task(pairs)
        for pattern in options.held_out:
            if not any(fnmatchcase(task, pattern) for task in tasks):
                raise ValueError(f"--held-out: {unknown(pattern, tasks, 'task')}")
        is_out = {t: any(fnmatchcase(t, pattern) for pattern in options.held_out) for t in (*tasks, *_by_task(dev))}
        measured: dict[str, dict[str, list[Pair]]] = {HELD_IN: {}, HELD_OUT: {}}
        for task, own in _by_task(dev).items():
            measured[HELD_OUT if is_out[task] else HELD_IN][task] = own
        kept, short = {}, 0
        for number, (task, own) in enumerate(tasks.items()):
            most = min(options.dev_pairs, len(own) // 2)
            back = set(keyed_generator(seed, 0, number).permutation(len(own))[:most].tolist())
            if is_out[task]:
                measured[HELD_OUT].setdefault(task, []).extend(own)
                continue
            short += most < options.dev_pairs
            if back:
                measured[HELD_IN].setdefault(task, []).extend(own[n] for n in sorted(back))
            kept[task] = [pair for n, pair in enumerate(own) if n not in back]
        if not kept:
            raise ValueError("--held-out: all tasks are held out, so there is nothing to train on")
        return Mixture(kept, measured, options.task_cap, short)

    @property
    def pairs(self) -> list[Pair]:
        """All pairs to train on, task by task."""
        return [pair for own in self.tasks.values() for pair in own]

    @property
    def num_in_epoch(self) -> int:
        """Pairs of an epoch."""
        return sum(min(len(own), self.cap or len(own)) for own in self.tasks.values())

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The numbers of the pairs of an epoch, in its order."""
        chosen, start = [], 0
        for number, own in enumerate(self.tasks.values()):
            places = start + np.arange(len(own))
            if self.cap is not None and len(own) > self.cap:
                places = keyed_generator(seed, epoch, 1 + number).permutation(places)[: self.cap]
            chosen.append(places)
            start += len(own)
        return keyed_generator(seed, epoch, 0).permutation(np.concatenate(chosen))

    def held_back(self) -> str:
        """The pairs that are measured, as JSON lines."""
        groups = ((group, pair) for group, tasks in self.measured.items() for own in tasks.values() for pair in own)
        return "".join(as_json({**pair.record, "group": group}) + "\n" for group, pair in groups)

    def describe(self) -> str:
        """Numbers of tasks and pairs, and the largest share."""
        sizes = {task: min(len(own), self.cap or len(own)) for task, own in self.tasks.items()}
        largest = max(sizes, key=sizes.__getitem__)
        share = 100 * sizes[largest] / self.num_in_epoch
        return (
            f"{len(sizes):,} tasks, {self.num_in_epoch:,} pairs in an epoch, at most {share:.1f}% of one ({largest}); "
            + ", ".join(f"{len(own):,} tasks {group}" for group, own in self.measured.items())
            + " are measured"
            + (f"; of {self.num_short:,} tasks at most half of their pairs are held back" if self.num_short else "")
        )


def _by_task(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.task, []).append(pair)
    return found
