"""The first hour, played from the start page's own words: 60 messages are labelled in a browser, and used.

Every command of `docs/start.md` runs in its order, as it stands, and prints what the page shows. Those that open a
page do it in Chromium: `label` is answered with the labels of the sample by mouse and keyboard, `serve` is asked by its
page.
"""

import json
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

import boustro
from boustro.apps.cli.main import main
from browser import needs_chromium, open_browser
from children import finish, start
from conftest import ROOT

pytestmark = [needs_chromium, pytest.mark.long]
PAGE = ROOT / "docs" / "start.md"
END = "\n## Further"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^```bash\n(boustro [^\n]+)\n```\n```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A command with the block of what it prints."""
TEXT = "Order ZR-51806 with the garden gloves is six days late."
"""That whose answer the page shows."""
QUIET = ["--port", "0", "--no-browser"]
POINTS = 6.0
"""How far scores may be from the page's: processors round differently, and one of 45 entities, 20 topics is 2 to 5."""
SCORE = re.compile(r"\d+\.\d+,?")


def commands() -> list[list[str]]:
    """The commands of the page, up to its list of other pages."""
    page = PAGE.read_text("utf-8").partition(END)[0]
    lines = [line for block in BLOCK.findall(page) for line in block.replace("\\\n", " ").splitlines()]
    return [words[1:] for line in lines if (words := shlex.split(line, comments=True))]


def is_shown(line: str, printed: str) -> bool:
    """The same words and counts; decimals are scores, of which the last row, of all, is within `POINTS`."""
    pairs = list(zip(wanted := line.split(), found := printed.split(), strict=False))
    scores = [(a, b) for a, b in pairs if SCORE.fullmatch(a) and SCORE.fullmatch(b)]
    near = wanted[:1] != ["all"] or all(abs(float(a) - float(b)) <= POINTS for a, b in scores)
    return len(wanted) == len(found) and near and all(a == b for a, b in pairs if (a, b) not in scores)


def test_scores_may_differ_by_a_name_and_counts_by_nothing():
    line = "all         94.44  100.00   97.14        17"
    assert is_shown(line, "all 89.47 100.00 94.44 17") and not is_shown(line, "all 80.00 100.00 88.89 17")
    assert not is_shown(line, "all 94.44 100.00 97.14 18")


def sample(name: str) -> dict[str, dict]:
    """The records of the sample's file by their texts."""
    records = map(json.loads, Path("sample", name).read_text("utf-8").splitlines())
    return {record["text"]: record for record in records}


def address(errors: Path, before: str) -> str:
    """What a starting program says after these words."""
    until = time.monotonic() + 120
    while not (found := re.search(rf"{before}(http\S+)", errors.read_text("utf-8"))):
        assert time.monotonic() < until, errors.read_text("utf-8")
        time.sleep(0.05)
    return found[1]


def mark(page, wanted: list[list]) -> None:
    """The entities of the sentence on the screen, by mouse and digit; X where there are none."""
    if page.run("entities.map(e => [e.start, e.end, e.label])") != wanted:
        while page.run("entities.length"):
            page.click("#sentence .chip")
        for first, end, label in wanted:
            page.drag(f".w[data-i='{first}']", f".w[data-i='{end - 1}']")
            page.press(str(page.run("state.labels").index(label) + 1))
    page.press("Enter" if wanted else "x")


def label_entities(page) -> None:
    gold = sample("messages.jsonl") | sample("orders.jsonl")
    text = page.run("spell(0, state.sentence.words.length)")
    ends, place = [], 0
    for word in page.run("state.sentence.words"):
        place = text.index(word, place) + len(word)
        ends.append((place - len(word), place))
    wanted = []
    for begin, stop, label in gold[text.replace("\n", " ")]["entities"]:
        inside = [n for n, (a, b) in enumerate(ends) if a < stop and begin < b]
        wanted.append([inside[0], inside[-1] + 1, label])
    mark(page, wanted)


def label_topics(page) -> None:
    wanted = sample("topics.jsonl")[page.text("#sentence")]["label"]
    if page.run("entities.map(e => e.label)") != [wanted]:
        page.press(str(page.run("state.labels").index(wanted) + 1))
    page.press("Enter")


def label(browser, words: list[str]) -> None:
    """Answer everything on the page of `boustro label`, end it, and train as it says."""
    errors = Path("label.err")
    errors.unlink(missing_ok=True)  # of the session before
    process = start(os.getpid, [*words, *QUIET], errors)
    page = browser.open(address(errors, "label at "))
    page.wait("typeof state !== 'undefined' && state && state.sentence && !busy")
    answer = label_topics if page.run("state.whole") else label_entities
    for number in range(1, page.run("state.total") + 1):
        answer(page)
        page.wait(f"state.answered === {number} && !busy")
    assert page.errors() == [] and page.run("!state.sentence") and page.run("state.total") >= 60
    page.close()
    os.kill(process.pid, signal.SIGINT)
    assert finish(process) == 0
    said = errors.read_text("utf-8")
    (command,) = re.findall(r"^next: boustro (.+)$", said, re.MULTILINE)
    assert main([*shlex.split(command), "--epochs", "3"]) == 0  # the page goes on with its own command


def serve(browser, words: list[str]) -> None:
    """Ask each model by the page of the service."""
    errors = Path("serve.err")
    process = start(os.getpid, [*words, "--port", "0"], errors)
    page = browser.open(address(errors, ""))
    page.wait("typeof models !== 'undefined' && models.length", 120)
    assert page.run("models.map(m => m.name)") == words[1:]
    for place, name in enumerate(words[1:]):
        page.run(f"($('model').selectedIndex = {place}, choose(), 1)")
        page.run(f"($('input').value = '{TEXT}', 1)")
        page.click("#go")
        page.wait("answer !== null")
        shown = page.run("$('text').innerText + $('rows').innerText")
        assert any(own in shown for own in boustro.load(name).types), (name, shown)
    page.close()
    os.kill(process.pid, signal.SIGTERM)
    assert finish(process) == 0


def test_the_first_hour(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("article.txt").write_text(f"{TEXT}\n", "utf-8")
    played = {"label": label, "serve": serve}
    shown = {tuple(shlex.split(command)[1:]): block for command, block in SHOWN.findall(PAGE.read_text("utf-8"))}
    assert len(shown) == 4
    done = []
    with open_browser() as browser:
        for words in commands():
            done.append(words[0])
            if words[0] in played:
                played[words[0]](browser, words)
            else:
                capsys.readouterr()
                assert main(words) == 0, words
                printed = capsys.readouterr().out
                if words == ["predict", "my-orders", "article.txt"]:
                    assert printed.strip() in " ".join(PAGE.read_text("utf-8").split())
                for line in shown.get(tuple(words), "").splitlines():
                    assert any(is_shown(line, own) for own in printed.splitlines()), (line, printed)
    assert {"label", "check", "fit", "predict", "compare", "serve"} <= {*done}
    assert done.count("label") == 2  # entities and topics
    assert any("<table" in report.read_text("utf-8") for report in Path().glob("*/report.html"))
