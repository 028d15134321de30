"""What the README and the docs show holds: Python blocks print the output shown there, commands end well.

Every command is parsed. `make test` runs a block for each command, `make test-long` all.
"""

import json
import re
import shlex
from functools import wraps
from pathlib import Path

import pytest

from boustro.apps.cli import tables
from boustro.apps.cli.known import COMMANDS, Known, called
from boustro.apps.cli.main import main
from boustro.options import check_options, option_name
from conftest import ROOT
from documented import arguments_of, expand, make_folder, run_block

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOW = [page for page in PAGES if page.name != "log.md"]  # the log's commands are of their day
OPTIONS = tables.options_page()
BLOCKS = {
    f"{name}: {block.strip().splitlines()[0]}": block
    for name, text in [*((page.name, page.read_text("utf-8")) for page in PAGES), ("options.md", OPTIONS)]
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    if re.search(r"^( *|.*\| )boustro |boustro\.cli ", block, re.MULTILINE)
}
SHOWN = {
    name: set(re.findall(r"\bboustro(?:\.cli)? (?:lab )?([a-z][\w-]*)", block)) & {*COMMANDS}
    for name, block in BLOCKS.items()
}
"""The commands of each block."""
INLINE = [
    (page.name, re.sub(r"\s+", " ", command))
    for page in NOW
    for command in re.findall(r"`(boustro [^`]*--[^`]*)`", page.read_text("utf-8"))
]


def masked(text: str) -> list[str]:
    """Lines with their numbers left out: the last digits differ between processors."""
    return [re.sub(r"\d+(\.\d+)?", "#", line).strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text("utf-8")], ids=lambda p: p.name)
def test_python_blocks_print_what_the_page_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    blocks = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", page.read_text("utf-8"), re.DOTALL)
    for code, output in blocks:
        exec(compile(code, page.name, "exec"), namespace)
        printed = capsys.readouterr().out
        assert masked(printed) == masked(output)


@pytest.fixture(scope="module")
def placeholders(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("documented"))


@pytest.fixture
def here(placeholders, tmp_path, monkeypatch):
    """The current folder, with what the pages name."""
    for path in placeholders.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(known, real=Known.function):
    """The function of a command, which checks its options and does nothing."""
    command = real(known)
    return wraps(command)(lambda **values: check_options(command, values))


@pytest.mark.parametrize("name", BLOCKS, ids=lambda name: name[:60])
def test_options_of_commands_shown_are_taken(name, here, monkeypatch):
    monkeypatch.setattr(Known, "function", checked)
    monkeypatch.setattr(
        "boustro.apps.cli.arguments.check_places", lambda *given: None
    )  # commands before make the files
    commands = [arguments for command in expand(BLOCKS[name], here) if (arguments := arguments_of(command)) is not None]
    for arguments in commands:
        assert main(arguments) == 0, " ".join(arguments)
    assert {next(word for word in words if word != "lab") for words in commands} == SHOWN[name]


def runs():
    """The blocks that are run, the README's and short ones first; those that show no new command, and those of exports,
    which take a minute and have tests of their own, are marked `long`."""
    shown: set[str] = set()

    def order(name):
        return not name.startswith("README"), "--format html" in BLOCKS[name], BLOCKS[name].count("boustro")

    def is_long(name):
        return SHOWN[name] <= shown or "boustro export" in BLOCKS[name]

    for name in sorted(BLOCKS, key=order):
        left = is_long(name)
        yield pytest.param(name, marks=pytest.mark.long if left else (), id=name[:60])
        shown |= set() if left else SHOWN[name]


@pytest.mark.parametrize("name", runs())
def test_commands_shown_end_well(name, here, traced_once, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)  # servers would run on
    with Path("log.txt").open() as log:
        monkeypatch.setattr("sys.stdin", log)
        run_block(BLOCKS[name], here)


