"""The report: one safe, legible file that says what results.json says, however many systems there are.

The cells here are made up, so that nothing is trained: a system's answers are the reference with some of its
tags changed at random.
"""

import html.parser
import itertools
import json
import random
import re
from pathlib import Path

import pytest

from boustro.apps.drawing import DARK, LETTER_WIDTH, LIGHT, NUM_SERIES, Scale, standalone, ticks
from boustro.apps.studies.compare.command import _best
from boustro.apps.studies.compare.comparison import Comparison
from boustro.apps.studies.compare.report import REPORT
from boustro.apps.studies.core import systems
from boustro.apps.studies.core.cells import CELL_KIND, find_cells
from boustro.apps.studies.core.options import StudyData
from boustro.apps.studies.core.run import write_report
from boustro.apps.studies.report.blocks import EntityText, ExampleSentence, Section, Table, to_html
from boustro.apps.studies.report.charts import score_dots
from boustro.apps.studies.report.page import PAGE_DARK, PAGE_LIGHT
from boustro.metrics.spans import extract_spans, score_entities
from boustro.store import write_file, write_folder
from boustro.tasks.classifier import Classifier
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import read_data
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.render import as_html, colours, css_class, in_brackets, word_entities
from boustro.types import Entity, Sentence

verdict = REPORT.verdict
LABELS = ["PER", "LOC", "ORG", "<i>ODD"]
WORDS = ("of", "Port", "</script>", "spoke")
TAGS = [(f"B-{LABELS[n % 4]}", "O", f"B-{LABELS[-n % 3]}", "I-X", "O") for n in range(60)]
DATA = read_data([((f"<b>Ada{n}", *WORDS), tags) for n, tags in enumerate(TAGS)])


def report(grid, out, skip=()):
    """A report over cells as `compute_cell` would leave them: its results and its page."""
    fill(grid, out, skip)
    return write_report(grid, find_cells(grid, out), out), (out / "report.html").read_text("utf-8")


def fill(grid, out, skip=()):
    for system, seed in itertools.product(grid.systems(), range(1, grid.seeds + 1)):
        if (system.name, seed) in skip:
            continue
        draw = random.Random(f"{system.name} {seed}")
        quality = draw.uniform(0.5, 0.9)
        wrong = ["O", "B-PER", "B-ORG"]
        tags = ([t if draw.random() < quality else draw.choice(wrong) for t in s.tags] for s in grid.dev)
        write_cell(grid, system, seed, out, {"dev": [*map(extract_spans, tags)]})


