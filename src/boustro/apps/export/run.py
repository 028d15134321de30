"""A trained folder exported: opened in float32, written, compared, and only then in its place."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from boustro.apps.export.card import write_card
from boustro.apps.export.check import check_examples, compare, refuse_neighbours
from boustro.apps.export.folder import write_export
from boustro.apps.export.options import MODULE, ExportOptions
from boustro.apps.export.page import html_page, write_module
from boustro.apps.export.parts import Parts, find_parts, refuse_head
from boustro.apps.runtime.opening import CONFIG, load
from boustro.encoders.transformer import TransformerEncoder
from boustro.store import read_json, write_file, write_folder, write_manifest
from boustro.tasks import EXPORT, task_class, task_of
from boustro.tasks.base import Task


def export_folder(
    folder: Path, out: Path, options: ExportOptions, data: Path | None = None, encoder: str | None = None
) -> dict[str, Any]:
    """Export a folder that boustro fit wrote; what was found, as JSON holds it.

    Raises `FileNotFoundError` and `ValueError` as `Task.from_pretrained` does, `ValueError` for what cannot be
    exported, with the reason, and for an export that answers otherwise, with the agreement.
    """
    model = open_exact(folder, encoder)
    refuse_head(model.fitted)
    parts = find_parts(model.fitted)
    examples = check_examples(model, data, options.sentences)
    with write_folder(out, EXPORT) as staging:
        write_export(model.fitted, parts, staging, options.precision)
        write_manifest(staging, EXPORT)
        exported = load(staging)
        found = compare(model, exported, examples)
        if found.least < options.least:
            raise ValueError(
                f"{folder}: the export answers otherwise, so it was not written: the same are {found}, of "
                f"{found.answers:,} examples, and {100 * options.least:g}% are asked for (--agreement)"
            )
        refuse_neighbours(exported, examples)
        config = read_json(staging / CONFIG)
        write_file(staging / CONFIG, json.dumps({**config, "checked": found.to_dict()}, indent=1, ensure_ascii=False))
        write_card(staging, out.resolve().name)
        size = sum(file.stat().st_size for file in staging.rglob("*") if file.is_file())
    facts = {"precision": options.precision, "bytes": size, "checked": found.to_dict()}
    return {**facts, "agreement": str(found)}


def export_page(
    folder: Path, out: Path, options: ExportOptions, runtime: Path, data: Path | None = None, encoder: str | None = None
) -> dict[str, Any]:
    """Export a tagger as a page, which holds onnxruntime-web (`runtime`), or as a folder with a JavaScript module.

    Returns and raises as `export_folder`; `ValueError` also for a model that only `boustro.apps.runtime` runs.
    """
    with tempfile.TemporaryDirectory() as scratch:
        graphs = Path(scratch) / "onnx"
        found = export_folder(folder, graphs, options, data, encoder)
        if options.format == "html":
            write_file(out, html_page(graphs, runtime, out.stem))
            return found | {"bytes": out.stat().st_size}
        with write_folder(out, MODULE) as staging:
            write_module(graphs, staging, out.resolve().name)
    return found | {"bytes": sum(file.stat().st_size for file in out.iterdir())}


def open_exact(folder: Path, encoder: str | None = None) -> Task[Any, Any]:
    """A trained folder whose LMs compute in float32, with states scaled as its head learned them."""
    model = task_class(task_of(folder)).from_pretrained(folder, encoder=encoder, cache=False, device="cpu")
    plan = model.fitted.plan
    scales = [lm.scales for lm in _lms(model)]
    reader = plan.reader.in_float32()
    plan.reader.opened.lms.clear()  # the LMs in their usual precision are not needed any more
    plan.reader.opened.wide.clear()
    model.fitted = replace(model.fitted, plan=replace(plan, reader=reader))
    for lm, own in zip(_lms(model), scales, strict=True):
        vars(lm)["scales"] = own  # float32 needs no scale, but the head learned with it
    return model


def _lms(model: Task[Any, Any]) -> list[TransformerEncoder]:
    parts: Parts = find_parts(model.fitted)
    return parts.lms
