"""A backward LM for an LM that one already has: `boustro backward LLM --text FILES --out DIR`.

    DIR.work/held-out    pieces for the validation loss and for measuring a step
    DIR.work/plan.json   how many steps fit the minutes
    DIR.work/shards      pieces to train on, no more than are read
    DIR.checkpoints      the run's checkpoints
    DIR                  the backward LM; DIR.work and DIR.checkpoints are then removed

The LM has the vocabulary of the other one and its embeddings, frozen, through a trained projection
(`lab.pretrain.projected`); its softmax is computed over a sample of the pieces (`models.loss`). Each step is what
`tokenize` and `lab.pretrain` do. A step is skipped when its folder is complete.

Sources: backward-LM paper, section 3.1, for the pair.

To fit into its minutes, some steps are measured, and what follows from them is kept in the plan. A run that is
continued keeps to its plan, which belongs to the run's inputs and options, its `key`.
"""

import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from transformers import AutoConfig

from boustro.lab.adapt.options import BackwardConfig
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.progress import PROBE_STEPS, DryRun
from boustro.lab.pretrain.run import MODEL_KIND, run_pretraining
from boustro.lab.pretrain.shards import Shards, write_shards
from boustro.locks import lock, sweep
from boustro.models.pretrained import refuse_no_causal_lm
from boustro.names import locate_model
from boustro.options import command_line
from boustro.output import duration, keeping
from boustro.store import Artefact, claim, fingerprint, read_json, reading, remove_folder, write_file, write_folder
from boustro.text.documents import read_documents
from boustro.text.tokenizers import load_tokenizer

PLAN_FILE = "plan.json"
LEAST_STEPS = 10
"""With fewer a training is not begun."""


@dataclass(frozen=True)
class KeyedPlan:
    """Choices made before a training; `key` is of the inputs and options."""

    key: str


AnyPlan = TypeVar("AnyPlan", bound=KeyedPlan)


def keep_plan(folder: Path, plan: AnyPlan) -> AnyPlan:
    """Write the plan into a folder."""
    write_file(folder / PLAN_FILE, json.dumps(asdict(plan), indent=1))
    return plan


def kept_plan(folder: Path, kind: type[AnyPlan], key: str) -> AnyPlan | None:
    """Return the plan of a run that is continued; None for none, `ValueError` for a damaged one and that of other
    inputs."""
    if not (folder / PLAN_FILE).is_file():
        return None
    with reading(folder / PLAN_FILE, "give --overwrite to start again"):
        plan = kind(**read_json(folder / PLAN_FILE))
    if plan.key != key:
        raise ValueError(
            f"{folder} was begun with other files or options; give the same ones to continue, --overwrite to start "
            "again, or another --out"
        )
    return plan


class Measured(NamedTuple):
    """Seconds of a step, and of all that comes before the first one."""

    step: float
    start: float


def measure(config: PretrainConfig) -> Measured | None:
    """Take some steps of a training; None where its text is too short for that."""
    began, tokens = time.monotonic(), PROBE_STEPS * config.segment_length * config.batch_segments
    try:
        run_pretraining(replace(config, tokens=tokens, dry_run=True))
    except DryRun as run:
        if run.step_seconds is not None:
            return Measured(run.step_seconds, max(0.0, time.monotonic() - began - PROBE_STEPS * run.step_seconds))
    return None


HELD_TEXT, MADE_BY = "held-out", "backward"
HELD_OUT_CHARACTERS, ONE_IN = 400_000, 20
"""Every 20th document is held out, until there are this many characters."""
LOSS_PIECES = 40_000  # of the held-out text for each validation loss, which is exact and so costs more than a step
SPARE_SHARE = 0.1  # share of the time for what is not planned: validation, writing, a slower machine


@dataclass(frozen=True)
class BackwardPlan(KeyedPlan):
    """How much is read."""

    steps: int
    """At most; fewer where the text ends before, after `passes`."""
    characters: int
    """Of text, that these steps read once."""
    step_seconds: float | None
    """What a step took; None where there was too little text to measure one."""


def build_backward(config: BackwardConfig) -> dict[str, Any]:
    """Run all steps that are missing; returns `training.json`, and prints the spec of the pair.

    Raises `ValueError` for a model that is not a causal LM, for a run that was begun with other inputs, and where the
    minutes are too few.
    """
    with reading(config.model, "name a causal LM, a folder or a name on the Hub"):
        architecture = AutoConfig.from_pretrained(str(locate_model(config.model))).get_text_config()
    refuse_no_causal_lm(config.model, architecture)
    work, key = config.out.with_name(config.out.name + ".work"), _key(config)
    with lock(work, wait=False):
        result = _finished(config, key)
        if result is None:
            with claim(config.out, MODEL_KIND, config.overwrite):
                if config.overwrite and not config.dry_run:
                    _clear(work)
            if config.dry_run:
                with tempfile.TemporaryDirectory() as elsewhere:
                    return {"plan": asdict(_plan(config, Path(elsewhere), key))}
            with keeping(lambda: f"what is complete in {work} is kept; the same command goes on"):
                result = _train(config, _plan(config, work, key), work)
        _clear(work)  # also what a run left that was killed at its very end
    print(f"{config.model}+{config.out}")
    return result


def _clear(work: Path) -> None:
    """Remove what runs have written there, and the folder if it is then empty."""
    if not work.is_dir():
        return
    for name in (HELD_TEXT, "shards"):
        remove_folder(work / name)
    (work / PLAN_FILE).unlink(missing_ok=True)
    sweep(work / PLAN_FILE)
    with contextlib.suppress(OSError):
        work.rmdir()


