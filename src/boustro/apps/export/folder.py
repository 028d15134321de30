"""A trained folder exported: opened in float32, written as graphs, compared, and only then in its place.

    export_folder     a folder that `boustro.apps.runtime` reads, which says what each file is
    export_page       the same, made a page or a module of JavaScript (`page`)

The trained head's mix of the layers belongs to the graph of the LM, so that a word leaves it with one vector for each
place, not with one for each layer. What has no graph is refused with the reason.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file
from torch import nn

from boustro.apps.export.check import check_examples, compare_answers, refuse_neighbours
from boustro.apps.export.command import MODULE, ExportOptions, refuse_ungraphed
from boustro.apps.export.onnx import write_graph
from boustro.apps.export.page import html_page, write_module
from boustro.apps.runtime import ARRAYS, CONFIG, ENCODER, FORMAT, HEAD_FILE, load, table_files
from boustro.apps.runtime.parts import (
    CHAIN,
    CONTEXT,
    GRAPHS,
    LENGTHS,
    QUESTION,
    SIDE,
    THRESHOLD_ARRAY,
    inputs_of,
    tokenizer_facts,
)
from boustro.encoders.base import ConcatEncoder, Encoder
from boustro.encoders.extended import (
    LOWEST_LOG,
    NUM_PLACES,
    REPEATS,
    FoundNames,
    NamesNetwork,
    PooledMentions,
    base_encoder,
    extenders_of,
)
from boustro.encoders.lm import LMEncoder, MaskedEncoder, UnmaskedEncoder
from boustro.encoders.transformer import TransformerEncoder
from boustro.encoders.word_means import WordMeans, save_means
from boustro.encoders.word_table import TableEncoder
from boustro.heads.base import Head, LayerConcat
from boustro.heads.decoding import TagDecoder
from boustro.options import command_line
from boustro.output import as_json
from boustro.store import read_json, write_file, write_folder, write_manifest
from boustro.tasks import EXPORT, TASKS, task_class, task_of
from boustro.tasks.base import Task
from boustro.tasks.data.reading import KEPT
from boustro.tasks.plan import Fitted, save_companions
from boustro.version import __version__

BOTH_SIDES = (MaskedEncoder, UnmaskedEncoder)
TRACED_ROWS, TRACED_PIECES = 3, 11
"""Of the example that a graph is traced with; 1 would be taken for a constant."""
PAGE = """# {name}

{does} {labels}. Exported by boustro {version} with weights in {precision}; it runs without torch.

```bash
{predict}
```
```python
from boustro.runtime import load

model = load({quoted})
model.predict({example})
```

