"""Folders go to the Hub and come back over HTTP, by its own client; the Hub is a stand-in on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import boustro
from boustro.store import MANIFEST
from fake_hub import TOKEN, fake_hub
from labelled import DATA

PUSH = """
import sys, boustro
tagger = boustro.Tagger.from_pretrained(sys.argv[1])
print(tagger.push_to_hub("ada/harbour-ner", private=True, revision=sys.argv[2] or None))
"""
PULL = """
import json, sys, boustro
from boustro.tasks.hub import download
print(download("ada/harbour-ner", sys.argv[1] or None))
tagger = boustro.Tagger.from_pretrained("ada/harbour-ner", revision=sys.argv[1] or None)
print(json.dumps([e.to_dict() for e in tagger.predict("In Vellmar it rained.")]))
"""


@pytest.fixture
def hub():
    with fake_hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def folder(tiny_pair, tmp_path_factory):
    path = tmp_path_factory.mktemp("tagger") / "ner"
    boustro.Tagger(tiny_pair, "mlp", epochs=60, lr=1e-2, dropout=0.0, hidden=64).fit(DATA, DATA).save_pretrained(path)
    return path


def run(code, hub, tmp_path, *arguments, token=TOKEN):
    """A Python of its own: the client reads its environment once. The home has no other token, and no cache."""
    own = {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": token}
    own |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment = {**os.environ, **own, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["", "v1"])
def test_a_tagger_goes_up_and_comes_down_over_http(revision, folder, hub, tmp_path):
    done = run(PUSH, hub, tmp_path, str(folder), revision)
    assert done.returncode == 0, done.stderr
    branch = revision or "main"
    commit = hub.branches["ada/harbour-ner"][branch]
    assert done.stdout.strip() == f"{hub.address}/ada/harbour-ner/commit/{commit}"
    assert hub.private["ada/harbour-ner"] and len(hub.messages) == 1
    assert any(method == "PUT" and path.startswith("lfs/") for method, path in hub.requests)  # the weights
    files = hub.commits[commit]
    manifest = json.loads(files[MANIFEST])
    assert set(files) == {*manifest["files"], MANIFEST}
    assert files["head.safetensors"] == (folder / "head.safetensors").read_bytes()
    assert b'from_pretrained("ada/harbour-ner", encoder=' in files["README.md"]

    before = len(hub.requests)
    done = run(PULL, hub, tmp_path, revision)
    assert done.returncode == 0, done.stderr
    where, answer = done.stdout.splitlines()
    assert contents(where) == files and len(hub.requests) > before
    found = [(e["label"], e["text"]) for e in json.loads(answer)]
    assert found == [(e.label, e.text) for e in boustro.Tagger.from_pretrained(folder).predict("In Vellmar it rained.")]
    assert found == [("LOC", "Vellmar")]


@pytest.mark.slow
def test_what_the_hub_refuses_is_a_sentence(folder, hub, tmp_path):
    done = run(PUSH, hub, tmp_path, str(folder), "", token="hf_stolen")
    assert done.returncode == 1 and "ada/harbour-ner: the Hub refused the upload: " in done.stderr.splitlines()[-1]
    assert not hub.branches
    done = run(PULL, hub, tmp_path, "")
    assert "FileNotFoundError: ada/harbour-ner: no such folder, and not found on the Hub" in done.stderr
