"""`boustro check`: the content of labelled data, before anything is trained on it.

    train.txt: 4 sentences, 5 words, 0 documents, scheme BIO (CoNLL columns)
      PER                2 entities
      1 tags that do not fit their neighbours, read as conlleval reads them
        train.txt:5: I-LOC begins an entity; read as B-LOC
      1 sentences occur more than once

A file that cannot be read is reported like the others, and then the command fails.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tyro.conf import Positional

from boustro.output import check_output, give
from boustro.tasks.data import load_data
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Labelled
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Sentence

SHOWN = 5
Known = dict[tuple[str, ...], tuple[str, Sentence]]
"""Sentences by their words: the first file with them, and the sentence there."""


@dataclass(slots=True, kw_only=True)
class DataReport:
    """The content of one file; only `file` and `error` where it cannot be read."""

    file: str
    error: str | None = None
    form: str = ""
    scheme: str = ""
    num_sentences: int = 0
    num_words: int = 0
    num_documents: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # entities per type, or words per label (scheme labels)
    notes: dict[str, list[str]] = field(default_factory=dict)  # what was changed, with every place
    num_repeated: int = 0  # sentences that occur earlier in this file
    contradictions: list[str] = field(default_factory=list)  # sentences that occur earlier with other labels
    also_in: dict[str, int] = field(default_factory=dict)  # the number of sentences that an earlier file also has
    only_here: list[str] = field(default_factory=list)  # labels that no other file has


def check(data: Positional[tuple[Path, ...]], options: DataOptions = DEFAULT_OPTIONS, json: Path | None = None) -> None:
    """Report on labelled data: scheme, counts per type, repaired tags, duplicates, and leakage between files.

    Args:
        data: CoNLL columns, CoNLL-U, JSON lines or hf:NAME; give training, development and test data together.
        json: Write the full report to this file, with every place (- for standard output).
    """
    if not data:
        raise ValueError("no data given; name at least one file of labelled sentences")
    check_output(json)
    reports = report_files(data, options)
    shown = "\n".join(line for report in reports for line in _lines(report))
    give([asdict(report) for report in reports], json, lambda: print(shown), indent=1)
    if unread := [report.file for report in reports if report.error is not None]:
        raise ValueError(f"{len(unread)} of {len(reports)} cannot be read: {', '.join(unread)}")


def report_files(data: Sequence[Path], options: DataOptions = DEFAULT_OPTIONS) -> list[DataReport]:
    """One report per file, in order; each file is searched for duplicates within it and in earlier files."""
    known: Known = {}
    reports = []
    for path in data:
        try:
            reports.append(_report(load_data(path, options), known))
        except (ValueError, OSError) as error:
            reports.append(DataReport(file=str(path), error=str(error)))
    for report in reports if len(reports) > 1 else ():
        others = {label for other in reports if other is not report for label in other.counts}
        report.only_here = [label for label in report.counts if label not in others]
    return reports


def _report(labelled: Labelled, known: Known) -> DataReport:
    sentences, name = labelled.sentences, labelled.name
    if labelled.scheme == "labels":
        counts = Counter(tag for s in sentences for tag in s.tags or ())
    else:
        counts = Counter(e.label for s in sentences for e in gold_entities(s))
    report = DataReport(
        file=name,
        form=labelled.form,
        scheme=labelled.scheme,
        num_sentences=len(sentences),
        num_words=sum(len(s) for s in sentences),
        num_documents=len({s.document for s in sentences if s.document}),
        counts=dict(sorted(counts.items())),
    )
    for note in labelled.notes:
        report.notes.setdefault(note.what, []).append(str(note))
    earlier: Counter[str] = Counter()
    for sentence in sentences:
        file, first = known.setdefault(sentence.words, (name, sentence))
        if first is sentence:
            continue
        earlier[file] += 1
        if (first.tags, first.entities) != (sentence.tags, sentence.entities):
            report.contradictions.append(f"{sentence.where}: labelled differently at {first.where}")
    report.num_repeated = earlier.pop(name, 0)
    report.also_in = dict(earlier)
    return report


def _lines(report: DataReport) -> list[str]:
    if report.error is not None:
        return [f"{report.file}: cannot be read", f"  {report.error}"]
    unit = "words" if report.scheme == "labels" else "entities"
    lines = [
        f"{report.file}: {report.num_sentences:,} sentences, {report.num_words:,} words, "
        f"{report.num_documents:,} documents, scheme {report.scheme.upper()} ({report.form})"
    ]
    lines += [f"  {label:12} {count:7,} {unit}" for label, count in report.counts.items()]
    for what, places in (*report.notes.items(), ("sentences with different labels elsewhere", report.contradictions)):
        lines += [f"  {len(places):,} {what}"] if places else []
        lines += [f"    {place}" for place in places[:SHOWN]]
        lines += [f"    … and {len(places) - SHOWN:,} more"] if len(places) > SHOWN else []
    lines.append(f"  {report.num_repeated:,} sentences occur more than once")
    lines += [f"  {count:,} sentences are also in {other}" for other, count in report.also_in.items()]
    lines += [f"  in this file only: {', '.join(report.only_here)}"] if report.only_here else []
    return lines
