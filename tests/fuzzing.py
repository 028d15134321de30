"""Malformed input, drawn at random: command lines, files, folders and calls that people and accidents make.

    case = Case(Random(seed), world, folder)
    case.draw()       what to run: the arguments of a command, or a call; its folder is prepared
    case.said         what it is, for the message of a failure
    case.mine         what the run may replace: all else that lies there must stay as it is

`World` holds one valid thing of every kind; a case damages copies of them, or hands them to the wrong command.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import math
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import boustro
from boustro.cli import COMMANDS
from boustro.encoders import load_encoder
from boustro.metrics.labels import score_labels
from boustro.metrics.spans import score_spans
from boustro.tasks.data import read_data
from boustro.types import Entity, Sentence

BYSTANDER = "bystander.txt"
NUMBERS = ["0", "-1", "-0", "1", "2", "3", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "1_0", "0x10", "٣", "½"]
NUMBERS += [str(10**30), str(-(10**30)), str(2**31), str(2**63), str(2**64)]
WORDS = ["", " ", "é", "日本語", "🦬", "a" * 5000, "--", "-", "--out", "-x", "--no", "None", "True", "false", "null"]
WORDS += ["{}", "[]", "*", "\\", "a b", "a\tb", "%s", "{0}", "[bold]x[/]", "\x1b[31m", "\x7f", "\udcff", "mlp", "all"]
PLACES = ["", ".", "..", "/", "/proc/x", "/dev/null", "~nobody/x", "file.txt", "file.txt/inside", "others"]
PLACES += ["link", "dangling", "filelink", "loop", "missing/deep/down", "x" * 300, "others/new", "new", "tagger", "-"]
WRITTEN = [*PLACES, "/dev/full"]  # which has no end when it is read
SPECS = ["", "+", "a++b", "a+", "unmasked:9-1:{lm}", "unmasked:0:{lm}", "unmasked:-:{lm}", "unmasked:1-99:{lm}", "x@", "@"]
SPECS += ["repeated:0:{lm}", "repeated:-1:{lm}", "repeated:999999999999:{lm}", "repeated:x:{lm}", "fused:", "elmo:", ":::"]
SPECS += ["~", "elmo:/dev/null", "{lm}+{elmo}", "{lm}+{lm}+{lm}", "{lm}@main", "masked:{lm}", "fused:{lm}", "elmo:{lm}"]
SPECS += ["{lm}+masked:starter", "lm:{lm}", "backwards:{lm}", "starter:x", "starter@x", "starter-foward", "unmasked:{elmo}"]
SPECS += ["backward:backward:{lm}", "{tagger}", "{shards}", "{corpus}", "a/b/c/d", "owner/name", "../{lm}", "é", " {lm}"]
SPECS += ["/", ".", "..", "/dev/null", "{back}+{lm}", "{fusion}", "{adapted}", "unmasked:{adapted}", "fused:{adapted}"]
VARIED = ["", "=", "x", "pooling", "pooling=", "=exit", "pooling=exit,,last", "layers=9", "layers=last,last", "crf=maybe"]
VARIED += ["epochs=0,1", "epochs=x", "hidden=-1", "lr=nan", "poling=exit", "encoder=a,b", "a=b=c", "head=,", "preset=paper"]
DEEP = "[" * 5000 + "]" * 5000
SURROUNDINGS = {
    "BOUSTRO_CACHE": ["", "file.txt", "file.txt/x", "/dev/null", "others", "link", "loop", "dangling", "missing/x", "/proc/x"],
    "BOUSTRO_CACHE_LIMIT": ["", "0", "-1", "nan", "1", "8XB", "inf", "1e400", "B", "10K"],
    "BOUSTRO_BF16": ["", "2", "yes", "-1"],
}
LINES = ["", "\t", "x", "a b c d e f", "-DOCSTART-", "# newdoc", "1\t2\t3", "{", DEEP, '{"words": ["a"]}', "x\tB-"]
LINES += ['{"text": "Ada", "entities": [[0, 99, "PER"]]}', '{"text": 5}', '{"words": [1], "tags": [2]}', "null", "[]"]
LINES += ["x\tI-PER", "x\tB-É", "\ufeff", "a\u2028b\tO", "\x85\tO", "x\tO\r", '{"text": "\\ud800"}', '{"a": NaN}', "1" * 5000]
LINES += ["1\ta\ta\tX\tX\t_\t99\tx\t_\t_", "3-1\ta\t_\t_\t_\t_\t_\t_\t_\t_", '{"text": "' + "a" * 3000 + '"}']
VALUES: list[Any] = [None, True, 0, -1, 1.5, math.nan, math.inf, "", "x", "é" * 50, [], {}, [None], {"x": 1}, [[1]]]
VALUES += [10**12, 2**63, -(2**40), "B-PER", ["a", "b"], "\ud800", "../../x", "/dev/null"]


@dataclass(frozen=True)
class World:
    """Where one valid thing of every kind lies, by its name: `lm`, `tagger`, `shards`, `train.conll` …"""

    folder: Path
    options: dict[str, list[str]]
    """The options of every command."""

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    def spec(self, pattern: str) -> str:
        """`"masked:{lm}"` → a spec with the path in it."""
        return re.sub(r"\{(\w+)\}", lambda match: self[NAMES.get(match[1], match[1])], pattern)


NAMES = {"corpus": "corpus.txt"}
NOT_OURS = ("others", "link", "file.txt", "filelink", "dangling", "loop")
DATA = ["train.conll", "train.conllu", "train.jsonl", "train.json", "spans.jsonl"]
TEXTS = ["corpus.txt", "corpus.jsonl"]


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
        kinds = [command_line, damaged_file, damaged_folder, odd_call]
        thrown = self.random.choices(kinds, weights=[4, 3, 4, 3])[0](self)
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
        again = {"--overwrite", "--resume"} & {*arguments} or arguments[:1] in (["compare"], ["fewshot"])
        for option, value in pairwise(arguments):
            place = Path(os.path.normpath(self.folder / value))
            if option == "--json":
                self.mine += [p for p in (place, Path(os.path.realpath(place))) if p.is_file()]
            if option == "--out" and again and self.folder in place.parents and place.name not in NOT_OURS:
                self.mine += [place, *(place.with_name(f"{place.name}.{left}") for left in ("checkpoints", "checkpoint"))]
            if option == "--folder" and "clear" in arguments and self.folder in place.parents:
                self.mine.append(place)


def base_command(case: Case, name: str) -> list[str]:
    """A command that does little and does it well."""
    world = case.world
    lm, back, shards, corpus, train = (world[n] for n in ("lm", "back", "shards", "corpus.txt", "train.conll"))
    run = ["--out", "out", "--tokens", "64", "--segment-length", "16", "--batch-segments", "2"]
    adapt = ["adapt", "--lm", lm, "--out", "out"]
    made = {
        "demo": ["--out", "out"],
        "tokenize": [corpus, "--out", "out", "--tokenizer", lm, "--workers", "1"],
        "pretrain": ["--shards", shards, *run, "--preset", f"{lm}/config.json", "--no-compile"],
        "fuse": ["--forward", lm, "--backward", back, "--shards", shards, *run, "--width", "8", "--num-heads", "2"],
        "adapt": case.random.choice(
            [["--shards", shards, *run, "--lm", lm], ["--train", train, "--epochs", "1", *adapt[1:]]]
        ),
        "elmo": [corpus, "--out", "out", "--width", "8", "--cells", "16", "--words", "50", "--letter-window", "1"],
        "fit": ["--train", train, "--out", "out", "--encoder", lm, "--head", "linear", "--epochs", "1"],
        "evaluate": [world["tagger"], train],
        "predict": [world["tagger"], corpus],
        "compare": ["--encoders", lm, "--heads", "linear", "--train", train, "--dev", train, "--out", "out"]
        + ["--seeds", "1", "--epochs", "1"],
        "fewshot": ["--encoders", lm, "--train", train, "--dev", train, "--out", "out", "--shots", "1", "--draws", "1"]
        + ["--heads", "ridge"],
        "cache": ["list", "--folder", world["cache"]],
        "check": [train],
        "doctor": [],
    }
    return [name, *made[name]]


def command_line(case: Case) -> list[str]:
    """A command of which one to three words are wrong."""
    random = case.random
    name = random.choice([n for n in COMMANDS if n != "doctor"] if random.random() < 0.98 else ["doctor"])
    words = base_command(case, name)
    for _ in range(random.randint(1, 3)):
        words = random.choice([_odd_option] * 4 + [_odd_value, _odd_place, _odd_spec, _without_a_word, _misspelt])(case, words)
    if random.random() < 0.1:
        name = random.choice(list(SURROUNDINGS))
        case.environment[name] = random.choice(SURROUNDINGS[name])
        case.said = f"{name}={case.environment[name]!r}"
    return words


def _odd_option(case: Case, words: list[str]) -> list[str]:
    known = case.world.options.get(words[0] if words else "", ["--out"])
    option = case.random.choice(known)
    kinds = {"--json": WRITTEN, "--out": WRITTEN, "--vary": VARIED, "--encoder": SPECS, "--encoders": SPECS, "--lm": SPECS}
    kinds |= dict.fromkeys(["--train", "--dev", "--test", "--shards", "--validation", "--folder"], PLACES)
    odd = kinds.get(option) or case.random.choice([NUMBERS, NUMBERS, WORDS, SPECS, PLACES])
    value = case.world.spec(case.random.choice(odd))
    return [*words, option, *case.random.choice([[value], [value], [value, value], []])]


def _odd_value(case: Case, words: list[str]) -> list[str]:
    if len(words) < 2:
        return words
    at = case.random.randrange(1, len(words))
    return [*words[:at], case.random.choice([*NUMBERS, *WORDS, *PLACES]), *words[at + 1 :]]


def _odd_place(case: Case, words: list[str]) -> list[str]:
    return [*words, case.random.choice(["--out", "--json"]), case.random.choice(WRITTEN)]


def _odd_spec(case: Case, words: list[str]) -> list[str]:
    return [case.world.spec(case.random.choice(SPECS)) if w == case.world["lm"] else w for w in words]


def _without_a_word(case: Case, words: list[str]) -> list[str]:
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
    for _ in range(random.randint(1, 3)):
        content = damage_bytes(random, content, json_lines=".json" in source)
    suffix = "".join(Path(source).suffixes) if random.random() < 0.8 else random.choice([".txt", ".conllu", ".json", ""])
    packed = random.choice(["", "", "", "", ".gz", ".bz2", ".xz"])
    if packed:
        content = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[packed](content)
        if random.random() < 0.6:
            content = damage_bytes(random, content, json_lines=False)
    path = case.folder / f"data{suffix}{packed}"
    path.write_bytes(content)
    case.said = f"{source} damaged as {path.name},"
    given, world = str(path), case.world
    commands: list[list[str]] = [
        ["check", given, world["train.conll"], "--json", random.choice(["-", "new.json"])],
        ["check", world["train.conll"], given, "--scheme", random.choice(["auto", "bio", "iob1", "bioes", "labels"])],
        ["evaluate", world["tagger"], given],
        ["evaluate", world["span_tagger"], given],
        ["predict", world["tagger"], given, "--format", random.choice(["text", "jsonl", "conll", "html"])],
        ["tokenize", given, "--tokenizer", world["lm"], "--out", "out", "--workers", "1"],
        ["tokenize", given, "--train-tokenizer", "300", "--out", "out", "--workers", "1", "--split", "line"],
        [*base_command(case, "fit"), "--train", given],
        [*base_command(case, "fit"), "--dev", given, "--head", "span"],
        [*base_command(case, "fewshot"), "--train", given],
        [*base_command(case, "elmo"), "--validation", given],
        [*base_command(case, "adapt"), "--train", given],
    ]
    weights = [5, 5, 3, 1, 2, 2, 1, 2, 1, 1, 1, 1]
    return random.choices([*commands, partial(read_data, path)], weights=[*weights, 3])[0]


def damage_bytes(random: Random, content: bytes, json_lines: bool) -> bytes:
    """Bytes as a careless editor, a broken disk or another program leaves them."""
    lines = content.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    place = random.randrange(len(content) + 1)

    def flipped() -> bytes:
        found = bytearray(content)
        for _ in range(random.randint(1, 8) if found else 0):
            found[random.randrange(len(found))] = random.randrange(256)
        return bytes(found)

    def changed(line: bytes) -> bytes:
        try:
            return json.dumps(damage_json(random, json.loads(line))).encode("utf-8", "surrogatepass")
        except ValueError:
            return line[: random.randrange(len(line) + 1)]

    ways: list[Callable[[], bytes]] = [
        flipped,
        lambda: content[:place],
        lambda: content[:place] + bytes(random.choice([b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\x1a"])) + content[place:],
        lambda: b"\n".join([*lines[:at], *lines[at + 1 :]]),
        lambda: b"\n".join([*lines[:at], lines[other], *lines[at:]]),
        lambda: b"\n".join([*lines[:at], random.choice(LINES).encode("utf-8", "surrogatepass"), *lines[at:]]),
        lambda: content.replace(b"\n", random.choice([b"\r", b"\r\n", b"\n\n", b""])),
        lambda: content.decode("utf-8", "replace").encode(random.choice(["utf-16", "utf-32", "cp037", "latin-1"]), "replace"),
        lambda: random.choice([b"", b"\n", b"\0" * 100, b"\xff\xfe", b"[]", b"{}", b"null", DEEP.encode(), b"O\n"]),
        lambda: content.replace(b"\t", random.choice([b" ", b"\t\t", b",", b""])),
        lambda: random.sample(lines, len(lines)) and b"\n".join(random.sample(lines, len(lines))),
    ]
    if json_lines:
        ways += [lambda: b"\n".join([*lines[:at], changed(lines[at]), *lines[at + 1 :]])] * 12
    return random.choice(ways)()


def damage_json(random: Random, value: Any) -> Any:
    """JSON with another value, a missing or another key, somewhere in it."""
    inner = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inner or random.random() < 0.15:
        return random.choice(VALUES)
    key, found = random.choice(inner), value.copy()
    way = random.random()
    if way < 0.2:
        del found[key]
    elif way < 0.4:
        found[key] = random.choice(VALUES)
    elif way < 0.45 and isinstance(found, dict):
        found[random.choice(["unknown", "", f"../{BYSTANDER}", f"{BYSTANDER}"])] = found.pop(key)
    else:
        found[key] = damage_json(random, found[key])
    return found


def damaged_folder(case: Case) -> list[str] | Callable[[], Any]:
    """A folder of ours, damaged, under a command that opens it."""
    random, world = case.random, case.world
    fit, run = base_command(case, "fit"), base_command(case, "pretrain")
    openers: dict[str, list[list[str]]] = {
        "tagger": [["evaluate", "{}", world["train.conll"]], ["predict", "{}", world["corpus.txt"]], [*fit, "--out", "{}"]],
        "span_tagger": [["evaluate", "{}", world["train.conll"]], ["predict", "{}", world["corpus.txt"]]],
        "lm": [[*fit, "--encoder", "{}"], [*run, "--init-from", "{}"], [*fit, "--encoder", f"{world['back']}+{{}}"]],
        "model": [
            [*fit, "--encoder", "{}"],
            ["tokenize", world["corpus.txt"], "--tokenizer", "{}", "--out", "out", "--workers", "1"],
            [*run, "--init-embeddings-from", "{}"],
            [*fit, "--encoder", "unmasked:{}"],
            [*run, "--out", "{}", "--resume"],
            [*run, "--out", "{}"],
        ],
        "masked": [[*fit, "--encoder", "masked:{}"]],
        "shards": [[*run, "--shards", "{}"], [*base_command(case, "fuse"), "--shards", "{}"]]
        + [[*run, "--validation", "{}"], [*base_command(case, "tokenize"), "--out", "{}", "--overwrite"]],
        "fusion": [[*fit, "--encoder", "fused:{}"], [*base_command(case, "fuse"), "--out", "{}", "--resume"]],
        "elmo": [[*fit, "--encoder", "elmo:{}"], [*base_command(case, "elmo"), "--out", "{}", "--resume"]],
        "adapted": [[*fit, "--encoder", "unmasked:{}"], [*fit, "--encoder", "{}"]],
        "cache": [["cache", "list", "--folder", "{}"], ["cache", "clear", "--folder", "{}"], fit],
        "study": [[*base_command(case, "compare"), "--out", "{}", *more] for more in ([], ["--report-only"], ["--dry-run"])],
        "shots": [[*base_command(case, "fewshot"), "--out", "{}"]],
        "stopped.checkpoints": [[*run, "--out", "stopped", "--resume"], [*run, "--out", "stopped"]],
        "halted.checkpoint": [[*base_command(case, "fuse"), "--out", "halted", "--resume"]],
    }
    name = random.choice(list(openers))
    copy = case.copy(name)
    damages = [damage_folder(random, copy) for _ in range(random.choice([1, 1, 1, 2]))]
    if random.random() < 0.3:
        (random.choice([copy, *(p for p in copy.rglob("*") if p.is_dir())]) / BYSTANDER).write_text("mine")
    case.said = f"{name} with {', '.join(damages)},"
    if name == "cache":
        case.environment["BOUSTRO_CACHE"] = str(copy)
        case.mine.append(copy)
    opener = random.choice(openers[name])
    if name in ("lm", "model", "masked", "fusion", "elmo", "adapted") and random.random() < 0.3:
        spec = next((word.replace("{}", str(copy)) for word in opener if word.endswith(":{}")), str(copy))
        case.said += f" encoding with {spec}"
        return lambda: load_encoder(spec, device="cpu").encode_all([["Ada", "left", "."]])
    if name == "tagger" and random.random() < 0.3:
        case.said += " from_pretrained"
        return lambda: boustro.Tagger.from_pretrained(copy, device="cpu").predict("Ada left.")
    return [word.replace("{}", str(copy)) for word in opener]


def damage_folder(random: Random, folder: Path) -> str:
    """Damage one file of a folder, perhaps so that its manifest vouches for the damage; returns what was done."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != BYSTANDER)
    if not files:
        return "nothing"
    told = [p for p in files if p.suffix in (".json", ".jsonl")]
    file = random.choice(told if told and random.random() < 0.6 else files)
    way = random.random()
    if way < 0.1:
        file.unlink()
        done = "removed"
    elif way < 0.2:
        content = file.read_bytes()
        file.write_bytes(content[: random.randrange(len(content) + 1)])
        done = "truncated"
    elif way < 0.3:
        file.unlink()
        shape = random.choice(["folder", "dangling link", "link to itself", "link to a folder", "empty file"])
        {
            "folder": lambda: file.mkdir(),
            "dangling link": lambda: file.symlink_to("nowhere"),
            "link to itself": lambda: file.symlink_to(file.name),
            "link to a folder": lambda: file.symlink_to(folder.parent / "others"),
            "empty file": lambda: file.touch(),
        }[shape]()
        done = f"a {shape}"
    elif file.suffix == ".safetensors":
        file.write_bytes(_damage_tensors(random, file.read_bytes()))
        done = "with other tensors"
    elif file.suffix == ".json":
        try:
            value = json.loads(file.read_text("utf-8"))
        except ValueError:
            return f"{file.relative_to(folder)} damaged twice"
        changed = damage_json(random, value)
        file.write_text(json.dumps(changed), "utf-8", errors="surrogatepass")
        done = f"with other JSON ({_difference(value, changed)})"
    else:
        file.write_bytes(damage_bytes(random, file.read_bytes(), file.suffix == ".jsonl"))
        done = "with other bytes"
    vouched = random.random() < 0.75 and file.name != "manifest.json"
    if vouched:
        _vouch(folder)
    return f"{file.relative_to(folder)} {done}{' and a manifest that agrees' if vouched else ''}"


