"""From raw text and labelled sentences to tokenizer, two LMs, a tagger and a report, unattended.

    OUT/shards      the text as pieces of a tokenizer made from it
    OUT/forward     an LM
    OUT/backward    one that starts from its weights and reads the other way
    OUT/memory      what each word was in the text, as both read it
    OUT/tagger      a head over the pair with this memory
    OUT/report      this encoder, the pair and the forward LM alone: cells, results.json, report.html

Nothing is computed here: each step is what `tokenize`, `pretrain`, `memory`, `fit` and `compare` do. A step is skipped
when its folder is complete; the LMs continue from their checkpoints. How much they read is decided after a probe, and
a run that is continued keeps to it (OUT/plan.json):

    minutes · 60 = what was spent before + 2 · (start of an LM + steps · seconds a step) + the memory's reading
                   + reserve(seeds) · minutes · 60

The memory is read without gradients, a third of a step's work for each LM, and by both. The reserve is for the vectors
of the labelled sentences, the tagger and the report.
"""

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from boustro.apps.studies.compare.comparison import Comparison
from boustro.apps.studies.core.cells import compute_cells
from boustro.apps.studies.core.run import write_report
from boustro.apps.studies.language.command import LanguageOptions
from boustro.lab.adapt.backward import LEAST_STEPS, PLAN_FILE, KeyedPlan, keep_plan, kept_plan, measure
from boustro.lab.adapt.memory import write_memory
from boustro.lab.adapt.options import MemoryConfig
from boustro.lab.pretrain.checkpoints import remove_checkpoints
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.run import run_pretraining
from boustro.lab.pretrain.shards import Shards, tokenize
from boustro.locks import lock
from boustro.output import RunOptions, duration, keeping
from boustro.store import Artefact, fingerprint, hash_file, read_json, remove_folder, write_file
from boustro.tasks.data.reading import data_fingerprint
from boustro.tasks.tagger import Tagger
from boustro.types import Direction

RESERVE, MOST_RESERVE = 0.3, 0.75
"""The share of the time for a tagger and a report with one seed; the most with many."""
REMEMBER, MOST_REMEMBER = 2 / 3, 0.15
"""The time in which both LMs read a text for the memory, as a share of that in which one learns from it; the most that
it may be of all time."""


@dataclass(frozen=True)
class LanguagePlan(KeyedPlan):
    """Plan of a language's parts; `steps` is 0 before the probe."""

    steps: int = 0
    """Steps of each LM."""
    tokens: int = 0
    """Pieces that each LM reads."""
    step_seconds: float = 0.0
    """What a step of the probe took."""
    documents: int = 0
    """Documents that the memory reads."""

    @property
    def lm_seconds(self) -> float:
        """Seconds that each LM is expected to take, without its start."""
        return self.step_seconds * self.steps


def reserve(seeds: int) -> float:
    """Return the share of the time for what follows LMs and memory: the tagger, and for each seed three in the
    report."""
    return min(MOST_RESERVE, RESERVE * (1 + 3 * seeds) / 4)


