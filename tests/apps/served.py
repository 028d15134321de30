"""Trained folders of every kind that is served, a model that does as a test says, and a server in its own process."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from boustro.apps.serve.models import Answered, Served
from boustro.tasks import TASKS, task_class
from children import finish, start, undisturbed
from labelled import INPUTS, RECORDS, small

TAGGED = [
    {"words": words, "tags": tags}
    for words, tags in (
        ("Ada Brandt left Vellmar .".split(), "B-PER I-PER O B-LOC O".split()),
        ("In Lisse it rained .".split(), "O B-LOC O O O".split()),
        ("Okonkwo sold boats .".split(), "B-PER O O O".split()),
        ("Nobody reads .".split(), "O O O".split()),
    )
] * 4
JSON_INPUTS = {name: list(given) if isinstance(given, tuple) else given for name, given in INPUTS.items()}


def make_folders(folder: Path, encoder: str) -> dict[str, Path]:
    """A folder of every task."""
    made = {}
    for name in TASKS:
        data = TAGGED if name == "tag" else RECORDS[name]
        options = {"epochs": 8, "lr": 0.01} if name == "tag" else small(name)
        task_class(name)(encoder, cache=False, **options).fit(data, seed=1).save_pretrained(folder / name)
        made[name] = folder / name
    return made


class Puppet(Served):
    """A model of texts that does as `act` says; by default it says each text again. `batches` are what it was given."""

    task, example, model = "tag", "x", SimpleNamespace(record={}, language_note=str)

    def __init__(self, name: str = "puppet", act: Callable[[Sequence[str]], list[Any]] | None = None) -> None:
        self.name, self.batches = name, []
        self.act = act or (lambda inputs: [{"entities": [], "said": text} for text in inputs])

    def parse(self, value: Any, place: str) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{place} is no text")
        return value

    def answer(self, inputs: Sequence[Any]) -> Answered:
        self.batches.append(list(inputs))
        return Answered(self.act(inputs), len(inputs))


@contextlib.contextmanager
def serving(folders: Sequence[Path], errors: Path, *options: str) -> Iterator[tuple[str, Any]]:
    """The address of `boustro serve` in a process of its own, once it is ready, and the process."""
    arguments = ["serve", *map(str, folders), "--port", "0", *options]
    process = start(undisturbed, arguments, errors, OMP_NUM_THREADS="1")
    try:
        address = _wait(lambda: re.search(r"http://\S+", errors.read_text()), process, errors)[0]
        _wait(lambda: _is_ready(address), process, errors)
        yield address, process
    finally:
        if process.is_alive():
            process.terminate()
        finish(process, 60)


def same(found: Any, expected: Any, tolerance: float = 3e-4) -> bool:
    """Whether two values of JSON are equal but for the last digits of numbers, which depend on the batch."""
    if isinstance(expected, float):
        return isinstance(found, float) and abs(found - expected) <= tolerance
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], v, tolerance) for k, v in expected.items())
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(same(a, b, tolerance) for a, b in zip(found, expected, strict=True))
    return found == expected


def plain(value: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(value))


def _is_ready(address: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{address}/readyz", timeout=30).status_code == 200
    return False


def _wait(probe: Callable[[], Any], process: Any, errors: Path, seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (found := probe()):
        assert process.is_alive(), errors.read_text()
        assert time.monotonic() < end, errors.read_text()
        time.sleep(0.05)
    return found
