"""What the README and the docs show is run: Python blocks give the output printed there, commands parse."""

import re
import shlex
from pathlib import Path

import pytest

from boustro.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_LINES = [
    (page.name, line.split("  #")[0])
    for page in PAGES
    for block in re.findall(r"```(?:bash|console)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.split()[:1] == ["boustro"]
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


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=lambda value: value[:60])
def test_commands_and_options_shown_exist(page, line, capsys):
    name, *rest = shlex.split(line)[1:]
    assert name in COMMANDS
    assert main([name, "--help"]) == 0
    known = capsys.readouterr().out
    for word in rest:
        if word.startswith("--"):
            assert word in known, f"{page}: {line}"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