def decide(
    key: str, options: LanguageOptions, step_seconds: float, spent: float, num_pieces: int, num_documents: int
) -> LanguagePlan:
    """Return how many pieces fit the budget, at most `passes` over the text; `ValueError` where hardly any do.

    `spent` are the seconds before the LMs, and those of their starts.
    """
    step, share = options.segment_length * options.batch_segments, 1 - reserve(options.seeds)
    reading = REMEMBER * step_seconds * num_pieces / step
    remembered = min(1, MOST_REMEMBER * options.minutes * 60 / reading)
    spent += remembered * reading
    seconds = options.minutes * 60 * share - spent
    steps = min(int(seconds / 2 / step_seconds), options.passes * num_pieces // step)
    if steps < LEAST_STEPS:
        needed = (2 * LEAST_STEPS * step_seconds + spent) / share / 60
        raise ValueError(
            f"{max(steps, 0)} steps of {step:,} pieces fit {options.minutes:g} minutes and {num_pieces:,} pieces of "
            f"text, and {LEAST_STEPS} are the least; give --minutes {needed:.1f} or more, more text, or smaller batches"
        )
    return LanguagePlan(key, steps, steps * step, step_seconds, math.ceil(remembered * num_documents))


SECONDS_FILE = "seconds.json"
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
FOLDERS = ("shards", *DIRECTIONS, "memory", "tagger")
Sets = dict[str, Any]


class Build:
    """One run: where it writes, and what it is made from; `sets` are the labelled sentences by name."""

    def __init__(
        self, text: Sequence[str], sets: Sets, out: Path, options: LanguageOptions, run: RunOptions, key: str
    ) -> None:
        self.text, self.sets, self.out, self.options, self.run, self.key = tuple(text), sets, out, options, run, key
        self.seconds: dict[str, float] = read_json(out / SECONDS_FILE) if (out / SECONDS_FILE).is_file() else {}

    def steps(self, overwrite: bool, dry_run: bool) -> dict[str, Any]:
        """Return all of them; returns the figures. After a dry run only the plan."""
        plan = self._begin(overwrite)
        self._step("shards", "shards", self._tokenize)
        plan = plan if plan.steps else self._probe()
        self._say(plan)
        if dry_run:
            return {"plan": {"steps": plan.steps, "pieces": plan.tokens, "seconds": 2 * plan.lm_seconds}}
        for direction in DIRECTIONS:
            self._step(direction, "model", lambda d=direction: self._pretrain(d, plan, overwrite))
        self._step("memory", "memory", lambda: self._remember(plan, overwrite))
        self._step("tagger", "tagger", self._fit)
        with self._timed("report"):
            results = self._report()
        return {
            "pieces": plan.tokens,
            "seconds": self.seconds,
            "systems": {s["name"]: s["test" if "test" in self.sets else "dev"] for s in results["systems"]},
            "dev": Tagger.from_pretrained(self.out / "tagger").record["dev_scores"],
        }

    @property
    def pair(self) -> str:
        """The spec of both LMs."""
        return f"{self.out / 'forward'}+{self.out / 'backward'}"

    @property
    def encoder(self) -> str:
        """That of the tagger: both with their memory."""
        return f"memory:{self.out / 'memory'}"

    def _begin(self, overwrite: bool) -> LanguagePlan:
        known = None if overwrite else kept_plan(self.out, LanguagePlan, self.key)
        if not (self.out / PLAN_FILE).is_file() and self.out.is_dir() and any(self.out.iterdir()):
            raise FileExistsError(f"{self.out} exists and was not begun by boustro lab language; choose another --out")
        if known is None:
            for name in FOLDERS:  # before the plan, which would call them those of these inputs
                remove_checkpoints(self.out / f"{name}.checkpoints")
                remove_folder(self.out / name)
            self.seconds = {}
            self.out.mkdir(parents=True, exist_ok=True)
        self._fresh = known is None
        return known or keep_plan(self.out, LanguagePlan(self.key))

    def _step(self, name: str, kind: str, work: Callable[[], Any]) -> None:
        """Do it, unless this run has its folder complete."""
        if not self._fresh:
            with contextlib.suppress(FileNotFoundError, ValueError):
                Artefact(self.out / name).check(kind, verify=True)
                print(f"{self.out / name}: complete already", file=sys.stderr)
                return
        with self._timed(name):
            work()

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 1)
            write_file(self.out / SECONDS_FILE, json.dumps(self.seconds, indent=1))

    def _tokenize(self) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            tokenize(self.text, self.out / "shards", train_tokenizer=self.options.vocabulary, overwrite=True)

    def _config(self, direction: Direction, tokens: int, **how: Any) -> PretrainConfig:
        given = self.options
        return PretrainConfig(
            shards=(self.out / "shards",),
            out=self.out / direction,
            direction=direction,
            preset=given.preset,
            segment_length=given.segment_length,
            batch_segments=given.batch_segments,
            seed=given.seed,
            compile=given.compile,
            tokens=tokens,
            **how,
        )

    def _probe(self) -> LanguagePlan:
        """Measure some steps, and decide how many there will be."""
        with self._timed("probe"):
            measured = measure(self._config("forward", 1))
        if measured is None:
            raise ValueError(f"{self.out / 'shards'}: too little text to measure a step; give more")
        text = Shards.open(self.out / "shards").config
        spent = sum(self.seconds.values()) + 2 * measured.start
        plan = decide(self.key, self.options, measured.step, spent, text["num_pieces"], text["num_documents"])
        return keep_plan(self.out, plan)

    def _say(self, plan: LanguagePlan) -> None:
        text = Shards.open(self.out / "shards").config
        passes = plan.tokens / text["num_pieces"]
        print(
            f"plan: each LM reads {plan.tokens:,} pieces ({passes:.1f} passes over the text) in "
            f"{duration(plan.lm_seconds)}, and the memory {plan.documents:,} of {text['num_documents']:,} documents; "
            f"everything takes at most about {self.options.minutes:g} minutes",
            file=sys.stderr,
        )

    def _pretrain(self, direction: Direction, plan: LanguagePlan, overwrite: bool) -> None:
        started = {} if direction == "forward" else {"init_from": str(self.out / "forward")}
        run_pretraining(self._config(direction, plan.tokens, **started, **self._again(overwrite)))

    def _remember(self, plan: LanguagePlan, overwrite: bool) -> None:
        where = {"encoder": self.pair, "out": self.out / "memory", **self._again(overwrite)}
        write_memory(MemoryConfig(corpus=self.text, max_documents=plan.documents, **where))

    def _again(self, overwrite: bool) -> dict[str, Any]:
        """Return how a step treats what an earlier run of it left."""
        return {"overwrite": True} if overwrite and self._fresh else {"resume": True}

    def _fit(self) -> None:
        made = Tagger(self.encoder, cache=self.run.cache, device=self.run.device, **self._head())
        made.fit(self.sets["train"], dev=self.sets["dev"], seed=self.options.seed).save_pretrained(self.out / "tagger")

    def _head(self) -> dict[str, Any]:
        """Return the options of all taggers: what helps LMs that have read little."""
        return {"epochs": self.options.epochs, "memory": True, "spelling": True}

    def _report(self) -> dict[str, Any]:
        grid = Comparison(
            encoders=(str(self.out / "forward"), self.pair, self.encoder),
            heads=("mlp",),
            seeds=self.options.seeds,
            options=self._head(),
            run=self.run,
            title="One direction or both?",
            **self.sets,
        )
        report = self.out / "report"
        return write_report(grid, compute_cells(grid, report), report)


def build(
    text: Sequence[str],
    sets: Sets,
    out: Path,
    options: LanguageOptions,
    run: RunOptions,
    overwrite: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Run all steps that are missing; returns the figures.

    Args:
        text: Raw text files.
        sets: The labelled sentences: train, dev and perhaps test.

    Raises `FileExistsError` for a folder of something else, `ValueError` for one that was begun with other inputs.
    """
    labelled = {name: data_fingerprint(examples) for name, examples in sets.items()}
    key = fingerprint([hash_file(Path(file)) for file in text], labelled, asdict(options))
    with lock(out, wait=False), keeping(lambda: f"what is complete in {out} is kept; the same command goes on"):
        return Build(text, sets, out, options, run, key).steps(overwrite, dry_run)