def _key(config: BackwardConfig) -> str:
    """Of what decides the weights, but for the number of steps; of text files the sizes."""
    free = {"out", "minutes", "workers", "compile", "save_minutes", "overwrite", "dry_run"}
    sizes = {name: Path(name).stat().st_size for name in config.text if Path(name).is_file()}
    return fingerprint({name: str(value) for name, value in asdict(config).items() if name not in free}, sizes)


def _finished(config: BackwardConfig, key: str) -> dict[str, Any] | None:
    """Return the record of a complete run with these inputs, None where there is none."""
    if config.overwrite:
        return None
    with contextlib.suppress(FileNotFoundError, ValueError):
        if Artefact(config.out).check(MODEL_KIND)["made_by"].get(MADE_BY) == key:
            say(f"{config.out}: complete already")
            return read_json(config.out / "training.json")
    return None


def _plan(config: BackwardConfig, work: Path, key: str) -> BackwardPlan:
    """Return the plan of a run that is continued, else one from measured steps."""
    if plan := kept_plan(work, BackwardPlan, key):
        return plan
    began = time.monotonic()
    work.mkdir(parents=True, exist_ok=True)
    characters = _write(config, work / HELD_TEXT, held_out=True)
    pieces, step = Shards.open(work / HELD_TEXT).config["num_pieces"], config.segment_length * config.batch_segments
    measured = measure(_options(config, work / HELD_TEXT, work / "probe", step)) if pieces >= step else None
    steps = sys.maxsize // step
    if measured is not None:
        left = (1 - SPARE_SHARE) * 60 * config.minutes - (time.monotonic() - began) - measured.start
        steps = int(left / measured.step)
        if steps < LEAST_STEPS:
            raise ValueError(
                f"--minutes {config.minutes:g} is too short: a step takes {measured.step:.1f} s; give at least "
                f"{math.ceil(config.minutes + (LEAST_STEPS * measured.step - left) / 60 / (1 - SPARE_SHARE))}"
            )
    plan = BackwardPlan(key, steps, int(steps * step * characters / pieces), measured and measured.step)
    kept = keep_plan(work, plan)
    if kept.step_seconds is None:
        say(f"plan: {config.passes} passes over the text, which is too short to measure a step")
    else:
        cost = f"{duration(kept.steps * kept.step_seconds)}, {config.minutes:g} minutes with all else"
        say(f"plan: at most {kept.steps:,} steps, {kept.steps * step:,} pieces; {cost}")
    return plan


def _options(config: BackwardConfig, shards: Path, out: Path, tokens: int, **how: Any) -> PretrainConfig:
    same = ("preset", "sampled_pieces", "segment_length", "batch_segments", "lr", "seed", "compile", "save_minutes")
    how |= {"embeddings_of": config.model, "save_dtype": "bfloat16", "evaluations": 4, "validation_pieces": LOSS_PIECES}
    return PretrainConfig(shards=(shards,), out=out, tokens=tokens, **{n: getattr(config, n) for n in same}, **how)


def _train(config: BackwardConfig, plan: BackwardPlan, work: Path) -> dict[str, Any]:
    shards, step = work / "shards", config.segment_length * config.batch_segments
    try:
        Artefact(shards).check("shards", verify=True)
    except (FileNotFoundError, ValueError):
        _write(config, shards, held_out=False, most=plan.characters)
    steps = min(plan.steps, config.passes * Shards.open(shards).config["num_pieces"] // step)
    how = {"overwrite": True} if config.overwrite else {"resume": True}
    options = _options(config, shards, config.out, steps * step, validation=work / HELD_TEXT, **how)
    return run_pretraining(options, lambda result: _card(config, result), {MADE_BY: plan.key})


def _write(config: BackwardConfig, folder: Path, *, held_out: bool, most: int = sys.maxsize) -> int:
    """Write shards of at least `most` characters of text, or of all; returns how many characters they are."""
    characters = 0

    def documents() -> Iterator[str]:
        nonlocal characters
        for text in _documents(config, held_out):
            characters += len(text)
            yield text
            if characters >= most:
                return
        if not characters:
            raise ValueError(f"{', '.join(config.text)}: fewer than two documents; give more text, or --split line")

    with write_folder(folder, "shards", {"corpora": list(config.text)}) as staging:
        load_tokenizer(config.model).save_pretrained(staging / "tokenizer")
        write_shards(documents(), staging, config.workers or os.cpu_count() or 1)
    return characters


def _documents(config: BackwardConfig, held_out: bool) -> Iterator[str]:
    """Those that are held out, or all others."""
    held = 0
    for number, text in enumerate(read_documents(config.text, config.text_key, config.split)):
        mine = number % ONE_IN == 0 and held < HELD_OUT_CHARACTERS
        held += len(text) * mine
        if mine == held_out:
            yield text
        if held_out and held >= HELD_OUT_CHARACTERS:
            return


def _card(config: BackwardConfig, result: dict[str, Any]) -> str:
    """README.md of the folder."""
    perplexity, pieces = result["validation_perplexity"], result["pieces_seen"]
    return f"""# A backward LM for {config.model}

It reads from right to left, over the vocabulary of {config.model} and with that LM's embeddings, through a projection.
Beside it, it tells what follows a word:

```bash
{command_line("fit", encoder=f"{config.model}+{config.out}", train="train.conll", dev="dev.conll", out="tagger")}
```

| | |
|---|---|
| trained parameters | {result["num_parameters"]:,} |
| read | {pieces:,} pieces of {", ".join(Path(name).name for name in config.text)} |
| perplexity of held-out text, reading backward | {perplexity:.1f} |
| architecture | {config.preset}, {config.segment_length:,} pieces of context |

Made by `boustro backward`. The licence of {config.model} covers its embeddings, which this folder contains in changed
form.
"""
