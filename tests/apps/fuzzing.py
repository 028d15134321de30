"""Malformed input, drawn at random: command lines, files, folders and calls that people and accidents make.

    case = Case(Random(seed), world, folder)
    case.draw()       what to run: the arguments of a command, or a call; its folder is prepared
    case.said         what it is, for the message of a failure
    case.mine         what the run may replace: all else that lies there must stay as it is

`World` holds one valid thing of every kind; a case damages copies of them, or hands them to the wrong command.
"""

import bz2
import gzip
import json
import lzma
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import boustro
from boustro.apps.cli.known import COMMANDS, called
from boustro.encoders.spec import load_encoder
from boustro.metrics.labels import score_labels
from boustro.metrics.spans import score_spans
from boustro.tasks.data import read_data
from boustro.types import Entity, Sentence
from damage import BYSTANDER, VALUES, damage_bytes, damage_folder
from world import DATA, TEXTS, World

NUMBERS = "0 -1 -0 1 2 3 1.5 nan inf -inf 1e400 1e-400 1_0 0x10 ٣ ½".split()
NUMBERS += map(str, (10**30, -(10**30), 2**31, 2**63, 2**64))
WORDS = ["", " ", "a" * 5000, "a b", "a\tb", "\\", "\x1b[31m", "\x7f", "\udcff"]
WORDS += "é 日本語 🦬 -- - --out -x --no None True false null {} [] * %s {0} [bold]x[/] mlp all ~x".split()
PLACES = ["", "x" * 300, *". .. / /proc/x /dev/null ~nobody/x file.txt file.txt/inside others link dangling".split()]
PLACES += "filelink loop missing/deep/down others/new new tagger -".split()
WRITTEN = [*PLACES, "/dev/full"]  # which has no end when it is read
REPLACE = ("predict", "embed", "weak", "geometry")  # a file at --out where --overwrite says so
NOT_OURS = ("others", "link", "file.txt", "filelink", "dangling", "loop")
SPECS = ["", " {lm}", *"+ a++b a+ ::: ~ ~nobody/x x@ @ é / . .. /dev/null a/b/c/d owner/name ../{lm} {lm}@main".split()]
SPECS += (
    "unmasked:9-1:{lm} unmasked:0:{lm} unmasked:-:{lm} unmasked:1-99:{lm} unmasked:{elmo} unmasked:{adapted}".split()
)
SPECS += "repeated:0:{lm} repeated:-1:{lm} repeated:999999999999:{lm} repeated:x:{lm} backward:backward:{lm}".split()
SPECS += (
    "fused: fused:{lm} fused:{adapted} {fusion} elmo: elmo:/dev/null elmo:{lm} masked:{lm} lm:{lm} {adapted}".split()
)
SPECS += "{lm}+{elmo} {lm}+{lm}+{lm} {back}+{lm} {lm}+masked:starter starter:x starter@x starter-foward".split()
SPECS += "memory: memory:{lm} memory:{memory}+{lm} {memory} repeated:{memory}".split()
SPECS += "backwards:{lm} {tagger} {shards} {corpus.txt}".split()
VARIED = ["", *"= x pooling pooling= =exit pooling=exit,,last layers=9 layers=last,last crf=maybe epochs=0,1".split()]
VARIED += "epochs=x hidden=-1 lr=nan poling=exit encoder=a,b a=b=c head=,".split()
SURROUNDINGS = {
    "BOUSTRO_CACHE": ["", *"file.txt file.txt/x /dev/null others link loop dangling /proc/x".split()],
    "BOUSTRO_CACHE_LIMIT": ["", *"0 -1 nan 1 8XB inf 1e400 B 10K".split()],
    "BOUSTRO_BF16": ["", "2", "yes", "-1"],
}
KNOWN_VALUES = {
    **dict.fromkeys(["--json", "--out", "--held-back"], WRITTEN),
    **dict.fromkeys(["--encoder", "--encoders", "--lm", "--forward", "--init-from"], SPECS),
    **dict.fromkeys(
        ["--train", "--dev", "--test", "--shards", "--validation", "--folder", "--errors", "--token-file"], PLACES
    ),
    "--vary": VARIED,
    "--host": ["", *"localhost 127.0.0.1 ::1 0.0.0.0 ::".split()],
}


