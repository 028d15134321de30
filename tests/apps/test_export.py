"""An exported folder answers as the trained one does, and one that does not is not written."""

import ast
import json
import re
import shlex
import shutil
import sys
from importlib.resources import files

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.export import check
from boustro.apps.export.check import Agreement, agreement
from boustro.apps.export.command import ExportOptions
from boustro.apps.export.folder import export_folder, open_exact, write_export_card
from boustro.apps.export.onnx import CONVERSIONS
from boustro.apps.live.stream import Live
from boustro.apps.runtime import load
from boustro.apps.runtime.parts import GRAPHS, Graph, GraphHead
from boustro.store import write_manifest
from boustro.tasks import EXPORT, TASKS, task_class
from boustro.tasks.answers import Answer
from boustro.types import Entity, Sentence
from conftest import KINDS
from labelled import DATA, INPUTS, ONE_GRAPH, RECORDS, small, with_own

onnx = pytest.importorskip("onnx")
LONG = pytest.mark.long
TEXTS = [
    "Ada Brandt left Vellmar. In Lisse it rained.\nOkonkwo sold boats, “cheaply”, for 1,250.",
    "",
    "Ada",
    "The ferry to Vellmar leaves at seven, and Ada Brandt is never on time. " * 40,
]


@pytest.fixture(autouse=True)
def _traced_once(traced_once):
    """For all tests of this file."""


def written(model, folder, sentences=20, **options):
    """A trained model saved and exported: (its folder opened in float32, the export opened)."""
    model.save_pretrained(folder / "trained")
    export_folder(folder / "trained", folder / "out", ExportOptions(sentences=sentences, **options))
    return open_exact(folder / "trained"), load(folder / "out")


def scores_of(model, texts):
    return np.array([s for a in model.answer_inputs(texts) for _, own in a.parts for s in own.scores])


def tags_of(model, texts):
    return [tag for a in model.answer_inputs(texts) for _, own in a.parts for tag in own.tags]


def test_an_export_answers_as_its_folder_in_any_batch(exported, tagger_folder):
    """Windows of a long document, empty texts and single words among them."""
    model, own = open_exact(tagger_folder), load(exported)
    assert tags_of(own, TEXTS) == tags_of(model, TEXTS)
    np.testing.assert_allclose(scores_of(own, TEXTS), scores_of(model, TEXTS), atol=1e-4)
    assert [own.predict(text) for text in TEXTS] == own.predict(TEXTS)
    for found, wanted in zip(own.predict(TEXTS), model.predict(TEXTS), strict=True):
        assert [(e.label, e.start, e.end, e.text) for e in found] == [(e.label, e.start, e.end, e.text) for e in wanted]
    words = Sentence(("Ada", "Brandt", "left"))
    assert own.answer_inputs([words])[0].parts[0][1].tags == model.answer_inputs([words])[0].parts[0][1].tags


def test_an_export_is_scored_and_promises_recall_as_its_folder(exported, tagger_folder):
    model, own = open_exact(tagger_folder), load(exported)
    assert own.evaluate(DATA).f1 == model.evaluate(DATA).f1 > 90
    assert own.promise.probabilities.tolist() == model.promise.probabilities.tolist()


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_fewer_bits_are_smaller_and_nearly_the_same(precision, exported, tagger_folder, tmp_path):
    options = ExportOptions(precision=precision, agreement=0.5, sentences=40)
    found = export_folder(tagger_folder, tmp_path / "out", options)
    size = sum(file.stat().st_size for file in exported.glob("*.onnx"))
    assert sum(file.stat().st_size for file in (tmp_path / "out").glob("*.onnx")) < 0.75 * size
    assert found["checked"]["tags"] > 0.9 and json.loads((tmp_path / "out" / "config.json").read_text())["checked"]
    own = load(tmp_path / "out")
    assert own.evaluate(DATA).f1 > 80
    alone = np.concatenate([scores_of(own, [text]) for text in TEXTS if text])
    np.testing.assert_allclose(scores_of(own, TEXTS), alone, atol=1e-4)  # whatever stands beside a text


