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
from boustro.tasks.data.conll import format_conll
from labelled import DATA, ONE_GRAPH
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

answers = [load(folder).predict(tuple(texts) if texts[1:] else texts[0]) for folder, *texts in json.loads(sys.argv[1])]
said = [a.probabilities if hasattr(a, "probabilities") else [e.to_dict() for e in a] for a in answers]
found = {name.partition(".")[0] for name in sys.modules} - {*sys.stdlib_module_names}
print(json.dumps([said, sorted(name for name in found if name not in ("__main__", "__mp_main__"))]))
"""


def answer_alone(*asked):
    """What a new interpreter without any other package says of texts and pairs, each asked of a folder, and the
    packages that it has."""
    given = json.dumps([[str(folder), *texts] for folder, *texts in asked])
    done = subprocess.run([sys.executable, "-c", ALONE, given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def of_tables(tiny_lm, traced_once, tmp_path):
    """A classifier of texts and one of pairs with a table of words beside their LM, exported: (folder, texts)."""
    lm, how = str(tiny_lm("llama")), {"epochs": 2, "hidden": 8} | ONE_GRAPH
    texts = ("Ada sailed.", "It snowed.", "Ben rowed.", "It rained.")
    examples = [*zip(texts, ("travel", "weather") * 2, strict=True)]
    pairs = [{"sentence1": text, "sentence2": "It snowed.", "label": label} for text, label in examples]
    given = {"head": "mlp-pool", "words": True, "table": "starter-words"}
    models = {
        "texts": boustro.Classifier(lm, **given, **how).fit(*zip(*examples, strict=True), seed=1),
        "pairs": boustro.PairClassifier(f"{lm}+starter-words", **how).fit(pairs, seed=1),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        export_folder(tmp_path / name, tmp_path / f"{name}-out", ExportOptions(sentences=20, agreement=0.0))
    return [(tmp_path / "texts-out", "Snow fell in Vellmar."), (tmp_path / "pairs-out", "Snow fell.", "")]


@pytest.mark.slow
def test_a_tagger_and_tables_of_words_need_nothing_else(exported, of_tables):
    (entities, *said), packages = answer_alone((exported, TEXT), *of_tables)
    assert entities == [e.to_dict() for e in load(exported).predict(TEXT)] and entities
    for found, (folder, *texts) in zip(said, of_tables, strict=True):
        wanted = load(folder).predict(tuple(texts) if texts[1:] else texts[0]).probabilities
        assert found == pytest.approx(wanted)
    assert not {"torch", "transformers", "safetensors", "tqdm", "filelock", "jaxtyping"} & set(packages)
    assert {"boustro", "numpy", "onnxruntime", "tokenizers"} <= set(packages)


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
        out = tmp_path / f"out-{folder.name}-{len(answers)}"
        assert run(["predict", str(folder), str(texts), "--out", str(out)])[0] == 0
    assert answers[0] == answers[1]
    served = open_served("ner", exported)
    assert served.answer([served.parse(TEXT, "input 1")]).outputs[0]["entities"]
    assert served.asking(0.9, None).answer([TEXT]).words and served.to_dict()["labels"] == ["LOC", "PER"]
    assert Predictor(exported)({"text": [TEXT]})["entities"][0] == served.answer([TEXT]).outputs[0]["entities"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--encoder", "starter"], "has its encoder with it; remove --encoder"),
        (["--device", "cuda"], "runs on the processor; remove --device"),
        (["--explain"], "does not say what decided its answers"),
    ],
)
def test_what_an_exported_folder_does_not_do_is_said(more, said, exported, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    code, _, errors = run(["predict", str(exported), str(tmp_path / "text.txt"), *more])
    assert code == 1 and said in errors and errors.count("\n") == 1


def test_a_trained_folder_is_opened_too(tagger_folder, exported):
    assert load(tagger_folder, cache=False).types == load(exported).types


def test_the_export_command_says_what_it_wrote(tagger_folder, traced_once, file, tmp_path, capsys):
    command = ["export", str(tagger_folder), "--out", str(tmp_path / "out"), "--sentences", "20", "--agreement", "0"]
    command += ["--precision", "int8", "--data", str(file("train.conll", format_conll(DATA)))]
    assert main(command) == 0
    assert "MB, int8" in capsys.readouterr().err
    assert main(command) == 1  # --overwrite is asked for
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


TEXTS = ["Ada left Vellmar.", "It rained.", "Ada saw Ada.", "Vellmar fell."]
NAMES = [[("Ada", "PER"), ("Vellmar", "LOC")], [], [("Ada", "PER"), ("Ada", "PER")], [("LOC", 0, 7)]]
FAST = {"epochs": 2, "hidden": 8, "cache": False}


def test_any_folder_is_opened(tiny_pair, tmp_path):
    boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, NAMES).save(tmp_path / "ner")
    boustro.Classifier(tiny_pair, **FAST).fit(TEXTS, ["a", "b", "a", "b"]).save(tmp_path / "topics")
    assert isinstance(boustro.load(tmp_path / "ner", cache=False), boustro.Tagger)
    opened = boustro.load(tmp_path / "topics", cache=False)
    assert isinstance(opened, boustro.Classifier) and opened.predict("Ada left.").label in ("a", "b")
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "manifest.json").write_text('{"kind": "backward model"}')
    with pytest.raises(ValueError, match="a folder of the kind backward model, which boustro fit did not write"):
        boustro.load(tmp_path / "lm")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        boustro.load(tmp_path / "nowhere")
