"""Files that grow: no unfinished work is lost unasked, a state never outlives its file, and sizes are checked.

`grow` is what `predict --out` and each shard of `batch` write with; siblings are named by the tests.
"""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from boustro.apps.batch import growing, shards
from boustro.apps.batch.growing import AnswerFrame, grow
from boustro.apps.batch.job import AnsweredRows
from boustro.tasks.rows import Columns

PROBLEM = {"place": "a:1", "error": "none"}


def write(out: Path, rows: int, stop: type[BaseException] | None = KeyboardInterrupt, **options) -> None:
    """Rows `0` to `rows - 1`, those that are there left out, and then perhaps the end of the run."""
    with grow(out, "key", **options) as file:
        for row in range(file.done, rows):
            file.add(1, [f"row {row}\n"], [PROBLEM] if options.get("errors") and row % 2 else [])
        if stop is not None:
            raise stop


def interrupted(out: Path, rows: int, **options) -> str:
    """What the interruption says."""
    with pytest.raises(KeyboardInterrupt) as stop:
        write(out, rows, **options)
    return "; ".join(getattr(stop.value, "__notes__", ()))


def expected(rows: int) -> str:
    return "".join(f"row {row}\n" for row in range(rows))


def beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


def test_unfinished_work_is_refused_with_its_size_and_goes_on_or_starts_again_when_asked(tmp_path):
    out = tmp_path / "out.jsonl"
    said = interrupted(out, 4096)
    assert said == "4,096 rows are kept; the same command with --resume goes on"
    before = {name: (tmp_path / name).read_bytes() for name in beside(out)}
    with pytest.raises(FileExistsError, match=r"4,096 rows are done: --resume goes on, --overwrite starts again"):
        write(out, 5000)
    assert {name: (tmp_path / name).read_bytes() for name in beside(out)} == before
    write(out, 5000, None, resume=True)
    assert out.read_text() == expected(5000) and beside(out) == ["out.jsonl"]
    with pytest.raises(FileExistsError, match=r"no unfinished work beside it to go on with.* in place of --resume"):
        write(out, 5000, None, resume=True)
    interrupted(out, 10, overwrite=True)
    write(out, 3, None, overwrite=True)
    assert out.read_text() == expected(3) and beside(out) == ["out.jsonl"]


class Line:
    """A row of an input."""

    def __init__(self, text: str) -> None:
        self.content = text.encode()


def answer(out: Path, texts: list[str], stop: bool = False) -> None:
    with grow(out, "key", resume=True) as file:
        rows = iter([Line(text) for text in texts])
        file.skip(rows)
        for (row,) in file.follow([row] for row in rows):
            file.add(1, [row.content.decode() + "\n"], [])
        if stop:
            raise KeyboardInterrupt


def test_a_resumed_run_knows_the_rows_that_are_answered_by_what_they_hold(tmp_path):
    """Not by the size of their file: rows of an edited one would be lost or doubled."""
    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        answer(out, ["one", "two"], stop=True)
    for others in (["two", "one", "six"], ["six", "one", "two"], ["one"], ["onetw", "o"]):
        with pytest.raises(ValueError, match=r"of 2 rows with an answer some were changed since"):
            answer(out, others)
    answer(out, ["one", "two", "six"])
    assert out.read_text() == "one\ntwo\nsix\n"


def test_a_kill_an_interrupted_new_start_and_resume_lose_nothing_and_write_no_zero_bytes(tmp_path):
    out = tmp_path / "out.jsonl"
    interrupted(out, 4096)
    assert interrupted(out, 0, overwrite=True) == "" and beside(out) == []
    interrupted(out, 4096)
    with pytest.raises(KeyboardInterrupt), grow(out, "key", overwrite=True):
        state = json.loads((tmp_path / "out.jsonl.progress").read_text())
        assert (state["rows"], state["bytes"]) == (0, [0])  # before anything is written
        assert (tmp_path / "out.jsonl.part").stat().st_size == 0
        raise KeyboardInterrupt
    write(out, 4096, None, resume=True)
    assert out.read_text() == expected(4096)


def test_the_state_is_that_of_no_rows_before_the_file_is_cut(tmp_path, monkeypatch):
    """A kill between the two leaves the rows, or no rows, and never a size without its bytes."""
    out, cut = tmp_path / "out.jsonl", []

    def opening(path, size):
        cut.append(json.loads((tmp_path / "out.jsonl.progress").read_text())["bytes"])
        raise OSError("killed")

    interrupted(out, 9)
    monkeypatch.setattr(growing, "_open", opening)
    with pytest.raises(OSError, match="killed"):
        write(out, 9, overwrite=True)
    assert cut == [[0]]


