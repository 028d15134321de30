"""The built wheel holds everything, and runs from where it is installed, without the source tree and the network."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the wheel is built by hatchling; install it with: pip install hatchling")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
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
    sample = target / "boustro" / "data" / "sample" / "dev.conll"
    answer, where = python("-c", USE, sample, cwd=tmp_path, **own).splitlines()[-2:]
    assert answer.startswith('{"text": "Jordan closed its border.", "entities": [')
    assert Path(where).is_relative_to(target) and not Path(where).is_relative_to(ROOT)
