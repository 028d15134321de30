"""Folders go to the Hub and come back over HTTP, by its own client; the Hub is a stand-in on this machine."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from boustro.store import MANIFEST
from boustro.tasks.hub import model_card, write_card
from fake_hub import TOKEN, fake_hub

USE = """
import json, os, sys, boustro
from boustro.tasks.hub import download
tagger = boustro.Tagger.from_pretrained(sys.argv[1])
for revision in (None, "v1"):
    print(tagger.push_to_hub("ada/harbour-ner", private=True, revision=revision))
    print(download("ada/harbour-ner", revision))
    opened = boustro.Tagger.from_pretrained("ada/harbour-ner", revision=revision)
    print(json.dumps([(e.label, e.text) for e in opened.predict("In Vellmar it rained.")]))
os.environ["HF_TOKEN"] = "hf_stolen"
for use in (lambda: tagger.push_to_hub("ada/other"), lambda: boustro.Tagger.from_pretrained("ada/other")):
    try:
        use()
    except Exception as error:
        print(type(error).__name__, error)
"""


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_tagger_goes_up_and_comes_down_over_http_and_what_the_hub_refuses_is_a_sentence(tagger_folder, tmp_path):
    """In a Python of its own: the client reads its environment once. The home has no other token, and no cache."""
    own = {"HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    own |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    own |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    with fake_hub() as hub:
        environment = {**os.environ, **own, "HF_ENDPOINT": hub.address}
        command = [sys.executable, "-c", USE, str(tagger_folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [*hub.branches] == ["ada/harbour-ner"] and hub.private["ada/harbour-ner"] and len(hub.messages) == 2
    assert any(method == "PUT" and path.startswith("lfs/") for method, path in hub.requests)  # the weights
    *told, refused, missing = done.stdout.splitlines()
    for branch, (url, where, answer) in zip(("main", "v1"), (told[:3], told[3:]), strict=True):
        commit = hub.branches["ada/harbour-ner"][branch]
        assert url == f"{hub.address}/ada/harbour-ner/commit/{commit}"
        files = hub.commits[commit]
        assert contents(where) == files and set(files) == {*json.loads(files[MANIFEST])["files"], MANIFEST}
        assert files["head.safetensors"] == (tagger_folder / "head.safetensors").read_bytes()
        assert b'from_pretrained("ada/harbour-ner", encoder=' in files["README.md"]
        assert json.loads(answer) == [["LOC", "Vellmar"]]
    assert "ada/other: the Hub refused the upload: " in refused
    assert "FileNotFoundError ada/other: no such folder, and not found on the Hub" in missing


def test_a_card_opens_a_folder_of_any_name(tagger_folder, tmp_path):
    folder = tmp_path / 'Ada\'s "ner" \\n'
    shutil.copytree(tagger_folder, folder)
    (folder / "README.md").unlink()
    write_card(folder, folder.name)
    (block,) = re.findall(r"```python\n(.+?)```", (folder / "README.md").read_text(), re.DOTALL)
    texts = [node.value for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Constant)]
    assert folder.name in texts


def test_a_card_without_a_development_set_has_the_cross_validated_score(tagger_folder):
    gain = {"points": 2.0, "low": 0.5, "high": 3.5}
    facts = {"metric": "F1", "score": 81.2, "low": 74.0, "high": 88.1, "examples": 60, "gain": gain}
    facts["curve"] = [[15, 70.0], [30, 79.2], [60, 81.2]]
    config, manifest = (json.loads((tagger_folder / name).read_text()) for name in ("config.json", MANIFEST))
    config["record"] |= {"dev_scores": None, "cross_validation": facts}
    scores = model_card(config, manifest, "ner")
    assert "set.\n\n- cross-validated F1: 81.2" in scores and "74.0 to 88.1" in scores