@dataclass
class Case:
    """One case; `folder` is empty before, and the working folder while it runs."""

    random: Random
    world: World
    folder: Path
    said: str = ""
    mine: list[Path] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def draw(self) -> list[str] | Callable[[], Any]:
        """Prepare the folder; returns the arguments of a command, or what to call."""
        self._furnish()
        kinds = [command_line, damaged_file, damaged_folder, odd_call, odd_table, other_kind]
        thrown = self.random.choices(kinds, weights=[8, 6, 8, 6, 2, 1])[0](self)
        if isinstance(thrown, list):
            self.said += f" boustro {' '.join(map(repr, thrown))}"
            self._may_replace(thrown)
        return thrown

    def copy(self, name: str) -> Path:
        """A copy of something valid, in the case's folder."""
        source, target = Path(self.world[name]), self.folder / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
            return target
        return Path(shutil.copy(source, target))

    def _furnish(self) -> None:
        """What belongs to others."""
        (self.folder / "others").mkdir(parents=True)
        for place in (self.folder, self.folder / "others"):
            (place / BYSTANDER).write_text("mine")
        (self.folder / "file.txt").write_text("mine")
        for name, target in (("link", "others"), ("dangling", "gone"), ("filelink", "file.txt"), ("loop", "loop")):
            (self.folder / name).symlink_to(target)

    def _may_replace(self, arguments: list[str]) -> None:
        """A file that is named for figures; what is asked to be gone on with or begun anew; a study's cells."""
        again = {"--overwrite", "--resume"} & {*arguments} or arguments[:1] in (["compare"], ["fewshot"], ["scaling"])
        for option, value in pairwise(arguments):
            place = Path(os.path.normpath(self.folder / value))
            overwritten = "--overwrite" in arguments and option in ("--errors", "--out") and arguments[0] in REPLACE
            if option in ("--json", "--held-back") or overwritten:
                self.mine += [p for p in (place, Path(os.path.realpath(place))) if _is_file(p)]
            if option == "--out" and again and self.folder in place.parents and place.name not in NOT_OURS:
                self.mine += [place.with_name(place.name + left) for left in ("", ".checkpoints", ".checkpoint")]
            if option == "--folder" and "clear" in arguments and self.folder in place.parents:
                self.mine.append(place)


def command_line(case: Case) -> list[str]:
    """A command of which one to three words are wrong; sometimes it is run where the surroundings are."""
    random = case.random
    name = random.choice([*COMMANDS])
    words = [name, *case.world.command(name)[len(called(name).split()) :]]
    ways = [_odd_option, _odd_option, _odd_option, _odd_option, _odd_value, _odd_place, _odd_spec, _missing, _misspelt]
    for _ in range(random.randint(1, 3)):
        words = random.choice(ways)(case, words)
    if random.random() < 0.1:
        name = random.choice(list(SURROUNDINGS))
        case.environment[name] = random.choice(SURROUNDINGS[name])
        case.said = f"{name}={case.environment[name]!r}"
    return words


def _odd_option(case: Case, words: list[str]) -> list[str]:
    option = case.random.choice(case.world.options.get(words[0] if words else "", ["--out"]))
    odd = KNOWN_VALUES.get(option) or case.random.choice([NUMBERS, NUMBERS, WORDS, SPECS, PLACES])
    value = case.world.fill(case.random.choice(odd))
    return [*words, option, *case.random.choice([[value], [value], [value, value], []])]


def _odd_value(case: Case, words: list[str]) -> list[str]:
    if len(words) < 2:
        return words
    at = case.random.randrange(1, len(words))
    return [*words[:at], case.random.choice([*NUMBERS, *WORDS, *PLACES]), *words[at + 1 :]]


def _odd_place(case: Case, words: list[str]) -> list[str]:
    return [*words, case.random.choice(["--out", "--json"]), case.random.choice(WRITTEN)]


def _odd_spec(case: Case, words: list[str]) -> list[str]:
    return [case.world.fill(case.random.choice(SPECS)) if w == case.world["lm"] else w for w in words]


def _missing(case: Case, words: list[str]) -> list[str]:
    at = case.random.randrange(len(words)) if words else 0
    return words[:at] + words[at + 1 :]


def _misspelt(case: Case, words: list[str]) -> list[str]:
    at = case.random.randrange(len(words)) if words else 0
    return [w if n != at else w[1:] + w[:1] + case.random.choice(["", "x", "-"]) for n, w in enumerate(words)]


