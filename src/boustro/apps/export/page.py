"""An exported tagger for browsers: one page that holds everything, or a module of JavaScript with its data beside it.

    tagger.html                                        opens from disk, without a network
    tagger.js, tagger.d.ts, model.bin, README.md       for pages of one's own, with onnxruntime-web

Both are made of a folder that `folder.write_export` wrote and `runtime` reads. The JavaScript is in `web/`; what it
needs of Python goes into model.bin, such as what a letter, a digit or white space is (`CHARACTERS`), so that it splits
texts as `text.words` does, whatever edition of Unicode the browser has:

    BOUSTRO1    4 bytes, the size of the header, little-endian    the header, JSON    arrays and graphs, as they are

Source of the byte-level pieces: Radford et al. 2019, section 2.2, and the tokenizers package.
"""

import base64
import gzip
import hashlib
import html
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from boustro.apps.export.command import RUNTIME
from boustro.apps.runtime import ARRAYS, CONFIG, HEAD_FILE, load
from boustro.apps.runtime.parts import GRAPHS, GraphHead
from boustro.arrays import read_arrays
from boustro.encoders.extended import PooledMentions, extenders_of
from boustro.encoders.word_means import CodedVectors, WordMeans
from boustro.errors import count_of
from boustro.heads.crf import Chain, entity_forms, make_chain, valid_transitions
from boustro.store import read_json
from boustro.tasks.data.schemes import BARE
from boustro.tasks.render import page_colours
from boustro.tasks.tagger.tags import TagLabelling
from boustro.text.tokenizers import GPT2_PATTERN
from boustro.text.words import ABBREVIATIONS, CLOSERS, ENDERS, EXTENDERS, FULL_WIDTH, LINE_BREAKS, UNSPACED
from boustro.version import __version__

MAGIC, PAGE_FORMAT = b"BOUSTRO1", 1  # the page refuses other bytes and other formats, in place of reading nonsense
SOURCES = ("words.js", "pieces.js", "reading.js", "memory.js", "decode.js", "tagger.js")
PORTABLE = re.compile(r"(?:[^\\(]|\\[sSrnt\d/.]|\\[pP]\{[A-Z][a-z]?\}|\((?:\?[:!=])?)*")
"""Expressions that mean the same in JavaScript: no inline flags, no possessive or atomic groups."""
README = """# {title}

A tagger in JavaScript, without a server: `tagger.js` is the module, `tagger.d.ts` its types, `model.bin` its data.
It needs onnxruntime-web (`npm install onnxruntime-web`).

```js
import * as ort from "onnxruntime-web/wasm";
import {{ openTagger }} from "./tagger.js";

const tagger = await openTagger(new Uint8Array(await (await fetch("model.bin")).arrayBuffer()), ort);
const entities = await tagger.predict("Ada Brandt flew to Port Lisse.");  // label, start, end, text, score
```

`start` and `end` count UTF-16 units; `inCodePoints(text, entities)` counts code points, as Python does.
"""
EXPORTS = re.compile(r"export\s*\{([^}]*)\};?")
CHARACTERS: dict[str, str | Callable[[str], bool]] = {
    "word": r"\w",
    "space": r"\s",
    "letter": r"[^\W\d_]",
    "spacedLetter": rf"[^\W\d_{UNSPACED}]",
    "letterOfWord": rf"[^\W{UNSPACED}]",
    "unspaced": f"[{UNSPACED}]",
    "extender": f"[{EXTENDERS}]",
    "upper": str.isupper,
    "lower": str.islower,
    "decimal": r"\d",
    "digit": str.isdigit,
    "caseless": lambda c: c.isalpha() and c.lower() == c.upper(),
}
"""What Python calls by these names: a regular expression, or a function of a character."""


def html_page(export: Path, runtime: Path, title: str) -> str:
    """Return the page of an exported folder; `runtime` is the folder of the npm package onnxruntime-web.

    Raises `ValueError` for a model that a page cannot run, `FileNotFoundError` without the files of the package.
    """
    glue, wasm = (runtime / "dist" / name for name in RUNTIME)
    script = _in_one(glue.read_text()) + bundle([*SOURCES, "page.js"], keep_exports=False)
    style = _web("page.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)} 'wasm-unsafe-eval'",
            f"style-src {_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": style,
        "RUNTIME": _packed(wasm.read_bytes()),
        "MODEL": _packed(model_file(export, title)),
        "SCRIPT": script,
    }
    return re.sub("__([A-Z]+)__", lambda match: parts[match[1]], _web("page.html"))