Needed besides Python are onnxruntime, tokenizers and numpy. On {answers} examples it was compared with the trained
folder: {checked}.
"""


def export_folder(
    folder: Path, out: Path, options: ExportOptions, data: Path | None = None, encoder: str | None = None
) -> dict[str, Any]:
    """Export a folder that boustro fit wrote; what was found, as JSON holds it.

    Raises `FileNotFoundError` and `ValueError` as `Task.from_pretrained` does, `ValueError` for what cannot be
    exported, with the reason, and for an export that answers otherwise, with the agreement.
    """
    refuse_ungraphed(folder, options)
    model = open_exact(folder, encoder)
    parts = find_parts(model.fitted)
    examples = check_examples(model, data, options.sentences)
    with write_folder(out, EXPORT) as staging:
        write_export(model.fitted, parts, staging, options.precision)
        write_manifest(staging, EXPORT)
        exported = load(staging)
        checked = compare_answers(model, exported, examples)
        if not checked.reaches(options.least):
            raise ValueError(
                f"{folder}: the export answers otherwise, so it was not written: the same are {checked}, of "
                f"{checked.answers:,} examples, and {100 * options.least:g}% are asked for (--agreement)"
            )
        refuse_neighbours(exported, examples)
        config = read_json(staging / CONFIG)
        write_file(staging / CONFIG, json.dumps({**config, "checked": checked.to_dict()}, indent=1, ensure_ascii=False))
        write_export_card(staging, out.resolve().name)
        size = sum(file.stat().st_size for file in staging.rglob("*") if file.is_file())
    facts = {"precision": options.precision, "bytes": size, "checked": checked.to_dict()}
    return {**facts, "agreement": str(checked)}


def export_page(
    folder: Path, out: Path, options: ExportOptions, runtime: Path, data: Path | None = None, encoder: str | None = None
) -> dict[str, Any]:
    """Export a tagger as a page, which holds onnxruntime-web (`runtime`), or as a folder with a JavaScript module.

    Returns and raises as `export_folder`; `ValueError` also for a model that only `boustro.apps.runtime` runs.
    """
    with tempfile.TemporaryDirectory() as scratch:
        graphs = Path(scratch) / "onnx"
        facts = export_folder(folder, graphs, options, data, encoder)
        if options.format == "html":
            write_file(out, html_page(graphs, runtime, out.stem))
            return facts | {"bytes": out.stat().st_size}
        with write_folder(out, MODULE) as staging:
            write_module(graphs, staging, out.resolve().name)
    return facts | {"bytes": sum(file.stat().st_size for file in out.iterdir())}


def open_exact(folder: Path, encoder: str | None = None) -> Task[Any, Any]:
    """Return a trained folder whose LMs compute in float32, with states scaled as its head learned them."""
    model = task_class(task_of(folder)).from_pretrained(folder, encoder=encoder, cache=False, device="cpu")
    plan = model.fitted.plan
    scales = [lm.scales for lm in find_parts(model.fitted).lms]
    reader = plan.reader.in_float32()
    plan.reader.opened.lms.clear()  # the LMs in their usual precision are not needed any more
    plan.reader.opened.wide.clear()
    model.fitted = replace(model.fitted, plan=replace(plan, reader=reader))
    for lm, kept in zip(find_parts(model.fitted).lms, scales, strict=True):
        vars(lm)["scales"] = kept  # float32 needs no scale, but the head learned with it
    return model


@dataclass(frozen=True)
class ExportParts:
    """The LMs, the mix of each, the tables of words behind them, and the memory of the encoder; `pooled` tells whether
    mentions are. A network of names is part of the graph of the head."""

    lms: list[TransformerEncoder]
    mixes: list[LayerConcat]
    tables: list[TableEncoder]
    known: WordMeans | None
    pooled: bool
    names: "NamesGraph | None" = None

    @property
    def top(self) -> bool:
        """Whether the highest layers are needed as they are."""
        return self.pooled or self.names is not None


def find_parts(fitted: Fitted) -> ExportParts:
    """Return the parts of a model whose LMs compute in float32; `ValueError`, with the reason, for what has no
    graph."""
    whole = fitted.plan.reader.encoder()
    encoder = base_encoder(whole)
    names, known, pooled, before = None, None, False, len(encoder.streams)
    for extender in extenders_of(whole):
        if isinstance(extender, FoundNames):
            names = NamesGraph(extender.network, extender.num_read, before)
        elif isinstance(extender, PooledMentions):
            known, pooled = extender.known, True
        before += len(extender.streams)
    encoders = encoder.parts if isinstance(encoder, ConcatEncoder) else [encoder]
    tables = [part for part in encoders if isinstance(part, TableEncoder)]
    before = encoders[: len(encoders) - len(tables)] or encoders  # a table that is not behind LMs is among these
    lms = [_exportable(part) for part in before]
    return ExportParts(lms, list(fitted.head.mixes)[: len(lms)], tables, known, pooled, names)


def _exportable(part: Encoder) -> TransformerEncoder:
    if type(part) is not LMEncoder and not isinstance(part, BOTH_SIDES):
        raise ValueError(
            f"{part.spec}: an encoder of this kind has no graph; an LM and a masked LM have one, and a table of words "
            "behind them needs none; train over one of these, such as --encoder starter"
        )
    assert isinstance(part, TransformerEncoder)
    text = part.model.config.get_text_config()
    if isinstance(part, UnmaskedEncoder):
        if part.blocks != (1, part.num_layers):
            raise ValueError(f"{part.spec}: the mask is removed in some blocks only, which has no graph")
        if getattr(text, "sliding_window", None):
            raise ValueError(f"{part.spec}: a window that slides has no graph without a causal mask")
    if not getattr(part.tokenizer, "is_fast", False):
        raise ValueError(f"{part.spec}: its tokenizer has no tokenizer.json, which the export needs")
    return part


class PickedStates(nn.Module):
    """The graph of an LM: rows of pieces → the mixed states at the places where words are read.

    B rows, P pieces, n words of a place, K places, M mixed layers and perhaps the highest one as it is, D width.
    """

    def __init__(self, lm: TransformerEncoder, mix: LayerConcat, top: bool) -> None:
        super().__init__()
        self.model, self._lm, self.top = lm.model, [lm], top  # in a list, so that it is no module
        self.takes_lengths = isinstance(lm, BOTH_SIDES)
        self.num_places, self.width = len(lm._places), lm._width
        self.scales = [1 / scale for scale in lm.scales]
        num_layers = len(lm.layers)
        mean, scale = (getattr(mix, name).detach().view(num_layers, self.num_places, -1) for name in ("mean", "scale"))
        standard = mix.standardise
        weights = torch.ones(num_layers)
        self.sums = mix.learned  # several layers become one
        if mix.learned:
            weights = mix.gamma.detach() * mix.weights.detach().softmax(0)  # type: ignore[union-attr, operator]
        factor = (scale if standard else torch.ones_like(scale)) * weights[:, None, None]
        offset = -mean * factor if standard else torch.zeros_like(factor)
        self.register_buffer("factor", factor.transpose(0, 1).contiguous())  # (K, L, D)
        self.register_buffer("offset", offset.transpose(0, 1).contiguous())

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return (n, M, D) for each place, from ids (B, P), perhaps the pieces (B,) of each row and, per place, numbers
        of states (n,) counted row by row."""
        ids, *rest = given
        lengths, places = (rest[0], rest[1:]) if self.takes_lengths else (None, rest)
        states = self._states(ids, lengths)
        kept = [states[layer] * scale for layer, scale in zip(self._lm[0].layers, self.scales, strict=True)]
        flat = [state.flatten(0, 1) for state in kept]
        return tuple(self.mixed([layer[at] for layer in flat], k) for k, at in enumerate(places))

    def mixed(self, layers: list[torch.Tensor], place: int) -> torch.Tensor:
        """Return (n, M, D) from the layers (n, D) of a place."""
        factor, offset = self.factor[place], self.offset[place]  # type: ignore[index]
        scaled = [x * factor[n] + offset[n] for n, x in enumerate(layers)]
        if self.sums:
            scaled = [sum(scaled[1:], scaled[0])]
        return torch.stack([*scaled, layers[-1]] if self.top else scaled, 1)

    @torch.no_grad()
    def empty(self) -> torch.Tensor:
        """Return (K, M, D): what a word has where there is no state."""
        none = [torch.zeros(1, self.width)] * len(self.scales)
        return torch.cat([self.mixed(none, k) for k in range(self.num_places)])

    def _states(self, ids: torch.Tensor, lengths: torch.Tensor | None) -> Any:
        size = ids.shape[1]
        places = torch.arange(size, device=ids.device)
        if lengths is None:
            mask = _additive(places[None] <= places[:, None])[None, None].expand(ids.shape[0], 1, -1, -1)
        else:
            seen = places[None] < lengths[:, None]
            mask = _additive(seen)[:, None, None].expand(-1, 1, size, -1)
        return self._lm[0].body.states(ids, **self._how(mask, places))

    def _how(self, mask: torch.Tensor, places: torch.Tensor) -> dict[str, Any]:
        lm, text = self._lm[0], self.model.config.get_text_config()
        how: dict[str, Any] = {"mask": mask}
        if type(lm) is MaskedEncoder:
            return how
        how["position_ids"] = places[None]
        window = getattr(text, "sliding_window", None)
        if window and "sliding_attention" in (getattr(text, "layer_types", None) or ()):
            near = _additive(places[:, None] - places[None] < window)[None, None]
            how["mask"] = {"full_attention": mask, "sliding_attention": torch.minimum(mask, near)}
        return how


