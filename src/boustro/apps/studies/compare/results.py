"""The contents of a comparison's results.json, from its cells.

Everything but `cost` (measured times) follows from data, settings and seeds: a study that was killed and continued
gives the same bytes. The best system is selected on dev, also where scores are reported on test; it comes first, and
the others by their score on dev. Counts are summed over
a system's seeds, means and standard deviations are over the seeds' scores. With several K the best system is that of
the smallest K that is within the interval of the best (`_enough`). Where cells are missing, a system is summed over the
seeds it has, and two systems are compared over the seeds they share. A difference is reliable where its p-value, with
Holm's correction for the whole table, is below 0.05; with one seed none is.
"""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.apps.studies.compare import cases, examples
from boustro.apps.studies.compare.cases import Answers
from boustro.apps.studies.core.cells import CELL_KIND, Cell, reading_cells
from boustro.apps.studies.core.systems import SHOTS, System, find_name
from boustro.apps.studies.report.buckets import (
    DIMENSIONS,
    ELSEWHERE,
    INITIAL,
    Training,
    count_buckets,
    count_confusions,
    count_kinds,
    match_entities,
)
from boustro.errors import shorten
from boustro.heads.registry import head_kind
from boustro.metrics.score import reliability, spread
from boustro.metrics.significance import RELIABLE, Difference, bootstrap, difference, entity_counts, f1, holm
from boustro.store import Artefact
from boustro.tasks.folds import drawn_together
from boustro.tasks.labellings import labelling_class
from boustro.tasks.labellings.base import Units
from boustro.text.documents import read_lines
from boustro.types import NO_LABEL, Entity

if TYPE_CHECKING:
    from boustro.apps.studies.compare.comparison import Comparison

RECORDED, RECORDED_BYTES = ("encoder_parameters", "head_parameters"), ("feature_bytes", "head_bytes")
MAX_BESIDE = 2  # further systems that are shown beside the two of the case study
LEAST_DRAWS, DRAWS_EACH = 2000, 200  # enough that a p-value multiplied by the number of comparisons can still be small
NO_SCORES = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_entities": 0}


@dataclass(frozen=True)
class FinishedSystem:
    """A system with its complete cells. Answers are read on demand, because those of a large study are many."""

    system: System
    cells: list[Cell]
    judged: str
    words: Sequence[Sequence[str]]
    gold: Sequence[Sequence[Entity]]

    @property
    def seeds(self) -> list[int]:
        """Of the complete cells."""
        return [cell.number for cell in self.cells]

    def answers(self, seeds: Collection[int] | None = None) -> list[Answers]:
        """Return the answers on the reported data set, per seed; only of `seeds` where they are given."""
        cells = (cell for cell in self.cells if seeds is None or cell.number in seeds)
        return [read_answers(cell, self.judged, self.words, self.gold) for cell in cells]


def read_answers(cell: Cell, name: str, words: Sequence[Sequence[str]], gold: Sequence[Sequence[Entity]]) -> Answers:
    """Return a cell's answers on dev or test, beside the words and references that all cells share."""
    with Artefact(cell.folder).opened(CELL_KIND):
        rows = [json.loads(line) for _, line in read_lines(cell.folder / f"{name}.jsonl")]
        if len(rows) != len(words):
            raise ValueError(f"{len(rows)} answers for {len(words)} examples")
        entities = [[Entity(*entity) for entity in row["entities"]] for row in rows]
        scores = [row["scores"] for row in rows]
        told = [row["values"] for row in rows if "values" in row]  # else the entities say them
        values = np.array(told, float) if told else entity_counts(gold, entities)
        effects = {i: row["effects"] for i, row in enumerate(rows) if "effects" in row}
        return Answers(words, gold, entities, scores, values, [row.get("answer", "") for row in rows], effects)