def test_weights_beyond_float16_stay_in_float32():
    weights = {"large": np.full(2048, 1e5, np.float32), "small": np.full(2048, 2.0, np.float32)}
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    model = onnx.helper.make_model(onnx.helper.make_graph([], "weights", [], [], tensors))
    CONVERSIONS["float16"](model)
    kept = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {name: array.dtype.name for name, array in kept.items()} == {"large": "float32", "small.half": "float16"}
    assert (kept["large"] == weights["large"]).all()


def beside(head, scores, lengths, candidates):
    found = GraphHead.read_tags(head, scores, lengths, candidates)
    return found if candidates else [(tags, given / len(lengths)) for tags, given in found]


def nothing(head, scores, lengths, candidates):
    return [[] if candidates else (np.zeros(n, int), np.ones(n)) for n in lengths]


@pytest.mark.parametrize(
    ("read_tags", "said"),
    [
        (beside, "depend on the texts that stand beside a text"),
        (nothing, r"answers otherwise.* 0\.00% of the entities, of [0-9]+ examples"),
    ],
)
def test_an_export_that_answers_otherwise_is_not_written(read_tags, said, tagger_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(GRAPHS, "mlp", Graph(read_tags))
    with pytest.raises(ValueError, match=said):
        export_folder(tagger_folder, tmp_path / "out", ExportOptions(), data=written_data(tmp_path))
    assert not (tmp_path / "out").exists()


def written_data(folder):
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps({"words": s.words, "tags": s.tags}) + "\n" for s in read(DATA)))
    return path


def test_answers_are_compared_on_the_texts_of_training(tagger_folder, tiny_lm, tmp_path):
    data = written_data(tmp_path)
    trained = task_class("tag")(str(tiny_lm("llama")), **with_options()).fit(data, seed=1)
    assert check.check_examples(trained, None, 3) == list(read(data))[:3]
    data.unlink()
    assert check.check_examples(trained, None, 3) == list(check._sample(trained, 3))


def test_agreement_by_hand():
    one = [Answer(("B-X", "O"), (0.9, 0.8), (Entity("X", 0, 1),)), Answer(("O",), (0.5,))]
    other = [Answer(("B-Y", "O"), (0.7, 0.8), (Entity("Y", 0, 1),)), Answer(("O",), (0.5,))]
    found = agreement(one, other)
    assert found.shares == {"tags": pytest.approx(2 / 3), "entities": 0.0} and found.ties == 0
    assert found.score_difference == pytest.approx(0.2)
    assert agreement(one, one).shares == {"tags": 1, "entities": 1}
    numbers = agreement([Answer(value=0.0), Answer(value=10.0)], [Answer(value=0.05), Answer(value=11.0)])
    assert numbers.shares == {"numbers": 0.5}


def test_near_ties_are_the_same():
    """Where both models say nearly the same of two answers, which one they give says nothing."""
    person, place, nothing = (Entity("PER", 0, 1),), (Entity("LOC", 0, 1),), ()
    for score, other, ties in ((0.501, 0.502, 1), (0.501, 0.55, 0), (0.9, 0.9, 0)):
        found = agreement([Answer(("B-PER",), (score,), person)], [Answer(("B-LOC",), (other,), place)])
        assert (found.ties, found.counts["tags"], found.counts["entities"]) == (ties, (1 - ties, 1), (1 - ties, 1))
    one, other = [Answer(("B-PER", "O"), (0.6, 1.0), person)], [Answer(("O", "O"), (0.4, 1.0), nothing)]
    for scores, ties in (((0.503, 0.499), 1), ((0.503, 0.2), 0)):  # of the same entity, by model
        found = agreement(one, other, [[{("PER", 0, 1): score}] for score in scores])
        assert (found.ties, found.counts["tags"]) == (ties, (1 - ties, 2))
    assert agreement(one, other, [[{("PER", 0, 1): 0.6}], [{}]]).ties == 0  # the other does not know it at all


