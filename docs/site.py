"""The hook of mkdocs: it adds the pages that lie beside docs/, the options of all commands, and the public names.

README.md becomes index.html, CONTRIBUTING.md contributing.html, CHANGELOG.md changes.html; options.html and api.html
are made of the code. Links between all of them lead to the pages of the site. Source:
mkdocs.org/user-guide/configuration, `hooks`.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
LEFT_OUT = ("log.md",)
"""Pages of the repository that the site has not, see mkdocs.yml; links to them are plain words there."""
MADE = ("options.md", "api.md")
"""Pages of the site that the repository has not."""
NO_SEARCH = """<script>
if (location.protocol === "file:") {
  for (const shown of document.querySelectorAll("label[for=__search]")) shown.style.display = "none"
  const note = document.createElement("p")
  note.innerHTML = "<small>The search works where this site is served, not where its files are opened: " +
    "<code>python -m http.server --directory site</code></small>"
  document.querySelector("article").append(note)
}
</script>
"""
"""What a page says that a browser opened as a file, from which no script may read the index."""
INTEGRATIONS = {
    "boustro.apps.integrations.spacy": ("make_component", "make_text_component"),
    "boustro.apps.integrations.presidio": ("BoustroRecognizer",),
    "boustro.apps.integrations.sentence_transformers": ("BoustroModule",),
}  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    added = {page: (ROOT / source).read_text("utf-8") for source, page in OUTSIDE.items()}
    for page, content in {**added, **dict(zip(MADE, (options(), reference()), strict=True))}.items():
        if (left := files.get_file_from_path(page)) is not None:  # written there by hand
            files.remove(left)
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with links that lead to pages of the site."""
    return with_links(markdown)


def on_post_page(output: str, **_: Any) -> str:
    """The page, which says where the search cannot work."""
    return output.replace("</body>", f"{NO_SEARCH}</body>")


def with_links(markdown: str) -> str:
    """`](docs/data.md)` and `](../README.md#limits)` → `](data.md)` and `](index.md#limits)`."""

    for name in LEFT_OUT:
        markdown = re.sub(rf"\[([^\]]*)\]\((?:docs/)?{re.escape(name)}(?:#[\w-]*)?\)", r"\1", markdown)

    def lead(match: re.Match[str]) -> str:
        name = match[1].removeprefix("../").removeprefix("docs/")
        return f"]({OUTSIDE.get(name, name)}{match[2]})"

    return re.sub(r"\]\(((?:\.\./|docs/)?[\w./-]+)((?:#[\w-]*)?)\)", lead, markdown)


def options() -> str:
    """The page of options, from the dataclasses that the command lines are made from."""
    with _source():
        from boustro.apps.cli.tables import options_page
    return options_page()


def reference() -> str:
    """The page of public names, each with its docstring."""
    with _source():
        from boustro import _homes
    homes = sorted((module, name) for name, module in _homes().items())
    own = [(module, [name for _, name in names]) for module, names in groupby(homes, key=lambda home: home[0])]
    lines = [
        "# Reference",
        "",
        "Every name of the first part is also a name of `boustro`: `from boustro import Tagger`.",
    ]
    for module, names in [*own, *INTEGRATIONS.items()]:
        lines += ["", f"## `{module}`", *(f"\n::: {module}.{name}" for name in names)]
    return "\n".join(lines) + "\n"


@contextmanager
def _source() -> Iterator[None]:
    """Import from the source tree, where the package is not installed."""
    sys.path.insert(0, str(ROOT / "src"))
    try:
        yield
    finally:
        sys.path.pop(0)
