"""The report of a comparison and the table on standard output: the verdict, what was compared, scores and cost.

The other sections are in `mistakes` and `learning`.

Its first sentences say which system to use, what it does, and whether its lead is real, without statistics:

    Use starter. It finds 72 of 100 entities and marks 8 wrongly; its lead over starter-backward is probably real.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import table as terminal

from boustro.apps.studies.compare.curves import by_examples, curves, layers, reliability_section
from boustro.apps.studies.compare.mistakes import confident, confusions, mistakes, sentences, where
from boustro.apps.studies.report import StudyReport, StudyResults, data_blocks, made, numbers
from boustro.apps.studies.report.blocks import Details, Figure, Prose, ReportBlock, Section, Table, TableCell
from boustro.apps.studies.report.charts import score_dots
from boustro.errors import count_of
from boustro.metrics.significance import interval_text, signed
from boustro.output import console

MANY_COLUMNS = 10  # a table with more columns is wider than a page, and is folded
EQUAL_POINTS = 0.05
"""Points, below which the smaller of two systems is taken."""
DRAWN = (
    "Every seed draws K examples for each label, or K in all where there are none, and all systems get the same draws; "
    "those of a smaller K are among those of a larger one. Systems are compared at the same K, and the head's last "
    "epoch is kept."
)
TESTED = (
    "over the seeds that both have, with a 95% interval and a two-sided p-value from a paired bootstrap over seeds and "
    "documents (examples, where there are none; equal and nearly equal texts are drawn as one); p is corrected for the "
    "number of differences in the table (Holm), and values below 0.05 are coloured. With one shared seed the interval "
    "covers the examples only, and there is no p."
)
MEASURED = (
    "LMs and head: number of parameters, and size of the head's file. Features: bytes on disk for all data sets, "
    "shared by systems with the same LMs. Training: one head, from features, mean over seeds. Words/s: from words "
    "to answers, encoding included, without the cache. All data: time to read every word of the data sets once at "
    "that speed. Peak memory: of the whole process while a cell was computed, without memory-mapped files."
)


def printed_scores(results: StudyResults, width: int) -> tuple[terminal.Table, str]:
    """Return the table on standard output with as many columns of labels as fit, the largest first, and a note on the
    rest."""
    sizes = {label: figures["num_entities"] for s in results["systems"] for label, figures in s["per_type"].items()}
    labels = sorted(sizes, key=lambda label: (-sizes[label], label))
    shown, unbounded = len(labels), console(width=1_000_000)
    while shown and unbounded.measure(_score_table(results, labels[:shown])).maximum > width:
        shown -= 1
    rest = len(labels) - shown
    note = f"only the largest {results['task']['label']}s are shown; more in the report: {rest}" if rest else ""
    return _score_table(results, labels[:shown]), note


def _score_table(results: StudyResults, labels: Sequence[str]) -> terminal.Table:
    systems, metric = results["systems"], results["task"]["metric"]
    table = terminal.Table(box=None, header_style="bold", pad_edge=False)
    for name in ("system", *(f"{n} {metric}" for n in _sets(results)), *labels, "LMs", "trained", "time"):
        table.add_column(name, justify="left" if name == "system" else "right", no_wrap=True)
    for s in systems:
        spreads = [numbers.spread_text(s[name]) for name in _sets(results)]
        table.add_row(
            _name_with_seeds(s, results),
            *(f"{cell.text} {cell.note}".strip() for cell in spreads),
            *(f"{s['per_type'].get(label, {'f1': 0})['f1']:.1f}" for label in labels),
            f"{s['encoder_parameters'] / 1e6:.1f}M",
            f"{s['head_parameters'] / 1e6:.2f}M",
            f"{results['cost'][s['name']]['train_seconds']['mean']:.0f} s",
        )
    return table


def _sets(results: StudyResults) -> list[str]:
    """Return the data sets that are scored."""
    return [name for name in ("dev", "test") if name in results["systems"][0]]


def _name_with_seeds(system: Mapping[str, Any], results: StudyResults) -> str:
    """Return the system's name, with its number of seeds where some are missing."""
    there, asked = system["num_seeds"], results["seeds"]
    return system["name"] + ("" if there == asked else f" ({numbers.seeds(there, asked)})")


def used_system(results: StudyResults) -> Mapping[str, Any]:
    """Return the system that the summary says to use: the best on dev, or one as good that is smaller."""
    best, rival = _first_two(results)
    return min((best, rival), key=_parameters) if rival and _are_equal(rival) else best


