"""The notebook runs from top to bottom, and prints what it shows; only numbers may differ, as in the pages."""

import json
import re

import pytest

from conftest import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def words(text):
    """Without numbers, whose last digits differ between processors, and without the widths of columns."""
    return re.sub(r"\d+(\.\d+)?", "#", text).split()


@pytest.mark.long
def test_the_notebook_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"]) >= 12
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert words(capsys.readouterr().out) == words(shown), cell["id"]
    assert (tmp_path / "comparison" / "report.html").is_file()


def test_links_of_the_notebook_lead_somewhere():
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        for target in re.findall(r"\]\(([^)#]+)\)", "".join(cell["source"])) if cell["cell_type"] == "markdown" else ():
            assert (NOTEBOOK.parent / target).is_file(), target
