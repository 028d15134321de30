"""The documentation site: built from docs/ and docstrings without a warning, and it loads nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys

import pytest

from browser import needs_chromium, open_browser
from conftest import ROOT

for name in ("mkdocs", "material", "mkdocstrings"):
    pytest.importorskip(name, reason="the site needs the extra docs; `make docs` installs it")
pytestmark = pytest.mark.slow

LOADED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]*)", re.IGNORECASE
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_in_the_navigation(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"log"}
    pages |= {"index", "api", "options", "contributing", "changes"}
    assert pages <= {path.stem for path in site.glob("*.html")}
    listed = (site / "index.html").read_text("utf-8")
    assert [name for name in pages - {"index"} if f'href="{name}.html"' not in listed] == []


def test_public_names_have_their_docstrings(site):
    import boustro

    reference = (site / "api.html").read_text("utf-8")
    assert [name for name in boustro.__all__ if not re.search(rf'id="[\w.]+\.{name}"', reference)] == []
    assert "A frozen encoder and a trained head that finds entities, or labels every word." in reference
    assert "BoustroRecognizer" in reference and "BoustroModule" in reference


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("7B", "large.html choosing.html llm.html"),
        ("Spanish", "languages.html choosing.html"),
        ("deploy", "start.html serving.html"),
        ("docker", "serving.html install.html"),
        ("accuracy", "choosing.html texts.html results.html"),
        ("cost", "costs.html"),
        ("GPU", "costs.html large.html install.html"),
        ("install", "install.html"),
    ],
)
def test_the_search_finds_what_people_look_for(site, word, page):
    """The index has the word on a page that answers; a heading or a text counts, in any case."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    texts = [(own["location"].partition("#")[0], f"{own['title']} {own['text']}") for own in index["docs"]]
    found = {where for where, text in texts if re.search(rf"\b{word}", text, re.IGNORECASE)}
    assert set(page.split()) <= found
    assert not any(where.startswith("log") for where, _ in texts)


@needs_chromium
def test_a_page_opened_as_a_file_says_that_it_has_no_search(site):
    with open_browser() as browser:
        page = browser.open(f"file://{site}/start.html", width=400)
        page.wait(
            "document.querySelector('article > p:last-of-type')?.innerText.includes('search works where this site')"
        )
        button = "document.querySelector('label.md-header__button[for=__search]')"
        assert page.run(f"getComputedStyle({button}).display") == "none"


def test_nothing_is_loaded_from_elsewhere(site):
    found = {match for page in site.rglob("*.html") for match in LOADED.findall(page.read_text("utf-8"))}
    styles = {
        url for file in site.rglob("*.css") for url in re.findall(r"url\(['\"]?(https?:[^)]*)", file.read_text("utf-8"))
    }
    assert found == styles == set()
    assert LOADED.findall('<script defer src="https://a.example/x.js">') == ["https://a.example/x.js"]