def damaged_file(case: Case) -> list[str] | Callable[[], Any]:
    """Labelled data, text or a corpus, mutated, under a command that reads it."""
    random = case.random
    source = random.choice([*DATA, *DATA, *TEXTS])
    content = Path(case.world[source]).read_bytes()
    if ".json" in source and random.random() < 0.3:
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        left = {random.choice(["relations", "spans", "tags", "label", "head"]): random.choice(VALUES)}
        rows = [row | left if isinstance(row, dict) and random.random() < 0.5 else row for row in rows]
        content = json.dumps(rows, indent=random.choice([None, 1])).encode()
    for _ in range(random.randint(1, 3)):
        content = damage_bytes(random, content, json_lines=".json" in source)
    suffix = "".join(Path(source).suffixes)
    if random.random() < 0.2:
        suffix = random.choice([".txt", ".conllu", ".json", ""])
    packed = random.choice(["", "", "", "", ".gz", ".bz2", ".xz"])
    if packed:
        content = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[packed](content)
        if random.random() < 0.6:
            content = damage_bytes(random, content, json_lines=False)
    path = case.folder / f"data{suffix}{packed}"
    path.write_bytes(content)
    case.said = f"{source} damaged as {path.name},"
    return random.choice([*(_reader(case, command, str(path)) for command in READERS), partial(read_data, path)])


def odd_table(case: Case) -> list[str]:
    """A CSV or TSV file of any dialect, sometimes damaged, under a command that reads labelled texts."""
    random = case.random
    columns = random.choices([*"text label message topic score sentence1 sentence2 start1 text".split(), ""], k=3)
    columns = random.choice([["text", "label"], ["sentence1", "sentence2", "label"], columns])
    cells = ["Ada left.", "", " x ", '"', '"no" he said', '"a""b"', "a,b", "a;b", "a\tb", '"a\nb"', "4.5", "🚒"]
    cells.append("s3://a/b")
    rows = [columns, *(random.choices(cells, k=len(columns) + random.choice([0, 0, 0, 1, -1])) for _ in range(4))]
    separator, end = random.choice(",;\t|"), random.choice(["\n", "\r\n", "\r"])
    lines = [f"sep={random.choice(',;^')}"] * (random.random() < 0.2) + [separator.join(row) for row in rows]
    content = end.join(lines).encode(random.choice(["utf-8", "utf-8-sig", "utf-16"]))
    path = case.folder / random.choice(["data.csv", "data.tsv", "data.TSV"])
    path.write_bytes(damage_bytes(random, content, json_lines=False) if random.random() < 0.4 else content)
    case.said = f"the table {content!r},"
    return _reader(case, random.choice(TABLE_READERS), str(path))


def other_kind(case: Case) -> list[str] | Callable[[], Any]:
    """A file that is not plain text, under any name, under a command that reads text."""
    random = case.random
    start = random.choice(STARTS)
    endings = [*".txt .csv .tsv .json .jsonl .conll .conllu .gz .bz2 .parquet .arrow".split(), ""]
    path = case.folder / f"data{random.choice(endings)}"
    path.write_bytes(start + random.choice([b"", random.randbytes(300), bytes(300), b"Ada B-PER\n\n" * 9]))
    case.said = f"{path.name} that begins with {start!r},"
    return random.choice([*(_reader(case, command, str(path)) for command in READERS), partial(read_data, path)])


