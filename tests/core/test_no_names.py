"""What a task or a head is, its properties say: no code compares a name of one with ==, != or in."""

import ast
from pathlib import Path

import pytest

import boustro
from boustro.heads.registry import HEADS
from boustro.tasks import TASKS

SOURCE = Path(boustro.__file__).parent
NAMES = {*TASKS, *HEADS}


def compared(code):
    """(line, name) of every comparison with a name of a task or a head."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            every = [part for side in sides for part in getattr(side, "elts", (side,))]
            yield from ((node.lineno, p.value) for p in every if isinstance(p, ast.Constant) and p.value in NAMES)
        if isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchValue):
            value = node.pattern.value
            if isinstance(value, ast.Constant) and value.value in NAMES:
                yield node.pattern.lineno, value.value


@pytest.mark.parametrize("code", ["if task == 'tag': pass", "x = 1 if head not in ('crf', 'span') else 2"])
def test_a_comparison_is_found(code):
    assert [name for _, name in compared(code)] in (["tag"], ["span"])


def test_no_name_is_compared():
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in compared(path.read_text("utf-8"))
    ]
    assert not found