@pytest.mark.parametrize("which", ["out.jsonl.part", "bad"])
def test_a_file_that_is_shorter_than_what_was_written_is_refused(tmp_path, which):
    out, errors = tmp_path / "out.jsonl", tmp_path / "bad"
    interrupted(out, 100, errors=errors)
    whole = (tmp_path / which).read_bytes()
    (tmp_path / which).write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=rf"{which} has {len(whole) - 1:,} bytes, but {len(whole):,} were written"):
        write(out, 200, errors=errors, resume=True)
    assert (tmp_path / which).read_bytes() == whole[:-1]


def test_a_removed_part_is_begun_again_and_a_strange_one_is_left_alone(tmp_path):
    out = tmp_path / "out.jsonl"
    interrupted(out, 100)
    (tmp_path / "out.jsonl.part").unlink()
    write(out, 5, None, resume=True)
    assert out.read_text() == expected(5) and beside(out) == ["out.jsonl"]
    for options in ({}, {"resume": True}, {"overwrite": True}):
        strange = tmp_path / "other.part"
        strange.write_text("mine")
        with pytest.raises(FileExistsError, match=r"other\.part exists, but no other\.progress"):
            write(tmp_path / "other", 5, **options)
        assert strange.read_text() == "mine"


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_files_of_others_beside_the_output_are_kept(tmp_path, options):
    out, table = tmp_path / "out.parquet", tmp_path / "out.parquet.table"
    table.write_text("mine")
    with grow(out, "key", table=lambda part, made: made.write_bytes(part.read_bytes()), **options) as file:
        file.add(1, ['{"a": 1}\n'], [])
    assert beside(out) == [out.name, table.name] and table.read_text() == "mine"
    (tmp_path / "other.progress").write_text("mine")
    with pytest.raises(ValueError, match=r"other\.progress: damaged"):
        write(tmp_path / "other", 5, **options)
    assert (tmp_path / "other.progress").read_text() == "mine"


def test_a_damaged_state_is_a_sentence(tmp_path):
    out = tmp_path / "out.jsonl"
    for content in ("{", "[]", '{"key": "key"}'):
        interrupted(out, 3, overwrite=True)
        (tmp_path / "out.jsonl.progress").write_text(content)
        with pytest.raises(ValueError, match=r"out\.jsonl\.progress: damaged"):
            write(out, 5, resume=True)
    write(out, 5, None, overwrite=True)


def test_the_file_of_problems_is_the_same_in_a_resumed_run_or_a_new_one(tmp_path):
    out, errors, other = tmp_path / "out.jsonl", tmp_path / "bad", tmp_path / "other"
    interrupted(out, 100, errors=errors)
    for given in ({"errors": other}, {}):
        with pytest.raises(ValueError, match="begun with --errors bad; give it again"):
            write(out, 200, resume=True, **given)
    write(out, 101, None, errors=errors, resume=True)
    assert len(errors.read_text().splitlines()) == 50
    out.unlink()
    for resume in (False, True):  # a file of problems that no unfinished run wrote
        with pytest.raises(FileExistsError, match="bad exists; give --overwrite"):
            write(out, 5, errors=errors, resume=resume)
    interrupted(out, 7)  # ended by the first problem, perhaps
    with pytest.raises(FileExistsError, match="bad exists"):
        write(out, 9, errors=errors, resume=True)
    write(out, 10, None, errors=other, resume=True)
    assert out.read_text() == expected(10) and len(other.read_text().splitlines()) == 2  # of rows 7 and 9


def test_an_interruption_between_a_rows_bytes_and_its_count_keeps_whole_batches(tmp_path):
    out = tmp_path / "out.jsonl"

    with pytest.raises(KeyboardInterrupt), grow(out, "key") as file:
        file.add(1, ["row 0\n"], [])
        file.files[0].write(b"half of a ba")
        raise KeyboardInterrupt
    write(out, 3, None, resume=True)
    assert out.read_text() == expected(3)


def test_an_error_keeps_the_rows_and_leaves_nothing_where_there_is_none(tmp_path):
    out = tmp_path / "out.jsonl"
    with pytest.raises(ValueError):
        write(out, 0, ValueError, errors=tmp_path / "bad")
    assert beside(out) == []
    with pytest.raises(ValueError):
        write(out, 50, ValueError)
    write(out, 60, None, resume=True)
    assert out.read_text() == expected(60)


def test_no_rows_at_all_are_a_file_too(tmp_path):
    write(tmp_path / "out.jsonl", 0, None, frame=AnswerFrame(end="]"))
    assert (tmp_path / "out.jsonl").read_text() == "]" and beside(tmp_path / "out.jsonl") == ["out.jsonl"]