def trained_system(results: StudyResults) -> Mapping[str, Any]:
    """Return the system to use for all of the training data: with several K that of the largest."""
    most = max(s["shots"] or 0 for s in results["systems"])
    best = next((s for s in results["systems"] if s["shots"] == most and s["to_best"] is None), None)
    return used_system({**results, "best": best["name"]} if best else results)


def _first_two(results: StudyResults) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the best system on dev and the nearest other one, which may be as good, where there is any."""
    best = next(s for s in results["systems"] if s["name"] == results["best"])
    known = [s for s in _rivals(results["systems"], best) if s["to_best"] is not None]
    return best, next((s for s in known if not s["to_best"]["reliable"]), known[0] if known else None)


def _are_equal(rival: Mapping[str, Any]) -> bool:
    return abs(rival["to_best"]["points"]) < EQUAL_POINTS


def summary(results: StudyResults) -> str:
    """Return the best system on dev, what it does, and whether its lead over the nearest other one is real; of several
    K why it is this one."""
    return f"{_system_to_use(results)}{_enough(results)}"


def _enough(results: StudyResults) -> str:
    """Return a sentence on the smallest K that is as good as the best for all that is known."""
    if (enough := results.get("enough")) is None:
        return ""
    shots, most = _first_two(results)[0]["shots"], enough["best_shots"]
    if "points" not in enough:
        least = shots == min(s["shots"] for s in results["systems"])
        return f" K={shots} has the best score{'' if least else ', and every smaller K is below its interval'}."
    gap = f"{signed(enough['points'])} points, {interval_text(enough['low'], enough['high'], signs=True)}"
    return f" K={shots} is the smallest K within the interval of the best, K={most} ({gap})."


def _system_to_use(results: StudyResults) -> str:
    judged = results["judged_on"]
    total = results["data"][judged]["entities" if results["task"]["has_spans"] else "examples"]
    best, rival = _first_two(results)
    used = used_system(results)
    what = does(used["figures"], used[judged]["mean"], results["task"], total)
    if rival is None:
        return told(best["name"], what, "")
    if _are_equal(rival):
        other = rival if used is best else best
        smaller = f", and {used['name']} is smaller" if _parameters(used) < _parameters(other) else ""
        return told(used["name"], what, f"{other['name']} is as good{smaller}")
    gap = rival["to_best"]
    rest = leading(gap["points"], rival["name"], gap["reliable"])
    if gap["num_seeds"] == 1:
        rest = f"one seed cannot tell whether its lead over {rival['name']} is real"
    return told(best["name"], what, rest)


def _parameters(system: Mapping[str, Any]) -> float:
    return system["encoder_parameters"] + system["head_parameters"]


def _rivals(systems: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the others that learned from as many examples."""
    return [s for s in systems if s is not best and s["shots"] == best["shots"]]


def verdict(results: StudyResults) -> str:
    """Return the best system on dev, how much better it is than the next, and whether that is reliable."""
    judged, systems, metric = results["judged_on"], results["systems"], results["task"]["metric"]
    best = next(s for s in systems if s["name"] == results["best"])
    rest = _rivals(systems, best)
    seeds = numbers.seeds(best["num_seeds"], results["seeds"])
    seeds = seeds if best["num_seeds"] == 1 else f"mean of {seeds}"
    stamp = f"Incomplete ({results['stamp']}): " if results.get("stamp") else ""
    opening = f"{stamp}{best['name']}{', best on dev,' if rest and judged != 'dev' else ''} reaches "
    opening += f"{best[judged]['mean']:.1f} {judged} {metric} ({seeds})"
    known = [s for s in rest if s["to_best"] is not None]
    if not known:
        return opening + ("; no other system shares a seed with it." if rest else ".")
    level = [s for s in known if not s["to_best"]["reliable"]]
    second = (level or known)[0]
    gap = second["to_best"]
    far = f"{abs(gap['points']):.1f} points {'below' if gap['points'] < 0 else 'above'} {second['name']}"
    if gap["num_seeds"] == 1:
        return f"{opening}, {far} ({numbers.shown_interval(gap)}: no statement about reliability)."
    if level:
        more = f" or {len(level) - 1} more" if len(level) > 1 else ""
        points = f"{numbers.signed(gap['points']).removeprefix('+')} points, {numbers.shown_interval(gap)}"
        return f"{opening}; no reliable difference to {second['name']}{more} ({points})."
    return f"{opening}, {far} ({numbers.shown_interval(gap)})."


