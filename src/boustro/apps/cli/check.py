"""`boustro check`: the content of labelled data, before anything is trained on it.

    train.txt: 4 sentences, 5 words, 0 documents, scheme BIO (CoNLL columns)
      PER                2 entities
      1 tags that do not fit their neighbours, read as conlleval reads them
        train.txt:5: I-LOC begins an entity; read as B-LOC
      1 sentences occur more than once

A file that cannot be read is reported like the others, and then the command fails.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from boustro.arrays import unit
from boustro.errors import count_of
from boustro.options import Positional
from boustro.output import check_output, give
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.data.schemes import WHOLE_WORDS, Scheme, gold_entities
from boustro.text.words import join_words
from boustro.types import Sentence

SHOWN = 5  # enough to recognise a kind of mistake; all of them would fill the screen
GOLD = ("tags", "entities", "label", "labels", "score", "answers", "keys")
"""What examples say of the reference, each task one or two of these."""
ExampleWords = tuple[tuple[str, ...], ...]
Earlier = dict[tuple[ExampleWords, Any], tuple[str, Any]]
"""Examples by the words of their parts and their marks: the first file with them, and the example there."""


@dataclass(slots=True, kw_only=True)
class DataReport:
    """The content of one file; only `file` and `error` where it cannot be read."""

    file: str
    error: str | None = None
    task: str = DEFAULT_TASK
    form: str = ""
    scheme: str = ""
    num_sentences: int = 0  # or texts, pairs, questions: examples of the task
    num_words: int = 0
    num_documents: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # entities per type, words per label, or examples per label
    scores: dict[str, float] = field(default_factory=dict)  # of numbers: lowest, mean and highest
    notes: dict[str, list[str]] = field(default_factory=dict)  # what was changed, with every place
    empty: list[str] = field(default_factory=list)  # examples with a text that has no word
    num_repeated: int = 0  # examples that occur earlier in this file
    contradictions: list[str] = field(default_factory=list)  # examples that occur earlier with another reference
    also_in: dict[str, int] = field(default_factory=dict)  # the number of examples that an earlier file also has
    shares_with: dict[str, int] = field(default_factory=dict)  # the number with one text that an earlier file also has
    only_here: list[str] = field(default_factory=list)  # labels that no other file has
    forgotten: list[str] = field(default_factory=list)  # names without a label that are like those with one


def check(
    data: Positional[tuple[Path, ...]],
    task: str = DEFAULT_TASK,
    options: DataOptions = DEFAULT_OPTIONS,
    forgotten: bool = False,
    json: Path | None = None,
) -> None:
    """Report on labelled data: counts per label, repaired tags, empty texts, duplicates, and leakage between files.

    Args:
        data: Files as boustro fit takes them; give training, development and test data together.
        task: What they are labelled for. By default as the first file has it.
        forgotten: List names that have no label and are like names that have one, the most alike first: those that the
            network in the package finds.
        json: Write the full report to this file, with every place (- for standard output).
    """
    if not data:
        raise ValueError("no data given; name at least one file of labelled data")
    check_output(json)
    reports = report_files(data, options, task, forgotten)
    shown = "\n".join(line for report in reports for line in _lines(report))
    give([asdict(report) for report in reports], json, lambda: print(shown), indent=1)
    if unread := [report.file for report in reports if report.error is not None]:
        which = f"{len(unread)} of {len(reports)} cannot be read: {', '.join(unread)}"
        raise ValueError(which if len(reports) > 1 else f"{unread[0]} cannot be read")


def report_files(
    data: Sequence[Path], options: DataOptions = DEFAULT_OPTIONS, task: str = DEFAULT_TASK, forgotten: bool = False
) -> list[DataReport]:
    """Return one report per file, in order; each file is searched for duplicates within it and in earlier files."""
    known: Earlier = {}
    texts: dict[tuple[str, ...], str] = {}
    reports = []
    for path in data:
        try:
            report, examples = _read(path, options, task)
            _compare(report, examples, known, texts)
            if forgotten:
                report.forgotten = forgotten_names(report, examples)
            reports.append(report)
        except (ValueError, OSError) as error:
            reports.append(DataReport(file=str(path), error=str(error), task=task))
    for report in reports if len(reports) > 1 else ():
        others = {label for other in reports if other is not report for label in other.counts}
        report.only_here = [label for label in report.counts if label not in others]
    return reports


def _read(path: Path, options: DataOptions, task: str) -> tuple[DataReport, Sequence[Any]]:
    loaded = TASKS[task].read(path, replace(options, unlabelled=True))
    counts = Counter(label for example in loaded.examples for label in _labels(example, loaded.scheme))
    report = DataReport(
        file=loaded.name or str(path),
        task=task,
        form=loaded.form,
        scheme=loaded.scheme or "",
        num_documents=len({name for e in loaded.examples if (name := getattr(e, "document", ""))}),
        counts=dict(sorted(counts.items())),
    )
    for note in loaded.notes:
        report.notes.setdefault(note.what, []).append(str(note))
    numbers = [e.score for e in loaded.examples if isinstance(getattr(e, "score", None), float)]
    if numbers:
        summary = (min(numbers), fmean(numbers), max(numbers))
        report.scores = dict(zip(("lowest", "mean", "highest"), summary, strict=True))
    return report, [example for example in loaded.examples if example.is_labelled]


def _labels(example: Any, scheme: Scheme | None) -> Iterable[str]:
    """Return the labels of what an example has; whether a question has an answer."""
    if scheme is not None:
        return (example.tags or ()) if scheme in WHOLE_WORDS else [e.label for e in gold_entities(example)]
    if (answers := getattr(example, "answers", None)) is not None:
        return ["with an answer" if answers else "without an answer"]
    if (several := getattr(example, "labels", None)) is not None:
        return several
    return [example.label] if getattr(example, "label", None) is not None else []


def _compare(report: DataReport, examples: Sequence[Any], known: Earlier, texts: dict[tuple[str, ...], str]) -> None:
    """Count examples and words, and find what is empty or occurs earlier."""
    earlier: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for example in examples:
        words = tuple(part.words for part in example.parts)
        report.num_words += sum(map(len, words))
        if not all(words):
            report.empty.append(f"{example.where}: a text without a word")
        file, first = known.setdefault((words, getattr(example, "marks", None)), (report.file, example))
        if first is not example:
            earlier[file] += 1
            if any(getattr(first, name, None) != getattr(example, name, None) for name in GOLD):
                report.contradictions.append(f"{example.where}: labelled differently at {first.where}")
        if len(words) > 1:
            homes = {texts.setdefault(text, report.file) for text in words if text}
            shared.update(homes - {report.file})
    report.num_sentences = len(examples)
    report.num_repeated = earlier.pop(report.file, 0)
    report.also_in, report.shares_with = dict(earlier), dict(shared)


def forgotten_names(report: DataReport, sentences: Sequence[Sentence]) -> list[str]:
    """Return the names that have no label, with the labelled entity that each is most like; `ValueError` for other
    data.

    Two names are alike by the cosine of the mean of what the network of the package says of their words.
    """
    if not report.scheme or report.scheme in WHOLE_WORDS:
        raise ValueError("names can be forgotten in data with entities, and these have none; remove --forgotten")
    from boustro.apps.runtime import load
    from boustro.names import SHIPPED_TAGGER

    tagger = load(SHIPPED_TAGGER)
    gold = [gold_entities(sentence) for sentence in sentences]
    unlabelled = [
        [e for e in answer.entities if all(e.end <= g.start or g.end <= e.start for g in labelled)]
        for answer, labelled in zip(tagger.answer(sentences), gold, strict=True)
    ]
    read = [streams[-1][:, 0].astype(np.float32) for streams in tagger.encoder().read(sentences)]
    marked, unmarked = ([(n, e) for n, spans in enumerate(entities) for e in spans] for entities in (gold, unlabelled))
    if not marked or not unmarked:
        return []
    one, other = (np.stack([unit(read[n][e.start : e.end].mean(0)) for n, e in names]) for names in (unmarked, marked))
    lines = []
    for (n, name), alike in zip(unmarked, one @ other.T, strict=True):
        m, like = marked[int(alike.argmax())]
        texts = (join_words(sentences[k].words[e.start : e.end]) for k, e in ((n, name), (m, like)))
        told = "{}: {!r} has no label, and is like {!r}, {}".format(sentences[n].where, *texts, like.label)
        lines.append((float(alike.max()), told))
    return [told for _, told in sorted(lines, key=lambda line: -line[0])]


def _lines(report: DataReport) -> list[str]:
    if report.error is not None:
        return [f"{report.file}: cannot be read", f"  {report.error}"]
    what = TASKS[report.task].examples
    unit = what if not report.scheme else "words" if report.scheme in WHOLE_WORDS else "entities"
    opening = f"{report.file}: {count_of(report.num_sentences, what)}, {count_of(report.num_words, 'words')}"
    if report.scheme:
        opening += f", {count_of(report.num_documents, 'documents')}, scheme {report.scheme.upper()} ({report.form})"
    counted = ((label, *count_of(count, unit).split(" ", 1)) for label, count in report.counts.items())
    lines = [opening, *(f"  {label:12} {number:>7} {thing}" for label, number, thing in counted)]
    if report.scores:
        lines.append("  scores: " + ", ".join(f"{name} {value:g}" for name, value in report.scores.items()))
    places: Mapping[str, list[str]] = {
        **report.notes,
        f"{what} without a word": report.empty,
        f"{what} with different labels elsewhere": report.contradictions,
        "names that may be forgotten": report.forgotten,
    }
    for note, cases in places.items():
        lines += [f"  {count_of(len(cases), note)}"] if cases else []
        lines += [f"    {place}" for place in cases[:SHOWN]]
        lines += [f"    … and {len(cases) - SHOWN:,} more"] if len(cases) > SHOWN else []
    lines.append(f"  {count_of(report.num_repeated, f'{what} occur')} more than once")
    lines += [f"  {count_of(count, f'{what} are')} also in {other}" for other, count in report.also_in.items()]
    shares = report.shares_with.items()
    lines += [f"  {count_of(count, f'{what} share')} a text with {other}" for other, count in shares]
    lines += [f"  in this file only: {', '.join(report.only_here)}"] if report.only_here else []
    return lines
