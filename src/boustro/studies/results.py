"""All that a report shows, from the cells: the contents of results.json.

Everything but `cost` follows from data, settings and seeds, so that a study that was killed and resumed
gives the same bytes; `cost` holds what was measured with a clock, and that differs from run to run.

The best system, and with it the order in which systems are told of, is chosen on dev, also where test is judged.

Counts are summed over a system's seeds (`num_seeds` says how many); means and standard deviations are over
the seeds' own scores. A system of which some seeds are missing is summed over those that are there, and
the study is stamped (`stamp`: "37 of 40 cells"); two systems are set against each other over the seeds that both have.
A difference is reliable where its p, by Holm's correction for all of its table, is below 0.05; of one seed none is.
"""

import difflib
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from boustro.errors import shorten
from boustro.metrics.buckets import DIMENSIONS, ELSEWHERE, START, Training, count_buckets
from boustro.metrics.calibration import reliability
from boustro.metrics.mistakes import count_confusions, count_kinds, match_entities
from boustro.metrics.significance import RELIABLE, Difference, bootstrap_f1, difference, entity_counts, holm
from boustro.metrics.spans import REPAIR_RULE, extract_spans
from boustro.store import provenance, reading
from boustro.studies.cases import case_study
from boustro.studies.cells import Answers, Cell
from boustro.studies.grid import Grid, System
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Entity, Sentence

NUMBERS = (
    "encoder_parameters",
    "head_parameters",
    "feature_bytes",
    "head_bytes",
    "dev_curves",
    "best_epochs",
    "notices",
)
"""What a cell says of itself in numbers."""
MAX_BESIDE = 2  # further systems that are shown beside the two of the case study
DRAWS, DRAWS_EACH = 2000, 200  # so many that a p-value, multiplied by the number of comparisons, can still be small
FLAGS = ("--report-only", "--dry-run")  # of how a study is run, not of what it is


@dataclass(frozen=True)
class Finished:
    """A system of which some cells are there. Answers are read when asked for: those of a large study are many."""

    system: System
    cells: list[Cell]
    judged: str
    sentences: Sequence[Sentence]
    gold: Sequence[Sequence[Entity]]

    @property
    def seeds(self) -> list[int]:
        """Of the cells that are there."""
        return [cell.seed for cell in self.cells]

    def answers(self, seeds: Collection[int] | None = None) -> list[Answers]:
        """One a seed, of these alone where some are named, on the data set that is judged."""
        cells = (cell for cell in self.cells if seeds is None or cell.seed in seeds)
        return [cell.answers(self.judged, self.sentences, self.gold) for cell in cells]


def counts(answers: Sequence[Answers], keep: Callable[[Entity], bool] = lambda entity: True) -> np.ndarray:
    """(seeds, sentences, 3) of the entities that `keep` keeps: in the reference, predicted, in both."""

    def kept(sides: Sequence[Sequence[Entity]]) -> list[list[Entity]]:
        return [[e for e in entities if keep(e)] for entities in sides]

    return np.stack([entity_counts(kept(a.gold), kept(a.predicted)) for a in answers])