def _difference(old: Any, new: Any, where: str = "") -> str:
    """The first place at which two JSON values differ, for a message."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *new]:
            if key not in new or key not in old:
                return f"{where}.{key} {'is new' if key in new else 'is gone'}"
            if repr(old[key]) != repr(new[key]):
                return _difference(old[key], new[key], f"{where}.{key}")
    return f"{where} is {str(new)[:60]!r}"


def _vouch(folder: Path) -> None:
    """Make the sizes and hashes of all manifests right."""
    for manifest in folder.rglob("manifest.json"):
        with suppress(ValueError, OSError, TypeError, KeyError, AttributeError):
            told = json.loads(manifest.read_text("utf-8"))
            for name in list(told["files"]):
                file = manifest.parent / name
                if file.is_file():
                    content = file.read_bytes()
                    told["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                else:
                    del told["files"][name]
            manifest.write_text(json.dumps(told), "utf-8")


def _damage_tensors(random: Random, content: bytes) -> bytes:
    """A safetensors file with another header, or with values that are not finite."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    way = random.random()
    if way < 0.3 and data:
        data[: len(data) // 4 * 4] = np.full(len(data) // 4, random.choice([math.nan, math.inf, 1e38]), np.float32).tobytes()
    elif way < 0.7:
        names = [name for name in header if name != "__metadata__"]
        name, other = random.choice(names), random.choice(names)
        if random.random() < 0.5:
            header[name], header[other] = header[other], header[name]
        else:
            header[f"{name}x"] = header.pop(name)
    else:
        header = damage_json(random, header)
    if way < 0.05:
        return random.choice([2**63, 2**40, 0, 1]).to_bytes(8, "little") + content[8:]
    new = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(new).to_bytes(8, "little") + new + bytes(data)


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
    option = random.choice("layers pooling spacing context dtype sentinel epochs hidden lr crf decode inside".split())

    def fitted(**options: Any) -> boustro.Tagger:
        return boustro.Tagger(encoder=lm, head="linear", device="cpu", **{"epochs": 1, **options})

    def sklearn(**options: Any) -> Any:
        from boustro.integrations.sklearn import TaggerClassifier

        return TaggerClassifier(encoder=lm, head="linear", **{"epochs": 1, "device": "cpu", **options})

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
        "sklearn fit(odd, odd)": lambda: sklearn().fit(odd, other),
        "sklearn fit(words, odd)": lambda: sklearn().fit(words, odd),
        "sklearn predict(odd)": lambda: sklearn().fit(words, tags).predict(odd),
        "sklearn score(words, odd)": lambda: sklearn().fit(words, tags).score(words, odd),
        "score_spans(odd, other)": lambda: score_spans(odd, other),
        "score_spans(odd, tags)": lambda: score_spans(odd, tags),
        "score_labels(odd, other)": lambda: score_labels(odd, other),
        "score_labels(tags, odd)": lambda: score_labels(tags, odd),
        "sklearn unfitted": lambda: sklearn().predict(odd),
        f"sklearn {option}": lambda: sklearn(options={option: odd}).fit(words, tags),
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
                found[path] = ("link", os.readlink(path))
            elif path.is_dir():
                found[path] = "folder"
            else:
                found[path] = path.read_bytes()
    return found
