"""The files and folders that the pages' commands name, in a tiny form, and how a block of commands is run on them.

bash expands a block (variables, globs, loops, continued lines); every program in it is a function that only records
its arguments. The recorded `boustro` commands then run in this process, with the numbers of `SMALL` and the words of
`TINY` in place of the expensive ones.
"""

import bz2
import contextlib
import gzip
import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

from boustro.apps.cli.main import main
from boustro.text.tokenizers import with_special_pieces
from conftest import SENTENCES

SMALL = {
    "tokenize": "--workers 1",
    "pretrain": "--tokens 32 --segment-length 16 --batch-segments 2 --micro-batch-segments 1 --no-compile",
    "backward": "--preset gpt2/config.json --segment-length 16 --batch-segments 2 --passes 1 --workers 1 --no-compile",
    "fuse": "--tokens 32 --segment-length 16 --batch-segments 2",
    "elmo": "--words 60 --width 8 --cells 16 --letter-window 1",
    "serve": "--port 0",
    "label": "--port 0 --no-browser --epochs 1",
    "predict": "--workers 1",
    "export": "--sentences 20 --agreement 0",
    "scaling": "--budgets 32 --seeds 1 --sizes tiny --segment-length 16 --batch-segments 2 --no-compile",
    "compare": "--epochs 1 --seeds 1 --hidden 16 --train-sentences 8",
    "distill": "--epochs 1 --hidden 8",
    "language": "--vocabulary 300 --segment-length 64 --batch-segments 4 --preset tiny --passes 1 --epochs 1 "
    "--no-compile",
    "generate": "--length 4",
    "seq2seq": "--epochs 1 --prompt-pieces 5",
}
"""Options that every run of a command gets, instead of the page's values where it names them."""
SMALL_WITH = {
    "adapt": {"--shards": "--tokens 32 --segment-length 16 --batch-segments 2", "--train": "--epochs 1"},
    "fewshot": {"paper": "--shots 1 --budget 2 --epochs 2", "": "--seeds 2 --shots 1"},
    "pack": {"--blocks": "--blocks 1"},
    "fit": {"ridge": "", "ridge-pool": "", "lda-pool": "", "statistics": "", "sense": "", "": "--epochs 1"},
}
"""The same for commands whose options depend on another word of theirs, the first of these that is there."""
TINY = {
    "4-12": "2",
    "8192": "400",
    "mini": "tiny",
    "gpt2-base": "tiny",
    "bert-mini": "bert-tiny",
    "electra-mini": "electra-tiny",
    "eurobert-mini": "eurobert-tiny",
    "biglm-mini": "biglm-tiny",
    "/shared/shards": "shards",
    "/shared/my-backward": "my-backward",
}
"""Words of a command that are replaced wherever they occur."""
VARIABLES = {"C": "conll2003", "DATA": "data", "MINILM": "minilm", "SMOLLM": "large"}

SAMPLE = files("boustro").joinpath("data", "sample", "train.conll").read_text("utf-8")
LABELLED, OTHERS = ("\n\n".join(SAMPLE.split("\n\n")[part]) + "\n\n" for part in (slice(14), slice(14, 44)))
CONLLU = "1\tAda\tAda\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n2\tleft\tleave\tVERB\t_\t_\t1\tx\t_\t_\n\n"
CORPUS = "".join(json.dumps({"text": " ".join(SENTENCES[i:] + SENTENCES[:i])}) + "\n" for i in range(8))
SHARDS = ("validation", "wikipedia", "novels", "english", "swahili")
CORPORA = ("corpus/a", "corpus", "held-out", "wikipedia/train-AA", "wikipedia/train-AB", "data/wikipedia/train-AA")
CORPORA += ("data/wikipedia/train-AB", "data/wikipedia/validation")
CORPORA += tuple(f"data/{source}/train" for source in ("novels", "reddit", "irc", "topicalchat", "articles"))
MADE = (
    "lab tokenize corpus.jsonl --tokenizer gpt2 --out shards",
    "lab pretrain --shards shards --preset mini --out my-forward",
    "fit --train train.conll --dev dev.conll --encoder starter --out ner",
    "fit --train train.conll --dev dev.conll --encoder starter --out names",
    "fit --train texts.jsonl --dev dev-texts.jsonl --out topics",
    "demo --copy-sample sample",
    "lab pretrain --objective prefix-suffix --preset biglm-mini --shards shards --out my-biglm",
)
DATA_SETS = ("conll2003", "wnut17", "crossner_politics")

PROGRAMS = ("boustro", "torchrun", "accelerate", "python", "tail")
END = "\x1e"  # of a command's words; bash would write them in two parts if it were the end of a line
RECORD = "".join(f'{name}() {{ printf "%s\\0" {name} "$@" {END} >&3; }}\n' for name in PROGRAMS)  # one write each