def summarise(grid: "Comparison", cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the results of all systems that have a complete cell."""
    judged, units = grid.judged_on, grid.units
    data = grid.data()[judged]
    words, gold = [units.words(s) for s in data], [units.gold(s) for s in data]
    by_system = {s.name: [cell for cell in cells if cell.system.name == s.name] for s in grid.systems()}
    finished = [FinishedSystem(s, by_system[s.name], judged, words, gold) for s in grid.systems() if by_system[s.name]]
    training = Training.of((s.words, units.gold(s)) for s in grid.train if units.has_positions)
    systems, counted, costs, configs = [], [], {}, []
    for each in finished:
        answers = each.answers()
        counted.append(np.stack([each.values for each in answers]))
        with reading_cells(each.cells):
            facts, costs[each.system.name] = _facts(each, grid), _cost(each.cells)
            configs.append(dict(each.cells[0].scores["config"]))
            numbers = (*RECORDED, *RECORDED_BYTES, "dev_curves", "best_epochs", "notices")
            refuse_no_numbers([costs[each.system.name], *(facts[name] for name in numbers)])
        systems.append({**facts, **_splits(answers, training, units)})
    names = [s["name"] for s in systems]
    bests = _bests(systems)
    best, enough = _enough(finished, sorted({*bests}), grid)
    base = best if grid.reference is None else find_name(grid.reference, names)
    at = {(s["line"], s["shots"]): i for i, s in enumerate(systems)}
    bases = [at.get((systems[base]["line"], s["shots"]), i) for i, s in enumerate(systems)]
    bases = bests if grid.reference is None else bases
    draws, alike = LEAST_DRAWS + DRAWS_EACH * len(systems), drawn_together(data)
    drawn = bootstrap(units.statistic, counted, [f.seeds for f in finished], draws, groups=alike)
    pairs = {"to_best": list(enumerate(bests)), "to_reference": [(reference, i) for i, reference in enumerate(bases)]}
    for key, sides in pairs.items():
        gaps = correct_gaps([None if a == b else difference(drawn[a], drawn[b]) for a, b in sides])
        for system, gap in zip(systems, gaps, strict=True):
            system[key] = gap
    rows = [{"encoder": s.encoder, "head": s.head, **s.variant} for s in grid.systems()]
    settings = {name: list(dict.fromkeys(row[name] for row in rows)) for name in rows[0]}
    return {
        "seeds": grid.seeds,
        "best": names[best],
        **enough,
        "reference": names[base],
        "varied": {name: values for name, values in settings.items() if len(values) > 1},
        "notices": [
            *(f"{s['name']}: {count:,} {what}" for s in systems for what, count in s["notices"].items()),
            *grid.shortages(),
        ],
        "options": {k: v for k, v in configs[0].items() if all(c.get(k) == v for c in configs)},
        "systems": sorted(systems, key=lambda s: (s["shots"] or 0, s["name"] != names[best], -s["dev"]["mean"])),
        **_compare_pair(grid, finished, _choose_pair(systems, best, base, grid), training, alike),
        "cost": costs,
    }


def counts(answers: Sequence[Answers], keep: Callable[[Entity], bool] = lambda entity: True) -> np.ndarray:
    """Return (seeds, sentences, 3) over the entities that `keep` selects: in the reference, predicted, in both."""
    sides = [[[[e for e in spans if keep(e)] for spans in side] for side in (a.gold, a.predicted)] for a in answers]
    return np.stack([entity_counts(gold, predicted) for gold, predicted in sides])


def refuse_no_numbers(value: Any) -> None:
    """`ValueError` where lists and dicts hold something that is neither a number nor None."""
    if isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            refuse_no_numbers(inner)
    elif value is not None and not isinstance(value, (int, float)):
        raise ValueError(f"{shorten(value)} is not a number")


def _facts(finished: FinishedSystem, grid: "Comparison") -> dict[str, Any]:
    """Scores and facts of one system, from what its cells recorded."""
    system, scores = finished.system, [cell.scores for cell in finished.cells]
    first, judged = scores[0], [s[finished.judged] for s in scores]
    record, config = first["record"], first["config"]
    head = grid.head(system)
    nested = labelling_class(head_kind(head).labelling).nested
    hidden = 0 if nested else grid.units.count_hidden(grid.data()[finished.judged])
    what = f"{grid.counted} of {finished.judged} inside or across another one, which a head over tags cannot find"
    labels = sorted({label for s in judged for label in s["per_type"]})
    per_type = {label: [s["per_type"].get(label, NO_SCORES) for s in judged] for label in labels}
    return {
        "name": system.name,
        "encoder": system.encoder,
        "head": head,
        "variant": system.variant,
        "shots": system.shots,
        "line": " · ".join(p for p in system.parts if p != f"{SHOTS}={system.shots}") or system.encoder,
        "num_seeds": len(scores),
        "seeds": finished.seeds,
        **{name: spread([s[name]["value"] for s in scores]) for name in grid.judged()},
        "figures": {name: spread([s["figures"][name] for s in judged]) for name in judged[0]["figures"]},
        "per_type": {
            x: {key: statistics.fmean(r[key] for r in rows) for key in NO_SCORES} for x, rows in per_type.items()
        },
        **{name: record[name] for name in RECORDED},
        **{name: first["cost"][name] for name in RECORDED_BYTES},
        "temperatures": [calibration for s in scores if (calibration := s["record"].get("calibration"))],
        "dev_curves": [s["record"].get("dev_curve", []) for s in scores],
        "best_epochs": [s["record"].get("best_epoch", 0) for s in scores],
        "context": config.get("context", "sentence"),
        "layers": str(config.get("layers", "all")),
        "layer_weights": {
            stream: [[round(share, 4) for share in s["record"]["layer_weights"][stream]] for s in scores]
            for stream in record.get("layer_weights") or {}
        },
        "notices": record["notices"] | ({what: hidden} if hidden else {}),
    }


def _splits(answers: Sequence[Answers], training: Training, units: Units) -> dict[str, Any]:
    """Errors, confusions, buckets and calibration, summed over seeds."""
    errors: Counter[str] = Counter()
    confusions: Counter[tuple[str | None, str | None]] = Counter()
    buckets: dict[str, dict[str, Any]] = {name: {} for name in (DIMENSIONS if units.has_positions else ())}
    scores, right = [], []
    for each in answers:
        for name, counted in buckets.items():
            by_bucket = count_buckets(DIMENSIONS[name], training, each.words, each.gold, each.predicted)
            for bucket, c in by_bucket.items():
                counted[bucket] = np.array([c.gold, c.predicted, c.correct]) + counted.get(bucket, 0)
        credits = units.credits(each.values)
        if not units.has_positions:
            errors.update({"right": int((credits == 1).sum()), "wrong": int((credits == 0).sum())})
            errors["partly right"] += len(credits) - int(np.isin(credits, (0, 1)).sum())
        pairs = zip(each.gold, each.predicted, strict=True) if units.has_labels else ()
        for matches in (match_entities(*pair) for pair in pairs):
            errors.update(count_kinds(matches) if units.has_positions else {})
            confusions.update(count_confusions(matches))
        judged = units.right(each.gold, each.predicted, each.values)
        for given, truth, found in zip(each.scores, judged, each.predicted, strict=True):
            named = [entity.label != NO_LABEL for entity in found]  # which has no probability
            scores += compress(given, named)
            right += compress(truth, named)
    judged = reliability(scores, right)
    return {
        "errors": dict(errors),
        "confusions": sorted(([g, p, n] for (g, p), n in confusions.items()), key=lambda row: (str(row[:2]), row[2])),
        "buckets": {name: {b: row.tolist() for b, row in rows.items()} for name, rows in buckets.items()},
        "calibration": {
            "error": round(judged.error, 5),
            "bins": [[b.low, b.high, b.count, round(b.mean_score, 4), round(b.right, 4)] for b in judged.bins],
        },
    }


def _choose_pair(systems: list[dict[str, Any]], best: int, base: int, grid: "Comparison") -> tuple[int, int]:
    """Return the two systems that are compared closely; by default they differ in one thing."""
    if grid.cases is not None:
        first, second = (find_name(name, [s["name"] for s in systems]) for name in grid.cases)
        return first, second
    if base != best:
        return base, best
    others = [i for i in range(len(systems)) if i != best]
    for same in (("head", "variant"), ("encoder", "variant"), ("encoder", "head"), ()):
        for i in others:
            if all(systems[i][key] == systems[best][key] for key in same):
                return i, best
    return best, best


def _compare_pair(
    grid: "Comparison", finished: list[FinishedSystem], chosen: tuple[int, int], training: Training, alike: np.ndarray
) -> dict[str, Any]:
    """Two systems over the seeds that both have: differences by type and position, and examples."""
    units, data = grid.units, grid.data()[grid.judged_on]
    first, second = (finished[i] for i in chosen)
    shared = [seed for seed in first.seeds if seed in second.seeds]
    pair = first.answers(shared), second.answers(shared)
    others = [f for i, f in enumerate(finished) if i not in chosen]
    beside = {f.system.name: a for f in others for a in f.answers(shared[:1])} if len(others) <= MAX_BESIDE else {}
    names = first.system.name, second.system.name
    parts = list(zip(first.system.parts, second.system.parts, strict=True))
    labels = {label for cell in second.cells for label in cell.scores[grid.judged_on]["per_type"]}
    positions: dict[str, Callable[[Entity], bool]] = {INITIAL: lambda e: e.start == 0, ELSEWHERE: lambda e: e.start > 0}
    by_label: dict[str, Callable[[Entity], bool]] = {x: lambda e, x=x: e.label == x for x in sorted(labels)}
    groups, mistakes = [], []
    if shared and units.has_positions:
        kinds = cases.ENTITY_GROUPS if units.has_spans else cases.WORD_GROUPS
        groups = cases.case_study(data, *pair, beside, training, names, kinds)
        mistakes = cases.confident_mistakes(data, names[1], pair[1][0])
    elif shared:
        groups = examples.differing(units, data, *pair, beside, names, f"all {grid.facts['examples']}")
        mistakes = examples.confident_answers(units, data, names[1], pair[1][0])
    return {
        "pair": list(names),
        "pair_short": [" · ".join(p[i] for p in parts if p[0] != p[1]) or names[0] for i in (0, 1)],
        "pair_seeds": shared,
        "pair_by_type": _gaps(pair, by_label, alike),
        "direction_test": _gaps(pair, positions, alike) if units.has_positions else {},
        "cases": groups,
        "mistakes": mistakes,
    }


def _bests(systems: Sequence[Mapping[str, Any]]) -> list[int]:
    """For every system the best of those that learned from as many examples: that with the best mean dev score, over
    the seeds that all share, or else over its own."""
    dev = [dict(zip(s["seeds"], s["dev"]["values"], strict=True)) for s in systems]
    rivals = {s["shots"]: [i for i, other in enumerate(systems) if other["shots"] == s["shots"]] for s in systems}
    best = {}
    for shots, indices in rivals.items():
        shared = set.intersection(*(set(dev[i]) for i in indices))
        means = [statistics.fmean(v for s, v in dev[i].items() if s in (shared or dev[i])) for i in indices]
        best[shots] = indices[int(np.argmax(means))]
    return [best[s["shots"]] for s in systems]


def _enough(finished: Sequence[FinishedSystem], bests: Sequence[int], grid: "Comparison") -> tuple[int, dict[str, Any]]:
    """Choose among the best systems of each K that of the smallest K whose score on dev is within the 95% interval of
    the best of them; and say what the best has more."""
    bests = sorted(bests, key=lambda i: finished[i].system.shots or 0)
    if len(bests) == 1:
        return bests[0], {}
    dev, units = grid.data()["dev"], grid.units
    words, gold = [units.words(s) for s in dev], [units.gold(s) for s in dev]
    answered = [replace(finished[i], judged="dev", words=words, gold=gold).answers() for i in bests]
    counted = [np.stack([each.values for each in answers]) for answers in answered]
    drawn = bootstrap(units.statistic, counted, [finished[i].seeds for i in bests], groups=drawn_together(dev))
    top = max(range(len(bests)), key=lambda n: float(drawn[n].scores.mean()))
    gaps = [difference(one, drawn[top]) for one in drawn]
    chosen = next(n for n, gap in enumerate(gaps) if n == top or (gap is not None and gap.low <= 0))
    gap = gaps[chosen]
    more = {} if chosen == top or gap is None else asdict(gap)
    return bests[chosen], {"enough": {"best_shots": finished[bests[top]].system.shots, **more}}


def correct_gaps(gaps: Sequence[Difference | None]) -> list[dict[str, Any] | None]:
    """Return the differences of one table, with p-values corrected for their number; `None` where there is no
    difference."""
    corrected = holm([gap.p if gap else None for gap in gaps])
    return [
        gap and {**asdict(gap), "p_holm": p, "reliable": p is not None and p < RELIABLE}
        for gap, p in zip(gaps, corrected, strict=True)
    ]


def _gaps(
    pair: Sequence[Sequence[Answers]], keeps: Mapping[str, Callable[[Entity], bool]], alike: np.ndarray
) -> dict[str, dict[str, Any] | None]:
    """Return the second system's F1 minus the first's over the entities that each function selects, with intervals."""
    if not pair[0] or not keeps:
        return dict.fromkeys(keeps)
    counted = [counts(answers, keep) for answers in pair for keep in keeps.values()]
    drawn = bootstrap(f1, counted, draws=LEAST_DRAWS + DRAWS_EACH * len(keeps), groups=alike)
    differences = [difference(drawn[i], drawn[i + len(keeps)]) for i in range(len(keeps))]
    return dict(zip(keeps, correct_gaps(differences), strict=True))


def _cost(cells: Sequence[Cell]) -> dict[str, Any]:
    """Measured times and memory."""
    records, costs = [c.scores["record"] for c in cells], [c.scores["cost"] for c in cells]
    return {
        "train_seconds": spread([r["train_seconds"] for r in records]),
        "encode_seconds": [r["encode_seconds"] for r in records],
        "words_per_second": statistics.median(c["words_per_second"] for c in costs),
        **{name: max((c[name] for c in costs if c[name]), default=None) for name in ("peak_bytes", "gpu_peak_bytes")},
    }
