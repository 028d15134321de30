"""The built wheel holds everything, and runs from where it is installed, without the source tree and the network.

It also plays the first hour of a user with a table: label it in a browser, train, and get the same table with answers.
"""

import contextlib
import csv
import json
import os
import re
import shlex
import signal
import site
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from browser import needs_chromium, open_browser
from conftest import ROOT
from test_start_page import QUIET, address, label_entities

pytest.importorskip("hatchling", reason="the wheel is built by hatchling; install it with: pip install hatchling")
pytestmark = pytest.mark.slow

OFFLINE = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
NEEDED = (
    "py.typed",
    "data/sample/train.conll",
    "data/starter/forward/model.safetensors",
    "data/starter/backward/model.safetensors",
    "data/starter/memory/memory.safetensors",
    "apps/serve/page.html",
)
USE = """
import sys
from boustro.apps.cli.main import main
options = "--out ner --encoder starter-forward --head linear --epochs 1".split()
assert main(["fit", "--train", sys.argv[1], *options]) == 0
assert main(["predict", "ner", "text.txt", "--format", "jsonl"]) == 0
import boustro
print(boustro.__file__)
"""


ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}


def python(*arguments, cwd, **environment):
    command, environment = [sys.executable, *map(str, arguments)], {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    python("-m", "pip", "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("boustro-*.whl")
    return made


def test_a_wheel_has_every_file_of_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "boustro"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    expected = {f"boustro/{path.relative_to(package).as_posix()}" for path in files}
    expected |= {f"boustro/docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if page.stem != "log"}
    assert {f"boustro/{name}" for name in NEEDED} <= expected
    assert {name for name in names if name.startswith("boustro/")} == expected
    assert all(name.startswith("boustro/") or ".dist-info/" in name for name in names)  # no tests, no benchmarks
    (points,) = (name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(points).decode()
    assert "boustro = boustro.__main__:main" in text and "boustro_text = boustro.integrations.spacy:" in text


def test_an_installed_wheel_runs_without_the_source_tree(wheel, tmp_path):
    target = tmp_path / "installed"
    python("-m", "pip", "install", *OFFLINE, "--target", target, wheel, cwd=tmp_path)
    (tmp_path / "text.txt").write_text("Jordan closed its border.\n", "utf-8")
    own = {"PYTHONPATH": str(target), "HF_HUB_OFFLINE": "1"}
    assert "usage: boustro demo" in python("-m", "boustro", "demo", "--help", cwd=tmp_path, **own)
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    assert python("-m", "boustro", "help", "training", cwd=tmp_path, **own) == page
    sample = target / "boustro" / "data" / "sample" / "dev.conll"
    answer, where = python("-c", USE, sample, cwd=tmp_path, **own).splitlines()[-2:]
    assert answer.startswith('{"text": "Jordan closed its border.", "entities": [')
    assert Path(where).is_relative_to(target) and not Path(where).is_relative_to(ROOT)


@pytest.fixture
def installed(wheel, tmp_path):
    """The script `boustro` of a new environment with the wheel, which sees the packages of this one."""
    python("-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    own = tmp_path / "venv" / "bin" / "python"
    python("-m", "pip", "--python", own, "install", *OFFLINE, wheel, cwd=tmp_path)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    seen = subprocess.check_output([own, "-c", "import boustro; print(boustro.__file__)"], env=ENVIRONMENT, text=True)
    assert Path(seen).is_relative_to(packages)
    return own.with_name("boustro")


def write_messages(path: Path) -> list[list[str]]:
    """60 messages of the sample as a table, every third one on several lines; returns its rows, the header first."""
    texts = Path("sample", "messages.txt").read_text("utf-8").splitlines()
    broken = [re.sub(r"(\S+ \S+ \S+) ", r"\1\n", text) if n % 3 == 0 else text for n, text in enumerate(texts)]
    rows = [["id", "text", "received"], *([f"{n:03}", text, f"Monday, {n}:00"] for n, text in enumerate(broken))]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    assert len(rows) == 61 and sum("\n" in text for _, text, _ in rows) == 20
    return rows


def read_table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [*csv.reader(file)]


@needs_chromium
@pytest.mark.long
def test_the_first_hour_from_a_table_to_the_same_table_with_answers(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def boustro(*words: str) -> str:
        done = subprocess.run([installed, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    boustro("demo", "--copy-sample", "sample")
    rows = write_messages(Path("messages.csv"))
    words, errors = "label messages.csv --labels PERSON,PLACE --out answers.jsonl", Path("label.err")
    with contextlib.ExitStack() as ending, errors.open("w") as err, open_browser() as browser:
        default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # ignored where tests run in the background
        command = [installed, *words.split(), *QUIET]
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=err, preexec_fn=default)
        ending.callback(process.kill)
        page = browser.open(address(errors, "label at "))
        page.wait("typeof state !== 'undefined' && state && state.sentence && !busy")
        assert page.run("state.total") == 60 and "60 texts" in errors.read_text("utf-8")
        for number in range(1, 15):
            label_entities(page)
            page.wait(f"state.answered === {number} && !busy")
        page.click("#train")
        page.wait("$('trained').textContent.includes('on five parts left out')", 240)
        trained = page.text("#trained")
        assert page.errors() == []
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    (shown,) = re.findall(r" (F1 [\d.]+) on five parts", trained)
    (following,) = re.findall(r"^next: boustro (.+)$", errors.read_text("utf-8"), re.MULTILINE)
    fit = shlex.split(following)
    assert re.findall(r"cross-validated (F1): ([\d.]+) ", boustro(*fit)) == [tuple(shown.split())]
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert len(answers) == 14 and {answer["text"] for answer in answers} < {text for _, text, _ in rows}

    boustro("predict", fit[fit.index("--out") + 1], "messages.csv", "--out", "answers.csv")
    found = read_table(Path("answers.csv"))
    assert [row[:3] for row in found] == rows == read_table(Path("messages.csv"))
    assert found[0][3:] == ["PERSON", "PLACE", "entities"]
    entities = [(row[1], own) for row in found[1:] for own in json.loads(row[5])]
    assert len(entities) > 10 and all(text[own["start"] : own["end"]] == own["text"] for text, own in entities)
