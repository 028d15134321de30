"""Multiple choice in lm-evaluation-harness: tasks over local files, our LMs as its model, and two controls beside it.

A task is YAML in `boustro/data/harness`, or a user's own. It names its file of JSON lines (`dataset_kwargs: data_files:
test`), which is looked for in the folder of the data sets. It is read here, not by `datasets`, so nothing is fetched or
copied, and a row that lacks a key that the templates use is an error with its line; the harness would fill in nothing.

The model is registered as `boustro`. A forward LM gives the log-probability of a continuation given its context; a
backward LM that of the context given the continuation, which re-ranks the choices; a pair adds them up
(`lab.judges`); a masked LM has its own scores (`lab.generation.scores`). What is given to the harness as the
log-likelihood is the score that was chosen. The controls are the longest choice, and the likeliest without a context;
where a task puts its choices into the context (WinoGrande), they look at the context.
"""

import logging
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import datasets
import jinja2
import jinja2.meta
import numpy as np
import torch
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate

from boustro.choose import choose
from boustro.lab.generation.both_ends.pair import nearest_left
from boustro.lab.generation.both_ends.reader import Ids
from boustro.lab.judges import best, open_judge
from boustro.progress import Progress
from boustro.text.files import DataFile
from boustro.text.start import AUTO
from boustro.text.tokenizers import end_of_text_id

TEMPLATES = ("doc_to_text", "doc_to_choice", "doc_to_target")
TEST_SPLIT = "test"
logging.getLogger("lm_eval").setLevel(logging.ERROR)  # what matters is raised


def known_tasks() -> dict[str, Any]:
    """Return the YAML files in the package, by the names of their tasks."""
    folder = files("boustro").joinpath("data", "harness")
    return {file.name.removesuffix(".yaml"): file for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def open_task(name: str, data: Path, limit: int | None = None) -> ConfigurableTask:
    """Return the task of a name or of a YAML file, over the first `limit` rows of its file in `data`.

    Raises `ValueError` for an unknown task, one that is not multiple choice, and a bad row; `FileNotFoundError` where
    the file is missing.
    """
    if name.endswith((".yaml", ".yml")):
        config = read_config(Path(name))
    else:
        with as_file(choose(name, known_tasks(), "task")) as path:
            config = read_config(path)
    if config.get("output_type") != "multiple_choice":
        raise ValueError(f"{name}: expected output_type: multiple_choice, not {config.get('output_type')}")
    try:
        path = data / config["dataset_kwargs"]["data_files"][TEST_SPLIT]
    except (KeyError, TypeError):
        raise ValueError(f"{name}: no file of JSON lines under dataset_kwargs, data_files, {TEST_SPLIT}") from None
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, which the task {name} reads; name its folder with --data")
    rows = usable_rows(path, config, limit)
    config |= {"dataset_kwargs": None, "test_split": TEST_SPLIT, "metadata": {"version": 1.0}}
    config["custom_dataset"] = lambda **_: datasets.DatasetDict({TEST_SPLIT: datasets.Dataset.from_list(rows)})
    try:
        return ConfigurableTask(config=config)
    except IndexError:  # it looks at the first row
        raise ValueError(f"{path}, row 1: the right choice is none of its choices") from None


def read_config(path: Path) -> dict[str, Any]:
    """Return a YAML file of a task; `ValueError` for anything else."""
    import yaml

    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict) or not all(isinstance(config.get(name), str) for name in ("task", *TEMPLATES)):
        raise ValueError(f"{path}: expected a task with the texts {', '.join(TEMPLATES)}")
    return config


def usable_rows(path: Path, config: dict[str, Any], limit: int | None) -> list[dict[str, Any]]:
    """Return the rows that the templates can use; `ValueError`, with file:line, for others and for a file without
    any."""
    needed = set().union(*(_names(config[template]) for template in TEMPLATES))
    rows: list[dict[str, Any]] = []
    for place, row in DataFile(path).open("json"):
        if limit is not None and len(rows) == limit:
            break
        if not isinstance(row, dict) or (missing := needed - row.keys()):
            lacking = ", ".join(sorted(missing)) if isinstance(row, dict) else "everything"
            raise ValueError(f"{place}: the row lacks {lacking}, which the task {config['task']} uses")
        rows.append({name: row[name] for name in sorted(needed)})
    if not rows:
        raise ValueError(f"{path}: no rows")
    return rows


def _names(template: str) -> set[str]:
    """Return the keys that a template uses: `"{{context}} {{question}}"`, or a key alone."""
    if "{{" not in template and "{%" not in template:
        return {template}
    return jinja2.meta.find_undeclared_variables(jinja2.Environment().parse(template))


def gold(task: ConfigurableTask, doc: dict[str, Any], number: int) -> int:
    """Return the number of the right choice; `ValueError` for none, which the harness would count as a wrong answer."""
    right: Any = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    choices = task.doc_to_choice(doc)
    if isinstance(right, str) and right in choices:
        right = choices.index(right)
    if not isinstance(right, int) or not 0 <= right < len(choices):
        raise ValueError(f"{task.config.task}, row {number}: there are {len(choices)} choices, but {right!r} is right")
    return right


FEWSHOT_SEED = 1234
"""The harness's own."""


