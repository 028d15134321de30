"""The vocabulary of the house: one name for one thing, docstrings that are statements, and names in them that resolve;
and sizes.

`ATTRIBUTES` counts what is not mended yet, and `STANDING` names it: both may only get smaller.
"""

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import boustro

ROOT = Path(boustro.__file__).parent
CLAUSES = re.compile(r"(What|The same|As|See)[ ;,]")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MOST_MODULES = 2
"""Modules in which a constant may be defined: from the third on a reader who searches for it finds several things."""
ATTRIBUTES = 111
"""Docstrings of attributes that begin with a clause; help texts of options are among them."""
OTHERS = {"write_parquet", "ProxyLogging", "async_data_generator", "SentenceTransformer", "dataset.records.to_json"}
OTHERS |= {"from_json", "Choices", "HyperTextLabels", "hypertextlabels", "save_to_disk", "pyarrow.RecordBatch"}
OTHERS |= {"AnalyzerEngine", "LinearDiscriminantAnalysis", "LayerNorm", "ReLU", "Transformer", "Huber", "s_k"}
OTHERS |= {"pyarrow.Schema", "able", "boustro.integrations.litellm", "boustro.integrations.spacy"}
"""Names of other libraries, of formulas and an example, and of modules made by `boustro/integrations.py`."""
MOST_LINES = {"modules": 500, "functions": 60, "classes": 350}
STANDING = {
    "names given another name": "__main__:run models.fusion:FUSION_KIND",
    "functions with two homes": "carry holds main read suggest weight_shapes",
    "constants with two homes": """
        ABSENT ADDRESSES ARRAYS AUTO BYTES BY_NAME CLOSERS CONTROLS CONVERT DATA ENDERS END_OF_TEXT ENOUGH
        EXPECTED HUB_NAME KEYS LEARNED LEAST_DIVISOR LINES MARK MEANT MOST_TEXTS NAMED NAME_COUNT
        NO_ANSWER NO_GOLD NO_TEXT OPENERS OPEN_PATHS OTHER OVERLAPPING PLACES PLAIN RARE SCALE_DOUBT
        SENTENCES SHOWN TABLE TAKEN UNANSWERED UNLABELLED UNREAD UPPER WHOLE_WORDS
    """,
    "functions over 60 lines": """
        encoders.spec:load_encoder heads.training:train_head
        tasks.distill.training:train_student
    """,
    "classes over 350 lines": "apps.label.session:LabellingSession",
}
"""Names that are to be mended, by the keys of `COUNTS`: a new one fails, and so does one that is mended."""


class Module(NamedTuple):
    """A module of `src/boustro`, by its dotted name."""

    name: str
    path: Path
    tree: ast.Module
    nodes: list[ast.AST]
    """All of the tree: to walk it again takes longer than to look at them."""


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text("utf-8"))
        found[name] = Module(name, path, tree, [*ast.walk(tree)])
    return found