def test_a_share_is_too_low_where_it_says_anything():
    for differ, of, enough in ((1, 700, True), (5, 700, False), (0, 3, True), (3, 3, False), (4, 4000, True)):
        assert Agreement(of, {"tags": (0, 9000), "entities": (differ, of)}, 0.0).reaches(0.999) is enough


SHOWN = ("classify", "qa", "similarity")
"""Tasks whose heads have tests of their own here, or are another task's with one label."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG if name in SHOWN else ()) for name in TASKS if name != "tag"]
)
def test_every_task_is_exported_or_refused_in_a_sentence(name, tiny_lm, tmp_path):
    """Those that read a text; the sample of the package is read by each."""
    model = task_class(name)(str(tiny_lm("llama")), **ONE_GRAPH, **small(name)).fit(RECORDS[name], seed=1)
    if model.fitted.plan.head_kind not in GRAPHS:
        with pytest.raises(ValueError, match="outside of any graph"):
            written(model, tmp_path)
        return
    exact, own = written(model, tmp_path, agreement=0.9)
    assert type(own) is type(exact) and own.types == exact.types
    records = [m.to_record(m.answer_inputs([INPUTS[name]])[0]) for m in (own, exact)]
    assert records[0].keys() == records[1].keys()
    assert records[0].get("label") == records[1].get("label")


QUESTIONS = [
    {"context": context, "question": question, "answers": [answer] if answer else []}
    for context, question, answer in [
        ("Ada Brandt left Vellmar in May.", "Who left Vellmar?", {"text": "Ada Brandt", "start": 0}),
        ("Okonkwo sold boats in Lisse.", "Where did Okonkwo sell boats?", {"text": "Lisse", "start": 22}),
        ("It rained in Lisse.", "Who sold boats?", None),
        ("Rain.", "What fell?", {"text": "Rain", "start": 0}),
    ]
]
LABELLED = [
    {"text": text, "label": label}
    for label, texts in {
        "news": ("Ada left the ferry at seven.", "Okonkwo sold boats.", "Nobody was on the ferry."),
        "weather": ("It rained in Lisse, and it rained again.", "Rain.", "The sun was out in Vellmar."),
    }.items()
    for text in texts
]


READINGS = [
    ("{llama}", "mlp", {"memory": True, "pool_mentions": True, "pooling": "first+before", "start_piece": "none"}),
    ("{llama}+starter-words", "span", ONE_GRAPH | {"pool_mentions": True}),
    ("masked:{masked}", "ridge", {}),
    ("unmasked:{lm}", "linear", {"crf": False, "tag_scheme": "bioes"}),
]
OTHER_READINGS = [
    ("{gpt2}", "linear", {"layers": "1,-1", "crf": False}),
    ("{qwen3}", "block", {"tag_scheme": "bioes", "spelling": True, "combine": "concat"}),
    ("{gpt_neox}", "bilstm", {"layers": "last", "context": "sentence"}),
    ("{pair}", "mlp", {"memory": True, "pool_mentions": True, "threshold": 0.3}),
    ("{pair}", "ridge", {"spelling": True, "pooling": "mean"}),
    ("{pair}+starter-words", "mlp", {"start_piece": "none", "pool_mentions": True}),
    ("masked:{masked}+{lm}", "span", {}),
]


@pytest.mark.parametrize(
    ("spec", "head", "options"), [*READINGS, *(pytest.param(*given, marks=LONG) for given in OTHER_READINGS)]
)
def test_every_reading_and_head_is_the_same_in_an_export(spec, head, options, tiny_pair, tiny_lm, world, tmp_path):
    places = {"pair": tiny_pair, "masked": world["masked"], "lm": world["lm"]}
    encoder = spec.format_map(places | {kind: tiny_lm(kind) for kind in KINDS})
    given = with_own(head, {"epochs": 15, "hidden": 32, "lr": 0.01, "cache": False} | options)
    sentences = [Sentence(s.words, s.tags, document=f"d{n // 3}") for n, s in enumerate(read(DATA))]
    model = task_class("tag")(encoder, head, **given).fit(sentences, sentences, seed=1)
    exact, own = written(model, tmp_path, sentences=30)
    assert tags_of(own, TEXTS) == tags_of(exact, TEXTS)
    np.testing.assert_allclose(scores_of(own, TEXTS), scores_of(exact, TEXTS), atol=1e-3)
    assert [tag for text in TEXTS for tag in tags_of(own, [text])] == tags_of(own, TEXTS)
    alone = np.concatenate([scores_of(own, [text]) for text in TEXTS])
    np.testing.assert_allclose(alone, scores_of(own, TEXTS), atol=1e-6)  # the last digit of float32 is a product's
    assert own.evaluate(DATA).f1 == exact.evaluate(DATA).f1
    assert own.answer([Sentence(())])[0].tags == exact.answer([Sentence(())])[0].tags == ()
    if head == "span":
        with pytest.raises(ValueError, match="a threshold is for taggers whose words have probabilities"):
            own.predict("Ada left.", threshold=0.1)
    else:
        found, wanted, few = (tags_of(model, TEXTS) for model in (*(m.with_threshold(0.02) for m in (own, exact)), own))
        assert found == wanted and few.count("O") > found.count("O")


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("bilstm-pool", {"hidden": 8, "epochs": 2}),
        ("ridge-pool", {"words": True}),
        ("lda-pool", {}),
        ("mlp-pool", {"hidden": 8, "epochs": 2, "words": True}),
    ],
)
def test_every_head_of_texts_is_the_same_in_an_export(head, options, tiny_lm, tmp_path):
    model = task_class("classify")(str(tiny_lm("llama")), head, **ONE_GRAPH, **options).fit(LABELLED, seed=1)
    exact, own = written(model, tmp_path)
    texts = [*TEXTS, *(record["text"] for record in LABELLED)]
    np.testing.assert_allclose(own.predict_proba(texts), exact.predict_proba(texts), atol=1e-4)
    assert ("words" in own.fitted.extras) == bool(options.get("words"))


@pytest.mark.parametrize("some_without", [True, pytest.param(False, marks=LONG)])
def test_answers_to_questions_are_the_same_in_an_export(some_without, tiny_lm, tmp_path):
    records = [record for record in QUESTIONS if some_without or record["answers"]]
    model = task_class("qa")(str(tiny_lm("llama")), **ONE_GRAPH, hidden=8, epochs=5).fit(records, records, seed=1)
    exact, own = written(model, tmp_path)
    asked = [(record["question"], record["context"]) for record in QUESTIONS] + [("Who?", TEXTS[3])]
    for found, wanted in zip(own.predict(asked), exact.predict(asked), strict=True):
        assert (found.text, found.start, found.end) == (wanted.text, wanted.start, wanted.end)
        assert found.score == pytest.approx(wanted.score, abs=1e-4)
        assert [span.text for span in found.best] == [span.text for span in wanted.best]
    assert [own.predict(*one) for one in asked] == own.predict(asked)
    assert own.fitted.head.threshold == exact.fitted.head.threshold.item()


def test_a_head_without_its_threshold_is_refused():
    with pytest.raises(ValueError, match="lacks; export it again"):
        GraphHead("answer", None, (), 1.0, None, (), {}).threshold  # noqa: B018


def with_options(**options):
    return {"epochs": 2, "hidden": 8, "cache": False, **options}


def test_large_weights_stand_beside_their_graph(tagger_folder, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("boustro.apps.export.onnx.LARGE_WEIGHTS", 1)
    export_folder(tagger_folder, tmp_path / "out", ExportOptions(sentences=20))
    assert {"lm0.onnx.data", "lm1.onnx.data", "head.onnx.data"} <= {file.name for file in (tmp_path / "out").iterdir()}
    assert load(tmp_path / "out").predict(TEXTS) == load(exported).predict(TEXTS)
    (tmp_path / "out" / "lm0.onnx.data").write_bytes(b"")
    with pytest.raises(ValueError, match=r"lm0.onnx.data holds 0 bytes"):
        load(tmp_path / "out")


def read(data):
    return task_class("tag").read(data)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("repeated:{lm}", "of this kind has no graph"),
        ("unmasked:2:{lm}", "in some blocks only"),
        ("starter-words", "of this kind has no graph"),
        ("starter-words+{lm}", "a table of words behind them needs none"),
    ],
)
def test_what_has_no_graph_is_refused_with_the_reason(spec, why, tiny_lm, tmp_path):
    encoder = spec.format(lm=tiny_lm("llama"))
    task_class("tag")(encoder, "mlp", **with_options()).fit(DATA, seed=1).save_pretrained(tmp_path / "trained")
    with pytest.raises(ValueError, match=why):
        export_folder(tmp_path / "trained", tmp_path / "out", ExportOptions())


INSTEAD = "has no graph; this trains a folder that is exported: {fit}"


@pytest.mark.parametrize(
    ("task", "change", "options", "said"),
    [
        ("tag", {}, (), f"starter-memory beside other encoders {INSTEAD} --encoder starter-memory --out {{small}}"),
        ("classify", {}, (), f"of starter-texts, {INSTEAD} --encoder starter --out {{small}} --text-column text"),
        ("classify", {"head": "centroid-pool"}, (), "centroid-pool head compares vectors .*{fit} --encoder starter "),
        ("classify", {}, ("--format", "module"), "use --format onnx for this task"),
        ("tag", {"encoder": "starter", "head": "block"}, ("--format", "module"), "its head is block, .* --format onnx"),
    ],
)
def test_what_fit_makes_by_default_is_refused_at_once_with_the_command_that_works(
    task, change, options, said, tagger_folder, tmp_path, capsys, monkeypatch
):
    """Nothing that needs torch is imported for it."""
    folder, config = tmp_path / "made", TASKS[task].config()
    folder.mkdir()
    saved = json.loads((tagger_folder / "config.json").read_text())
    saved |= {"task": task, "encoder": config.default_encoder(), "head": config.default_head.replace("auto", "lda")}
    saved |= change
    (tmp_path / "a file").write_text("Ada")
    monkeypatch.chdir(tmp_path)
    saved["record"] |= {"train": {"name": "a file"}, "dev": {"name": "lost"}}
    saved["record"] |= {} if task == "tag" else {"columns": {"text_column": "text"}}
    (folder / "config.json").write_text(json.dumps(saved))
    write_manifest(folder, TASKS[task].folder)
    monkeypatch.setitem(sys.modules, "boustro.apps.export.folder", None)
    assert main(["export", str(folder), "--out", str(tmp_path / "out"), *options]) == 1
    said = said.format(fit="boustro fit --train 'a file'", small=f"{folder}-small")
    assert re.search(said, capsys.readouterr().err)


@LONG
@pytest.mark.parametrize("name", ["train.conll", "topics.jsonl"])
def test_the_command_that_a_refusal_names_works(name, tmp_path, capsys):
    sample = str(files("boustro") / "data" / "sample" / name)
    small = ["--cross-validate", "0", "--quiet"]
    assert main(["fit", "--train", sample, "--out", str(tmp_path / "a"), *small]) == 0
    assert main(["export", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 1
    again = shlex.split(capsys.readouterr().err.partition("exported: boustro ")[2])
    assert main([*again, *small]) == 0
    assert main(["export", again[again.index("--out") + 1], "--out", str(tmp_path / "b"), "--sentences", "50"]) == 0


def test_an_exported_folder_only_answers(exported, tmp_path):
    model = load(exported)
    with pytest.raises(ValueError, match="an exported folder does not tag a text as it arrives"):
        Live(model)
    for call in (lambda: model.fit(DATA), lambda: model.save_pretrained(tmp_path / "again")):
        with pytest.raises(ValueError, match=r"an exported folder is not .* again"):
            call()


def rewritten(folder, out, change):
    """A copy of an exported folder that somebody changed, manifest and all."""
    change(shutil.copytree(folder, out))
    (out / "manifest.json").unlink()
    write_manifest(out, EXPORT)
    return out


def with_config(change):
    def write(folder):
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))

    return write


def with_graph(change):
    def write(folder):
        model = onnx.load(folder / "lm0.onnx")
        change(model)
        (folder / "lm0.onnx").write_bytes(model.SerializeToString())

    return write


def stored_at(place):
    """The first weights of the graph are in another file."""

    def change(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=place)

    return change


def custom(model):
    model.graph.node[0].domain = "com.evil"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_config(lambda c: c.update(surprise=1)), "unknown key 'surprise'"),
        (with_config(lambda c: c["parts"][0].update(pickle=1)), "unknown key 'pickle'"),
        (with_config(lambda c: c.pop("temperature")), "no 'temperature'"),
        (with_config(lambda c: c.update(format=2)), "format 2, and this version reads 1"),
        (with_config(lambda c: c["parts"][0].update(graph="../lm0.onnx")), "names '../lm0.onnx', which is no file"),
        (with_config(lambda c: c.update(task="nothing")), "unknown task 'nothing'"),
        (with_config(lambda c: c.update(inputs=["stream_0"])), "its inputs are stream_0, stream_1, not stream_0"),
        (with_graph(lambda m: m.opset_import[0].__setattr__("version", 17)), "cannot open it .*; export it again"),
        (with_graph(stored_at("../../secret")), "External data path escapes model directory"),
        (with_graph(stored_at("lm0.onnx.data")), "External data path does not exist"),
        (with_graph(custom), "No opset import for domain 'com.evil'"),
        (lambda folder: (folder / "lm0.onnx").write_bytes((folder / "lm0.onnx").read_bytes()[:5000]), "parsing failed"),
        (lambda folder: (folder / "lm0.onnx").write_bytes(b""), "No graph was found"),
        (lambda folder: (folder / "arrays.safetensors").write_bytes(b"\xff" * 20), "safetensors"),
    ],
)
def test_a_forged_folder_is_refused_in_a_sentence(change, said, exported, tmp_path):
    with pytest.raises(ValueError, match=said) as caught:
        load(rewritten(exported, tmp_path / "forged", change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "notes.json").write_text("{}"), "holds notes.json, which its manifest does not list"),
        (lambda folder: (folder / "more").mkdir() or (folder / "more" / "a.b").touch(), r"holds more/a\.b, "),
        (lambda folder: as_link(folder / "lm0.onnx"), r"lm0\.onnx is a link that leads out of the folder"),
        (lambda folder: as_link(folder / "lm0.onnx", "blobs"), ""),  # into the Hub's cache
    ],
)
def test_files_that_are_not_the_folders_own_are_refused(change, said, exported, tmp_path):
    folder = rewritten(exported, tmp_path / "snapshots" / "forged", lambda folder: None)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "seen").touch()  # hidden ones belong to git or to the Hub's client
    (folder / "README.md").write_text("edited")
    assert load(folder)
    change(folder)
    if not said:
        assert load(folder)
        return
    with pytest.raises(ValueError, match=said):
        load(folder)


def as_link(file, to="elsewhere"):
    """The file is moved out of its folder, and a link stands in its place."""
    target = file.parents[2] / to / file.name
    target.parent.mkdir()
    file.rename(target)
    file.symlink_to(target)


@pytest.mark.parametrize("name", ["lm0.onnx", "head.onnx", "config.json", "tokenizer0.json", "arrays.safetensors"])
def test_a_changed_byte_is_noticed(name, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "changed")
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ValueError, match="has changed since it was written"):
        load(folder)


def test_graphs_of_ours_have_standard_operators_alone(exported):
    for file in exported.glob("*.onnx"):
        assert {node.domain for node in onnx.load(file).graph.node} == {""}
        assert b"/site-packages/" not in file.read_bytes()


def test_the_sample_is_there_for_every_task():
    for name in TASKS:
        if name not in ("sense", "embed"):
            task = object.__new__(task_class(name))
            assert len(list(check._sample(task, 30))) == 30


def test_a_card_opens_a_folder_of_any_name(exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / 'Ada\'s "ner" \\n')
    write_export_card(folder, folder.name)
    (block,) = re.findall(r"```python\n(.+?)```", (folder / "README.md").read_text(), re.DOTALL)
    texts = [node.value for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Constant)]
    assert folder.name in texts