RELATIONS = "".join(
    f'{{"text": "Ada left Vellmar.", "head": {head}, "tail": {tail}, "label": "left({order})"}}\n'
    for head, tail, order in (([0, 3], [9, 16], "e1,e2"), ([9, 16], [0, 3], "e2,e1"))
)
QUESTIONS = '{"question": "Who left?", "context": "Ada left.", "answers": [{"text": "Ada", "start": 0}]}\n'
PAIRS = '{"sentence1": "a", "sentence2": "a", "label": 1}\n{"sentence1": "a", "sentence2": "b", "label": 0}\n'
CHOICES = '{"question": "Ada left", "choices": ["it.", "rain"], "answer": 0}\n' * 2
SCORED = PAIRS.replace("label", "score")
TEXTS = '{"text": "Ada left.", "label": "news"}\n{"text": "It rained.", "label": "weather"}\n'
INSTRUCTION = '{"prompt": "Who left?", "response": "Ada.", "task": "%s"}\n'
SIMILAR = "".join(
    json.dumps({"sentence1": first, "sentence2": second, "score": score}) + "\n"
    for first, second, score in (("Ada left.", "Ada went away.", 5), ("Ada left.", "It rained.", 0))
)


def make_folder(folder: Path) -> Path:
    """Everything that the pages name but do not make."""
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"max_position_embeddings": 256}
    gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256}
    _write_model(folder / "gpt2", "gpt2", "AutoModelForCausalLM", **gpt2)
    _write_model(folder / "my-backward", "llama", "AutoModelForCausalLM", direction="backward", **shape)
    _write_model(
        folder / "meta-llama" / "Llama-2-7b-hf", "llama", "AutoModelForCausalLM", **shape | {"hidden_size": 256}
    )
    _write_model(folder / "large", "llama", "AutoModelForCausalLM", **shape)
    _write_model(folder / "minilm", "bert", "AutoModelForMaskedLM", **shape)
    shutil.copytree(folder / "minilm", folder / "my-masked")
    for name in ("train.conll", "train1000.conll", "train.txt", "dev.txt", "test.txt"):
        _write(folder / name, LABELLED)
    _write(folder / "dev.conll", OTHERS)  # a recall is promised by texts that were not trained on
    for name in DATA_SETS:
        _write(folder / name / "train.txt", LABELLED)
        _write(folder / name / "dev.txt", LABELLED)
    for name in ("texts.jsonl", "dev-texts.jsonl"):
        _write(folder / name, TEXTS)
    for name in ("pairs.jsonl", "dev-pairs.jsonl", "scored.jsonl"):
        _write(folder / name, SCORED if name == "scored.jsonl" else PAIRS)
    _write(folder / "texts.txt", "Ada left. It rained.\n")
    _write(folder / "nested.jsonl", '{"text": "Ada left Port Lisse.", "entities": [[9, 19, "LOC"], [14, 19, "PER"]]}\n')
    _write(folder / "answers.jsonl", '{"words": ["Ada", "left"], "entities": [[0, 1, "PER"]], "source": ""}\n')
    _write(folder / "few.jsonl", '{"text": "Ada left Vellmar.", "entities": [[0, 3, "person"]]}\n' * 2)
    _write(folder / "tickets.csv", "message,topic\nAda left.,news\n")
    _write(folder / "labelled.jsonl", '{"words": ["Ada", "left"], "entities": [[0, 1, "PERSON"]], "source": ""}\n')
    _write(folder / "names.tsv", "Ada\tPER\n")
    _write(folder / "things.tsv", "umbrella\ta thing against rain\nVellmar\ta town\n")
    _write(folder / "kinds.json", '{"PER": "PERSON", "LOC": "PLACE", "date": null}')
    _write(folder / "gaps.txt", "Ada ___ it.\n___ left.\n")
    for name in ("openbookqa-train", "arc-easy-train", "easy"):
        _write(folder / "choices" / f"{name}.jsonl", CHOICES)
    _write(folder / "two-columns.txt", "Ada left.\tAda went.\n")
    for name in ("questions.jsonl", "dev-questions.jsonl"):
        _write(folder / name, QUESTIONS)
    for name in ("relations.jsonl", "dev-relations.jsonl"):
        _write(folder / name, RELATIONS)
    _write(folder / "similar.jsonl", SIMILAR)
    _write(folder / "recipe.yaml", "train: train.conll\nepochs: 1\n")
    _write(folder / "dev.conllu", CONLLU)
    region = {"from_name": "label", "type": "labels", "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}}
    exported = {"data": {"text": "Ada left."}, "annotations": [{"result": [region]}]}
    _write(folder / "export.json", json.dumps([exported, exported]))
    web = folder / "node_modules" / "onnxruntime-web" / "dist"  # a page holds it, whatever it is
    _write(web / "ort.wasm.bundle.min.mjs", "const a = 1; export{a as env};")
    _write(web / "ort-wasm-simd-threaded.wasm", "wasm")
    _write(folder / "answers.txt", "Ada;x;B-PER\nleft;x;O\n")
    for name in ("summaries.jsonl", "dev-summaries.jsonl"):
        _write(folder / name, '{"source": "Ada left for Vellmar.", "targets": ["Ada left."]}\n')
    for name in ("instructions.jsonl", "more-instructions.jsonl"):
        _write(folder / name, "".join(INSTRUCTION % task * 3 for task in ("quoref_what", name[:4])))
    _write(folder / "reviews.jsonl", TEXTS.replace("news", "1").replace("weather", "0"))
    _write(folder / "prompts.txt", "Ada left\nIt rained\n")
    _write(folder / "prompts.jsonl", '{"prompt": "Ada left"}\n')
    _write(folder / "pairs-of-text.jsonl", '{"prompt": "Ada left", "text": " for Vellmar."}\n')
    for name in ("article.txt", "letter.txt", "log.txt", "notes/a.txt", "notes/b.txt"):
        _write(folder / name, "Ada left.\nIt rained.\n")
    (folder / "letters.txt.gz").write_bytes(gzip.compress(b"Ada left.\n"))
    _write(folder / "tokens.txt", "secret\n")
    _write(folder / "corpus.jsonl", CORPUS)
    with contextlib.chdir(folder):
        for command in MADE:
            assert main(make_small(command.split())) == 0
    shutil.copytree(folder / "names", folder / "my-names")
    shutil.copytree(folder / "ner", folder / "my-orders")
    (folder / "texts").mkdir()
    _write(folder / "texts" / "a.jsonl", CORPUS)
    for name in SHARDS:
        shutil.copytree(folder / "shards", folder / name)
    for name in CORPORA:
        path = folder / f"{name}.jsonl.bz2"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bz2.compress(CORPUS.encode()))
    return folder