class Echo:
    """A labeller that answers everything with nothing."""

    model, nothing = SimpleNamespace(take_languages=Counter), dict

    def __init__(self):
        self.noted = Counter()

    def __call__(self, rows):
        lines = [f"{json.dumps({'text': row.value, 'seen': True})}\n" for row in rows if row.value != "bad"]
        return AnsweredRows(lines, [row.to_problem("bad") for row in rows if row.value == "bad"])


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.txt").write_text("one\nbad\ntwo\n")
    made = shards.ShardJob(Echo(), Columns(), tmp_path / "in", tmp_path / "out", model="m")
    made.begin()
    return made


def test_batch_answers_a_shard_again_although_its_old_problems_are_there(job):
    assert [done.rows for done in map(job, job.missing())] == [3, 3] and job.end() == 2
    (job.out / "a.jsonl").unlink()
    assert [done.rows for done in map(job, job.missing())] == [3]
    assert len((job.out / "a.jsonl").read_text().splitlines()) == 2 and job.end() == 2
    (job.source / "b.txt").write_text("one\n")
    for name in ("a.txt", "b.txt"):
        (job.source / name).write_text("one\n")
        (job.out / name).with_suffix(".jsonl").unlink()
    assert [done.rows for done in map(job, job.missing())] == [1, 1] and job.end() == 0
    assert not (job.out / "errors.jsonl").exists()


def test_batch_reads_the_answers_of_another_job_and_names_no_shard_as_its_own_files(job, tmp_path, capsys):
    assert [done.rows for done in map(job, job.missing())] == [3, 3] and job.end() == 2
    after = shards.ShardJob(Echo(), Columns(), job.out, tmp_path / "after", model="m")
    after.begin()
    assert after.shards() == ["a.jsonl", "b.jsonl"]
    assert "note: 4 files of an earlier batch that hold no answers" in capsys.readouterr().err
    for out in (job.source, job.source / "inside" / "deep"):
        with pytest.raises(ValueError, match=r"lies in .*in, whose files are answered; name a folder outside of it"):
            shards.ShardJob(Echo(), Columns(), job.source, out, model="m").begin()
        assert sorted(path.name for path in job.source.rglob("*")) == ["a.txt", "b.txt"]
    (job.source / "errors.txt").write_text("one\n")
    with pytest.raises(ValueError, match=r"in: the rows without an answer and errors\.txt would both be written to"):
        job.shards()


def test_batch_counts_problems_and_not_the_line_ends_in_them(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\u2028b.txt").write_text("bad\nbad\n")
    job = shards.ShardJob(Echo(), Columns(), tmp_path / "in", tmp_path / "out", model="m")
    job.begin()
    assert [done.problems for done in map(job, job.missing())] == [2] and job.end() == 2
    found = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["shard"] for line in found] == 2 * ["a\u2028b.txt"]


def test_batch_refuses_a_shard_whose_unfinished_answers_were_cut(job, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_ROWS", 1)
    add, added = growing.Growing.add, []

    def stopping(self, *arguments):
        add(self, *arguments)
        added.append(1)
        if len(added) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(growing.Growing, "add", stopping)
    with pytest.raises(KeyboardInterrupt) as stop:
        job("a.txt")
    assert stop.value.__notes__ == ["2 rows of a shard are kept"]
    part = job.out / "a.jsonl.part"
    part.write_bytes(part.read_bytes()[:5])
    with pytest.raises(ValueError, match=r"a\.jsonl\.part has 5 bytes.*remove .*a\.jsonl\.part to start this shard"):
        job("a.txt")
    part.unlink()
    assert job("a.txt").rows == 3 and len((job.out / "a.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("full_at", [0, 2])
def test_a_full_disk_says_what_is_kept(tmp_path, monkeypatch, full_at):
    out, batches = tmp_path / "out.jsonl", [[Line(f"row {n}")] for n in range(4)]
    monkeypatch.setattr(growing, "SAVE_SECONDS", 0.0)
    sync, left = growing.sync, [full_at]

    def full(path):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device", str(path))
        sync(path)

    monkeypatch.setattr(growing, "sync", full)
    said = f"{full_at} rows are kept; the same command with --resume goes on" if full_at else "nothing is kept"
    with pytest.raises(OSError, match=f"No space left on device; {said}"), grow(out, "key") as file:
        for batch in file.follow(iter(batches)):
            file.add(1, [f"{row.content.decode()}\n" for row in batch], [])
    assert bool(beside(out)) == bool(full_at)