def write_module(export: Path, out: Path, title: str) -> None:
    """Write the module, its types and its data into a folder."""
    (out / "tagger.js").write_text(bundle(SOURCES, keep_exports=True), encoding="utf-8", newline="\n")
    (out / "tagger.d.ts").write_text(_web("tagger.d.ts"), encoding="utf-8", newline="\n")
    (out / "model.bin").write_bytes(model_file(export, title))
    (out / "README.md").write_text(README.format(title=title), encoding="utf-8", newline="\n")


def bundle(names: Iterable[str], keep_exports: bool) -> str:
    """Files of `web/` as one, without the imports of each other; only those of the last may be exported."""
    *earlier, last = map(_web, names)
    inner = "".join(re.sub(r"^export ", "", text, flags=re.M) for text in map(_without_imports, earlier))
    entry = _without_imports(last)
    return inner + (entry if keep_exports else re.sub(r"^export ", "", entry, flags=re.M))


def model_file(export: Path, title: str) -> bytes:
    """Return the bytes of model.bin; `ValueError` for a model that JavaScript cannot run."""
    task = load(export)
    config, arrays, blobs = read_json(export / CONFIG), read_arrays(export / ARRAYS), _Blobs()
    fitted, head = task.fitted, task.fitted.head
    labelling = fitted.labelling
    assert type(labelling) is TagLabelling and isinstance(head, GraphHead)
    if any((export / f"{part['graph']}.data").exists() for part in config["parts"]):
        raise ValueError(f"{export}: this tagger is larger than a page can hold; use --format onnx")
    for n in range(len(config["parts"])):
        blobs.add(f"empty.{n}", arrays[f"lm{n}.empty"].astype(np.float32))
    names = sorted({part["tokenizer"] for part in config["parts"]})
    encoder = fitted.plan.reader.encoder(cached=False)
    pooled = next((one for one in extenders_of(encoder) if isinstance(one, PooledMentions)), None)
    memories = [m for m in (pooled.known, pooled.learned) if m] if pooled else []
    decode, chain = _chain(head)
    for name, part in zip(Chain._fields, chain or (), strict=False):
        blobs.add(f"chain.{name}", np.asarray(part, np.float64))
    facts = {
        "format": PAGE_FORMAT,
        "labels": head.labels,
        "types": labelling.types,
        "colours": {label: colour.to_dict() for label, colour in page_colours(labelling.types).items()},
        "bare": labelling.scheme in BARE,
        "decode": decode,
        "forms": entity_forms(head.labels),
        "temperature": head.temperature,
        "context": fitted.plan.reader.reading.context,
        "spacing": config["spacing"],
        "pooled": pooled,
        "within": pooled.scope if pooled else "sentence",
        "parts": [_part(part, names.index(part["tokenizer"])) for part in config["parts"]],
        "tokenizers": [_tokenizer(export / name, config["parts"], name) for name in names],
        "memories": [_memory(memory, n, blobs) for n, memory in enumerate(memories)],
        "folds": folds() if memories else {},
        "words": {
            "rule": fitted.plan.words,
            "classes": classes(),
            "abbreviations": sorted(ABBREVIATIONS),
            "enders": sorted(ENDERS),
            "closers": sorted(CLOSERS),
            "fullWidth": sorted(FULL_WIDTH),
            "lineBreaks": LINE_BREAKS,
        },
        "card": _card(config, title, head),
    }
    graphs = {
        part["graph"]: blobs.add(part["graph"], (export / part["graph"]).read_bytes()) for part in config["parts"]
    }
    graphs["head"] = blobs.add("head", (export / HEAD_FILE).read_bytes())
    header = json.dumps(facts | {"graphs": graphs, "arrays": blobs.arrays}, ensure_ascii=True, separators=(",", ":"))
    header = header.encode() + b" " * (-(len(header) + 12) % 8)
    return MAGIC + len(header).to_bytes(4, "little") + header + b"".join(blobs.data)