@dataclass(frozen=True)
class Accuracy:
    """Of one task, in percent. `standard_error` is the harness's own."""

    task: str
    questions: int
    accuracy: float
    standard_error: float
    by_length: float
    """With the scores divided by the characters of the choices."""
    longest: float
    """Of the longest choice, in characters: no LM."""
    prior: float
    """Of the likeliest choice without its context."""
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Return its fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class HarnessQuestion:
    """A question of the harness and its outcome: the choices' contexts and texts, their scores and the right one."""

    requests: Sequence[tuple[str, str]]
    scores: Sequence[float]
    gold: int
    right: bool
    """As the harness judged it."""
    right_by_length: bool
    """The same, with the scores divided by the characters of the choices."""

    def choices(self) -> list[str]:
        """Return the parts of the requests in which the choices differ."""
        contexts, texts = zip(*self.requests, strict=True)
        return list(texts if len(set(texts)) > 1 else contexts)


def answer(lm: Any, tasks: Mapping[str, ConfigurableTask]) -> dict[str, list[HarnessQuestion]]:
    """Return the questions of each task, in order, as the harness asked and judged them."""
    golds = {
        name: [gold(task, dict(doc), n) for n, doc in enumerate(task.eval_docs, 1)] for name, task in tasks.items()
    }
    for task in tasks.values():  # as simple_evaluate does, which besides asks git and the machine for their state
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=FEWSHOT_SEED)
    results = evaluate(lm=lm, task_dict={task.config.task: task for task in tasks.values()}, bootstrap_iters=0)
    assert results is not None and "samples" in results  # None on other processes only
    answered = {}
    for name, task in tasks.items():
        samples = sorted(results["samples"][task.config.task], key=lambda sample: sample["doc_id"])
        answered[name] = [_question(sample, golds[name][sample["doc_id"]]) for sample in samples]
    return answered


def _question(sample: Mapping[str, Any], right: int) -> HarnessQuestion:
    scores = [score for score, _ in sample["filtered_resps"]]
    judged = bool(sample["acc"]), bool(sample["acc_norm"])
    return HarnessQuestion([tuple(pair) for pair in sample["arguments"]], scores, right, *judged)


def accuracy_of(name: str, questions: Sequence[HarnessQuestion], prior: Sequence[Sequence[float]]) -> Accuracy:
    """Accuracy and controls; `prior` are log-probabilities of the choices of each question."""

    def percent(chosen: Sequence[int]) -> float:
        return 100 * float(np.mean([c == q.gold for c, q in zip(chosen, questions, strict=True)]))

    lengths = [[len(choice.strip()) for choice in question.choices()] for question in questions]
    right = [question.right for question in questions]
    return Accuracy(
        task=name,
        questions=len(questions),
        accuracy=100 * float(np.mean(right)),
        standard_error=100 * float(np.std(right, ddof=1) / len(right) ** 0.5) if len(right) > 1 else 0.0,
        by_length=100 * float(np.mean([question.right_by_length for question in questions])),
        longest=percent([int(np.argmax(sizes)) for sizes in lengths]),
        prior=percent(best(torch.tensor([score for row in prior for score in row]), [len(row) for row in prior])),
        chance=100 * float(np.mean([1 / len(sizes) for sizes in lengths])),
    )


CHUNK_REQUESTS = 1024
"""Requests scored together."""
CUT_CONTEXTS = "contexts longer than the window, of which the last pieces were read"
MULTIPLE_CHOICE = "boustro answers multiple choice only; for other tasks use lm-eval's own model hf over a forward LM"


class BoustroLM(TemplateLM):
    """A judge of choices; `counts` is what was noticed, such as contexts that were cut."""

    def __init__(
        self,
        model: str = "starter",
        score: str | None = None,
        device: str | None = None,
        start_piece: str = AUTO,
        **_: Any,
    ) -> None:
        """Load the LMs that a spec names. Raises as `open_judge`."""
        super().__init__()
        self.judge = open_judge(model, score, device, start_piece=start_piece)
        self.tokenizer, self.score, self.counts = self.judge.tokenizer, self.judge.score, Counter[str]()
        self._lines_to = sys.stderr  # the command silences the harness's own bars

    @property
    def eot_token_id(self) -> int:
        """Stands for an empty context."""
        return end_of_text_id(self.tokenizer)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Return the pieces of a text, without a frame."""
        return self.tokenizer(string, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        contexts = [
            self._fitting([] if context == [self.prefix_token_id] else context, continuation, text)
            for (_, text), context, continuation in requests
        ]
        continuations = [continuation for _, _, continuation in requests]
        judged: list[tuple[float, bool]] = []
        shown = False if disable_tqdm else None
        with Progress("scoring", "choices", total=len(requests), shown=shown, lines_to=self._lines_to) as bar:
            for start in range(0, len(requests), CHUNK_REQUESTS):
                part = slice(start, start + CHUNK_REQUESTS)
                judged += zip(*self.judge.judge(contexts[part], continuations[part]), strict=True)
                bar.update(len(continuations[part]))
        return judged

    def prior(self, choices: Sequence[str]) -> list[float]:
        """Log-probabilities of texts without their contexts."""
        return self.judge.prior([self.tok_encode(choice) for choice in choices])

    def _fitting(self, context: Ids, continuation: Ids, text: str) -> Ids:
        """Return the end of a context that fits into the window before a continuation."""
        if not continuation:
            raise ValueError(f"a choice has no pieces ({text!r}), and cannot be scored")
        room = self.judge.window - len(continuation)
        if room < 0:
            raise ValueError(f"a choice has {len(continuation)} pieces, and the window only {self.judge.window}")
        self.counts[CUT_CONTEXTS] += len(context) > room
        return nearest_left(context, room)

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Not offered."""
        raise ValueError(MULTIPLE_CHOICE)


register_model("boustro")(BoustroLM)  # as a decorator it would hide the type