def write_cell(grid, system, seed, out, answers):
    """A cell of these entities, by data set; their scores and what a clock measured are drawn at random."""
    draw = random.Random(f"{system.name} {seed}")
    curve = [draw.uniform(20, 80) for _ in range(12)]
    record = {
        "encoder_parameters": 5_000_000,
        "head_parameters": 40_000,
        "train_seconds": draw.uniform(1, 9),
        "encode_seconds": 1.5,
        "dev_curve": curve,
        "best_epoch": 7,
        "layer_weights": {"ahead": [0.1, 0.2, 0.7], "back": [0.5, 0.25, 0.25]},
        "notices": {"words <cut>": 3},
    }
    cost = {"feature_bytes": 10**7, "head_bytes": 10**5, "words_per_second": 900.0, "peak_bytes": 10**9}
    cell = grid.cell(system, seed, out)
    result = {"config": grid.settings(system, seed), "seed": seed, "record": record}
    with write_folder(cell.folder, CELL_KIND) as folder:
        for name, predicted in answers.items():
            told = score_entities([gold_entities(s) for s in grid.data()[name]], predicted).to_dict()
            figures = {key: told[key] for key in ("precision", "recall") if grid.units.has_positions}
            result[name] = {"value": told["f1"], "figures": figures, "per_type": told["per_type"]}
            rows = [
                {"entities": [(e.label, e.start, e.end) for e in own], "scores": [round(draw.random(), 4) for _ in own]}
                for own in predicted
            ]
            write_file(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        write_file(folder / "scores.json", json.dumps(result | {"cost": cost | {"gpu_peak_bytes": None}}))


def parse_variants(vary):
    return systems.parse_variants(vary, TaggerConfig)


def make_grid(**changed):
    given = {"encoders": ("starter-forward", "starter"), "heads": ("mlp",), "seeds": 3, "options": {}}
    return Comparison(**given | {"train": DATA[:20], "dev": DATA} | changed)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of two systems: its results, and its folder."""
    out = tmp_path_factory.mktemp("made")
    return report(make_grid(title="A <title> & more"), out)[0], out


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, attributes, what is open, and the text by tag."""

    VOID = ("meta", "path", "rect", "br")

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def test_the_report_is_one_safe_file(made):
    results, out = made
    text = (out / "report.html").read_text("utf-8")
    page = Page(text)
    assert page.open == [] and len(text) < 150_000
    assert page.tags.count("script") == 1 and ("script", "type", "application/json") in page.attributes
    links = [value for _, key, value in page.attributes if key in ("src", "href", "xlink:href")]
    assert links and all(value.startswith("#") for value in links)
    assert not [key for _, key, _ in page.attributes if key.startswith("on")] and "url(" not in text
    assert page.tags.count("table") == page.tags.count("caption") and page.tags.count("table") > 12
    assert page.tags.count("svg") == text.count('role="img"><title>') >= 7
    for outside in ("<b>Ada", "<i>ODD", "<title> &", "words <cut>"):
        assert outside not in text.partition("<script")[0].replace("<title>A", "")
    assert text.count("</script>") == 1  # our own
    assert "&lt;b&gt;Ada" in text and "A &lt;title&gt; &amp; more" in text
    assert json.loads("".join(page.text["script"])) == results == json.loads((out / "results.json").read_text())


def test_the_table_of_contents_leads_to_every_section_and_the_verdict_comes_first(made):
    results, out = made
    text = (out / "report.html").read_text("utf-8")
    page = Page(text)
    targets = [value[1:] for tag, key, value in page.attributes if tag == "a" and key == "href"]
    assert targets == [value for tag, key, value in page.attributes if tag == "section" and key == "id"]
    assert len(targets) == len(REPORT.sections) - 1 and "shots" not in targets  # there is one K only
    assert text.count("<h2>") == len(targets)
    more = Section("raw", "Raw <text>", [EntityText("Ada spoke", [Entity("PER", 0, 3)])])
    longer = Page(REPORT.html(results, [more]))
    links, sections = (
        [v[1:] if tag == "a" else v for tag, key, v in longer.attributes if (tag, key) == wanted]
        for wanted in (("a", "href"), ("section", "id"))
    )
    assert links == sections == [*targets[:-1], "raw", "made"] and longer.tags.count("h2") == len(links)
    assert page.text["p"][:2] == [REPORT.summary(results), verdict(results)]
    assert text.index("class=verdict") < text.index("<section")
    order = [t for t in targets if t != "compared" and t != "made"]
    assert order == "scores types mistakes confusions where cases confident layers curves calibration cost".split()


def test_the_same_results_give_the_same_bytes(made):
    results, out = made
    assert REPORT.html(json.loads(json.dumps(results))) == (out / "report.html").read_text("utf-8")
    assert REPORT.markdown(results) == (out / "report.md").read_text("utf-8")


def test_markdown_tables_are_whole_and_hold_the_same_scores(made):
    results, out = made
    text = (out / "report.md").read_text("utf-8")
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) > 12
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1
    for system in results["systems"]:
        assert f"| {system['name']} | {system['dev']['mean']:.2f} (± {system['dev']['sd']:.2f}) |" in text
    assert text.rindex("## ") == text.index("## Cost")  # what a clock measured comes last
    assert "_" not in verdict(results) and verdict(results) in text


def test_every_dot_of_the_plots_is_a_seed(made):
    results, out = made
    text = (out / "report.html").read_text("utf-8")

    def dots(section):
        body = text[text.index(f"<section id={section} ") :].partition("</section>")[0]
        return sum(d.count("h0") for d in re.findall(r'<path class="p s\d"[^>]* d="([^"]*)"', body))

    seeds = results["seeds"] * len(results["systems"])
    assert dots("scores") == seeds
    assert dots("curves") == 12 * seeds
    assert dots("layers") == 2 * 3 * seeds
    assert dots("where") >= 2 * len(results["systems"])