STARTS = [b"PK\x03\x04", b"PK\x05\x06", b"%PDF-1.7\n", b"PAR1\x15", b"ARROW1\x00\x00", b"\x1f\x8b\x08", b"BZh91AY&SY"]
STARTS += [b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"GGUF\x03\x00\x00\x00", b"SQLite format 3\x00", b"\x80\x04\x95"]
STARTS += [b"version https://git-lfs.github.com/spec/v1\n", b"<!DOCTYPE html>", b"\xff\xfe", b"\xef\xbb\xbf"]
STARTS.append(b"\xd0\xcf\x11\xe0")
TABLE_READERS = [
    "check {}",
    "check {} {} --task classify --json -",
    "check {} --task regress",
    "check {} --task pair --text-column message,topic --label-column label",
    "check {} --task classify --text-column message --label-column topic",
    "check {} --task similarity --delimiter ;",
    "check {} --task qa",
    "evaluate {tagger} {}",
    "fit + --train {} --text-column text",
]
READERS = 3 * [
    "check {} {train.conll} --json -",
    "check {train.conll} {} --scheme SCHEME",
    "evaluate {tagger} {}",
    "predict {tagger} {} --format FORMAT",
]
READERS += [
    "evaluate {span_tagger} {}",
    "tokenize {} --tokenizer {lm} --out out --workers 1",
    "tokenize {} --train-tokenizer 300 --out out --workers 1 --split line",
    "fit + --train {}",
    "fit + --train {}",
    "fit + --dev {} --head span",
    "fewshot + --train {}",
    "elmo + --validation {}",
    "memory {} --encoder {lm} --out out",
    "adapt --lm {lm} --out out --epochs 1 --train {}",
]
OPENERS = {
    "tagger": ["evaluate {} {train.conll}", "predict {} {corpus.txt}", "fit + --out {}"],
    "span_tagger": ["evaluate {} {train.conll}", "predict {} {corpus.txt}"],
    "lm": ["fit + --encoder {}", "pretrain + --init-from {}", "fit + --encoder {back}+{}", "ENCODE {}"],
    "model": [
        "fit + --encoder {}",
        "fit + --encoder unmasked:{}",
        "tokenize + --tokenizer {}",
        "pretrain + --init-embeddings-from {}",
        "pretrain + --out {} --resume",
        "pretrain + --out {}",
        "ENCODE repeated:{}",
    ],
    "masked": ["fit + --encoder masked:{}", "ENCODE masked:{}"],
    "shards": [
        "pretrain + --shards {}",
        "pretrain + --validation {}",
        "fuse + --shards {}",
        "tokenize + --out {} --overwrite",
    ],
    "fusion": ["fit + --encoder fused:{}", "fuse + --out {} --resume", "ENCODE fused:{}"],
    "elmo": ["fit + --encoder elmo:{}", "elmo + --out {} --resume", "ENCODE elmo:{}"],
    "memory": ["fit + --encoder memory:{}", "memory + --out {}", "ENCODE memory:{}"],
    "adapted": ["fit + --encoder unmasked:{}", "fit + --encoder {}", "ENCODE unmasked:{}"],
    "cache": ["cache list --folder {}", "cache clear --folder {}", "fit +"],
    "study": ["compare + --out {}", "compare + --out {} --report-only", "compare + --out {} --dry-run"],
    "shots": ["fewshot + --out {}"],
    "stopped.checkpoints": ["pretrain + --out stopped --resume", "pretrain + --out stopped"],
    "halted.checkpoints": ["fuse + --out halted --resume"],
}
"""By what is damaged: commands that open it. `+` stands for arguments with which all goes well, `{}` for the folder."""


def _reader(case: Case, pattern: str, path: str) -> list[str]:
    """The arguments of a command that reads what lies at `path`."""
    formats, schemes = ["text", "jsonl", "conll", "html"], ["auto", "bio", "iob1", "bioes", "labels"]
    chosen = {"FORMAT": case.random.choice(formats), "SCHEME": case.random.choice(schemes)}
    name, *words = pattern.split()
    good = case.world.command(name)[len(called(name).split()) :] if name in COMMANDS else []
    filled = [good if w == "+" else [case.world.fill(chosen.get(w, w).replace("{}", path))] for w in words]
    return [name, *(word for part in filled for word in part)]


def damaged_folder(case: Case) -> list[str] | Callable[[], Any]:
    """A folder of ours, damaged, under a command that opens it."""
    random = case.random
    name = random.choice(list(OPENERS))
    copy = case.copy(name)
    damages = [damage_folder(random, copy) for _ in range(random.choice([1, 1, 1, 2]))]
    if random.random() < 0.3:
        (random.choice([copy, *(p for p in copy.rglob("*") if p.is_dir())]) / BYSTANDER).write_text("mine")
    case.said = f"{name} with {', '.join(damages)},"
    if name == "cache":
        case.environment["BOUSTRO_CACHE"] = str(copy)
        case.mine.append(copy)
    words = _reader(case, random.choice(OPENERS[name]), str(copy))
    if words[0] == "ENCODE":
        case.said += f" encoding with {words[1]}"
        return lambda: load_encoder(words[1], device="cpu").encode_all([["Ada", "left", "."]])
    if name == "tagger" and random.random() < 0.3:
        case.said += " from_pretrained"
        return lambda: boustro.Tagger.from_pretrained(copy, device="cpu").predict("Ada left.")
    return words