def _additive(allowed: torch.Tensor) -> torch.Tensor:
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)


class NamesGraph(nn.Module):
    """A network of names, which reads the highest layers of the first `num_read` streams; its own is number `place`."""

    mean: torch.Tensor
    scale: torch.Tensor
    enter: torch.Tensor
    enter_bias: torch.Tensor
    leave: torch.Tensor
    leave_bias: torch.Tensor

    def __init__(self, network: NamesNetwork, num_read: int, place: int) -> None:
        super().__init__()
        self.num_read, self.place, self._num_kinds = num_read, place, network.num_kinds
        for name in ("mean", "scale", "enter", "enter_bias", "leave", "leave_bias"):
            self.register_buffer(name, torch.from_numpy(getattr(network, name)))

    def forward(self, streams: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return (N, 1, R) from streams (N, M, D), see `NamesNetwork.read`."""
        vectors = torch.cat([stream[:, -1] for stream in streams[: self.num_read]], 1)
        hidden = nn.functional.linear((vectors - self.mean) * self.scale, self.enter, self.enter_bias).relu()
        outputs = nn.functional.linear(hidden, self.leave, self.leave_bias)
        width = outputs.shape[1] - NUM_PLACES - self._num_kinds
        place, vector, kinds = torch.split(outputs, [NUM_PLACES, width, self._num_kinds], 1)
        place, kinds = (part.log_softmax(1).clamp_min(LOWEST_LOG) for part in (place, kinds))
        inside = 1 - place[:, :1].exp()
        return torch.cat([*[vector * inside, place.exp(), kinds.exp() * inside] * REPEATS, place, kinds], 1)[:, None]


class HeadScores(nn.Module):
    """The graph of a head: the streams of words → scores; mixed layers come mixed.

    The trained head keeps mixed vectors in float16, so they are rounded here too.
    """

    def __init__(self, head: Head, parts: ExportParts) -> None:
        super().__init__()
        self.head, self.names, self._num_lms, self._top = head, parts.names, len(parts.lms), parts.top

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Scores from the streams (N, M, D), perhaps side features (N, F), and what this kind needs besides."""
        count = len(self.head.streams) - (self.names is not None)
        streams, rest = list(given[:count]), list(given[count:])
        if self.names is not None:
            streams.insert(self.names.place, self.names(streams))
        mixed = []
        for number, (stream, mix) in enumerate(zip(streams, self.head.mixes, strict=True)):
            if number < self._num_lms:
                mixed.append((stream[:, :-1] if self._top else stream).flatten(1))
            else:
                mixed.append(mix(stream))
        vectors = torch.cat(mixed, 1).half().float()
        if self.head.side:
            vectors = torch.cat([vectors, rest.pop(0)], 1)
        return self.head.graph(vectors, *rest)


def write_export(fitted: Fitted, parts: ExportParts, folder: Path, precision: str) -> None:
    """Write all files but the card and the manifest; `fitted` computes in float32."""
    plan, head = fitted.plan, fitted.head
    arrays, facts, tokenizers = {}, [], {}
    for number, (lm, mix) in enumerate(zip(parts.lms, parts.mixes, strict=True)):
        module = PickedStates(lm, mix, parts.top)
        _write_lm(module, folder / f"lm{number}.onnx", precision)
        arrays[f"lm{number}.empty"] = module.empty().numpy()
        saved = lm.tokenizer.backend_tokenizer.to_str()
        name = tokenizers.setdefault(saved, f"tokenizer{len(tokenizers)}.json")
        facts.append(_facts(lm, module, f"lm{number}.onnx", name))
    for saved, name in tokenizers.items():
        write_file(folder / name, json.dumps(json.loads(saved), ensure_ascii=False, separators=(",", ":")))
    inputs = _write_head(fitted, parts, [fact["rows"] for fact in facts], folder / HEAD_FILE, precision)
    decoder = getattr(head, "decoder", None)
    if isinstance(decoder, TagDecoder) and decoder.chain:
        arrays |= dict(zip(CHAIN, decoder.chain, strict=True))
    buffers = {name.rpartition(".")[2]: buffer for name, buffer in head.named_buffers()}
    if THRESHOLD_ARRAY in buffers:
        arrays[THRESHOLD_ARRAY] = buffers[THRESHOLD_ARRAY].numpy()
    save_file(arrays, folder / ARRAYS)
    if parts.known is not None:
        (folder / ENCODER).mkdir()
        save_means(folder / ENCODER, parts.known)
    for number, table in enumerate(parts.tables):
        table.table.save(*table_files(folder, number))
    save_companions(fitted, folder)
    config = {
        "format": FORMAT,
        "version": __version__,
        "task": plan.task.name,
        "precision": precision,
        "encoder": plan.reader.spec,
        "parts": facts,
        "memory": parts.known is not None,
        "tables": [table.spec for table in parts.tables],
        "spacing": plan.reader.reading.spacing,
        "head": plan.head_kind,
        "words": plan.words,
        "config": asdict(replace(plan.config, dtype="float32")),
        "head_options": asdict(plan.head_options),
        "inputs": list(inputs),
        "labelling": fitted.labelling.to_dict(),
        "temperature": head.temperature,
        "record": {name: fitted.record[name] for name in ("train", "layer_weights", KEPT) if name in fitted.record},
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
    ids = torch.full((TRACED_ROWS, TRACED_PIECES), 5)
    lengths = [torch.tensor([TRACED_PIECES, 7, 9])] if module.takes_lengths else []
    dims = [{0: "rows", 1: "pieces"}, *([{0: "rows"}] if lengths else [])]
    dims += [{0: f"words_{k}"} for k in range(module.num_places)]
    names = inputs_of(module.num_places, module.takes_lengths)
    outputs = [f"vectors_{k}" for k in range(module.num_places)]
    write_graph(module, [ids, *lengths, *places], names, dims, outputs, path, precision)


def _write_head(fitted: Fitted, parts: ExportParts, rows: list[int], path: Path, precision: str) -> tuple[str, ...]:
    """Write the graph of the head; returns the names of its inputs."""
    head = fitted.head
    lengths = torch.tensor([3, 2, 1, 1][: 2 * head.parts])
    words = int(lengths.sum())
    shapes = [(rows[n] if n < len(parts.lms) else layers, width) for n, (layers, width, *_) in enumerate(head.streams)]
    widths = [width if n >= len(parts.lms) else parts.lms[n].streams[0].width for n, (_, width) in enumerate(shapes)]
    given = [torch.rand(words, num_layers, width) for (num_layers, _), width in zip(shapes, widths, strict=True)]
    if parts.names is not None:
        given.pop(parts.names.place)
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
    write_graph(HeadScores(head, parts), given, names, dims, ["scores"], path, precision)
    return tuple(names)


def write_export_card(folder: Path, name: str) -> None:
    """Write README.md into an exported folder that is complete otherwise."""
    config = read_json(folder / CONFIG)
    entry, checked = TASKS[config["task"]], dict(config["checked"])
    answers = checked.pop("answers")
    said = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in checked.items())
    labels = ", ".join(config["labelling"]["labels"][:20])
    facts = {name: config[name] for name in ("version", "precision")}
    page = PAGE.format(
        name=name,
        quoted=as_json(name),
        predict=command_line("predict", name, "texts.txt"),
        does=entry.does,
        labels=labels,
        example=entry.example,
        answers=f"{answers:,}",
        checked=said,
        **facts,
    )
    write_file(folder / "README.md", page)