def test_every_picture_fits_a_phone_in_letters_of_at_least_11_pixels(made):
    _, out = made
    text = (out / "report.html").read_text("utf-8")
    assert "<meta name=viewport" in text and "svg text{font:12px" in text
    widths = [int(width) for width in re.findall(r'<svg [^>]*?width="(\d+)"', text)]
    assert len(widths) == text.count("<svg ") and max(widths) <= 360  # 400 pixels less the page's margins: as drawn
    for svg in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        right = int(re.search(r'width="(\d+)"', svg).group(1))
        for x, anchor, words in re.findall(r'<text x="(.*?)" y=".*?"(?: text-anchor="(.*?)")?[^>]*>(.*?)<', svg):
            share = {"": 0, "middle": 0.5, "end": 1}[anchor]
            room = len(words) * LETTER_WIDTH
            assert float(x) - share * room >= -2 and float(x) + (1 - share) * room <= right + 2, words


def test_systems_of_one_encoder_have_a_colour_each(tmp_path):
    grid = make_grid(encoders=("starter",), variants=parse_variants(["dropout=0.1,0.3", "lr=1e-3,1e-2"]), seeds=2)
    results, text = report(grid, tmp_path)
    drawn = score_dots(results["systems"], "dev")
    used = re.findall(r'<path class="p (s\d)"', drawn)
    assert len(used) == len(set(used)) == 4
    own = dict(zip((s["name"] for s in results["systems"]), used, strict=True))
    for section in ("curves", "calibration"):
        body = text[text.index(f"<section id={section} ") :].partition("</section>")[0]
        for name, style in own.items():
            panel = next(p for p in body.split("<svg ") if f": {name}</title>" in p)
            assert set(re.findall(r'class="[lp] (s\d)"', panel)) == {style}


def test_24_systems_are_still_one_file_of_modest_size(tmp_path):
    vary = parse_variants(["pooling=exit,exit+before", "layers=last,all", "dropout=0.1,0.3,0.5"])
    results, text = report(make_grid(heads=("mlp",), variants=vary, seeds=2), tmp_path)
    assert len(results["systems"]) == 24 and len({s["name"] for s in results["systems"]}) == 24
    assert len(text) < 500_000 and Page(text).open == []
    first, second = (set(name.split(" · ")) for name in results["pair"])
    assert len(first ^ second) == 2  # by default the case study is of two that differ in one thing
    for system in results["systems"]:
        assert text.count(f">{system['name']}</th>") >= 8


def test_an_incomplete_study_is_stamped_everywhere(tmp_path):
    grid = make_grid()
    results, _ = report(grid, tmp_path, skip=[("starter", 2), ("starter-forward", 1), ("starter-forward", 2)])
    assert results["stamp"] == "3 of 6 cells" and len(results["missing"]) == 3
    assert "starter, seed 2" in results["missing"]
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert "Incomplete" in text and "3 of 6 cells" in text
        assert "starter-forward (1 of 3 seeds)" in text and "starter (2 of 3 seeds)" in text
    (starter,) = (s for s in results["systems"] if s["name"] == "starter")
    assert starter["num_seeds"] == 2 and len(starter["dev"]["values"]) == 2
    whole, page = report(grid, tmp_path)
    assert whole["stamp"] == "" and "Incomplete" not in page


def test_one_system_alone_and_without_epochs_or_layers_still_gives_a_report(tmp_path):
    grid = make_grid(encoders=("starter",), seeds=1, dev=DATA[:3])
    fill(grid, tmp_path)
    (scores,) = tmp_path.glob("cells/*/scores.json")
    held = json.loads(scores.read_text())
    for key in ("dev_curve", "layer_weights", "best_epoch"):
        del held["record"][key]
    with write_folder(scores.parent, CELL_KIND) as folder:
        write_file(folder / "dev.jsonl", '{"entities": [], "scores": []}\n' * 3)
        write_file(folder / "scores.json", json.dumps(held))
    results = write_report(grid, find_cells(grid, tmp_path), tmp_path)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "There is only one system" in text
    assert "Learning curves" not in text and "Learned layer weights" not in text
    assert results["systems"][0]["errors"]["missed"] == sum(results["data"]["dev"]["entities"] for _ in range(1))
    assert "One seed shows neither the spread" in text and verdict(results).endswith("(one seed).")