def odd_objects(random: Random) -> Any:
    """What nobody should hand over, and what one might."""
    made: list[Callable[[], Any]] = [
        *(partial(lambda value: value, value) for value in VALUES),
        lambda: b"bytes",
        lambda: (word for word in ["Ada", "left"]),
        lambda: iter([["Ada", "left"]]),
        lambda: {1, 2},
        lambda: {"words": ["Ada"], "tags": ["O"]},
        lambda: [{"words": ["Ada"], "tags": ["O", "O"]}],
        lambda: [{"words": ["Ada"]}, {"words": [None]}],
        lambda: object(),
        lambda: len,
        lambda: np.array([[1.0, np.nan]]),
        lambda: np.array(["Ada", "left"]),
        lambda: [np.nan],
        lambda: [[]],
        lambda: [[], ["Ada"]],
        lambda: ["Ada", 5],
        lambda: ["Ada", None],
        lambda: [["Ada", None]],
        lambda: [["Ada", 5, b"x"]],
        lambda: [["", " ", "\t"]],
        lambda: [["a\nb", "c\0d", "\u2028"]],
        lambda: [["\ud800"]],
        lambda: "\ud800 left",
        lambda: "\0",
        lambda: "\u200d\u0301\ufe0f",
        lambda: [("Ada left".split(), ["B-PER"])],
        lambda: [("Ada left".split(), ["B-PER", "O"]), ([], [])],
        lambda: [(["Ada"], [None])],
        lambda: [(["Ada"], [5])],
        lambda: [(5, 5)],
        lambda: [("Ada", "O")],
        lambda: [("Ada left", {"entities": [(0, 99, "PER")]})],
        lambda: [("Ada left", {"entities": [(None, "x", 5)]})],
        lambda: [("Ada left", {"entities": 5})],
        lambda: [("Ada left", {})],
        lambda: [Sentence(())],
        lambda: [Sentence(("Ada",), ("B-PER", "O"))],
        lambda: [Sentence(("Ada",), ("",))],
        lambda: [Sentence((5,), ("O",))],  # type: ignore[arg-type]
        lambda: [Sentence("Ada", ("O", "O", "O"))],  # type: ignore[arg-type]
        lambda: [Sentence(("Ada",), ("B-PER",), spaces=())],
        lambda: [Sentence(("Ada",), ("O",), entities=(Entity("PER", 0, 9),))],
        lambda: [Sentence(("Ada",), None), Sentence(("left",), ("O",))],
        lambda: [["Ada"]] * 3 + [[["Ada"]]],
        lambda: [["x" * 20000]],
        lambda: json.loads("[" * 500 + "]" * 500),
        lambda: Path("missing"),
        lambda: Path(),
        lambda: range(3),
        lambda: 1 + 2j,
        lambda: "others",
        lambda: "file.txt",
    ]
    return random.choice(made)()


