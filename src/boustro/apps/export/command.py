"""`boustro export`: a trained folder as one that runs without torch, checked before it is written.

torch is imported when the command runs: the command line lists its options without it.
"""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from boustro.heads.registry import head_kind
from boustro.names import FAST, SENTENCES, SHIPPED_TABLE, TABLE
from boustro.options import Count, Positional, Range, check_options, command_line
from boustro.output import check_output, check_target, give, only_errors
from boustro.store import Artefact, claim
from boustro.tasks import EXPORT, TASKS, kept_columns
from boustro.text.places import Model

WeightType = Literal["float32", "float16", "int8"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How a trained folder is exported."""

    format: Literal["onnx", "html", "module"] = "onnx"
    """What is written: a folder for boustro predict, serve and batch; a page in one file, which tags texts in a browser
    without a network; a folder with the same as a JavaScript module."""
    precision: WeightType = "float32"
    """Of the weights: float32; float16, which is computed in float32 after it is read; int8, which is computed in int8
    on the processor."""
    sentences: Count = 500
    """How many sentences the answers of the export are compared with those of the folder on."""
    agreement: Annotated[float, Range(0.0, 1.0)] | None = None
    """The least share of answers that must be the same, else nothing is written. By default 0.999 for float32 and
    float16, 0.97 for int8."""

    __post_init__ = check_options

    @property
    def least(self) -> float:
        """The share that is asked for."""
        return self.agreement if self.agreement is not None else LEAST_AGREEMENT[self.precision]


ONNX_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
"""The files of the npm package that a page holds."""
PAGE_HEADS = ("linear", "mlp", "ridge")
MODULE = "module"
"""The kind of a folder that holds a JavaScript module."""
# int8 rounds every weight, so near ties flip; the others round last digits only
LEAST_AGREEMENT: dict[str, float] = {"float32": 0.999, "float16": 0.999, "int8": 0.97}

DEFAULT = ExportOptions()


def export(
    folder: Positional[Model],
    out: Path,
    options: ExportOptions = DEFAULT,
    data: Path | None = None,
    encoder: str | None = None,
    onnxruntime_web: Path = Path("node_modules/onnxruntime-web"),
    overwrite: bool = False,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Write a trained folder as graphs of ONNX, which run without torch; boustro predict, serve and batch take them.

    The answers of the export are compared with those of the folder first; one that differs too much is not written.

    Args:
        folder: A folder that boustro fit wrote.
        out: Folder to write, or file of the page.
        data: Labelled examples to compare answers on; by default those that the folder was trained on, where their file
            is still there, else a sample of the package.
        encoder: Where the encoder is now, if it has moved.
        onnxruntime_web: The folder of the npm package, which a page holds.
        overwrite: Replace an older export.
        json: Write the sizes and the agreement to this file (- for standard output).
        quiet: Write nothing to standard error except errors.
    """
    with _reserved(out, options, overwrite):  # said before anything is loaded; below it is held
        pass
    _require(options, onnxruntime_web)
    refuse_ungraphed(folder, options)
    with only_errors(quiet):
        check_output(json)
        with _reserved(out, options, overwrite):
            from boustro.apps.export.folder import export_folder, export_page

            given = {"data": data, "encoder": encoder}
            if options.format == "onnx":
                facts = export_folder(folder, out, options, **given)
            else:
                facts = export_page(folder, out, options, onnxruntime_web, **given)
        give(facts, json, lambda: print(_said(out, facts), file=sys.stderr), indent=1)
        following = {"onnx": command_line("predict", out, "FILE"), "html": f"open {out} in a browser"}
        print(f"next: {following.get(options.format, f'import {out}/tagger.js in a page')}", file=sys.stderr)


def _require(options: ExportOptions, runtime: Path) -> None:
    """`ImportError`, with all that must be installed, where an export cannot be made."""
    lacks = []
    if not all(map(find_spec, ONNX_PACKAGES)):
        lacks.append(f"{', '.join(ONNX_PACKAGES)} (pip install 'boustro[export]')")
    if options.format == "html" and not all((runtime / "dist" / name).is_file() for name in RUNTIME):
        lacks.append(f"onnxruntime-web at {runtime} (npm install onnxruntime-web; --onnxruntime-web names its folder)")
    if lacks:
        raise ImportError(f"--format {options.format} needs {' and '.join(lacks)}")


def refuse_ungraphed(folder: Path, options: ExportOptions) -> None:
    """`ValueError` for a trained folder whose config.json says that it is not exported, with the command that trains
    one that is; the LMs themselves are asked when they are open."""
    trained = Artefact(folder)
    if trained.kind not in {entry.folder for entry in TASKS.values()}:
        return  # opening it says what it is
    saved = trained.config()
    of_page, is_tagger = options.format != "onnx", "tags" in TASKS[saved["task"]].config.labellings
    if of_page and not is_tagger:
        raise ValueError(f"{folder}: a page marks entities that a tagger finds; use --format onnx for this task")
    if missing := _without_graph(saved):
        named = {name: (saved["record"].get(name) or {}).get("name") for name in ("train", "dev")}
        given = {"train": "FILE"} | {name: file for name, file in named.items() if file and Path(file).is_file()}
        encoder, out = FAST if is_tagger else "starter", folder.with_name(f"{folder.name}-small")
        again = command_line("fit", **given, encoder=encoder, out=out, **kept_columns(trained))
        raise ValueError(f"{folder}: {missing}; this trains a folder that is exported: {again}")
    reasons = {
        f"its head is {saved['head']}, not linear, mlp or ridge": saved["head"] not in PAGE_HEADS,
        "its entities are chosen by a least probability (--threshold)": saved["head_options"].get("threshold")
        is not None,
        "its head reads features besides the vectors": saved["side"] > 0,
        "it reads a table of words": f"{TABLE}:" in saved["encoder"] or SHIPPED_TABLE in saved["encoder"],
    }
    if of_page and (obstacles := [reason for reason, holds in reasons.items() if holds]):
        raise ValueError(f"{folder}: a page cannot run this tagger: {' and '.join(obstacles)}; use --format onnx")


def _without_graph(saved: Mapping[str, Any]) -> str | None:
    """Why a head or an encoder, of a folder's config, has no graph."""
    from boustro.apps.runtime.parts import GRAPHS
    from boustro.encoders.extended import named_by_folder
    from boustro.encoders.spec import KINDS, Spec

    config, kind = TASKS[saved["task"]].config, saved["head"]
    if kind not in GRAPHS:
        return f"a {kind} head compares vectors outside of any graph"
    specs = [saved["encoder"]]
    for spec in specs:
        parts = Spec.parse(spec).parts
        specs += [inner for part in parts if part.kind.extends for inner in named_by_folder(part.place)]
        for part in parts:
            if part.kind.extends and len(parts) > 1:
                return f"{part.path} beside other encoders has no graph"
            if part.kind is KINDS[SENTENCES] and (head_kind(kind).reads or config.reads) != "words":
                return f"the vector of a text, of {part.path}, has no graph"
    return None


def _reserved(out: Path, options: ExportOptions, overwrite: bool) -> contextlib.AbstractContextManager:
    """Keep the place of the output free for the end of the work."""
    if options.format != "html":
        return claim(out, MODULE if options.format == "module" else EXPORT, overwrite)
    check_target(out, overwrite, "--out")
    return contextlib.nullcontext()


def _said(out: Path, facts: dict[str, Any]) -> str:
    size = facts["bytes"] / 1e6
    return f"{out}: {size:.1f} MB, {facts['precision']}; the same as the folder's: {facts['agreement']}"
