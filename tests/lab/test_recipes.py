"""Where values of options come from: command line, recipe, preset, defaults; and what does not fit a pretraining."""

import importlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, ElectraConfig, EuroBertConfig, GPT2Config, LlamaConfig, T5Config

import boustro.lab.objectives
from boustro.apps.batch.command import predict
from boustro.apps.cli.arguments import Line, resolved
from boustro.apps.cli.commands import fit
from boustro.apps.cli.known import COMMANDS
from boustro.apps.cli.listed import OptionTable, list_options
from boustro.apps.cli.main import main
from boustro.apps.cli.own_lms import adapt, elmo
from boustro.apps.studies.compare.command import compare
from boustro.lab.adapt.options import AdaptConfig, TextAdaptOptions
from boustro.lab.objectives.masking import make_masking
from boustro.lab.pretrain.recipes import RECIPES, check_objective, fitting_objectives
from boustro.models.pretrained import architecture_kind
from boustro.options import OptionError
from boustro.tasks.data.conll import format_conll
from labelled import DATA
from test_masked import make_pieces
from tokenizer_kinds import TINY


def values(command, words):
    """What a command would be called with."""
    line = Line.read(command, words, "boustro fit")
    return resolved(line.table.call_with(line.values("boustro fit", "fit --train a --out b")))


REQUIRED = ["--train", "a.conll", "--out", "b"]


def test_the_command_line_comes_before_the_recipe_and_the_recipe_before_the_preset(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("epochs: 7\nlr: 0.01\ncrf: true\npreset: paper\ntrain: c.conll\nhidden: null\n")
    found = values(fit, ["--out", "b", "--config", str(recipe), "--lr", "0.02"])
    assert (found["lr"], found["epochs"], found["crf"], found["dropout"]) == (0.02, 7, True, 0.1)
    assert (found["train"], found["hidden"], found["layers"]) == ("c.conll", None, "last")


def test_a_preset_changes_the_defaults():
    assert values(fit, [*REQUIRED, "--preset", "paper"])["pooling"] == "first"
    assert values(fit, [*REQUIRED, "--preset", "paper", "--hidden", "3", "--crf"])["hidden"] == 3
    assert values(fit, REQUIRED)["hidden"] == 512
    with pytest.raises(ValueError, match=r"unknown preset 'papers'.*did you mean 'paper'"):
        values(fit, [*REQUIRED, "--preset", "papers"])


def test_each_task_has_its_own_options_and_head(tmp_path):
    found = values(fit, [*REQUIRED, "--task", "classify"])
    assert found["head"] is None and "tag-scheme" not in found
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "Good.", "label": 1}\n')
    assert values(fit, ["--train", str(texts), "--out", "b"])["task"] == "classify"
    assert values(fit, ["--train", str(texts), "--out", "b", "--task", "tag"])["task"] == "tag"
    texts.write_text('{"words": ["Good"], "tags": ["O"]}\n')
    assert values(fit, ["--train", str(texts), "--out", "b"])["task"] == "tag"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "'epoch' is not an option of boustro fit; did you mean 'epochs'"),
        ("epochs: [", "not valid YAML"),
        ("- 3", "expected option names and their values"),
        ("3: 4", "expected option names and their values"),
        ("epochs: 3\nlr: 1\nepochs: 4", "epochs is given twice; remove one of them"),
        ("batch_words: 3\nbatch-words: 4", "batch-words is given twice; remove one of them"),
        ("epochs: many", "many"),
        ("epochs: 0", "epochs must be at least 1"),
        (None, "recipe.yaml"),
    ],
)
def test_a_recipe_is_checked(tmp_path, capsys, text, message):
    recipe = tmp_path / "recipe.yaml"
    if text is not None:
        recipe.write_text(text)
    assert main(["fit", *REQUIRED, "--config", str(recipe)]) in (1, 2)
    said = capsys.readouterr().err
    assert message in said and (str(recipe) in said or text == "epochs: 0") and "Traceback" not in said