def summarise(
    grid: Grid,
    cells: Mapping[str, Sequence[Cell]],
    title: str,
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """The results of all systems of which a cell is there.

    Args:
        cells: By the system's name, in the order of the seeds.
        reference: The system that the others are set against; by default the best (on dev).
        cases: The two systems of the case study; by default the best, and the reference or a system that
            differs from the best in one thing.

    Raises `ValueError` when there is no cell at all, and for a system that is not there.
    """
    judged = grid.judged_on
    sentences = grid.data()[judged]
    gold = [_entities(s) for s in sentences]
    finished = [Finished(s, list(cells[s.name]), judged, sentences, gold) for s in grid.systems() if cells.get(s.name)]
    if not finished:
        raise ValueError("no cell of this study is there yet, so there is nothing to report; run it first")
    training = Training.of((s.words, _entities(s)) for s in grid.train)
    systems, counted, costs, configs = [], [], {}, []
    for each in finished:
        answers = each.answers()
        counted.append(counts(answers))
        with reading(each.cells[0].folder.parent, "remove that folder and run the study again"):
            facts, costs[each.system.name] = _facts(each, grid), _cost(each.cells)
            configs.append(dict(each.cells[0].scores["config"]))
            refuse_no_numbers([costs[each.system.name], *(facts[name] for name in NUMBERS)])
        systems.append({**facts, **_splits(answers, training)})
    names = [s["name"] for s in systems]
    best = choose_best([dict(zip(s["seeds"], s["dev"]["values"], strict=True)) for s in systems])
    base = best if reference is None else find_name(reference, names)
    drawn = bootstrap_f1(counted, [f.seeds for f in finished], draws=DRAWS + DRAWS_EACH * len(systems))
    pairs = {"to_best": [(i, best) for i in range(len(drawn))], "to_reference": [(base, i) for i in range(len(drawn))]}
    for key, sides in pairs.items():
        gaps = told_gaps([None if a == b else difference(drawn[a], drawn[b]) for a, b in sides])
        for system, gap in zip(systems, gaps, strict=True):
            system[key] = gap
    first, second = _pair(systems, names, best, reference, cases)
    shared = [seed for seed in finished[first].seeds if seed in finished[second].seeds]
    pair = finished[first].answers(shared), finished[second].answers(shared)
    others = [f for i, f in enumerate(finished) if i not in (first, second)]
    beside = {f.system.name: a for f in others for a in f.answers(shared[:1])} if len(others) <= MAX_BESIDE else {}
    there, of = sum(len(f.cells) for f in finished), len(grid.systems()) * grid.seeds
    program, *arguments = provenance()["command"]
    return {
        "title": title,
        "stamp": "" if there == of else f"{there} of {of} cells",
        "command": shlex.join([program, *(a for a in arguments if a not in FLAGS)]),
        "versions": provenance()["versions"],
        "signature": {"metric": "entity F1", "repair": REPAIR_RULE, "scheme": "BIO"},
        "judged_on": judged,
        "seeds": grid.seeds,
        "best": names[best],
        "reference": names[base],
        "pair": [names[first], names[second]],
        "pair_short": _short_names(finished[first].system, finished[second].system),
        "varied": _varied(grid),
        "missing": [
            f"{s.name}, seed {seed}"
            for s in grid.systems()
            for seed in range(1, grid.seeds + 1)
            if seed not in {c.seed for c in cells.get(s.name, ())}
        ],
        "options": _shared(configs),
        "data": {name: _data_facts(s) for name, s in grid.data().items()},
        "systems": systems,
        "pair_seeds": shared,
        "pair_by_type": _gaps(pair, shared, {label: _has_type(label) for label in systems[second]["per_type"]}),
        "direction_test": _gaps(pair, shared, {START: lambda e: e.start == 0, ELSEWHERE: lambda e: e.start > 0}),
        "cases": case_study(sentences, *pair, beside, training, (names[first], names[second])) if shared else [],
        "cost": costs,
    }


def refuse_no_numbers(value: Any) -> None:
    """`ValueError` where something that is neither a number nor absent stands in lists and dicts."""
    if isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            refuse_no_numbers(inner)
    elif value is not None and not isinstance(value, (int, float)):
        raise ValueError(f"{shorten(value)} is no number")


def find_name(name: str, names: Sequence[str]) -> int:
    """Where a system stands in the table; `ValueError` with the nearest name when it is not there."""
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no system {name!r} in this study: known are {'; '.join(names)}{hint}")
    return names.index(name)


def _facts(finished: Finished, grid: Grid) -> dict[str, Any]:
    """Scores and facts of one system, from what its cells recorded."""
    judged, system = grid.judged_on, finished.system
    scores = [cell.scores for cell in finished.cells]
    record = scores[0]["record"]
    return {
        "name": system.name,
        "encoder": system.encoder,
        "head": system.head,
        "variant": system.variant,
        "num_seeds": len(scores),
        "seeds": finished.seeds,
        "dev": spread([s["dev"]["f1"] for s in scores]),
        **({"test": spread([s["test"]["f1"] for s in scores])} if grid.test else {}),
        "precision": spread([s[judged]["precision"] for s in scores]),
        "recall": spread([s[judged]["recall"] for s in scores]),
        "per_type": _per_type(scores, judged),
        "encoder_parameters": record["encoder_parameters"],
        "head_parameters": record["head_parameters"],
        **{name: scores[0]["cost"][name] for name in ("feature_bytes", "head_bytes")},
        "dev_curves": [s["record"].get("dev_curve", []) for s in scores],
        "best_epochs": [s["record"].get("best_epoch", 0) for s in scores],
        "context": scores[0]["config"].get("context", "sentence"),
        "layers": str(scores[0]["config"].get("layers", "all")),
        "layer_weights": {
            stream: [[round(share, 4) for share in s["record"]["layer_weights"][stream]] for s in scores]
            for stream in record.get("layer_weights") or {}
        },
        "notices": record["notices"] | _hidden(finished),
    }


def _hidden(finished: Finished) -> dict[str, int]:
    """Entities of the judged data that a head over tags cannot find, since tags hold the outermost alone."""
    told = sum(len(extract_spans(s.tags or ())) for s in finished.sentences)
    hidden = sum(map(len, finished.gold)) - told
    what = f"entities of {finished.judged} inside or across another one, which a head over tags cannot find"
    return {what: hidden} if hidden and finished.system.head != "span" else {}


def _splits(answers: Sequence[Answers], training: Training) -> dict[str, Any]:
    """Errors, confusions, buckets and calibration, summed over seeds."""
    kinds: Counter[str] = Counter()
    confusions: Counter[tuple[str | None, str | None]] = Counter()
    buckets: dict[str, dict[str, Any]] = {
        name: {bucket: np.zeros(3, int) for bucket in dimension.buckets} for name, dimension in DIMENSIONS.items()
    }
    scores, right = [], []
    for each in answers:
        matches = [m for pair in zip(each.gold, each.predicted, strict=True) for m in match_entities(*pair)]
        kinds.update(count_kinds(matches))
        confusions.update(count_confusions(matches))
        for name, dimension in DIMENSIONS.items():
            counted = count_buckets(dimension, training, each.words, each.gold, each.predicted)
            for bucket, c in counted.items():
                buckets[name][bucket] += (c.gold, c.predicted, c.correct)
        for gold, predicted, given in zip(each.gold, each.predicted, each.scores, strict=True):
            scores += given
            wanted = set(gold)
            right += [entity in wanted for entity in predicted]
    judged = reliability(scores, right)
    return {
        "errors": dict(kinds),
        "confusions": sorted(([g, p, n] for (g, p), n in confusions.items()), key=lambda row: (str(row[:2]), row[2])),
        "buckets": {name: {b: row.tolist() for b, row in rows.items()} for name, rows in buckets.items()},
        "calibration": {
            "error": round(judged.error, 5),
            "bins": [[b.low, b.high, b.count, round(b.mean_score, 4), round(b.right, 4)] for b in judged.bins],
        },
    }


def _per_type(scores: Sequence[dict[str, Any]], judged: str) -> dict[str, dict[str, float]]:
    """Means over seeds of every type's scores."""
    labels = sorted({label for s in scores for label in s[judged]["per_type"]})
    empty = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_entities": 0}
    found = {label: [s[judged]["per_type"].get(label, empty) for s in scores] for label in labels}
    return {label: {key: statistics.fmean(row[key] for row in rows) for key in empty} for label, rows in found.items()}


def _pair(
    systems: list[dict[str, Any]],
    names: list[str],
    best: int,
    reference: str | None,
    cases: tuple[str, str] | None,
) -> tuple[int, int]:
    """The two systems that are looked at closely: by default they differ from each other in one thing."""
    if cases is not None:
        return find_name(cases[0], names), find_name(cases[1], names)
    if reference is not None and reference != names[best]:
        return find_name(reference, names), best
    others = [i for i in range(len(systems)) if i != best]
    for same in (("head", "variant"), ("encoder", "variant"), ("encoder", "head"), ()):
        for i in others:
            if all(systems[i][key] == systems[best][key] for key in same):
                return i, best
    return best, best


def _short_names(first: System, second: System) -> list[str]:
    """The two by what tells them from each other."""
    parts = list(zip(first.parts, second.parts, strict=True))
    return [" · ".join(pair[i] for pair in parts if pair[0] != pair[1]) or first.name for i in (0, 1)]


def _varied(grid: Grid) -> dict[str, list[Any]]:
    """Everything that differs between systems, with its values."""
    found: dict[str, list[Any]] = {"encoder": list(grid.encoders), "head": list(grid.heads)}
    for variant in grid.variants:
        for name, value in variant.items():
            found.setdefault(name, []).append(value)
    unique = {name: [v for i, v in enumerate(values) if v not in values[:i]] for name, values in found.items()}
    return {name: values for name, values in unique.items() if len(values) > 1}


def choose_best(dev: Sequence[Mapping[int, float]]) -> int:
    """The system whose dev F1 by seed is best on average: over the seeds that all share, or else over its own."""
    shared = set(dev[0]).intersection(*dev)
    return int(np.argmax([statistics.fmean(v for s, v in scores.items() if s in (shared or scores)) for scores in dev]))


def told_gaps(found: Sequence[Difference | None]) -> list[dict[str, Any] | None]:
    """The differences of one table, their p-values corrected for their number; `None` where there is none."""
    corrected = holm([gap.p if gap else None for gap in found])
    return [
        gap and {**asdict(gap), "p_holm": p, "reliable": p is not None and p < RELIABLE}
        for gap, p in zip(found, corrected, strict=True)
    ]


def _gaps(
    pair: tuple[Sequence[Answers], Sequence[Answers]],
    seeds: Sequence[int],
    keeps: Mapping[str, Callable[[Entity], bool]],
) -> dict[str, dict[str, Any] | None]:
    """The second system's F1 minus the first's over the entities that are kept, with intervals."""
    if not seeds:
        return dict.fromkeys(keeps)
    sides = [[counts(answers, keep) for keep in keeps.values()] for answers in pair]
    drawn = bootstrap_f1([*sides[0], *sides[1]], draws=DRAWS + DRAWS_EACH * len(keeps))
    differences = [difference(drawn[i], drawn[i + len(keeps)]) for i in range(len(keeps))]
    return dict(zip(keeps, told_gaps(differences), strict=True))


def _entities(sentence: Sentence) -> list[Entity]:
    """The reference: overlapping entities too, each once."""
    return sorted(
        {Entity(e.label, e.start, e.end) for e in gold_entities(sentence)}, key=lambda e: (e.start, -e.end, e.label)
    )


def _has_type(label: str) -> Callable[[Entity], bool]:
    return lambda entity: entity.label == label


def _cost(cells: Sequence[Cell]) -> dict[str, Any]:
    """What a clock and the system's own book-keeping said."""
    records, costs = [c.scores["record"] for c in cells], [c.scores["cost"] for c in cells]
    return {
        "train_seconds": spread([r["train_seconds"] for r in records]),
        "encode_seconds": [r["encode_seconds"] for r in records],
        "words_per_second": statistics.median(c["words_per_second"] for c in costs),
        "peak_bytes": max((c["peak_bytes"] for c in costs if c["peak_bytes"]), default=None),
        "gpu_peak_bytes": max((c["gpu_peak_bytes"] for c in costs if c["gpu_peak_bytes"]), default=None),
    }


def _data_facts(sentences: Sequence[Sentence]) -> dict[str, Any]:
    return {
        "name": data_name(sentences),
        "sentences": len(sentences),
        "words": sum(map(len, sentences)),
        "entities": sum(len(_entities(s)) for s in sentences),
        "fingerprint": data_fingerprint(sentences),
    }


def _shared(configs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The settings that all systems have in common."""
    return {k: v for k, v in configs[0].items() if all(c.get(k) == v for c in configs)}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (of a sample; 0 for one value) and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "values": list(values),
    }
