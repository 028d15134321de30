"""Each kind of damage once: what stands in a folder is not what its reader expects, and the answer is one sentence."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import boustro
from boustro.encoders.spec import load_encoder
from boustro.store import Artefact
from damage import vouch
from pretraining import replacing
from world import run


@pytest.fixture
def copy(world, tmp_path, monkeypatch):
    """copy(name) → a copy of something valid, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return lambda name: Path(shutil.copytree(world[name], tmp_path / name))


def change(file: Path, vouched: bool = True, **changed) -> None:
    """Other values in a JSON file, `dev__f1=0` for {"dev": {"f1": 0}}, with which all manifests agree; None is gone."""
    told = json.loads(file.read_text("utf-8"))
    for names, value in changed.items():
        *above, name = names.split("__")
        place = told
        for key in above:
            place = place[key]
        place.pop(name) if value is None else place.update({name: value})
    file.write_text(json.dumps(told), "utf-8")
    if vouched:
        vouch(file.parent)


def change_tensors(file: Path, edit) -> None:
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file, metadata={"format": "pt"})
    vouch(file.parent)


def refused(*arguments: object) -> str:
    """The sentence with which a command ends."""
    code, _, errors = run([str(argument) for argument in arguments])
    *_, last = errors.strip().splitlines()
    assert code == 1 and last.startswith("boustro: "), errors
    return last.removeprefix("boustro: ")


# Folders of every kind


@pytest.mark.parametrize(
    ("name", "file", "changed"),
    [
        ("tagger", "config.json", {"config": None}),
        ("tagger", "config.json", {"head_options__epochs": -1}),
        ("tagger", "config.json", {"labelling__scheme": 5}),
        ("tagger", "config.json", {"labelling__labels": ["O", ["B-PER"]]}),
        ("tagger", "config.json", {"config__hidden": 7, "head": "mlp"}),
        ("fusion", "config.json", {"shape": "x"}),
        ("fusion", "config.json", {"forward": None}),
        ("fusion", "config.json", {"towers": None}),
        ("elmo", "config.json", {"shape__width": 9}),
        ("memory", "config.json", {"encoder": None}),
        ("memory", "config.json", {"encoder": ["starter"]}),
        ("adapted", "adaptation.json", {"direction": None}),
        ("adapted", "adapter_config.json", {"r": []}),
        ("shards", "config.json", {"num_shards": "one"}),
        ("shards", "config.json", {"num_pieces": 5}),
        ("shards", "config.json", {"vocab_size": [400]}),
    ],
)  # fmt: skip
def test_other_json_is_said_to_be_damage_of_this_folder(world, copy, name, file, changed):
    folder = copy(name)
    change(folder / file, **changed)
    if name == "tagger":
        said = refused("predict", folder, world["corpus.txt"])
    elif name == "shards":
        said = refused(*replacing(world.command("fuse"), "--shards", folder))
    else:
        kind = {"fusion": "fused:", "elmo": "elmo:", "adapted": "unmasked:", "memory": "memory:"}[name]
        said = refused(*replacing(world.command("fit"), "--encoder", f"{kind}{folder}"))
    assert said.startswith(str(folder)) and ("damaged" in said or "does not fit" in said)


@pytest.mark.parametrize(
    ("file", "dtype", "value", "message"),
    [
        ("pieces-00000.bin", np.uint16, 500, "piece 500 of a vocabulary of 400: damaged"),
        ("documents-00000.bin", np.uint64, 10**15, "a document ends before it begins: damaged"),
    ],
)
@pytest.mark.parametrize("command", ["pretrain", "fuse", "pretrain --objective sentence-pair --preset bert-tiny"])
def test_shards_hold_pieces_of_their_vocabulary_and_documents_in_order(
    world, copy, file, dtype, value, message, command
):
    folder = copy("shards")
    held = np.fromfile(folder / file, dtype)
    held[1:-1:2] = value
    held.tofile(folder / file)
    vouch(folder)
    name, *more = command.split()
    said = refused(*replacing(world.command(name), *more, "--shards", folder))
    assert said.startswith(str(folder / file)) and message in said


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", '{"model_type": "llama", "max_position_embeddings": "x"}', "no model could be loaded"),
        ("config.json", "0", "no model could be loaded"),
        ("tokenizer.json", '{"version": "1.0"}', "no tokenizer could be loaded"),
        ("tokenizer_config.json", '{"model_max_length": {}}', "no tokenizer could be loaded"),
        ("model.safetensors", "", "weights could not be loaded"),
    ],
)
def test_a_model_that_cannot_be_read_is_named(world, copy, file, content, message):
    folder = copy("lm")
    (folder / file).write_text(content)
    assert message in refused(*replacing(world.command("fit"), "--encoder", folder))


