"""`boustro lab language`: any language in an hour.

torch is imported when the command runs, so that its help does not wait for it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from boustro.heads.registry import head_kind
from boustro.options import Count, Positive, Range, Seed, check_options
from boustro.output import DEFAULT_RUN, RunOptions, check_output, give, only_errors
from boustro.tasks import TASKS, read_examples, task_class
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.labellings import make_labelling
from boustro.text.places import DataPlace, TextPath
from boustro.text.tokenizers import LEAST_PIECES


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """Options of `boustro lab language`: what is made of a language's text, and how long it may take."""

    minutes: Positive = 60.0
    """Minutes that everything may take on this machine; the pieces that the LMs read follow from them."""
    vocabulary: Annotated[int, Range(LEAST_PIECES, 2**20)] = 8192
    """Pieces of the tokenizer."""
    preset: str = "mini"
    """Architecture of both LMs, as for boustro lab pretrain."""
    segment_length: Annotated[int, Range(2, 2**20)] = 256
    """Pieces per segment, and the LMs' context window."""
    batch_segments: Count = 16
    """Segments per optimiser step."""
    passes: Count = 4
    """The most passes over the text."""
    epochs: Count = 20
    """Passes of the tagger's head over the labelled sentences."""
    seeds: Count = 1
    """Taggers of each system of the report."""
    seed: Seed = 1
    """Seed of the LMs' weights and data order."""
    compile: bool = True
    """Compile the LMs with torch.compile (needs a C++ compiler on a CPU)."""

    __post_init__ = check_options


DEFAULT_LANGUAGE = LanguageOptions()


def language(
    text: tuple[TextPath, ...],
    train: DataPlace,
    dev: DataPlace,
    out: Path,
    test: DataPlace | None = None,
    building: LanguageOptions = DEFAULT_LANGUAGE,
    reading: DataOptions = DEFAULT_OPTIONS,
    json: Path | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Make tokenizer, pair, tagger and report from raw text and labelled sentences of a language, unattended.

    Some steps are measured first, so that everything takes about --minutes. The same command continues a run that was
    stopped: complete steps are skipped.

    Args:
        text: Raw text: files of any kind that boustro lab tokenize reads.
        train: Labelled sentences to train on, in any form that boustro fit takes.
        dev: Labelled sentences that choose the epoch.
        out: Folder to write: shards, forward, backward, memory, tagger and report.
        test: Labelled sentences that are only scored, in the report.
        json: Write the figures to this file (- for standard output).
        overwrite: Start again in a folder that was begun before.
        dry_run: Stop after the tokenizer and the measured plan.
    """
    check_options(language, locals())
    with only_errors(run.quiet):
        check_output(json)
        for file in text:
            if not file.is_file():
                raise FileNotFoundError(f"{file}: no such file; --text takes files of raw text")
        kind = task_class("tag")
        paths = {"train": train, "dev": dev, **({"test": test} if test else {})}
        sets = {name: read_examples(kind, path, reading) for name, path in paths.items()}
        # What is wrong with the data is said before torch is imported.
        head = TASKS[kind.name].config.default_head
        make_labelling(head, [example for example in sets["train"] if example.is_labelled], head_kind(head).options())
        from boustro.apps.studies.language.build import build

        names = [str(file) for file in text]
        figures = build(names, sets, out, building, run, overwrite, dry_run)
        give(figures, json, lambda: _show(figures, out), indent=1)


def _show(figures: dict[str, Any], out: Path) -> None:
    if "plan" in figures:
        plan = figures["plan"]
        print(f"{plan['pieces']:,} pieces for each LM, {plan['seconds'] / 60:.1f} minutes for both")
        return
    for name, scores in figures["systems"].items():
        print(f"{name}  F1 {scores['mean']:.2f}")
    minutes = {name: f"{seconds / 60:.1f}" for name, seconds in figures["seconds"].items()}
    print("minutes  " + "  ".join(f"{name} {value}" for name, value in minutes.items()))
    print(f"report   {out / 'report' / 'report.html'}")
