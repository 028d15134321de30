"""Exported folders run here without torch: onnxruntime, tokenizers and numpy are all that is imported.

    from boustro.runtime import load
    tagger = load("ner-onnx")                       # a folder that `boustro export` wrote
    tagger.predict("Ada Brandt flew to Port Lisse.")

What `load` gives is the task's own class, such as `boustro.Tagger`, with the same `predict`; only what computes vectors
and scores is another. Trained folders are opened too, with torch, and folders of the Hugging Face Hub: this is
`boustro.load`, which whatever takes a folder calls. Nothing in an exported folder is believed before it is checked:

    manifest.json          every file with its size and hash
    config.json            the task, its options and labels, and how each LM reads
    lm0.onnx, lm1.onnx     the LMs; a large one has its weights in lm0.onnx.data
    head.onnx              the head
    tokenizer0.json        the tokenizer of LM 0; where several LMs have one, it is there once
    arrays.safetensors     what the CRF and words without a state need
    encoder/               the words that the encoder remembers (`encoders.word_means`)
    table0.json            the words of a table beside the LMs (`encoders.word_table`)
    table0.safetensors     their vectors
    memory.safetensors     those that the tagger remembers, with words.json
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.arrays import read_arrays
from boustro.choose import choose, suggestion
from boustro.encoders.base import ConcatEncoder, Encoder
from boustro.encoders.extended import ExtendedEncoder, PooledMentions
from boustro.encoders.options import ReadingOptions
from boustro.encoders.word_means import read_means
from boustro.features.reader import Reader
from boustro.names import NAMES
from boustro.store import EDITABLE, Artefact, ModelPlace, foreign_files
from boustro.tasks import EXPORT, TASKS, task_class, task_of
from boustro.tasks.hub import download
from boustro.tasks.labellings import open_labelling
from boustro.tasks.plan import Fitted, Plan, load_companions

if TYPE_CHECKING:
    from boustro.apps.runtime.parts import GraphEncoder
    from boustro.encoders.word_table import TableEncoder, WordTable

FORMAT = 1  # of export.json; a folder of a later format is refused, not misread
CONFIG, ARRAYS, HEAD_FILE, ENCODER = "config.json", "arrays.safetensors", "head.onnx", "encoder"
CONFIG_KEYS = frozenset(
    "format version task precision encoder parts memory tables spacing head words config head_options inputs labelling "
    "temperature record checked".split()
)
LATER = frozenset({"words"})
"""Keys that earlier versions did not write."""
PART_KEYS = frozenset(
    "graph tokenizer special roles backward centred places prefix suffix window lengths rows width spec".split()
)


def table_files(folder: Path, number: int) -> tuple[Path, Path]:
    """Return the words and the vectors of a table."""
    return folder / f"table{number}.json", folder / f"table{number}.safetensors"


def join_graphs(graphs: "list[GraphEncoder]", tables: "list[TableEncoder]", known: Any, reader: Reader) -> Encoder:
    """Return the encoder of an exported folder, which reads as its reader does."""
    parts = [*(part.in_context(reader.reading.context) for part in graphs), *tables]
    base = parts[0] if len(parts) == 1 else ConcatEncoder(parts, reader.spec)
    return base if known is None else ExtendedEncoder(base, [PooledMentions(base.streams, "sentence", known)])


def load(
    folder: ModelPlace,
    *,
    revision: str | None = None,
    encoder: str | None = None,
    cache: bool | str | Path = True,
    device: str | None = None,
) -> Any:
    """Open a folder that `boustro fit`, `save` or `boustro export` wrote, whatever its task, as the class of its task.

    Args:
        folder: A folder, or owner/name on the Hugging Face Hub.
        revision: A branch, tag or commit of the Hub.
        encoder: Where the encoder is now, if it has moved.
        cache: As for `Tagger`.
        device: As for `Tagger`.

    An exported folder has its encoder with it and runs on the processor, with onnxruntime. Raises as
    `Tagger.from_pretrained`, and `ValueError` for a folder of another kind.
    """
    path = download(folder, revision)
    kind = path.kind
    if kind == EXPORT:
        if encoder is not None:
            raise ValueError(f"{folder}: an exported folder has its encoder with it; remove --encoder")
        if device not in (None, "cpu", "auto"):
            raise ValueError(f"{folder}: an exported folder runs on the processor; remove --device")
        return load_exported(path)
    if kind is not None and kind not in {NAMES, *(entry.folder for entry in TASKS.values())}:
        raise ValueError(f"{folder}: a folder of the kind {kind}, which boustro fit did not write; it cannot predict")
    return task_class(task_of(path)).from_pretrained(path, encoder=encoder, cache=cache, device=device)


def load_exported(folder: ModelPlace) -> Any:
    """Return an exported folder as the class of its task.

    Raises `FileNotFoundError` where there is none, `ValueError` for a damaged or forged one, `ImportError` without
    onnxruntime.
    """
    from boustro.apps.runtime.parts import GraphEncoder, GraphHead, GraphSession
    from boustro.encoders.word_table import TableEncoder

    path = Artefact.of(folder)
    with path.opened(EXPORT, verify=True, needs=(CONFIG, HEAD_FILE, ARRAYS)) as manifest:
        _refuse_others(path, manifest["files"])
        saved = _read_config(path)
        arrays, files = read_arrays(path / ARRAYS, path.read(ARRAYS)), manifest["files"]
        task = task_class(saved["task"])
        config = TASKS[saved["task"]].config.of_folder(path, saved["config"])
        kind = TASKS[saved["task"]].config.check_head(saved["head"])
        reading = config.reading()
        parts = [
            _open_part(path, files, facts, replace(reading, pooling="+".join(facts["places"])), arrays[f"lm{n}.empty"])
            for n, facts in enumerate(saved["parts"])
        ]
        tables = [
            TableEncoder(_open_table(path, files, number), spec, GraphEncoder.dtype)
            for number, spec in enumerate(saved["tables"])
        ]
        known = read_means(Artefact(path / ENCODER)) if saved["memory"] else None
        given = {"widening": config.widening(), "load": partial(join_graphs, parts, tables, known)}
        reader = Reader(saved["encoder"], reading, cache=False, **given)
        options = kind.options(**saved["head_options"])
        plan = Plan(task, config, saved["head"], options, reader, None, saved.get("words", 1))  # type: ignore[arg-type]
        plan, extras = load_companions(plan, path)
        labelling = open_labelling(**saved["labelling"])
        inputs = tuple(saved["inputs"])
        session = GraphSession(_listed(path, files, HEAD_FILE), inputs)
        named = saved["head"], options, labelling.labels, float(saved["temperature"])
        head: Any = GraphHead(*named, session, inputs, arrays)
        made = task.of(plan)
        made.fitted = Fitted(plan, labelling, head, saved["record"], extras)
    return made


def _refuse_others(path: Artefact, files: dict[str, Any]) -> None:
    """`ValueError` for a file that the manifest does not list, and for a link that leads out of the folder.

    Hidden files belong to git or to the Hub's client, whose cache has links to its blobs in place of files.
    """
    for name in foreign_files(path.path):
        if name not in EDITABLE and not name.startswith("."):
            raise ValueError(f"{path} holds {name}, which its manifest does not list; remove it, or export it again")
    whole = path.path.resolve()
    inside = [whole] + [whole.parents[1] / "blobs"] * (whole.parent.name == "snapshots")
    for file in (path / name for name in files):
        if not any(file.resolve().is_relative_to(place) for place in inside):
            raise ValueError(f"{file} is a link that leads out of the folder; export it again")


def _read_config(path: Artefact) -> dict[str, Any]:
    """Return the config with exactly the keys that this version writes."""
    saved = path.json(CONFIG)
    if saved.get("format") != FORMAT:
        raise ValueError(f"{path}: format {saved.get('format')!r}, and this version reads {FORMAT}; export it again")
    for given, keys in [(saved, CONFIG_KEYS), *((part, PART_KEYS) for part in saved["parts"])]:
        if unknown := sorted(given.keys() - keys):
            raise ValueError(f"{path / CONFIG}: unknown key {unknown[0]!r}{suggestion(unknown[0], sorted(keys))}")
        if missing := sorted(keys - given.keys() - LATER):
            raise ValueError(f"{path / CONFIG}: no {missing[0]!r}; export it again")
    from boustro.apps.runtime.parts import GRAPHS

    choose(saved["head"], GRAPHS, "head of an export")
    return saved


def _open_part(path: Artefact, files: dict[str, Any], facts: Any, reading: ReadingOptions, empty: np.ndarray) -> Any:
    from boustro.apps.runtime.parts import GraphEncoder, GraphSession, PieceTokenizer, inputs_of

    tokenizer = PieceTokenizer(_listed(path, files, facts["tokenizer"]), facts["special"], facts["roles"])
    session = GraphSession(_listed(path, files, facts["graph"]), inputs_of(len(facts["places"]), facts["lengths"]))
    return GraphEncoder(facts, facts["spec"], reading, tokenizer, session, empty)


def _open_table(path: Artefact, files: dict[str, Any], number: int) -> "WordTable":
    from boustro.encoders.word_table import WordTable

    words, arrays = (_listed(path, files, file.name).name for file in table_files(path.path, number))
    return WordTable.read(path, words, arrays)


def _listed(path: Artefact, files: dict[str, Any], name: str) -> Path:
    """Return a file of the folder; `ValueError` for one that the manifest does not list."""
    if name not in files:
        raise ValueError(f"{path / CONFIG}: names {name!r}, which is no file of the folder")
    return path / name