def test_a_comparison_of_classifiers_speaks_of_texts_and_accuracy(tmp_path):
    labels = ["POS" if n % 3 else "NEG" for n in range(60)]
    texts = [Sentence(("good", "boat", str(n)), label=own, where=f"t.jsonl:{n}") for n, own in enumerate(labels)]
    grid = make_grid(heads=("mlp-pool",), task=Classifier, train=texts[:20], dev=texts)
    for system, seed in itertools.product(grid.systems(), (1, 2, 3)):
        wrong = 30 if system.name == "starter-forward" else 6
        answers = [[Entity("NEG" if n < wrong else s.label, 0, 3)] for n, s in enumerate(texts)]
        write_cell(grid, system, seed, tmp_path, {"dev": answers})
    results = write_report(grid, find_cells(grid, tmp_path), tmp_path)
    best, other = results["systems"]  # the best first, whatever the order of the command
    assert best["name"] == "starter" and other["name"] == "starter-forward"
    accuracy = 100 * sum(n >= 6 or s.label == "NEG" for n, s in enumerate(texts)) / 60
    assert best["dev"]["mean"] == pytest.approx(accuracy)
    assert verdict(results).startswith(f"starter reaches {accuracy:.1f} dev accuracy (mean of 3 seeds)")
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "| system | dev accuracy | against the best |" in text and "all texts" in text
    assert "entit" not in text.partition("## How this report")[0]
    table, _ = grid.table(results, 160)
    assert [column.header for column in table.columns][:2] == ["system", "dev accuracy"]


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [{**LIGHT, **PAGE_LIGHT}, {**DARK, **PAGE_DARK}], ids=["light", "dark"])
def test_text_is_legible_on_every_ground(theme):
    for text, ground in itertools.product(("ink", "muted", "good", "bad", "link"), ("paper", "soft")):
        assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    assert contrast(theme["ink"], theme["bar"]) >= 4.5
    for series in range(NUM_SERIES):
        assert contrast(theme[f"s{series}"], theme["paper"]) >= 3  # marks, not text


def test_a_figure_on_its_own_brings_its_colours(made):
    _, out = made
    svg = re.search(r"<svg.*?</svg>", (out / "report.html").read_text("utf-8"), re.DOTALL)
    alone = standalone(svg.group())
    assert alone.count("<style>") == 1 and LIGHT["s0"] in alone and DARK["s0"] in alone
    assert Page(alone).open == []


@pytest.mark.parametrize(("low", "high"), [(61.2, 88.9), (0, 3), (0.1, 0.1), (-4, 250), (37.19, 37.21)])
def test_an_axis_begins_and_ends_outside_of_its_data_at_round_numbers(low, high):
    marks = ticks(low, high)
    assert marks[0] <= low and marks[-1] >= high and 2 <= len(marks) <= 9
    assert len({round(b - a, 6) for a, b in itertools.pairwise(marks)}) == 1
    scale = Scale(marks[0], marks[-1], 10, 110)
    assert 10 <= scale(low) <= scale(high) <= 110