@pytest.mark.parametrize("opens", ["fit --encoder", "pretrain --init-from"])
def test_weights_that_are_not_all_there_are_no_model(world, copy, opens):
    folder = copy("lm")
    change_tensors(folder / "model.safetensors", lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    command, option = opens.split()
    said = refused(*replacing(world.command(command), option, folder))
    assert said.startswith(f"{folder}: the weights could not be loaded: ")
    assert said.endswith("layers.1.mlp.up_proj.weight are missing")


def test_a_masked_lm_may_lack_its_pooler(world, copy):
    folder = copy("masked")
    change_tensors(folder / "model.safetensors", lambda tensors: [tensors.pop(n) for n in [*tensors] if "pooler" in n])
    load_encoder(f"masked:{folder}")


# Manifests


@pytest.mark.parametrize("changed", [{"kind": 5}, {"kind": ""}, {"made_by": None}, {"files": []}, {"files__x": {}}])
def test_a_manifest_of_other_types_is_damaged(copy, changed):
    folder = copy("tagger")
    change(folder / "manifest.json", vouched=False, **changed)
    with pytest.raises(ValueError, match=r"manifest\.json: damaged; write the tagger folder again"):
        Artefact(folder).check("tagger")


@pytest.mark.parametrize("name", ["../thesis.txt", "/thesis.txt"])
def test_a_manifest_names_no_file_outside_of_its_folder(world, copy, tmp_path, name):
    entry = next(copy("cache").glob("??/*"))
    name = str(tmp_path / "thesis.txt") if name.startswith("/") else "../../../thesis.txt"
    (tmp_path / "thesis.txt").write_text("years of work")
    told = json.loads((entry / "manifest.json").read_text("utf-8"))
    told["files"][name] = told["files"]["features.bin"]
    (entry / "manifest.json").write_text(json.dumps(told))
    assert run(["cache", "clear", "--folder", str(tmp_path / "cache")])[0] == 0
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


# What is computed again


def test_a_damaged_entry_of_the_cache_is_listed_cleared_and_computed_again(world, copy, monkeypatch):
    cache = copy("cache")
    entry = next(cache.glob("??/*"))
    change(entry / "manifest.json", kind=5)
    code, out, _ = run(["cache", "list", "--folder", str(cache)])
    assert code == 0 and "damaged; computed again when needed" in out
    monkeypatch.setenv("BOUSTRO_CACHE", str(cache))
    assert run(world.command("fit"))[0] == 0
    assert Artefact(entry).check("features")
    change(entry / "manifest.json", made_by__notices=[1])
    run(["cache", "clear", "--folder", str(cache)])
    assert not entry.exists()


def test_a_damaged_cell_is_computed_again_and_the_files_of_others_stay(world, copy):
    cell = next(copy("study").glob("cells/*"))
    (cell / "trained" / "notes.txt").write_text("years of work")
    (cell / "dev.jsonl").write_text("x" * (cell / "dev.jsonl").stat().st_size)
    said = refused(*world.command("compare", "study"))
    assert "choose another name or remove it" in said
    (cell / "trained" / "notes.txt").replace("notes.txt")
    assert run(world.command("compare", "study"))[0] == 0
    assert Artefact(cell).check("cell", verify=True)


def test_a_card_inside_of_a_cell_may_be_edited(world, copy):
    cell = next(copy("study").glob("cells/*"))
    (cell / "trained" / "README.md").write_text("finished by a person")
    assert "(known already)" in run(world.command("compare", "study"))[2]
    assert (cell / "trained" / "README.md").read_text() == "finished by a person"


@pytest.mark.parametrize(
    "changed", [{"cost": 5}, {"record__notices": None}, {"config": None}, {"record__head_parameters": "x"}]
)
def test_a_cell_of_another_version_is_said_to_be_so(world, copy, changed):
    cell = next(copy("study").glob("cells/*"))
    change(cell / "scores.json", **changed)
    vouch(cell)
    assert refused(*world.command("compare", "study")).endswith("remove that folder and run the study again")


@pytest.mark.parametrize("content", ["", "[]", '{"cell": {"rows": []}}', None])
def test_a_damaged_few_shot_cell_is_computed_again(world, copy, content):
    cell = next(copy("shots").glob("cells/*/scores.json"))
    whole = cell.read_text("utf-8")
    cell.write_text(whole.replace('"losses": [', '"losses": [1.5, ') if content is None else content)
    assert "(computed in" in run(world.command("fewshot", "shots"))[2]
    again, before = json.loads(cell.read_text("utf-8")), json.loads(whole)
    assert {key: again[key] for key in ("config", "seed")} == {key: before[key] for key in ("config", "seed")}
    assert again["record"]["losses"] == before["record"]["losses"]


# Checkpoints


@pytest.mark.parametrize(
    ("name", "file", "changed"),
    [
        ("stopped", "optimizer.json", {"groups": "x"}),
        ("stopped", "optimizer.json", {"unlogged": "x"}),
        ("stopped", "trainer_state.json", {"best_model_checkpoint": 1.5}),
        ("stopped", "trainer_state.json", {"global_step": {}}),
        ("stopped", "trainer_state.json", {"logging_steps": "x"}),
        ("halted", "trainer_state.json", {"global_step": None}),
        ("halted", "optimizer.json", {"groups": [{}]}),
    ],
)
def test_a_checkpoint_that_cannot_be_read_asks_for_a_new_beginning(world, copy, name, file, changed):
    change(copy(f"{name}.checkpoints") / "checkpoint-1" / file, **changed)
    command = {"stopped": "pretrain", "halted": "fuse"}[name]
    said = refused(*world.command(command, name), "--save-minutes", "0", "--resume")
    assert f"{name}.checkpoints" in said and said.endswith("give --overwrite in place of --resume to start again")


def test_weights_that_are_not_finite_are_no_checkpoint(world, copy):
    folder = copy("stopped.checkpoints")

    def spoil(tensors):
        tensors["0.momentum_buffer"] = np.full_like(tensors["0.momentum_buffer"], math.nan)

    change_tensors(folder / "checkpoint-1" / "optimizer.safetensors", spoil)
    said = refused(*world.command("pretrain", "stopped"), "--save-minutes", "0", "--resume")
    assert said.startswith("the weights after step 2 are not finite; nothing was written")
    assert [path.name for path in folder.iterdir()] == ["checkpoint-1"]


def test_a_damaged_checkpoint_is_removed_without_the_files_of_others(world, copy):
    checkpoint = copy("stopped.checkpoints") / "checkpoint-1"
    (checkpoint / "notes.txt").write_text("years of work")
    (checkpoint / "optimizer.json").unlink()
    assert "choose another name or remove it" in refused(*world.command("pretrain", "stopped"), "--resume")
    assert [path.name for path in checkpoint.iterdir()] == ["notes.txt"]


# Calls


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda world: boustro.Tagger(5), "encoder must be a text, not 5"),
        (lambda world: boustro.Tagger(["starter"]), "encoder must be a text"),
        (lambda world: boustro.Tagger(head=["mlp"]), "head must be a text"),
        (lambda world: boustro.Tagger(device=0), "device must be a text, not 0"),
        (lambda world: boustro.Tagger.from_pretrained({}), "path must be a"),
        (lambda world: boustro.Tagger.from_pretrained(world["tagger"]).save_pretrained(5), "path must be a"),
        (lambda world: load_encoder(None), "spec must be a text, not None"),
        (lambda world: load_encoder(world["lm"], pooling=["exit"]), "pooling must be a text"),
        (lambda world: load_encoder(world["lm"], dtype=16), "dtype must be one of float32, bfloat16, float16, not 16"),
        (lambda world: load_encoder(world["lm"], layers=[[1]]), "unknown layers"),
        (lambda world: load_encoder(world["lm"], layers=math.inf), "unknown layers"),
        (lambda world: load_encoder(world["lm"]).encode_all(5), "expected sentences as lists of words, got int"),
        (lambda world: load_encoder(world["lm"]).encode_all([["Ada", None]]), "sentence 1, word 2 is None"),
        (lambda world: list(load_encoder(world["lm"]).encode([5])), "expected sentence 1 as a list of words"),
    ],
)
def test_an_argument_of_another_type_is_named(world, call, message):
    with pytest.raises(ValueError, match=message):
        call(world)
