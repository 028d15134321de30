"""Fine-tuning of a masked or a causal LM on pairs of a prompt and a target text, such as summaries; a model folder out.

A pair is made of piece ids, from JSON lines, from labelled texts in a template, or of many tasks:

    pair              prompt E | target              E: end of text, which ends a prompt; a causal LM learns one more E
    with a template   before | word | after          the text before the gap, a word of the label, what follows

    masked    reads   prompt E  the M left M      M: the mask piece
              loss    of the hidden pieces of the target, a share ~ U(0, 1) of them, and 0.1 · that of its length
    causal    reads   prompt E  the ferry left    loss of the target and of the end-of-text piece after it

The prompt is read whole and nothing of it is hidden. The folder's config says `prompt_end`, so that `lab generate`
puts the end-of-text piece after a prompt too. A masked LM without the prefix mask gets no length head, because its
prompt would see how long the target is. With a template the target has no end-of-text piece: `lab prompt` reads so;
the folder holds the template with the words that were taught.

A mixture of tasks has at most `task_cap` pairs of each task in an epoch, so a task's share grows with its size up to
the cap. Some pairs are held back and measured: all of tasks that are held out, and a few of each of the others, which
are held in.

Sources: Ghazvininejad et al. 2019, section 3; BiGLM, section 5; with a template Gao et al. 2021 (*Making Pre-trained
Language Models Better Few-shot Learners*), section 4, here with the loss over the whole vocabulary; Raffel et al. 2020,
section 3.5.2 (examples-proportional mixing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from boustro.choose import unknown
from boustro.hardware import mixed_precision, uses_bf16
from boustro.lab.adapt.options import MixtureOptions, Seq2SeqConfig
from boustro.lab.adapt.training import train, write_run
from boustro.lab.generation.models import CausalLM, LengthHead, MaskedLM, OpenedLM, open_lm
from boustro.lab.generation.templates import TEMPLATE_FILE, PromptPieces, Template, open_template
from boustro.lab.masked import at, encode, prediction_head
from boustro.lab.objectives.examples import IGNORED, PADDING_DOCUMENT, keyed_generator
from boustro.lab.pretrain.batches import Batches
from boustro.lab.pretrain.checkpoints import finished_run
from boustro.lab.pretrain.config import run_facts
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.run import MODEL_KIND
from boustro.models.loss import find_finish, lm_loss
from boustro.output import as_json
from boustro.store import check_file, fingerprint, write_file
from boustro.text.files import DataFile
from boustro.text.patterns import FIELD, pattern_text
from boustro.text.tokenizers import end_of_text_id

HELD_IN, HELD_OUT = "held-in", "held-out"


@dataclass(frozen=True)
class PromptPair:
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
        """Facts that decide the training."""
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

    def read(self, path: Path) -> list[PromptPair]:
        """Return the pairs of a file. Says how many are left out, longer than the window, and how many prompts are cut.

        Raises `ValueError`, with file and line, for a line without both texts, and where no pair is left.
        """
        make = self._plain if self._template_pieces is None else self._prompted
        model, pairs, long, before = self.model, [], 0, self._cut()
        for place, record in DataFile(path).open("json"):
            pair = make(record, place)
            num_pieces = sum(map(len, (pair.prompt, pair.target, pair.after, model.after))) + 1
            if model.window is not None and num_pieces > model.window:
                long += 1
            else:
                pairs.append(pair)
        if cut := self._cut() - before:
            say(f"{path}: {cut:,} prompts were cut to their first {self.config.prompt_pieces:,} pieces")
        if long:
            say(f"{path}: {long:,} pairs are longer than the window of {model.window:,} pieces and left out")
        if not pairs:
            why = "no pair is left that fits into the window; give --prompt-pieces to cut the prompts"
            raise ValueError(f"{path}: {why if long else 'there is no pair in this file'}")
        return pairs

    def _cut(self) -> int:
        return self._num_cut if self._template_pieces is None else self._template_pieces.num_cut

    def _plain(self, record: Any, place: str) -> PromptPair:
        config, model, most = self.config, self.model, self.config.prompt_pieces
        texts = [
            pattern_text(key, _first(record, key), place, option)
            for key, option in ((config.prompt_key, "--prompt-key"), (config.target_key, "--target-key"))
        ]
        prompt, target = (model.pieces(text) for text in texts)
        if not prompt or not target:
            raise ValueError(f"{place}: the {'target' if prompt else 'prompt'} is empty")
        if most and len(prompt) > most:
            prompt, self._num_cut = prompt[:most], self._num_cut + 1
        task, end = self._task(record, place), (self._end,)
        return PromptPair([*model.before, *prompt, self._end], target, end=end, task=task, record=record)

    def _prompted(self, record: Any, place: str) -> PromptPair:
        assert self.template is not None and self._template_pieces is not None
        value = record.get(self.config.label_key) if isinstance(record, dict) else None
        if value is None:
            raise ValueError(f"{place}: no label under the key {self.config.label_key!r}; name it with --label-key")
        left, after = self._template_pieces.sides(record, place)
        target = self._template_pieces.words[self.template.label(value, place)][0]
        prompt = [*self.model.before, *left, *self.model.prompt_end]
        return PromptPair(prompt, target, after, task=self._task(record, place), record=record)

    def _task(self, record: Any, place: str) -> str:
        key = self.config.mixture.task_key
        if key is None:
            return ""
        if not isinstance(task := record.get(key), str):
            raise ValueError(f"{place}: no task under the key {key!r}; name it with --task-key")
        return task


def _taught(template: Template, model: OpenedLM) -> Template:
    """Return the template with the one word of each label that is taught."""
    taught = PromptPieces(template, model.tokenizer).taught(isinstance(model, MaskedLM))
    return replace(template, words={label: (taught[label][0],) for label in template.words})


def _first(record: Any, key: str) -> Any:
    """Return the record; of a list of texts under a key the first alone."""
    if isinstance(record, dict) and not FIELD.search(key) and isinstance(value := record.get(key), list) and value:
        return {**record, key: value[0]}
    return record


@dataclass(frozen=True)
class TaskMixture:
    """Pairs to train on, by task, and those that are measured, by task in their groups."""

    tasks: dict[str, list[PromptPair]]
    measured: dict[str, dict[str, list[PromptPair]]]
    cap: int | None
    num_short: int = 0
    """Tasks with so few pairs that at most half of them, fewer than were asked for, are held back."""

    @staticmethod
    def of(pairs: Sequence[PromptPair], dev: Sequence[PromptPair], options: MixtureOptions, seed: int) -> "TaskMixture":
        """Hold back what the options say; `ValueError` for an unknown task, and where nothing is left to train on."""
        tasks = _by_task(pairs)
        for pattern in options.held_out:
            if not any(fnmatchcase(task, pattern) for task in tasks):
                raise ValueError(f"--held-out: {unknown(pattern, tasks, 'task')}")
        is_out = {t: any(fnmatchcase(t, pattern) for pattern in options.held_out) for t in (*tasks, *_by_task(dev))}
        measured: dict[str, dict[str, list[PromptPair]]] = {HELD_IN: {}, HELD_OUT: {}}
        for task, task_pairs in _by_task(dev).items():
            measured[HELD_OUT if is_out[task] else HELD_IN][task] = task_pairs
        kept, short = {}, 0
        for number, (task, task_pairs) in enumerate(tasks.items()):
            most = min(options.dev_pairs, len(task_pairs) // 2)
            back = set(keyed_generator(seed, 0, number).permutation(len(task_pairs))[:most].tolist())
            if is_out[task]:
                measured[HELD_OUT].setdefault(task, []).extend(task_pairs)
                continue
            short += most < options.dev_pairs
            if back:
                measured[HELD_IN].setdefault(task, []).extend(task_pairs[n] for n in sorted(back))
            kept[task] = [pair for n, pair in enumerate(task_pairs) if n not in back]
        if not kept:
            raise ValueError("--held-out: all tasks are held out, so there is nothing to train on")
        return TaskMixture(kept, measured, options.task_cap, short)

    @property
    def pairs(self) -> list[PromptPair]:
        """All pairs to train on, task by task."""
        return [pair for pairs in self.tasks.values() for pair in pairs]

    @property
    def num_in_epoch(self) -> int:
        """Pairs of an epoch."""
        return sum(min(len(pairs), self.cap or len(pairs)) for pairs in self.tasks.values())

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """Return the numbers of the pairs of an epoch, in its order."""
        chosen, start = [], 0
        for number, pairs in enumerate(self.tasks.values()):
            places = start + np.arange(len(pairs))
            if self.cap is not None and len(pairs) > self.cap:
                places = keyed_generator(seed, epoch, 1 + number).permutation(places)[: self.cap]
            chosen.append(places)
            start += len(pairs)
        return keyed_generator(seed, epoch, 0).permutation(np.concatenate(chosen))

    def held_back(self) -> str:
        """Return the pairs that are measured, as JSON lines."""
        groups = ((group, pair) for group, tasks in self.measured.items() for pairs in tasks.values() for pair in pairs)
        return "".join(as_json({**pair.record, "group": group}) + "\n" for group, pair in groups)

    def describe(self) -> str:
        """Numbers of tasks and pairs, and the largest share."""
        sizes = {task: min(len(pairs), self.cap or len(pairs)) for task, pairs in self.tasks.items()}
        largest = max(sizes, key=sizes.__getitem__)
        share = 100 * sizes[largest] / self.num_in_epoch
        return (
            f"{len(sizes):,} tasks, {self.num_in_epoch:,} pairs in an epoch, at most {share:.1f}% of one ({largest}); "
            + ", ".join(f"{len(tasks):,} tasks {group}" for group, tasks in self.measured.items())
            + " are measured"
            + (f"; of {self.num_short:,} tasks at most half of their pairs are held back" if self.num_short else "")
        )


def _by_task(pairs: Sequence[PromptPair]) -> dict[str, list[PromptPair]]:
    by_task: dict[str, list[PromptPair]] = {}
    for pair in pairs:
        by_task.setdefault(pair.task, []).append(pair)
    return by_task


LENGTH_WEIGHT = 0.1
"""Of the loss of the target's length, which a masked LM with the prefix mask learns too."""
SEQ2SEQ_FACTS = ("lm", "epochs", "batch_pairs", "prompt_pieces")
"""Options that decide the weights, besides those of every run."""