@pytest.mark.parametrize(("page", "command"), INLINE, ids=lambda value: value[:60])
def test_commands_in_sentences_name_existing_options(page, command, capsys):
    name, *rest = shlex.split(command.removeprefix("boustro ").removeprefix("lab "))
    assert command.startswith(f"boustro {called(name)}")
    assert main([*called(name).split(), "--help-all"]) == 0
    known = capsys.readouterr().out
    for word in rest:
        assert not word.startswith("--") or word in known, f"{page}: {command}"


def test_benchmarks_shown_exist():
    for page in NOW:
        for script in re.findall(r"\bbench/\w+\.py", page.read_text("utf-8")):
            assert (ROOT / script).is_file(), f"{page.name}: {script}"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target and target != "options.md":  # which the site alone has
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_of_options_has_every_option_that_a_command_takes_by_its_dataclasses():
    """Each in a row of a section, and every section that another one names is there."""
    anchors = {tables._anchor(title) for title in re.findall(r"^## (.+)$", OPTIONS, re.MULTILINE)}
    assert {*re.findall(r"\]\(#([^)]+)\)", OPTIONS)} <= anchors
    listed = {*re.findall(r"^\| `(--[\w-]+)` \|", OPTIONS, re.MULTILINE)}
    groups = {group for known in COMMANDS.values() for group in tables.groups(known.function())}
    assert {f"--{option_name(name)}" for group in groups for name in tables.option_rows(group)} <= listed
    assert {"--encoder", "--head", "--seed", "--port"} <= listed
    assert all(row.count(" | ") == 3 for row in re.findall(r"^\| `--.+$", OPTIONS, re.MULTILINE))


def test_figures_that_stand_on_several_pages_are_those_of_the_data_file():
    """`docs/figures.json` has each with its pages: change it there first, and this test names the pages to change."""
    figures = json.loads((ROOT / "docs/figures.json").read_text("utf-8"))
    lacking = [
        f"{page}: {own['value']} ({name})"
        for name, own in figures.items()
        for page in own["pages"]
        if not re.search(rf"(?<![\d.,]){re.escape(own['value'])}(?![\d])", (ROOT / page).read_text("utf-8"))
    ]
    assert not lacking
    assert figures and all(len(own["pages"]) > 1 for own in figures.values())


@pytest.mark.parametrize(
    ("names", "most_words"),
    [
        ("README.md", 500),
        ("CONTRIBUTING.md", 900),
        ("CHANGELOG.md", 600),
        ("docs/log.md", 7_000),
        ("docs/*.md", 48_000),
    ],
)
def test_pages_stay_short(names, most_words):
    """A figure stands on one page, what a command's help says is not said again, and git keeps what is gone."""
    pages = [page for page in ROOT.glob(names) if page.name != "log.md" or "log" in names]
    assert 0 < sum(len(page.read_text("utf-8").split()) for page in pages) <= most_words


def test_every_page_belongs_to_one_door():
    """Of the site's navigation, which also has the pages that are made or lie elsewhere."""
    listed = re.findall(r"([\w-]+)\.md$", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2], re.MULTILINE)
    made = {"index", "options", "api", "contributing", "changes"}
    assert sorted(listed) == sorted({*made, *(page.stem for page in NOW if page.parent.name == "docs")})


def test_the_log_is_in_order_and_every_entry_begins_with_its_verdict():
    """Newest first; a title ends in (+), (0) or (−), and one sentence or two in one line follow it."""
    entries = (ROOT / "docs/log.md").read_text("utf-8").split("\n## ")[1:]
    assert len(entries) > 10
    dates = []
    for entry in entries:
        title, verdict, empty, *_ = entry.split("\n")
        form = re.fullmatch(r"(\d{4}-\d\d-\d\d) · \S.* \([+0−]\)", title)
        assert form, title
        dates.append(form[1])
        assert verdict.endswith(".") and 20 < len(verdict) <= 140 and not empty, title
    assert dates == sorted(dates, reverse=True)
