"""Exported folders run where neither torch nor anything else than onnxruntime, tokenizers and numpy is."""

import json
import subprocess
import sys

import numpy as np
import pytest

import boustro
from boustro.apps.batch.labeller import Predictor
from boustro.apps.cli.main import main
from boustro.apps.export.command import ExportOptions
from boustro.apps.export.folder import export_folder
from boustro.apps.runtime import load
from boustro.apps.serve.models import open_model as open_served
from boustro.arrays import read_arrays
from boustro.encoders.reading import add_in_order
from boustro.tasks.data import read_data
from labelled import DATA
from world import run

TEXT = " ".join(read_data(DATA)[0].words)  # the tagger has learned it
ALONE = """
import importlib.metadata, json, sys
from importlib.util import find_spec

NEEDED = {"numpy", "onnxruntime", "tokenizers", "boustro"}

class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in NEEDED or path is not None:
            return None
        raise ModuleNotFoundError(f"{name} is not there", name=name)

for name in [n for n in sys.modules if n.partition(".")[0] not in {*sys.stdlib_module_names, "__main__"}]:
    del sys.modules[name]
sys.meta_path.insert(0, Only())
from boustro.apps.runtime import load

model = load(sys.argv[1])
answer = model.predict(tuple(sys.argv[2:]) if sys.argv[3:] else sys.argv[2])
said = answer.probabilities if hasattr(answer, "probabilities") else [e.to_dict() for e in answer]
found = {name.partition(".")[0] for name in sys.modules} - {*sys.stdlib_module_names}
print(json.dumps([said, sorted(name for name in found if name not in ("__main__", "__mp_main__"))]))
"""


def answer_alone(folder, *texts):
    """What a new interpreter without any other package says of a text or of a pair, and the packages that it has."""
    done = subprocess.run([sys.executable, "-c", ALONE, str(folder), *texts], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def exported(tagger_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "ner"
    export_folder(tagger_folder, out, ExportOptions(sentences=40))
    return out


@pytest.mark.slow
def test_nothing_else_is_imported(exported):
    entities, packages = answer_alone(exported, TEXT)
    assert entities == [e.to_dict() for e in load(exported).predict(TEXT)] and entities
    assert not {"torch", "transformers", "safetensors", "tqdm", "filelock", "jaxtyping"} & set(packages)
    assert {"boustro", "numpy", "onnxruntime", "tokenizers"} <= set(packages)


@pytest.mark.slow
@pytest.mark.parametrize("texts", [["Snow fell in Vellmar."], ["Snow fell.", ""]], ids=["classify", "pair"])
def test_a_table_of_words_needs_nothing_else(texts, tiny_pair, tmp_path):
    examples = [
        ("Ada sailed.", "travel"),
        ("It snowed.", "weather"),
        ("Ben rowed home.", "travel"),
        ("It rained.", "weather"),
    ]
    how = {"epochs": 2, "cache": False}
    if len(texts) > 1:
        pairs = [{"sentence1": text, "sentence2": "It snowed.", "label": label} for text, label in examples]
        model = boustro.PairClassifier(f"{tiny_pair}+starter-words", hidden=8, **how).fit(pairs, seed=1)
    else:
        given = {"head": "mlp-pool", "hidden": 8, "words": True, "table": "starter-words"}
        model = boustro.Classifier(tiny_pair, **given, **how).fit(*zip(*examples, strict=True), seed=1)
    model.save_pretrained(tmp_path / "model")
    export_folder(tmp_path / "model", tmp_path / "out", ExportOptions(agreement=0.0))
    said, _ = answer_alone(tmp_path / "out", *texts)
    wanted = load(tmp_path / "out").predict(tuple(texts) if len(texts) > 1 else texts[0]).probabilities
    assert said == pytest.approx(wanted)


@pytest.mark.slow
def test_the_command_answers_without_torch(exported, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    script = (
        "import sys\nfrom boustro.apps.cli.main import main\n"
        f"code = main(['predict', {str(exported)!r}, {str(tmp_path / 'text.txt')!r}, '--format', 'jsonl'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'torch was imported'\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entities"] == [e.to_dict() for e in load(exported).predict(TEXT)]


def test_commands_take_an_exported_folder(exported, tagger_folder, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text(f"{TEXT}\nIt rained.\n")
    answers = []
    for folder in (exported, tagger_folder):
        code, out, errors = run(["predict", str(folder), str(texts / "a.txt"), "--format", "conll"])
        assert code == 0, errors
        answers.append(out)
        assert run(["batch", str(folder), str(texts), str(tmp_path / f"out-{folder.name}-{len(answers)}")])[0] == 0
    assert answers[0] == answers[1]
    served = open_served("ner", exported)
    assert served.answer([served.parse(TEXT, "input 1")]).outputs[0]["entities"]
    assert served.asking(0.9, None).answer([TEXT]).words and served.to_dict()["labels"] == ["LOC", "PER"]
    assert Predictor(exported)({"text": [TEXT]})["entities"][0] == served.answer([TEXT]).outputs[0]["entities"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--encoder", "starter"], "has its encoder with it; leave --encoder out"),
        (["--device", "cuda"], "runs on the processor; leave --device out"),
        (["--explain"], "does not say what decided its answers"),
    ],
)
def test_what_an_exported_folder_does_not_do_is_said(more, said, exported, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    code, _, errors = run(["predict", str(exported), str(tmp_path / "text.txt"), *more])
    assert code == 1 and said in errors and errors.count("\n") == 1


def test_a_trained_folder_is_opened_too(tagger_folder, exported):
    assert load(tagger_folder, cache=False).types == load(exported).types


def test_the_export_command_says_what_it_wrote(world, tmp_path, capsys):
    assert main(world.command("export", str(tmp_path / "out"))) == 0
    assert "MB, float32" in capsys.readouterr().err
    assert main(world.command("export", str(tmp_path / "out"))) == 1  # --overwrite is asked for
    assert "--overwrite" in capsys.readouterr().err


def test_arrays_of_safetensors_are_read_as_the_library_reads_them(tmp_path):
    from safetensors.numpy import load_file, save_file

    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 4), np.float16)}
    arrays |= {"c": np.array(5, np.uint8), "d": np.array([True, False])}
    save_file(arrays, tmp_path / "x.safetensors")
    found = read_arrays(tmp_path / "x.safetensors")
    for name, array in load_file(tmp_path / "x.safetensors").items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    for broken in (b"", b"\x08", (10**6).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "y").write_bytes(broken)
        with pytest.raises(ValueError, match="safetensors"):
            read_arrays(tmp_path / "y")


def test_sums_are_those_of_one_after_the_other():
    total, rows = np.zeros((3, 2), np.float32), np.array([2, 0, 2, 2, 0])
    values = np.array([[1e8, 1], [1, 1], [1, 1], [-1e8, 1], [2, 2]], np.float32)
    wanted = total.copy()
    for row, value in zip(rows, values, strict=True):
        wanted[row] += value
    add_in_order(total, rows, values)
    np.testing.assert_array_equal(total, wanted)