class Seq2Seq(nn.Module):
    """Modules that are trained: the LM and, for a masked one with the prefix mask, the head of lengths."""

    def __init__(self, model: MaskedLM | CausalLM, longest: int, with_length: bool = True) -> None:
        super().__init__()
        self.lm: Any = model.lm
        width = model.lm.config.get_text_config().hidden_size
        knows_length = with_length and isinstance(model, MaskedLM) and model.has_prefix_mask
        self.length = LengthHead(width, longest) if knows_length else None


def train_seq2seq(config: Seq2SeqConfig) -> dict[str, Any]:
    """Fine-tune; returns `training.json`. `ValueError` for a model or pairs that do not fit."""
    model, options = open_lm(config.lm), config.mixture
    if options.held_back:
        check_file(options.held_back)
    reader = PairReader(config, model)
    mixture = TaskMixture.of(
        [pair for path in config.train for pair in reader.read(path)],
        reader.read(config.dev) if config.dev else [],
        options,
        config.seed,
    )
    pairs, dev = mixture.pairs, [pair for task_pairs in mixture.measured[HELD_IN].values() for pair in task_pairs]
    more = {"task_cap": options.task_cap} if options.task_key else {}
    facts = run_facts(config, SEQ2SEQ_FACTS, train=fingerprint([pair.facts() for pair in pairs]), **more)
    if finished := finished_run(config, MODEL_KIND, facts):
        return finished
    if options.task_key:
        say(mixture.describe())
    if options.held_back and not config.dry_run:
        write_file(options.held_back, mixture.held_back())
    torch.manual_seed(config.seed)
    every = (pair for tasks in (mixture.tasks, *mixture.measured.values()) for some in tasks.values() for pair in some)
    longest = max(len(pair.target) for pair in every)
    trained = Seq2Seq(model, longest, config.template is None).to(model.device)
    trained.lm.float().requires_grad_(True)
    size, count = config.batch_pairs, mixture.num_in_epoch
    steps = -(-count // size) * config.epochs
    order_of = lru_cache(2)(lambda epoch: mixture.order(config.seed, epoch))

    def batch(step: int) -> dict[str, Tensor]:
        epoch, number = divmod(step, -(-count // size))
        order = order_of(epoch)[number * size : (number + 1) * size]
        return make_batch(model, [(pairs[i], (config.seed, 1 + epoch, int(i))) for i in order])

    def loss_of(**given: Tensor) -> Tensor:
        return pair_loss(model, trained.length, given)

    say(f"{config.lm}: {sum(p.numel() for p in trained.parameters()) / 1e6:.1f}M parameters, {steps:,} steps")
    bf16 = uses_bf16(model.device)
    groups = mixture.measured if options.task_key else {}
    before = measure_tasks(model, trained, groups, size, bf16)
    how: Any = {"step_size": size, "unit": "pairs", "bf16": bf16}
    measured = measured_batches(model, dev, size) if dev else None
    result = train(config, facts, trained, loss_of, Batches(steps, batch), measured, **how)
    after = measure_tasks(model, trained, groups, size, bf16)
    result |= {"tasks": task_losses(groups, before, after)} if groups else {}

    def save(folder: Path) -> None:
        if reader.template is None:
            model.lm.config.prompt_end = True
        else:
            write_file(folder / TEMPLATE_FILE, as_json(reader.template.to_dict()))
        model.lm.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        if trained.length is not None:
            trained.length.save(folder)

    return write_run(config, MODEL_KIND, result | {"pairs": len(pairs)}, save)


def measured_batches(model: MaskedLM | CausalLM, pairs: Sequence[PromptPair], size: int) -> Batches:
    """Return (batch, number of pairs), with the same hidden pieces whenever they are measured."""

    def batch(number: int) -> tuple[dict[str, Tensor], float]:
        chosen = range(number * size, min(len(pairs), (number + 1) * size))
        return make_batch(model, [(pairs[i], (0, 0, i)) for i in chosen]), len(chosen)

    return Batches(-(-len(pairs) // size), batch)


@torch.no_grad()
def measure_tasks(
    model: MaskedLM | CausalLM,
    trained: nn.Module,
    groups: Mapping[str, Mapping[str, Sequence[PromptPair]]],
    size: int,
    bf16: bool,
) -> dict[str, float]:
    """Return the loss of each task's pieces, a mean over its batches weighted by their pairs; lengths do not count."""
    trained.eval()
    losses = {}
    for task, pairs in (item for tasks in groups.values() for item in tasks.items()):
        total = 0.0
        measured = measured_batches(model, pairs, size)
        for batch, weight in (measured[n] for n in range(len(measured))):
            with mixed_precision(model.device, bf16):
                given = {name: value.to(model.device) for name, value in batch.items()}
                total += weight * float(pair_loss(model, None, given))
        losses[task] = total / len(pairs)
    trained.train()
    return losses


def task_losses(
    groups: Mapping[str, Mapping[str, Sequence[PromptPair]]], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, Any]:
    """Of held-in and held-out tasks: the mean losses over tasks, before and after training, and those of each."""
    figures = {}
    for group in (HELD_IN, HELD_OUT):
        by_task = {t: {"pairs": len(p), "before": before[t], "after": after[t]} for t, p in groups[group].items()}
        if by_task:
            means = {when: sum(row[when] for row in by_task.values()) / len(by_task) for when in ("before", "after")}
            say(f"{group}: {len(by_task):,} tasks, mean loss {means['before']:.3f} before, {means['after']:.3f} after")
            figures[group] = {**means, "tasks": by_task}
    return figures


def make_batch(
    model: MaskedLM | CausalLM, pairs: Sequence[tuple[PromptPair, tuple[int, int, int]]]
) -> dict[str, Tensor]:
    """Pairs, each with the key of its random numbers, as the tensors of `pair_loss`; padding is on the right.

    `wanted` (B, T) has the piece to predict from each position's state, -100 where there is none.
    """
    if isinstance(model, CausalLM):
        rows = [[*pair.prompt, *pair.target, *pair.after] for pair, _ in pairs]
        wanted = [[IGNORED] * (len(p.prompt) - 1) + p.target + p.after + [*p.end] for p, _ in pairs]
        ids = _padded(rows, 0)
        return {"input_ids": ids, "wanted": _padded(wanted, IGNORED, ids.shape[1])}
    rows, wanted, documents, suffix = [], [], [], []
    for pair, key in pairs:
        rng, size = keyed_generator(*key), len(pair.target)
        hidden = rng.permutation(size) < max(1, int(rng.random() * size + 0.5))
        marked = zip(pair.target, hidden, strict=True)
        after = [*pair.after, *model.after]
        rows.append(pair.prompt + [model.mask_id if hide else piece for piece, hide in marked] + after)
        marked = zip(pair.target, hidden, strict=True)
        wanted.append([IGNORED] * len(pair.prompt) + [piece if hide else IGNORED for piece, hide in marked])
        documents.append([0] * len(rows[-1]))
        suffix.append([0] * len(pair.prompt) + [1] * (size + len(after)))
    ids = _padded(rows, model.mask_id)
    layout = {"documents": _padded(documents, PADDING_DOCUMENT), "suffix": _padded(suffix, 0).bool()}
    lengths = torch.tensor([len(pair.target) for pair, _ in pairs])
    return {"input_ids": ids, "wanted": _padded(wanted, IGNORED, ids.shape[1]), "lengths": lengths, **layout}


def pair_loss(model: MaskedLM | CausalLM, length: LengthHead | None, batch: dict[str, Tensor]) -> Tensor:
    """Mean loss of the pieces asked for, and of the lengths."""
    wanted = batch["wanted"]
    if isinstance(model, CausalLM):
        states = model.lm.base_model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state
        return lm_loss(states, model.lm.get_output_embeddings(), wanted, finish=find_finish(model.lm))
    seen = batch["suffix"] if model.has_prefix_mask else None
    states = encode(model.lm, batch["input_ids"], batch["documents"], seen)
    places = torch.arange(wanted.shape[1], device=wanted.device).expand_as(wanted)
    loss = lm_loss(at(states, places), prediction_head(model.lm), wanted)
    if length is None:
        return loss
    prompts = (batch["documents"] != PADDING_DOCUMENT) & ~batch["suffix"]
    return loss + LENGTH_WEIGHT * length.loss(states, prompts, batch["lengths"])


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> Tensor:
    width = max(width, *map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])
