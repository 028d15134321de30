"""How far commands are: a line every half minute where standard error is no terminal, a bar where it is one."""

import io
import subprocess
import sys

import pytest

from boustro import progress
from boustro.output import duration
from boustro.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """What standard error is in a notebook."""

    __module__ = "ipykernel.iostream"


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def at_once(monkeypatch):
    """A line with every update, in place of every half minute."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)


def test_a_line_every_half_minute_has_what_is_done_how_fast_and_how_long_still(clock, capsys):
    with Progress("labelling", "rows", total=10_000) as bar:
        for second in range(0, 100, 10):
            clock[0] = float(second)
            bar.update(400)
    assert capsys.readouterr().err.splitlines() == [
        "labelling: 1,600 of 10,000 rows, 53 rows/s, about 2.6 minutes left",
        "labelling: 2,800 of 10,000 rows, 47 rows/s, about 2.6 minutes left",
        "labelling: 4,000 of 10,000 rows, 44 rows/s, about 2.2 minutes left",
    ]


def test_what_was_done_before_counts_for_the_total_and_not_for_the_speed(clock, capsys):
    bar = Progress("labelling", "rows", total=10_000, done=5_000)
    bar.skip(1_000)
    bar.update(10)
    clock[0] = 40.0
    bar.update(10, "loss 0.5")
    assert capsys.readouterr().err == "labelling: 6,020 of 10,000 rows, 0.5 rows/s, about 2.2 hours left, loss 0.5\n"
    bar = Progress("splitting", "documents")
    clock[0] = 80.0
    assert [*bar.over("ab")] == ["a", "b"]
    assert capsys.readouterr().err == "splitting: 1 document, 0.025 documents/s\n"
    assert duration(5400) == "about 90 minutes"


def test_nothing_is_foretold_by_the_first_batch(clock, capsys, monkeypatch):
    bar = Progress("encoding", "words", total=120_000, done=8)
    bar.skip(4)
    clock[0] = 31.0
    bar.update(11)  # eleven words in half a minute: the model was loaded
    clock[0] = 62.0
    bar.update(60_000)
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first and second.endswith("about 62 seconds left")
    clock[0] = 93.0
    bar.update(bar.total - bar.done)  # the last batch: nothing is left
    assert capsys.readouterr().err.startswith("encoding: 120,000 of 120,000 words, ")
    assert "left" not in bar.line()
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("encoding", "words", total=120_000) as bar:
        shown = []
        for number in (11, 60_000):
            bar.update(number)
            shown.append(str(bar._bar))
    assert "<" not in shown[0] and "<" in shown[1]


def test_a_terminal_and_a_notebook_have_a_bar_and_no_lines_and_a_log_no_bar(at_once, monkeypatch):
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    for shown in (None, False, True):
        for stream in (Terminal(), Notebook(), io.StringIO()):
            monkeypatch.setattr(sys, "stderr", stream)
            with Progress("labelling", "rows", total=2, shown=shown) as bar:
                bar.update()
            said = stream.getvalue()
            watched = type(stream) is not io.StringIO
            assert ("\r" in said) == (shown or (shown is None and watched)), (shown, stream)
            assert ("labelling: 1 of 2 rows" in said) == (shown is None and not watched)


def test_a_library_without_its_bars_for_notebooks_does_not_warn():
    """huggingface_hub imports those of tqdm, which want ipywidgets."""
    code = (
        "import sys; from types import SimpleNamespace as Own; here = Own(get_ipython=lambda: Own()); "
        "sys.modules.update({'IPython': here, 'ipykernel.zmqshell': here, 'ipywidgets': None}); "
        "import boustro, tqdm.auto"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