def odd_call(case: Case) -> Callable[[], Any]:
    """A call of the Python API with an object that it does not expect."""
    random, world = case.random, case.world
    good = [("Ada left Vellmar .".split(), ["B-PER", "O", "B-LOC", "O"])] * 4
    odd, other = odd_objects(random), odd_objects(random)
    lm = world["lm"]
    option = random.choice(
        "layers pooling spacing context dtype start_piece epochs hidden crf decode tag_scheme".split()
    )

    def fitted(**options: Any) -> boustro.Tagger:
        return boustro.Tagger(encoder=lm, head="linear", device="cpu", **{"epochs": 1, **options})

    words, tags = [w for w, _ in good], [t for _, t in good]
    calls: dict[str, Callable[[], Any]] = {
        "Tagger(encoder=odd)": lambda: boustro.Tagger(odd).fit(good),
        "Tagger(head=odd)": lambda: boustro.Tagger(lm, odd),
        "Tagger(preset=odd)": lambda: boustro.Tagger(lm, preset=odd),
        "Tagger(device=odd)": lambda: boustro.Tagger(lm, device=odd),
        "Tagger(cache=odd).fit": lambda: fitted(cache=odd).fit(good),
        f"Tagger({option}=odd).fit": lambda: fitted(**{option: odd}).fit(good),
        "fit(odd)": lambda: fitted().fit(odd),
        "fit(dev=odd)": lambda: fitted().fit(good, odd),
        "fit(seed=odd)": lambda: fitted().fit(good, seed=odd),
        "fit(scheme=odd)": lambda: fitted().fit(good, scheme=odd),
        "predict(odd)": lambda: opened(world["tagger"]).predict(odd),
        "predict([odd])": lambda: opened(world["tagger"]).predict(["Ada left.", odd]),
        "tag(odd)": lambda: opened(world["tagger"]).tag(odd),
        "tag([odd])": lambda: opened(world["span_tagger"]).tag([odd]),
        "answer(odd)": lambda: opened(world["span_tagger"]).answer(odd),
        "evaluate(odd)": lambda: opened(world["tagger"]).evaluate(odd),
        "evaluate(span, odd)": lambda: opened(world["span_tagger"]).evaluate(odd, other),
        "untrained": lambda: getattr(fitted(), random.choice(["predict", "tag", "answer", "save_pretrained"]))(odd),
        "save_pretrained(odd)": lambda: opened(world["tagger"]).save_pretrained(odd),
        "from_pretrained(odd)": lambda: boustro.Tagger.from_pretrained(odd),
        "from_pretrained(encoder=odd)": lambda: boustro.Tagger.from_pretrained(world["tagger"], encoder=odd),
        "from_pretrained(revision=odd)": lambda: boustro.Tagger.from_pretrained(world["tagger"], revision=odd),
        "load_encoder(odd)": lambda: load_encoder(odd),
        "load_encoder(layers=odd)": lambda: load_encoder(lm, layers=odd).encode_all(words),
        "load_encoder(pooling=odd)": lambda: load_encoder(lm, pooling=odd).encode_all(words),
        "load_encoder(device=odd)": lambda: load_encoder(lm, device=odd),
        "load_encoder(dtype=odd)": lambda: load_encoder(lm, dtype=odd).encode_all(words),
        "load_encoder(cache=odd)": lambda: load_encoder(lm, cache=odd).encode_all(words),
        "load_encoder(context=odd)": lambda: load_encoder(lm, context=odd).encode_all(words),
        "encode_all(odd)": lambda: encoder(lm).encode_all(odd),
        "encode_all([odd])": lambda: encoder(lm).encode_all([["Ada"], odd]),
        "encode(odd)": lambda: list(encoder(lm).encode(odd)),
        "elmo.encode_all(odd)": lambda: encoder(f"elmo:{world['elmo']}").encode_all(odd),
        "read_data(odd)": lambda: read_data(odd),
        "read_data([odd])": lambda: read_data([odd]),
        "read_data(scheme=odd)": lambda: read_data(good, odd),
        "read_data(columns=odd)": lambda: read_data(world["train.conll"], word_column=odd, tag_column=other),
        "read_data(delimiter=odd)": lambda: read_data(world["train.conll"], delimiter=odd),
        "score_spans(odd, other)": lambda: score_spans(odd, other),
        "score_spans(odd, tags)": lambda: score_spans(odd, tags),
        "score_labels(odd, other)": lambda: score_labels(odd, other),
        "score_labels(tags, odd)": lambda: score_labels(tags, odd),
    }
    name = random.choice(list(calls))
    case.said = f"{name} with odd = {odd!r:.200}, other = {other!r:.100}"
    return calls[name]


OPEN: dict[str, Any] = {}


def opened(path: str) -> boustro.Tagger:
    """A trained tagger, opened once."""
    return OPEN.setdefault(path, None) or OPEN.__setitem__(path, boustro.Tagger.from_pretrained(path)) or OPEN[path]


def encoder(spec: str) -> Any:
    """An encoder, loaded once."""
    return OPEN.setdefault(spec, None) or OPEN.__setitem__(spec, load_encoder(spec)) or OPEN[spec]


def snapshot(folder: Path) -> dict[Path, Any]:
    """Every file, link and folder, and what it holds."""
    found: dict[Path, Any] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                found[path] = ("link", path.readlink())
            elif path.is_dir():
                found[path] = "folder"
            else:
                found[path] = path.read_bytes()
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is longer than a name may be
        return False