def expand(block: str, folder: Path) -> list[list[str]]:
    """The commands of a block as bash runs them in `folder`, each as a list of words."""
    assignments = "".join(f"{name}={value}\n" for name, value in VARIABLES.items())
    script = f"exec 3>&1 1>/dev/null\n{RECORD}{assignments}{block}"
    done = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True, check=True)
    commands: list[list[str]] = [[]]
    for word in done.stdout.split("\0")[:-1]:
        commands.append([]) if word == END else commands[-1].append(word)
    return [command for command in commands if command]


def arguments_of(command: list[str]) -> list[str] | None:
    """What `boustro` is given; a launcher of several processes is left out. `None` for other programs."""
    if command[0] in ("torchrun", "accelerate"):
        start = command.index("lab")
        assert command[start - 2 : start] == ["-m", "boustro"], "the module that runs, see test_package"
        return command[start:]
    return command[1:] if command[0] == "boustro" else None


def make_small(arguments: list[str]) -> list[str]:
    """The same command with the numbers of `SMALL` and the words of `TINY`."""
    start = int(arguments[0] == "lab")
    name, *rest = [TINY.get(word, word) for word in arguments[start:]]
    small = next((own for word, own in SMALL_WITH.get(name, {}).items() if not word or word in rest), None)
    small = SMALL.get(name, "") if small is None else small
    for option, values in re.findall(r"(--\S+)((?: [^-]\S*)*)", small):
        rest = _set_option(rest, option, values.split())
    if name == "fit" and "--encoder" not in rest:  # a tagger's default takes most of the time of all pages
        rest += ["--encoder", "starter"]
    return [*arguments[:start], name, *rest]


def run_block(block: str, folder: Path) -> None:
    """Run the block's `boustro` commands in `folder`, the current one."""
    for command in expand(block, folder):
        if (arguments := arguments_of(command)) is None:
            continue
        arguments = make_small(arguments)
        for option in ("--out-tagger", "--out"):
            if option in arguments and (option, arguments[0]) != ("--out", "label"):  # which continues a file
                # A placeholder, or the result of another choice in the same block.
                _remove(folder / arguments[arguments.index(option) + 1])
        assert main(arguments) == 0, " ".join(arguments)


def _set_option(words: list[str], option: str, values: list[str]) -> list[str]:
    """`["--seeds", "3", "--out", "x"]` → `["--out", "x", "--seeds", "1"]`"""
    if option in words:
        begin = words.index(option)
        end = next((i for i in range(begin + 1, len(words)) if words[i].startswith("--")), len(words))
        words = words[:begin] + words[end:]
    return [*words, option, *values]


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def _write_model(folder: Path, kind: str, auto: str, direction: str = "forward", **shape: int) -> None:
    """A random model over the shipped pair's vocabulary, so that all models and shards here share one."""
    import transformers

    tokenizer = Path(str(files("boustro"))) / "data" / "starter" / "forward"
    if auto == "AutoModelForMaskedLM":
        pieces = with_special_pieces(tokenizer, ["mask", "cls", "sep", "pad"])
    else:
        pieces = transformers.AutoTokenizer.from_pretrained(tokenizer)
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(pieces), bos_token_id=0, eos_token_id=0, **shape)
    getattr(transformers, auto).from_config(config).save_pretrained(folder)
    pieces.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(written | {"direction": direction, "sentinel": True}), "utf-8")
