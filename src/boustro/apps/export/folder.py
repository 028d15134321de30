"""Writing an exported folder, see `boustro.apps.runtime.opening`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file

from boustro import __version__
from boustro.apps.export.onnx import write_graph
from boustro.apps.export.parts import HeadScores, Parts, PickedStates
from boustro.apps.runtime.encoder import inputs_of
from boustro.apps.runtime.head import CHAIN, CONTEXT, GRAPHS, LENGTHS, QUESTION, SIDE, THRESHOLD
from boustro.apps.runtime.opening import ARRAYS, CONFIG, ENCODER, FORMAT, HEAD
from boustro.apps.runtime.tokenizer import tokenizer_facts
from boustro.encoders.transformer import TransformerEncoder
from boustro.encoders.word_means import save_means
from boustro.heads.decoding import TagDecoder
from boustro.store import write_file
from boustro.tasks.plan import Fitted, save_beside

ROWS, PIECES = 3, 11
"""Of the example that a graph is traced with; 1 would be taken for a constant."""


def write_export(fitted: Fitted, parts: Parts, folder: Path, precision: str) -> None:
    """Write all files but the card and the manifest; `fitted` computes in float32."""
    plan, head = fitted.plan, fitted.head
    arrays, facts, tokenizers = {}, [], {}
    for number, (lm, mix) in enumerate(zip(parts.lms, parts.mixes, strict=True)):
        module = PickedStates(lm, mix, parts.pooled)
        _write_lm(module, folder / f"lm{number}.onnx", precision)
        arrays[f"lm{number}.empty"] = module.empty().numpy()
        saved = lm.tokenizer.backend_tokenizer.to_str()
        name = tokenizers.setdefault(saved, f"tokenizer{len(tokenizers)}.json")
        facts.append(_facts(lm, module, f"lm{number}.onnx", name))
    for saved, name in tokenizers.items():
        write_file(folder / name, json.dumps(json.loads(saved), ensure_ascii=False, separators=(",", ":")))
    inputs = _write_head(fitted, parts, [fact["rows"] for fact in facts], folder / HEAD, precision)
    decoder = getattr(head, "decoder", None)
    if isinstance(decoder, TagDecoder) and decoder.chain:
        arrays |= dict(zip(CHAIN, decoder.chain, strict=True))
    own = {name.rpartition(".")[2]: buffer for name, buffer in head.named_buffers()}
    if THRESHOLD in own:
        arrays[THRESHOLD] = own[THRESHOLD].numpy()
    save_file(arrays, folder / ARRAYS)
    if parts.known is not None:
        (folder / ENCODER).mkdir()
        save_means(folder / ENCODER, parts.known)
    save_beside(fitted, folder)
    config = {
        "format": FORMAT,
        "version": __version__,
        "task": plan.task.name,
        "precision": precision,
        "encoder": plan.reader.spec,
        "parts": facts,
        "memory": parts.known is not None,
        "spacing": plan.reader.reading.spacing,
        "head": plan.head_kind,
        "config": asdict(replace(plan.config, dtype="float32")),
        "head_options": asdict(plan.head_options),
        "inputs": list(inputs),
        "labelling": fitted.labelling.to_dict(),
        "temperature": head.temperature,
        "record": {name: fitted.record[name] for name in ("train", "layer_weights") if name in fitted.record},
        "checked": None,
    }
    write_file(folder / CONFIG, json.dumps(config, indent=1, ensure_ascii=False))


def _facts(lm: TransformerEncoder, module: PickedStates, graph: str, tokenizer: str) -> dict[str, Any]:
    return {
        "spec": lm.spec,
        "graph": graph,
        "tokenizer": tokenizer,
        **tokenizer_facts(lm.tokenizer),
        "backward": lm.backward,
        "centred": lm.sees_both_sides,
        "places": list(lm._places),
        "prefix": list(lm._prefix),
        "suffix": list(lm._suffix),
        "window": lm.room,
        "lengths": module.takes_lengths,
        "rows": module.empty().shape[1],
        "width": module.width,
    }


def _write_lm(module: PickedStates, path: Path, precision: str) -> None:
    places = [torch.arange(k + 2, k + 9) for k in range(module.num_places)]
    ids = torch.full((ROWS, PIECES), 5)
    lengths = [torch.tensor([PIECES, 7, 9])] if module.takes_lengths else []
    dims = [{0: "rows", 1: "pieces"}, *([{0: "rows"}] if lengths else [])]
    dims += [{0: f"words_{k}"} for k in range(module.num_places)]
    names = inputs_of(module.num_places, module.takes_lengths)
    outputs = [f"vectors_{k}" for k in range(module.num_places)]
    write_graph(module, [ids, *lengths, *places], names, dims, outputs, path, precision)


def _write_head(fitted: Fitted, parts: Parts, rows: list[int], path: Path, precision: str) -> tuple[str, ...]:
    """Write the graph of the head; returns the names of its inputs."""
    head = fitted.head
    lengths = torch.tensor([3, 2, 1, 1][: 2 * head.parts])
    words = int(lengths.sum())
    shapes = [(rows[n] if n < len(parts.lms) else layers, width) for n, (layers, width) in enumerate(head.streams)]
    widths = [width if n >= len(parts.lms) else parts.lms[n].streams[0].width for n, (_, width) in enumerate(shapes)]
    given = [torch.rand(words, own, width) for (own, _), width in zip(shapes, widths, strict=True)]
    names, dims = [f"stream_{n}" for n in range(len(given))], [{0: "words"} for _ in given]
    if head.side:
        given.append(torch.rand(words, head.side))
        names, dims = [*names, SIDE], [*dims, {0: "words"}]
    known = {
        LENGTHS: (lengths, "texts"),
        QUESTION: (torch.arange(3), "asked"),
        CONTEXT: (torch.arange(3, words), "read"),
    }
    for name in GRAPHS[fitted.plan.head_kind].given:
        given.append(known[name][0])
        names, dims = [*names, name], [*dims, {0: known[name][1]}]
    write_graph(HeadScores(head, len(parts.lms), parts.pooled), given, names, dims, ["scores"], path, precision)
    return tuple(names)