def test_a_folder_is_a_recipe_of_itself(tiny_lm, tmp_path):
    train = tmp_path / "train.conll"
    train.write_text(format_conll(DATA))
    words = ["fit", "--encoder", str(tiny_lm("llama")), "--train", str(train), "--preset", "paper"]
    words += ["--epochs", "2", "--lr", "0.01", "--cross-validate", "0"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    assert main(["fit", "--config", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 0
    heads = [(tmp_path / name / "head.safetensors").read_bytes() for name in "ab"]
    assert heads[0] == heads[1]
    made_by = json.loads((tmp_path / "b/manifest.json").read_text("utf-8"))["made_by"]
    assert made_by["options"]["epochs"] == 2 and made_by["options"]["hidden"] is None


def test_an_unknown_task_is_a_usage_error_that_lists_the_known_ones(capsys):
    assert main(["fit", *REQUIRED, "--task", "clasify"]) == 2
    said = capsys.readouterr().err
    assert "tag" in said and "classify" in said


def test_options_of_options_are_options():
    known = {option.name: option for option in list_options(elmo).options}
    assert known["corpus"].positional and not known["cells"].positional
    assert {"lm", "shards", "train", "scheme"} <= list_options(adapt).named.keys()
    assert "presets" not in list_options(fit).named
    config = AdaptConfig(lm="gpt2", out=Path("a"), text=TextAdaptOptions(shards=Path("s")))
    assert resolved({"config": config})["shards"] == "s"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ner", "a", "--format", "jsonl", "b"], {"folder": "ner", "files": ["a", "b"], "format": "jsonl"}),
        (["--quiet", "ner", "--reads=xml"], {"folder": "ner", "files": ["-"], "quiet": True, "reads": "xml"}),
        (["ner", "--cache", "--format", "html", "--states", "a", "--states=b"], {"cache": True, "states": ["a", "b"]}),
        (["ner", "--state_layers", "4,9", "--delay", "3"], {"state-layers": "4,9", "delay": 3}),
        (["--config", "recipe.yaml", "text"], {"folder": "ner", "files": ["text"], "format": "csv", "states": ["s"]}),
        (["--config", "recipe.yaml", "--format=conll"], {"folder": "ner", "files": ["-"], "format": "conll"}),
        (["--config", "all.yaml"], {"folder": "ner", "files": ["a", "b"]}),
        (["--config", "all.yaml", "other", "c"], {"folder": "other", "files": ["c"]}),
    ],
)
def test_words_become_values_wherever_they_stand(words, expected, tmp_path, monkeypatch):
    """Several values are joined; of values without a name a recipe has those that it names and the line does not."""
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text("folder: ner\nformat: csv\nstates: [s]\n")
    Path("all.yaml").write_text("folder: ner\nfiles: [a, b]\n")
    found = values(predict, words)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_is_given_once_or_its_values_are_joined(name):
    command = COMMANDS[name].function()
    for option in Line.read(command, [], "boustro").table.named.values():
        kind = bool if option.is_boolean else tuple[str, ...] if option.takes_several else str
        table = OptionTable(command, [replace(option, hint=kind, default=None)], {}, "")
        twice = [(option.name, []), (f"no-{option.name}", [])] if kind is bool else [(option.name, ["1"])] * 2
        line = Line(table, [("", []), *twice], {}, None)
        if option.takes_several:
            assert line.values("boustro", "") == {option.name: ("1", "1")}
        else:
            with pytest.raises(OptionError, match=r"(is given twice|are both given); remove one"):
                line.values("boustro", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "a", "--config=a"], "--config is given twice; remove one of them"),
        (["--seeds=1", "--seeds", "1"], "--seeds is given twice; remove one of them"),
        (["--quiet", "--quiet"], "--quiet is given twice; remove one of them"),
        (["--no-cache", "--cache"], "--no-cache and --cache are both given; remove one of them"),
        (["--config"], "--config needs a value"),
        (["--cases", "a"], "--cases must be 2 values, not"),
        (["--seeds"], "--seeds needs a value: number of seeds"),
        (["--config", "recipe.yaml"], "recipe.yaml: --seeds must be a whole number, not 'many'"),
        (["--config", "none.yaml"], "none.yaml: --seeds must be a whole number, not None"),
        (["--config", "flag.yaml"], "flag.yaml: --train must be a path, not True"),
        (["--config", "word.yaml"], "word.yaml: --cache must be True or False, not 'on it'"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipes = {"recipe": "seeds: many", "none": "seeds: null", "flag": "train: yes", "word": "cache: on it"}
    for name, text in recipes.items():
        Path(f"{name}.yaml").write_text(text)
    with pytest.raises(OptionError, match=f"^{re.escape(message)}"):
        values(compare, ["--encoders", "a", *words])


SHIPPED = ("causal", "masked", "span", "replaced", "sentence-pair", "prefix-suffix")
TEXT = ["The ferry to Vellmar leaves at seven, unbelievably late.", "Nobody reads the harbour bulletin!"] * 3


@pytest.mark.parametrize(
    ("config", "kind", "fitting"),
    [
        (LlamaConfig(), "causal", ["causal"]),
        (GPT2Config(), "causal", ["causal"]),
        (BertConfig(), "masked", ["masked", "span", "sentence-pair", "prefix-suffix"]),
        (BertConfig(is_decoder=True), "causal", ["causal"]),
        (EuroBertConfig(), "masked", ["masked", "span", "prefix-suffix"]),
        (ElectraConfig(), "masked", ["masked", "span", "replaced", "prefix-suffix"]),
        (T5Config(), None, []),
    ],
)
def test_what_fits_an_architecture(config, kind, fitting):
    found = fitting_objectives(config)
    assert architecture_kind(config) == kind
    assert [name for name in found if name in SHIPPED] == fitting
    tokenizer = make_pieces(cls_token_id=1, sep_token_id=2, pad_token_id=3)
    for name in RECIPES:
        if name in found:
            check_objective(name, config, tokenizer)
        else:
            with pytest.raises(ValueError, match=f"objective '{name}' (trains|needs the heads)"):
                check_objective(name, config, tokenizer)


@pytest.mark.parametrize(
    ("name", "config", "options", "message"),
    [
        ("maskd", BertConfig(), {}, "unknown objective 'maskd': known are causal, .*did you mean 'masked'"),
        ("masked", LlamaConfig(), {}, "trains masked LMs, but 'llama' is a causal one, which fits: causal"),
        ("causal", BertConfig(), {}, "trains causal LMs, but 'bert' is a masked one, which fits: masked, span"),
        ("causal", T5Config(), {}, "'t5' is neither a causal nor a masked one, which fits no objective"),
        ("replaced", BertConfig(), {}, "needs the heads of electra, not of 'bert', which fits: masked, span"),
        ("masked", BertConfig(), {"mask_token_id": None}, "a tokenizer with a mask piece.*do not need it: causal"),
        ("sentence-pair", BertConfig(), {}, "a cls and a sep and a pad piece.*'cls_token': '<|cls|>', 'sep_token'"),
    ],
)
def test_errors_say_what_would_fit(name, config, options, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        check_objective(name, config, make_pieces(**options))


def test_whole_words_need_a_tokenizer_that_shows_them():
    with pytest.raises(ValueError, match="do not show where words begin"):
        check_objective("masked", BertConfig(), make_pieces(), hide="word")
    check_objective("causal", LlamaConfig(), make_pieces(), hide="word")  # hides nothing


def test_every_objective_has_its_recipe():
    """A function named as its file is an objective of a recipe, except the one that adapters are trained with."""
    files = Path(str(boustro.lab.objectives.__file__)).parent.glob("[a-z]*.py")
    found = {
        file.stem.replace("_", "-")
        for file in files
        if callable(getattr(importlib.import_module(f"boustro.lab.objectives.{file.stem}"), file.stem, None))
    }
    assert found == RECIPES.keys() | {"masked-next"}


def test_the_masking_of_a_tokenizer():
    tokenizer = TINY["ours"](TEXT)
    end = tokenizer.eos_token_id
    with pytest.raises(ValueError, match="no mask piece"):
        make_masking(tokenizer, end)
    tokenizer.add_special_tokens({"mask_token": "<|mask|>"})
    masking = make_masking(tokenizer, end, "word", vocab_size=500, rate=0.4)
    assert masking.mask_id == tokenizer.mask_token_id and masking.rate == 0.4
    special = np.flatnonzero(masking.special).tolist()
    assert special == [end, *range(len(tokenizer) - 1, 500)], (
        "the sentinel, the mask piece, and ids that stand for nothing"
    )
    ids = np.array(tokenizer(" harbour")["input_ids"])
    assert len(set(masking.words(ids).tolist())) == 1
    assert make_masking(tokenizer, end).word_starts is None


SEVERAL = {
    "redact --text-column message t.csv": {"source": "t.csv", "text-column": ["message"]},
    "predict ner --text-column a,b t.csv": {"folder": "ner", "files": ["t.csv"], "text-column": ["a", "b"]},
    "predict --labels a,b --text-column X t.csv": {"files": ["t.csv"], "labels": ["a,b"], "text-column": ["X"]},
    "evaluate --text-column X ner t.csv": {"folder": "ner", "data": "t.csv", "text-column": ["X"]},
    "check --text-column X t.csv": {"data": ["t.csv"], "text-column": ["X"]},
    "label --labels A,B t.txt --out o": {"texts": "t.txt", "labels": ["A,B"]},
    "serve --allow-hosts a.org,b.org t.txt": {"folders": ["t.txt"], "allow-hosts": ["a.org", "b.org"]},
    "pack --texts t.txt gpt2 --out o": {"model": "gpt2", "texts": ["t.txt"]},
    "backward --text t.txt,t.csv gpt2 --out o": {"model": "gpt2", "text": ["t.txt", "t.csv"]},
    "backward --text x,y.txt gpt2 --out o": {"model": "gpt2", "text": ["x,y.txt"]},
    "backward --text x,z.txt --text t.txt gpt2 --out o": {"text": ["x,z.txt", "t.txt"]},
    "distill --texts t.txt ner --student s --out o": {"folder": "ner", "texts": ["t.txt"]},
    "memory --data t.csv t.txt --out o": {"corpus": ["t.txt"], "data": ["t.csv"]},
    "compare --encoders a,b --shots 4,16 --vary p=1,2 --vary q=3 --train t --dev d --out o": {
        "encoders": ["a", "b"],
        "shots": [4, 16],
        "vary": ["p=1,2", "q=3"],
    },
    "redact --text-column '\"Name, first\",b' t.csv": {"text-column": ["Name, first", "b"]},
}


@pytest.mark.parametrize("line", SEVERAL)
def test_an_option_of_several_values_takes_no_word_of_others(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.csv", "t.txt", "x,y.txt"):
        Path(name).touch()
    name, *words = shlex.split(line)
    found = values(COMMANDS[name].function(), words)
    assert {option: found[option] for option in SEVERAL[line]} == SEVERAL[line]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_old_spelling_of_several_values_is_refused_in_every_command(name, tmp_path, monkeypatch):
    """Wherever the option stands; another meaning of the second value would be worse."""
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[name].function()
    positional = [f"value{number}" for number, _ in enumerate(list_options(command).positional)]
    for option in (option for option in list_options(command).named.values() if option.takes_several):
        two = ["mlp", "ridge"] if option.name == "heads" else ["a1", "b1"]
        said = f"{option.flag} takes one value, and '{two[1]}' stands after that; give several as {option.flag} "
        for line in ([*positional, option.flag, *two], [option.flag, *two, "--config", "{}", *positional]):
            Path("{}").write_text("{}")
            with pytest.raises(OptionError, match=said + ",".join(two)):
                values(command, line)