def targets(node: ast.AST) -> list[str]:
    """The names that a statement assigns, several at once too."""
    given = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for one in given for part in getattr(one, "elts", [one])]
    return [
        part.id if isinstance(part, ast.Name) else part.attr
        for part in parts
        if hasattr(part, "id") or hasattr(part, "attr")
    ]


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """(line, text) of all docstrings, those of attributes too."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def homes(wanted: Any) -> dict[str, list[str]]:
    """The modules that define each of the names `wanted(node)` gives for a statement."""
    found = defaultdict(set)
    for module in modules().values():
        for node in module.tree.body:
            for name in wanted(node):
                found[name].add(module.name)
    return {name: sorted(where) for name, where in found.items()}


def is_function(node: ast.AST) -> bool:
    return isinstance(node, DEFINITIONS) and not isinstance(node, ast.ClassDef)


def functions(node: ast.stmt) -> list[str]:
    return [node.name] if is_function(node) and not node.name.startswith("_") else []  # type: ignore[attr-defined]


def constants(node: ast.stmt) -> list[str]:
    return [name for name in targets(node) if name.isupper() and len(name) > 1]


def types(node: ast.stmt) -> list[str]:
    """Classes, and types that are given a name (`Form = Literal[...]`); variables of types are of their file."""
    if isinstance(getattr(node, "value", None), ast.Call):
        return []
    names = [node.name] if isinstance(node, ast.ClassDef) else targets(node)
    return [name for name in names if name[:1].isupper() and not name.isupper()]


def with_two_homes(wanted: Any) -> dict[str, list[str]]:
    return {name: where for name, where in homes(wanted).items() if len(where) > 1}


def aliases() -> dict[str, str]:
    """Names of ours that are given another name: `from a import b as c`, and `c = b` for a name that has a home."""
    found = {}
    for module in modules().values():
        ours = {node.name for node in module.tree.body if isinstance(node, DEFINITIONS)}
        for node in module.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for one in node.names:
                    if (getattr(node, "module", None) or one.name).split(".")[0] == "boustro":
                        ours.add(one.asname or one.name)
                        found |= {f"{module.name}:{one.asname}": one.name} if one.asname not in (None, one.name) else {}
        for node in module.tree.body:
            value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            while isinstance(value, ast.Attribute):
                value = value.value
            if isinstance(value, ast.Name) and value.id in ours:
                found |= {f"{module.name}:{name}": value.id for name in targets(node)}
    return found


def meetings() -> dict[str, set[str]]:
    """Constants of two homes that one module has from both."""
    twice, found = with_two_homes(constants), {}
    for module in modules().values():
        homes_of = defaultdict(set)
        for name in {name for node in module.tree.body for name in targets(node)} & {*twice}:
            homes_of[name].add(module.name)
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                for one in node.names:
                    if node.module in twice.get(one.name, ()):
                        homes_of[one.name].add(node.module)
        found |= {f"{module.name}:{name}": where for name, where in homes_of.items() if len(where) > 1}
    return found


def longer(kind: str) -> dict[str, int]:
    """Modules, functions or classes of more lines than `MOST_LINES`."""
    sizes = {}
    for module in modules().values():
        if kind == "modules":
            sizes[module.name] = len(module.path.read_text("utf-8").splitlines())
        for node in module.nodes:
            if is_function(node) if kind == "functions" else kind == "classes" and isinstance(node, ast.ClassDef):
                sizes[f"{module.name}:{node.name}"] = node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]
    return {name: size for name, size in sizes.items() if size > MOST_LINES[kind]}


def unknown_in_examples() -> dict[str, int]:
    """Classes and functions that the examples of docstrings call, and nothing defines or imports: their lines."""
    known = {*dir(builtins), *OTHERS}
    for module in modules().values():
        for node in module.nodes:
            known |= {*targets(node)} | ({node.name} if isinstance(node, DEFINITIONS) else set())
            known |= {node.arg} if isinstance(node, ast.arg) else set()
            if isinstance(node, ast.ImportFrom):
                known |= {one.asname or one.name for one in node.names if f"{node.module}.{one.name}" not in modules()}
    return {
        f"{module.name}:{name}": start
        for module in modules().values()
        for start, text in docstrings(module)
        for line in re.findall(r"^    +(\S.*)", text, re.MULTILINE)
        for found in re.findall(r"(?<![\w.$\"'/-])([A-Z][a-z]\w*)\(|^(?:\w+ = )?([a-z_]\w*)\(", line)
        for name in found
        if name and name not in known
    }


COUNTS = {
    "names given another name": aliases,
    "functions with two homes": lambda: with_two_homes(functions),
    "constants with two homes": lambda: with_two_homes(constants),
    "constants of two homes that meet in one file": meetings,
    "types with two homes": lambda: with_two_homes(types),
    "names in examples that nothing defines": unknown_in_examples,
    **{f"{kind} over {most} lines": partial(longer, kind) for kind, most in MOST_LINES.items()},
}


@pytest.mark.parametrize("kind", COUNTS)
def test_nothing_joins_what_is_to_be_mended(kind):
    found = {name.removeprefix("boustro."): where for name, where in COUNTS[kind]().items()}
    listed = {*STANDING.get(kind, "").split()}
    new = {name: where for name, where in found.items() if name not in listed}
    assert not new, f"{kind}: rename, split or import these: {new}"
    assert not listed - found.keys(), f"{kind}: mended, so take these out of STANDING: {sorted(listed - found.keys())}"


def test_no_constant_is_defined_in_three_modules():
    found = homes(constants)
    assert not {name: where for name, where in found.items() if len(where) > MOST_MODULES}


def clauses(of_attributes: bool) -> list[str]:
    found = []
    for module in modules().values():
        bodies = (node for node in module.nodes if isinstance(node, (ast.Module, *DEFINITIONS)))
        first = {node.body[0].lineno for node in bodies if node.body and ast.get_docstring(node, clean=False)}
        for line, text in docstrings(module):
            if CLAUSES.match(text) and (line not in first) == of_attributes:
                found.append(f"{module.path.relative_to(ROOT)}:{line}: {text[:60]}")
    return found


def test_no_docstring_begins_with_a_clause():
    found = clauses(of_attributes=False)
    assert not found, "begin with a verb in the imperative, or with the thing itself:\n" + "\n".join(found)


def test_fewer_docstrings_of_attributes_begin_with_a_clause():
    assert len(clauses(of_attributes=True)) <= ATTRIBUTES


def test_no_test_of_the_core_imports_the_applications():
    tests = Path(__file__).parents[1] / "core"
    named = re.compile(r"boustro\.(apps|integrations|load\(|Live|Watch|Predictor|from_states)")
    assert not [path.name for path in tests.glob("*.py") if named.search(path.read_text("utf-8"))]


def test_no_module_imports_itself():
    assert not [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in modules().values()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module == module.name
    ]


@cache
def vocabulary() -> tuple[set[str], dict[str, set[str]]]:
    """All identifiers of the code, words of strings among them; the attributes of classes, those of bases too."""
    words, attributes, bases = (
        {*dir(builtins), *sys.stdlib_module_names, *modules()},
        defaultdict(set),
        defaultdict(set),
    )
    for module in modules().values():
        said = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        words |= {*module.name.split(".")}
        for node in module.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                words |= {*re.findall(r"\w+", node.value)}
            for field in ("id", "attr", "arg", "name", "asname"):
                if isinstance(value := getattr(node, field, None), str):
                    words |= {*value.split(".")}
            if isinstance(node, ast.ImportFrom):
                words |= {*(node.module or "").split(".")}
            if isinstance(node, ast.ClassDef):
                bases[node.name] |= {getattr(base, "id", getattr(base, "attr", "")) for base in map(_bare, node.bases)}
                for part in ast.walk(node):
                    attributes[node.name] |= {*targets(part)}
                    attributes[node.name] |= {part.name} if isinstance(part, DEFINITIONS) else set()
    return words, {name: _inherited(name, attributes, bases) for name in attributes}


def _bare(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _inherited(name: str, attributes: Any, bases: Any) -> set[str]:
    """The attributes of a class and of its bases; "*" where one of these is of another library."""
    own, todo, seen = set(), [name], set()
    while todo:
        one = todo.pop()
        if one in attributes and one not in seen:
            own |= attributes[one]
            todo += bases[one]
        elif one not in seen and one not in ("ABC", "Generic", "Protocol", "NamedTuple", "object"):
            own.add("*")
        seen.add(one)
    return own


@cache
def top_level() -> dict[str, set[str]]:
    """The names that each module has: those that it defines, and those that it imports."""
    found = {}
    for module in modules().values():
        names = set()
        for node in module.tree.body:
            names |= {*targets(node)} | ({node.name} if isinstance(node, DEFINITIONS) else set())
        for node in module.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {one.asname or one.name for one in node.names}
        found[module.name] = names
    return found


@cache
def by_end() -> dict[str, list[str]]:
    """The modules whose names end in some words: "heads.solve" and "solve" are ends of boustro.heads.solve."""
    found = defaultdict(list)
    for name in modules():
        parts = name.split(".")
        for start in range(len(parts)):
            found[".".join(parts[start:])].append(name)
    return found


def resolves(name: str) -> bool:
    """Whether a name in backticks is there: a module, its names, the attributes of a class, or a word of the code."""
    parts = name.removesuffix("()").split(".")
    words, attributes = vocabulary()
    for stop in range(len(parts), 0, -1):
        if homes_of := by_end().get(".".join(parts[:stop])):
            rest = parts[stop:]
            if not rest:
                return True
            if any(rest[0] in top_level()[one] for one in homes_of):
                return len(rest) < 2 or not (known := attributes.get(rest[0])) or bool({rest[1], "*"} & known)
            if stop > 1 or parts[0] == "boustro":
                return False
    if parts[0] in attributes and parts[1:]:
        return bool({parts[1], "*"} & attributes[parts[0]])
    return {*parts} <= words


def named(text: str) -> Iterator[str]:
    """The names of a docstring: identifiers in backticks, and dotted ones that begin with boustro."""
    yield from re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*(?:\(\))?)`", text)
    yield from re.findall(r"(?<![\w`/.])(boustro(?:\.[a-z_]\w*)+)(?![\w/])", text)


def test_names_in_docstrings_resolve():
    found = {
        f"{module.name}: {name}"
        for module in modules().values()
        for _, text in docstrings(module)
        for name in named(text)
        if name not in OTHERS and not resolves(name)
    }
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize(
    "name", ["fitting.training.refit", "tasks.fittings", "Reader.no_such", "NoSuchClass", "no_such_word"]
)
def test_a_name_that_is_gone_is_found(name):
    assert not resolves(name)


@pytest.mark.parametrize(
    "name", ["fitting.training.fit_head", "heads.solve", "Reader.sentences", "boustro.Tagger", "Tagger.fit"]
)
def test_a_name_that_is_there_resolves(name):
    assert resolves(name)