def comparison_section(results: StudyResults) -> Section:
    """Make the section that says what was compared, on which data, and by which command."""
    judged, systems = results["judged_on"], results["systems"]
    there = [s["num_seeds"] for s in systems]
    seeds = numbers.seeds(there[0], results["seeds"])
    if min(there) != max(there):
        seeds = f"{min(there)} to {max(there)} of {results['seeds']} seeds"
    varied = "; ".join(f"{name} ({', '.join(map(str, values))})" for name, values in results["varied"].items())
    texts = [f"{count_of(len(systems), 'systems')}, {seeds}{' each' * (len(systems) > 1)}, scored on {judged}."]
    texts += [f"What differs: {varied}."] if varied else []
    if "draws" in results:
        texts.append(DRAWN)
    notes = []
    if "draws" in results and judged == "dev":
        notes = ["The dev set selected nothing but the best system."]
    elif judged == "dev":
        notes = ["The dev set also selected each run's best epoch, so these scores are optimistic for all systems."]
    elif len(systems) > 1:
        notes = ["The best system was selected on dev; nothing was selected on test."]
    if same := [s["name"] for s in systems if s["num_seeds"] > 1 and len({*s[judged]["values"]}) == 1]:
        notes.append(f"Every seed gives the same score with {', '.join(same)}, which therefore has no spread.")
    if min(there) == 2:
        notes.append("Two seeds give a poor estimate of the spread: use at least three.")
    if min(there) == 1:
        notes.append("One seed shows neither the spread nor whether a difference is reliable: use at least three.")
    blocks = [*map(Prose, texts), *data_blocks(results), *(Prose(note, "note") for note in notes)]
    return Section("compared", "What was compared", blocks)


def scores(results: StudyResults) -> Section:
    """Score and size of every system."""
    systems, judged, metric = results["systems"], results["judged_on"], results["task"]["metric"]
    against, spans = results["reference"], results["task"]["has_spans"]
    figures = list(systems[0]["figures"])
    against = ("the best" if against == results["best"] else against) + " at the same K" * ("draws" in results)
    named = f"against {against}"
    short = [{"precision": "P", "recall": "R"}.get(name, name.replace("_", " ")) for name in figures]
    heads = ["system", *(f"{n} {metric}" for n in _sets(results)), *short, named, "LMs", "head"]
    rows = []
    for s in systems:
        sizes = [numbers.millions(s[f"{part}_parameters"]) for part in ("encoder", "head")]
        spreads = [numbers.spread_text(s[name]) for name in _sets(results)]
        spreads += [TableCell(f"{s['figures'][name]['mean']:.1f}") for name in figures]
        rows.append([_name_with_seeds(s, results), *spreads, numbers.gap_text(s["to_reference"]), *sizes])
    best = frozenset(i for i, s in enumerate(systems) if s["name"] == results["best"])
    how = f"; at entity level, by conlleval's rules. P and R: precision and recall on {judged}" if spans else ""
    caption = (
        f"Mean and standard deviation over seeds. Differences from {against} on {judged} in points of {metric}, with a "
        "95% interval and p."
    )
    method = f"Scores are means over seeds{how}. Differences are {TESTED} LMs and head: number of parameters."
    plot = score_dots(systems, judged, metric=metric)
    figure = Figure(plot, f"{judged} {metric}: one dot per seed, a line at the mean.")
    measured = Details("How this was measured", [Prose(method)])
    return Section("scores", "Scores", [Table(caption, heads, rows, best), measured, figure])


def shots(results: StudyResults) -> Section | None:
    """Return the scores by K, where there are several."""
    systems, judged = results["systems"], results["judged_on"]
    if len({s["shots"] for s in systems}) < 2:
        return None
    bests = {s["shots"]: s["line"] for s in reversed(systems)}
    points = [
        {
            "name": s["line"],
            "shots": s["shots"],
            "head": s["head"],
            "score": s[judged],
            "sentences": [len(results["draws"][str(s["shots"])][seed - 1]) for seed in s["seeds"]],
            "to_best": {"name": bests[s["shots"]]},
        }
        for s in systems
    ]
    return by_examples(results, points)


