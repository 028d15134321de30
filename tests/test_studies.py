"""Comparison and report: a grid of cells that survives a kill, tables from cells alone, one safe HTML file."""

import html.parser
import json
import shutil

import pytest

from boustro.cli import main
from boustro.studies.report import verdict
from boustro.tasks.conll import format_conll
from boustro.tasks.render import as_html, as_text, colours, css_class, word_entities
from boustro.types import Entity

NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "<b>Calloway"]
DATA = [
    (words.split(), tags.split())
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", "B-PER O O O O O O"),
        (f"{name} closes on Mondays .", "B-LOC O O O O"),
    )
]


@pytest.fixture(scope="module")
def study(tiny_lm, tmp_path_factory):
    """A finished comparison: the arguments that made it, and its folder."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "data.conll").write_text(format_conll(DATA), "utf-8")
    forward, backward = tiny_lm("llama", sentinel=True), tiny_lm("llama", "backward", seed=1, sentinel=True)
    arguments = ["compare", "--encoders", str(forward), f"{forward}+{backward}", "--heads", "linear", "mlp"]
    arguments += ["--train", str(folder / "data.conll"), "--dev", str(folder / "data.conll")]
    arguments += ["--seeds", "2", "--epochs", "25", "--lr", "0.01", "--dropout", "0", "--out", str(folder / "out")]
    assert main(arguments) == 0
    return arguments, folder / "out"


def test_one_cell_for_every_encoder_head_and_seed(study):
    _, out = study
    results = json.loads((out / "results.json").read_text())
    assert len(list((out / "cells").iterdir())) == 8
    assert len(results["systems"]) == 4 and results["seeds"] == 2
    for system in results["systems"]:
        assert len(system["dev"]["values"]) == 2
        assert system["dev"]["mean"] == pytest.approx(sum(system["dev"]["values"]) / 2)
        assert set(system["per_type"]) == {"PER", "LOC"}


def test_the_pair_knows_what_follows_the_first_word_and_the_report_says_so(study):
    _, out = study
    results = json.loads((out / "results.json").read_text())
    forward, pair = (
        max(s["dev"]["mean"] for s in results["systems"] if ("+" in s["encoder"]) == both) for both in (False, True)
    )
    assert pair > 95 and forward < 85
    assert "+" in results["best"] and results["best"] in verdict(results)


def test_after_a_kill_only_the_missing_cells_run_and_the_report_is_the_same(study, monkeypatch, capsys):
    arguments, out = study
    before = {name: (out / name).read_bytes() for name in ("report.md", "report.html", "results.json")}
    (gone,) = (c for c in (out / "cells").iterdir() if "+" in c.name and "-mlp-2-" in c.name)
    (gone / "manifest.json").unlink()
    fitted = []
    original = __import__("boustro.tasks.tagger", fromlist=["Tagger"]).Tagger.fit
    monkeypatch.setattr(
        "boustro.tasks.tagger.Tagger.fit", lambda self, *a, **k: fitted.append(1) or original(self, *a, **k)
    )
    shutil.rmtree(gone)
    assert main(arguments) == 0
    assert len(fitted) == 1
    table = json.loads(before["results.json"])
    again = json.loads((out / "results.json").read_text())
    for results in (table, again):  # all but the seconds that the new cell took, and our test runner's command line
        for system in results["systems"]:
            system.pop("train_seconds")
    assert again["systems"] == table["systems"]
    assert main(arguments) == 0 and len(fitted) == 1
    first = (out / "report.html").read_bytes()
    assert main(arguments) == 0 and (out / "report.html").read_bytes() == first
    capsys.readouterr()


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.figures = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.figures += data


def test_the_report_is_one_safe_file(study):
    _, out = study
    text = (out / "report.html").read_text("utf-8")
    page = _Page()
    page.feed(text)
    assert len(text) < 500_000
    assert page.tags.count("script") == 1 and dict(page.attributes).get("type")
    assert not [v for k, v in page.attributes if k in ("src", "href") and v and not v.startswith("#")]
    assert page.tags.count("table") >= 2 == page.tags.count("caption") and page.tags.count("svg") >= 2
    assert "<b>Calloway" not in text and "&lt;b&gt;Calloway" in text
    assert json.loads(page.figures.strip()) == json.loads((out / "results.json").read_text())


def test_json_goes_to_standard_output_alone(study, capsys):
    arguments, _ = study
    assert main([*arguments, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["seeds"] == 2 and "report:" in captured.err


def test_a_grid_of_nothing_is_refused(study, capsys):
    arguments, _ = study
    assert main([*arguments, "--seeds", "0"]) == 1
    assert "nothing to compare" in capsys.readouterr().err


def test_a_verdict_admits_that_there_is_no_difference():
    spread = {"mean": 80.0, "sd": 0.1, "values": [80.0]}
    gap = {"points": 0.1, "low": -0.4, "high": 0.6}
    systems = [
        {"name": "a", "dev": spread, "to_best": gap},
        {"name": "b", "dev": {**spread, "mean": 79.9}, "to_best": gap},
    ]
    sentence = verdict({"judged_on": "dev", "seeds": 1, "systems": systems})
    assert "no reliable difference to b" in sentence
    systems[1]["to_best"] = {"points": 3.0, "low": 2.0, "high": 4.0}
    assert "3.0 points above b" in verdict({"judged_on": "dev", "seeds": 1, "systems": systems})


def test_entities_are_shown_by_name_and_colour():
    text, entities = word_entities(["Ada", "of", "Port", "Lisse"], [Entity("PER", 0, 1), Entity("X&Y", 2, 4)])
    assert as_text(text, entities) == "[Ada PER] of [Port Lisse X&Y]"
    shown = as_html(text, entities)
    assert "X&amp;Y</small>" in shown and css_class("X&Y") in shown and "Port Lisse" in shown
    assert colours("X&Y") == colours("X&Y") and colours("PER") != colours("LOC")


@pytest.mark.parametrize("label", ["PER", "LOC", "ORG", "MISC", *"ABCDEFGHIJKLMNOP"])
def test_marks_are_legible_on_light_and_dark_pages(label):
    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    _, light, dark = colours(label)
    assert 1.05 / (luminance(dark) + 0.05) >= 4.5  # white text
    assert (luminance(light) + 0.05) / 0.05 >= 4.5  # black text