def test_a_verdict_admits_that_there_is_no_difference():
    def gap(points, low, high, p, reliable, num_seeds=3):
        own = {"points": points, "low": low, "high": high, "p_holm": p, "num_seeds": num_seeds}
        return {**own, "reliable": reliable}

    def system(name, dev, gap):
        means = {"dev": {"mean": dev}, "test": {"mean": dev - 10}}
        made = {"encoder": name, "head": "mlp", "variant": {}}
        return {"name": name, **means, **made, "num_seeds": 3, "to_best": gap, "shots": None}

    second = system("b", 79.9, gap(0.1, -0.4, 0.6, 0.8, False))
    task = {"metric": "F1"}
    results = {"judged_on": "dev", "seeds": 3, "best": "a", "stamp": "", "task": task}
    results["systems"] = [system("a", 80.0, None), second]
    for own in results["systems"]:
        own["figures"] = {"recall": {"mean": 71.6}, "precision": {"mean": 89.5}}
        own |= {"encoder_parameters": 10, "head_parameters": 2 + (own is second)}
    task |= {"has_spans": True, "units": "entities"}
    results["data"] = {"dev": {"entities": 2000}}
    counted = "It finds 72 of 100 entities and marks 8 wrongly"
    assert REPORT.summary(results) == f"Use a. {counted}; its lead over b may be chance."
    assert "; no reliable difference to b (0.1 points, 95% interval −0.4 to 0.6, p = 0.800)" in verdict(results)
    second["to_best"] = gap(3.0, 2.0, 4.0, 0.0004, True)
    assert REPORT.summary(results) == f"Use a. {counted}; its lead over b is probably real."
    certain = "3.0 points above b (95% interval 2.0 to 4.0, p < 0.001)."
    assert verdict(results) == f"a reaches 80.0 dev F1 (mean of 3 seeds), {certain}"
    assert verdict({**results, "stamp": "3 of 6 cells"}).startswith("Incomplete (3 of 6 cells): a reaches")
    on_test = verdict({**results, "judged_on": "test"})
    assert on_test == f"a, best on dev, reaches 70.0 test F1 (mean of 3 seeds), {certain}"
    second["to_best"] = gap(-3.0, -4.0, -2.0, 0.01, True)
    assert ", 3.0 points below b (95% interval −4.0 to −2.0, p = 0.010)." in verdict(results)
    second["to_best"] = gap(3.0, 2.0, 4.0, None, False, num_seeds=1)
    assert REPORT.summary(results).endswith("; one seed cannot tell whether its lead over b is real.")
    assert "(95% interval over examples only 2.0 to 4.0, one seed: no statement about reliability)." in verdict(results)
    second["to_best"] = gap(3.0, 2.0, 4.0, 0.01, True)
    second["to_best"] = gap(0.0, -1.0, 1.0, 1.0, False)
    assert REPORT.summary(results) == f"Use a. {counted}; b is as good, and a is smaller."
    second["head_parameters"] = 1
    assert REPORT.summary(results) == f"Use b. {counted}; a is as good, and b is smaller."
    data = StudyData(train=Path("t.conll"), dev=Path("d.conll"))
    assert _best(results, data, {}).startswith("boustro fit --encoder b --head mlp --train t.conll")
    second["head_parameters"] = 2
    assert REPORT.summary(results) == f"Use a. {counted}; b is as good."
    second["to_best"] = gap(-0.2, -1.0, 1.0, 0.8, False)
    assert REPORT.summary(results) == f"Use a. {counted}; it may be no better than b."
    second["to_best"] = gap(3.0, 2.0, 4.0, 0.01, True)
    third = system("c", 79.0, gap(0.2, -1.0, 1.0, 0.7, False))
    assert "no reliable difference to c (0.2 points" in verdict({**results, "systems": [*results["systems"], third]})


def test_rows_and_columns_without_a_figure_are_left_out():
    table = Table("Scores", ["system", "a", "b"], [["x", "–", "1"], ["y", "–", "–"], ["z", "–", "2"]], frozenset({2}))
    assert table.with_figures() == Table("Scores", ["system", "b"], [["x", "1"], ["z", "2"]], frozenset({1}))
    assert to_html(Table("Scores", ["system", "a"], [["x", "–"]])) == ""


def test_entities_are_shown_by_name_and_colour():
    text, entities = word_entities(["Ada", "of", "Port", "Lisse"], [Entity("PER", 0, 1), Entity("X&Y", 2, 4)])
    assert in_brackets(text, entities) == "[Ada PER] of [Port Lisse X&Y]"
    shown = as_html(text, entities)
    assert "X&amp;Y</small>" in shown and css_class("X&Y") in shown and "Port Lisse" in shown
    assert colours("X&Y") == colours("X&Y") and colours("PER") != colours("LOC")


def bare(shown):
    return re.sub(r"<small>.*?</small>|<[^>]*>", "", shown).replace(" ", "")


def test_an_example_of_a_report_tells_nested_and_crossing_entities_once():
    words = ["Bank", "of", "Port", "Lisse", "fell"]
    gold = [Entity("ORG", 0, 4), Entity("LOC", 2, 4), Entity("LOC", 4, 5)]
    answers = [("found", [Entity("ORG", 0, 4, score=0.9)]), ("crossed", [Entity("ORG", 0, 3), Entity("LOC", 2, 4)])]
    lines = re.findall("<dd dir=auto>(.*?)</dd>", to_html(ExampleSentence("", words, gold, answers)))
    assert [bare(line) for line in lines] == ["BankofPortLissefell"] * 3
    assert [line.count("<mark") for line in lines] == [3, 1, 3]
    assert [line.count('class="missed"') for line in lines] == [0, 2, 1]  # what nothing wrong stands for
    assert [line.count("wrong") for line in lines] == [0, 0, 1]
