"""Whatever is thrown at Boustro, it answers in a sentence, and what lies there stays.

A failure names its case, which runs alone: `BOUSTRO_FUZZ_SEED=… BOUSTRO_FUZZ_CASE=… pytest tests/apps/test_fuzz.py`;
`make test` throws the first `SHORT` cases, `make test-long` all; `BOUSTRO_FUZZ_CASES` changes how many there are.
"""

import faulthandler
import os
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from boustro.apps.cli.known import COMMANDS
from boustro.lab.pretrain.trainer import PretrainTrainer
from boustro.store import Artefact
from damage import BYSTANDER
from fuzzing import Case, snapshot
from world import BrokenOff, run

SEED = int(os.environ.get("BOUSTRO_FUZZ_SEED", "0"))
SHORT, LONG = 40, 2500
CASES = int(os.environ.get("BOUSTRO_FUZZ_CASES", LONG))
ALONE = os.environ.get("BOUSTRO_FUZZ_CASE")
BLOCK = 100
CASE_SECONDS, BLOCK_SECONDS = 60, 600
MEMORY = 3 * 2**30
"""How much more a case may take: what would take all is refused as on a small machine."""


class TooLong(BaseException):
    """A case does not come to an end."""


@pytest.fixture
def no_training(monkeypatch):
    """Runs stop where long work would begin."""
    import uvicorn

    import boustro.apps.studies.core.cells
    import boustro.apps.studies.language.build
    import boustro.heads.solve
    import boustro.lab.pretrain.shards

    def refuse(*arguments, **options):
        raise BrokenOff("this far and no further")

    monkeypatch.setattr(uvicorn.Server, "run", refuse)
    monkeypatch.setattr("webbrowser.open", refuse)
    train_head, train = boustro.heads.solve.train_head, PretrainTrainer.train
    monkeypatch.setattr(boustro.apps.studies.core.cells, "compute_cells", refuse)  # the demo's
    monkeypatch.setattr(boustro.lab.pretrain.shards, "ProcessPoolExecutor", refuse)

    def train_little(self, **given):
        return refuse() if self.args.max_steps > 4 or self.args.torch_compile else train(self, **given)

    monkeypatch.setattr(PretrainTrainer, "train", train_little)

    def train_short(*given, **named):
        return train_head(*given, **named) if getattr(given[0].options, "epochs", 0) <= 2 else refuse()

    monkeypatch.setattr(boustro.heads.solve, "train_head", train_short)
    monkeypatch.setattr(boustro.apps.studies.language.build, "compute_cells", refuse)


@pytest.fixture
def small_machine():
    """Memory is short, and who hangs is found out."""
    used = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    faulthandler.dump_traceback_later(BLOCK_SECONDS, exit=True, file=sys.__stderr__)

    def ring(number, frame):
        raise TooLong(f"still running after {CASE_SECONDS} s")

    former = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, former)
    faulthandler.cancel_dump_traceback_later()
    resource.setrlimit(resource.RLIMIT_AS, limits)


def _marked(first: int):
    chosen = first < SHORT or "BOUSTRO_FUZZ_CASES" in os.environ
    return pytest.param(first, marks=() if chosen else pytest.mark.long)


@pytest.mark.parametrize("first", [int(ALONE)] if ALONE else map(_marked, range(0, CASES, BLOCK)))
def test_nothing_that_is_thrown_does_harm(world, first, no_training, small_machine, tmp_path, monkeypatch, capsys):
    before = snapshot(world.folder)
    failures = []
    for number in range(first, first + (1 if ALONE else min(BLOCK, CASES - first))):
        folder = tmp_path / f"case-{number}" / "work"
        folder.mkdir(parents=True)
        (folder.parent / BYSTANDER).write_text("mine")
        case = Case(Random(f"{SEED}/{number}"), world, folder)
        monkeypatch.chdir(folder)
        with pytest.MonkeyPatch.context() as patch:
            wrong = _throw(case, patch)
        if snapshot(world.folder) != before:
            wrong.append("something outside of its folder is gone or changed")
        failures += [f"BOUSTRO_FUZZ_SEED={SEED} BOUSTRO_FUZZ_CASE={number}: {case.said}\n    {w}" for w in wrong]
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder.parent, ignore_errors=True)
    assert not failures, "\n" + "\n".join(failures)


def _throw(case: Case, patch: pytest.MonkeyPatch) -> list[str]:
    """Run one case; returns what it did wrong."""
    thrown = case.draw()
    for name, value in case.environment.items():
        patch.setenv(name, value)
    before = snapshot(case.folder.parent)
    signal.alarm(CASE_SECONDS)
    wrong: list[str] = []
    code = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(thrown, list):
                of_lab = bool(thrown) and thrown[0] in COMMANDS and COMMANDS[thrown[0]].is_of_lab
                code, _, errors = run(["lab", *thrown] if of_lab else thrown)
                wrong += _misbehaved(code, errors)
            else:
                thrown()
    except (ValueError, OSError, ImportError):
        pass
    except TooLong as error:
        wrong.append(f"{error}\n{traceback.format_exc(limit=-3)}")
    except BaseException:
        wrong.append(traceback.format_exc(limit=-6))
    finally:
        signal.alarm(0)
    return wrong + _damage(case, before, code)


def _misbehaved(code: int, errors: str) -> list[str]:
    lines = errors.strip().splitlines()
    if code == 101:
        log = re.search(r"report it with (\S+)", errors)
        return ["\n".join(Path(log[1]).read_text("utf-8").splitlines()[-14:]) if log else errors]
    if code not in (0, 1, 2):
        return [f"exit code {code}: {errors}"]
    if "Traceback" in errors:
        return [f"a traceback: {errors}"]
    if code == 1 and not (lines and lines[-1].startswith("boustro: ") and len(lines[-1]) > 12):
        return [f"no sentence at the end of {errors!r}"]
    return []


def _damage(case: Case, before: dict, code: int | None) -> list[str]:
    """What a case did to files that are not its own, and what it left."""
    after = snapshot(case.folder.parent)
    mine = [Path(os.path.normpath(place)) for place in case.mine]
    wrong = []
    for path, content in before.items():
        free = path.name != BYSTANDER and any(path == place or place in path.parents for place in mine)
        if after.get(path) != content and not free:
            wrong.append(f"{path.relative_to(case.folder.parent)} is {'changed' if path in after else 'gone'}")
    for path in after:
        if path not in before and re.search(r"\.(staging|retired|lock)$", path.name):
            wrong.append(f"left {path.relative_to(case.folder.parent)}")
        if path.name == "manifest.json" and after[path] != before.get(path):
            wrong += _not_finite(path.parent)
    return wrong


def _not_finite(folder: Path) -> list[str]:
    Artefact(folder).check(Artefact(folder).kind or "", verify=True)
    weights = [item for path in folder.glob("*.safetensors") for item in load_file(path).items()]
    # The logarithm of 0 says of an exported CRF that a tag may not stand there.
    allowed = [(name, w[~w.isneginf()] if name.startswith("crf.") else w) for name, w in weights]
    bad = [name for name, tensor in allowed if not torch.isfinite(tensor.float()).all()]
    return [f"{folder.name} is complete, and not finite: {', '.join(bad)}"] if bad else []