class _Blobs:
    """Bytes behind the header, and where each array begins: always at a multiple of eight bytes."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.arrays: dict[str, dict[str, Any]] = {}
        self._size = 0

    def add(self, name: str, given: np.ndarray | bytes) -> dict[str, int]:
        """Where it stands; an array is also named in `arrays`."""
        raw = given if isinstance(given, bytes) else np.ascontiguousarray(given).tobytes()
        place = {"offset": self._size, "bytes": len(raw)}
        self.data += [raw, bytes(-len(raw) % 8)]
        self._size += len(raw) + len(self.data[-1])
        if isinstance(given, np.ndarray):
            self.arrays[name] = {"dtype": given.dtype.name, **place}
        return place


def _part(facts: Mapping[str, Any], tokenizer: int) -> dict[str, Any]:
    kept = ("graph", "backward", "centred", "places", "prefix", "suffix", "window", "lengths", "rows", "width")
    return {name: facts[name] for name in kept} | {"tokenizer": tokenizer}


def _tokenizer(path: Path, parts: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return what `pieces.js` needs of a tokenizer of byte-level BPE; `ValueError` for any other."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    model, split = saved["model"], _split(saved["pre_tokenizer"])
    plain = not any(
        model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    )
    all_special = all(token["special"] for token in saved["added_tokens"])
    if model["type"] != "BPE" or saved["normalizer"] or not plain or not all_special or split is None:
        raise ValueError("a page has the pieces of byte-level BPE, as GPT-2 and the shipped pair; use --format onnx")
    facts = next(part for part in parts if part["tokenizer"] == name)
    fallback = next((facts["special"][piece] for piece in facts["roles"].values() if piece is not None), 0)
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    whole = bool(model.get("ignore_merges"))
    return {
        "vocabulary": [*model["vocab"].items()],
        "merges": merges,
        "split": split,
        "whole": whole,
        "fallback": fallback,
    }


def _split(stage: Mapping[str, Any] | None) -> str | None:
    """Return the expression, for JavaScript, of what precedes the merges; None where it is not byte-level BPE's."""
    stages = (stage or {}).get("pretokenizers", [stage])
    *before, last = [step or {} for step in stages]
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space"):
        return None
    patterns = [GPT2_PATTERN] if last.get("use_regex", True) else []
    for step in before:
        if (
            step.get("type") != "Split"
            or step["behavior"] != "Isolated"
            or step.get("invert")
            or "Regex" not in step["pattern"]
        ):
            return None
        patterns.append(step["pattern"]["Regex"])
    if len(patterns) != 1 or not PORTABLE.fullmatch(patterns[0]):
        return None
    return patterns[0].replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")


def _memory(memory: WordMeans, number: int, blobs: _Blobs) -> dict[str, Any]:
    means = []
    for stream, vectors in enumerate(memory.means):
        arrays = vars(vectors) if isinstance(vectors, CodedVectors) else {"vectors": vectors}
        names = {key: f"memory.{number}.{stream}.{key}" for key in arrays}
        for key, array in arrays.items():
            blobs.add(names[key], array)
        means.append(names)
    blobs.add(counts := f"memory.{number}.counts", memory.counts.astype(np.float32))
    return {"words": list(memory.rows), "counts": counts, "means": means}


def _chain(head: GraphHead) -> tuple[str, Chain | None]:
    """Return how the best tags are found, and with which scores of pairs."""
    if GRAPHS[head.kind].read is GraphHead.read_runs:
        return "runs", None
    decoder = head.decoder
    if decoder.chain:
        return "crf", decoder.chain
    if decoder.options.decode == "argmax":
        return "argmax", None
    valid = valid_transitions(decoder.labels)
    return "valid", make_chain(valid, *(np.zeros(allowed.shape) for allowed in valid))


def _card(config: Mapping[str, Any], title: str, head: GraphHead) -> dict[str, str]:
    trained = config["record"].get("train", {})
    return {
        "name": title,
        "encoder": config["encoder"],
        "head": head.kind,
        "weights": config["precision"],
        **({"trained on": count_of(trained["sentences"], "sentences")} if "sentences" in trained else {}),
        "made with": f"Boustro {__version__}",
    }


def _in_one(module: str) -> str:
    """Return the module of onnxruntime-web as a constant, `ort`, of a script that holds it."""
    exports = EXPORTS.search(module)
    if exports is None or "</script" in module.lower():
        raise ValueError("this edition of onnxruntime-web cannot stand in a page; take another one")
    pairs = (name.split(" as ") for name in exports[1].split(","))
    names = ",".join(f"{pair[-1].strip()}:{pair[0].strip()}" for pair in pairs)
    return f"const ort=(()=>{{{module[: exports.start()]}\nreturn{{{names}}};}})();\n"


def _without_imports(text: str) -> str:
    return re.sub(r'^import .* from "\./.*";\n', "", text, flags=re.M)


def _web(name: str) -> str:
    return (files("boustro.apps.export") / "web" / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def classes() -> dict[str, str]:
    """For each of `CHARACTERS` the inside of a character class that says the same: `"\\u{41}-\\u{5a}"`."""
    return {name: _ranges(test if callable(test) else _matcher(test)) for name, test in CHARACTERS.items()}


def folds() -> dict[str, str]:
    """Return the characters whose case is not only folded to lower case, such as ß to ss."""
    every = map(chr, range(sys.maxunicode + 1))
    return {c: c.casefold() for c in every if c.casefold() != c.lower()}


def _matcher(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern).match
    return lambda c: match(c) is not None


def _ranges(test: Callable[[str], bool]) -> str:
    runs = (list(run) for wanted, run in groupby(range(sys.maxunicode + 1), lambda c: test(chr(c))) if wanted)
    return "".join(f"\\u{{{run[0]:x}}}-\\u{{{run[-1]:x}}}" for run in runs)