def types(results: StudyResults) -> Section | None:
    """Precision, recall and F1 of every label."""
    if not results["task"]["has_labels"]:
        return None
    systems, label_name = {s["name"]: s for s in results["systems"]}, results["task"]["label"]
    pair = [systems[name] for name in dict.fromkeys(results["pair"])]
    labels = sorted({label for s in systems.values() for label in s["per_type"]})
    rows = []
    for label in labels:
        size = max(s["per_type"].get(label, {"num_entities": 0})["num_entities"] for s in pair)
        gaps = [numbers.gap_text(results["pair_by_type"].get(label))] if len(pair) > 1 else []
        rows.append([label, f"{size:,.0f}", *(_label_cell(s, label, 1) for s in pair), *gaps])
    heads = [label_name, results["task"]["units"], *dict.fromkeys(results["pair_short"])]
    heads += ["difference"] if len(pair) > 1 else []
    caption = f"F1 on {results['judged_on']} with precision / recall, mean over seeds; differences as above"
    blocks: list[ReportBlock] = [Table(caption, heads, rows)]
    if len(systems) > len(pair):
        table = _all_types(systems, labels, label_name)
        blocks.append(Details("Every system", [table], shown=len(labels) <= MANY_COLUMNS))
    return Section("types", f"By {label_name}", blocks)


def _label_cell(system: Mapping[str, Any], label: str, digits: int) -> TableCell:
    f1, precision, recall = (system["per_type"].get(label, {}).get(key, 0.0) for key in ("f1", "precision", "recall"))
    return TableCell(f"{f1:.1f}", f"{precision:.{digits}f} / {recall:.{digits}f}", f1 / 100)


def _all_types(systems: Mapping[str, Any], labels: list[str], label_name: str) -> Table:
    """Systems × labels, the longer of the two as rows."""
    caption = "F1 with precision / recall"
    if len(labels) <= max(MANY_COLUMNS, len(systems)):
        rows = [[name, *(_label_cell(s, x, 0) for x in labels)] for name, s in systems.items()]
        return Table(caption, ["system", *labels], rows)
    rows = [[x, *(_label_cell(s, x, 0) for s in systems.values())] for x in labels]
    return Table(caption, [label_name, *systems], rows)


def cost(results: StudyResults) -> Section:
    """Parameters, bytes, seconds and words per second."""
    heads = ["system", "LMs", "head", "features", "training", "words/s", "all data", "peak memory"]
    rows: list[list[TableCell | str]] = []
    words = sum(d["words"] for d in results["data"].values())
    gpu = any(c["gpu_peak_bytes"] for c in results["cost"].values())
    for s in results["systems"]:
        c = results["cost"][s["name"]]
        training = TableCell(numbers.seconds(c["train_seconds"]["mean"]), numbers.spread_text(c["train_seconds"]).note)
        row = [s["name"], numbers.millions(s["encoder_parameters"])]
        row += [TableCell(numbers.millions(s["head_parameters"]), numbers.size(s["head_bytes"]))]
        row += [numbers.size(s["feature_bytes"]), training, f"{c['words_per_second']:,.0f}"]
        row += [numbers.seconds(words / c["words_per_second"]), numbers.size(c["peak_bytes"])]
        rows.append(row + ([numbers.size(c["gpu_peak_bytes"])] if gpu else []))
    table = Table("Means over seeds, on the machine that computed them", heads + (["GPU memory"] if gpu else []), rows)
    return Section("cost", "Cost", [table, Details("How this was measured", [Prose(MEASURED)])])


REPORT = StudyReport(
    summary,
    verdict,
    (
        *(comparison_section, scores, shots, types, mistakes, confusions, where, sentences, confident),
        *(layers, curves, reliability_section, cost, made),
    ),
)


def does(figures: Mapping[str, Any], score: float, task: Mapping[str, Any], total: int = 100) -> str:
    """`finds 72 of 100 entities and marks 8 wrongly`, from the means of recall and precision in percent, else
    of accuracy, else the score.

    Of fewer than 100 in `total` it says how many there were.
    """
    total = min(total, 100)
    recall = figures.get("recall", {}).get("mean") if task.get("has_spans") else None
    if recall is not None:
        found, precision = recall * total / 100, figures.get("precision", {}).get("mean")
        wrong = f" and marks {found * (100 / precision - 1):.0f} wrongly" if precision else ""
        return f"finds {found:.0f} of {total} {task['units']}{wrong}"
    if task["metric"] == "accuracy":
        return f"is right for {score * total / 100:.0f} of {total} {task['units']}"
    return f"reaches {score:.1f} {task['metric']}"


def leading(points: float, rival: str, reliable: bool) -> str:
    """Say what a tested difference means; `points` below 0 is behind."""
    if reliable:
        return f"its lead over {rival} is probably real" if points > 0 else f"it is probably worse than {rival}"
    return f"its lead over {rival} may be chance" if points > 0 else f"it may be no better than {rival}"


def told(name: str, what: str, rest: str) -> str:
    """Return the sentences; `rest` is empty where there is nothing to compare with."""
    return f"Use {name}. It {what}; {rest}." if rest else f"{name} {what}."
