"""boustro.store: a folder is complete or absent, whatever happens during its writing, and damage is seen at opening."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro import store
from boustro.store import MANIFEST, Artefact, fingerprint, write_file, write_folder

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def write(path: Path, kind: str = "tagger", weights: bytes = b"12345", **made_by) -> Path:
    with write_folder(path, kind, made_by) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "words.txt").write_text("one two")
        (folder / "weights.bin").write_bytes(weights)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_python(code: str, *arguments: object, prelude: str = "from boustro.store import *") -> subprocess.Popen:
    command = [sys.executable, "-c", f"import os, signal, sys, time\n{prelude}\n{code}", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said_by(code: str, *arguments: object) -> str:
    """Return the output of a program in an interpreter of its own; what it has to complain of is shown."""
    out, problems = run_python(code, *arguments).communicate(timeout=60)
    assert out or not problems, problems
    return out.strip()


def content(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in [path, *path.rglob("*")] if p.is_file()}


# Writing and opening


def test_what_was_written_is_opened_with_its_manifest(tmp_path):
    manifest = Artefact(write(tmp_path / "new" / "ner", recipe="invented")).check("tagger", verify=True)
    assert manifest["kind"] == "tagger"
    assert {name: fact["bytes"] for name, fact in manifest["files"].items()} == {"inner/words.txt": 7, "weights.bin": 5}
    assert manifest["made_by"]["recipe"] == "invented"
    assert {"boustro", "torch", "transformers"} <= manifest["made_by"]["versions"].keys()


def test_nothing_is_visible_before_the_block_ends(tmp_path):
    with write_folder(tmp_path / "ner", "tagger") as folder:
        (folder / "weights.bin").write_bytes(b"1")
        assert not (tmp_path / "ner").exists()
        assert folder.parent == tmp_path and folder.name.startswith(".")
    assert names(tmp_path) == ["ner"]
    (tmp_path / "empty").mkdir()
    Artefact(write(tmp_path / "empty")).check("tagger")


def test_the_manifest_is_written_after_everything_else(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(store, "sync", lambda path: synced.append(path.name))
    write(tmp_path / "ner")
    manifest = next(number for number, name in enumerate(synced) if MANIFEST in name)
    assert synced.index("weights.bin") < manifest and synced.index("words.txt") < manifest


def test_an_older_folder_of_the_same_kind_is_replaced_as_a_whole(tmp_path):
    write(tmp_path / "ner", weights=b"old")
    with write_folder(tmp_path / "ner", "tagger") as folder:
        (folder / "new.bin").write_bytes(b"new")
    assert names(tmp_path / "ner") == [MANIFEST, "new.bin"]
    assert names(tmp_path) == ["ner"]


# Refusing to read


@pytest.mark.parametrize(
    ("damage", "kind", "error", "message"),
    [
        (shutil.rmtree, "tagger", FileNotFoundError, "ner: no such folder; a tagger folder is expected"),
        (
            lambda ner: (ner / MANIFEST).unlink(),
            "tagger",
            ValueError,
            r"no manifest\.json, so this tagger folder is",
        ),
        (lambda ner: None, "model", ValueError, "ner is a tagger folder; a model folder is expected"),
        (lambda ner: (ner / "inner/words.txt").unlink(), "tagger", ValueError, r"inner/words\.txt is missing"),
        (lambda ner: (ner / "weights.bin").write_bytes(b""), "tagger", ValueError, "weights.bin holds 0 bytes, not 5"),
        (lambda ner: (ner / "weights.bin").write_bytes(b"x" * 6), "tagger", ValueError, "holds 6 bytes, not 5"),
    ],
)
def test_what_is_not_complete_is_refused_and_replaced_if_it_is_of_its_kind(tmp_path, damage, kind, error, message):
    damage(write(tmp_path / "ner"))
    with pytest.raises(error, match=message):
        Artefact(tmp_path / "ner").check(kind)
    if "weights" in message:
        Artefact(write(tmp_path / "ner")).check("tagger", verify=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"kind": "tagger"}', "\xff"])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    (write(tmp_path / "ner") / MANIFEST).write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match=r"manifest\.json: damaged"):
        Artefact(tmp_path / "ner").check("tagger")


def test_changed_bytes_of_the_same_size_are_seen_when_hashes_are_asked_for(tmp_path):
    (write(tmp_path / "ner") / "weights.bin").write_bytes(b"54321")
    Artefact(tmp_path / "ner").check("tagger")
    with pytest.raises(ValueError, match=r"weights\.bin has changed"):
        Artefact(tmp_path / "ner").check("tagger", verify=True)


# Refusing to overwrite


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("years of work"),
        lambda path: path.mkdir() or (path / "chapter.txt").write_text("years of work"),
        lambda path: path.mkdir() or (path / "config.json").write_text('{"model_type": "gpt2"}'),  # of transformers
        lambda path: write(path, "model"),
    ],
)
def test_what_is_no_folder_of_this_kind_is_left_alone(tmp_path, make):
    make(tmp_path / "thesis")
    before = content(tmp_path)
    with pytest.raises(FileExistsError, match="thesis exists and is not a shards folder"):
        write(tmp_path / "thesis", "shards")
    assert before and content(tmp_path) == before and names(tmp_path) == ["thesis"]


# Runs that fail, are killed, or meet a full disk


@pytest.mark.parametrize(
    ("failure", "older"), [(ValueError("bad data"), True), (KeyboardInterrupt(), False), (SystemExit(1), True)]
)
def test_a_block_that_fails_leaves_nothing_but_the_older_folder(tmp_path, failure, older):
    if older:
        write(tmp_path / "ner")
    with pytest.raises(type(failure)), write_folder(tmp_path / "ner", "tagger") as folder:
        (folder / "weights.bin").write_bytes(b"1")
        raise failure
    assert names(tmp_path) == ["ner"] * older
    if older:
        Artefact(tmp_path / "ner").check("tagger", verify=True)


@pytest.mark.parametrize("kind", [FileNotFoundError, PermissionError])
def test_an_error_about_another_file_keeps_its_own_words(tmp_path, kind):
    """A missing corpus is no full disk."""
    with pytest.raises(kind) as caught, write_folder(tmp_path / "shards", "shards"):
        raise kind(errno.EACCES, "invented", str(tmp_path / "corpus.txt"))
    assert caught.value.filename == str(tmp_path / "corpus.txt") and "space" not in str(caught.value)


def test_a_killed_run_leaves_no_visible_folder_and_the_next_sweeps_its_leftovers(tmp_path):
    code = """
with write_folder(sys.argv[1], "tagger") as folder:
    (folder / "half.bin").write_bytes(b"1" * 1000)
    print("written", flush=True)
    time.sleep(60)
"""
    with run_python(code, tmp_path / "ner") as process:
        assert process.stdout and process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = names(tmp_path)
    assert left and all(name.startswith(".") for name in left)
    write(tmp_path / "ner")
    assert names(tmp_path) == ["ner"]
    assert names(tmp_path / "ner") == ["inner", MANIFEST, "weights.bin"]


def test_a_run_killed_while_it_replaces_a_folder_loses_neither_for_good(tmp_path):
    """Killed after the older folder has moved away: the next run, even one that fails, must not delete it."""
    write(tmp_path / "ner")
    code = """
rename = Path.rename
def rename_and_die(self, target):
    rename(self, target)
    if not os.path.exists(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
Path.rename = rename_and_die
with write_folder(sys.argv[1], "tagger") as folder:
    pass
"""
    with run_python(code, tmp_path / "ner") as process:
        process.wait()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ValueError, match="bad data"), write_folder(tmp_path / "ner", "tagger"):
        raise ValueError("bad data")
    Artefact(tmp_path / "ner").check("tagger", verify=True)


LIMITED = """
import resource
import numpy as np
from safetensors.numpy import save_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    if sys.argv[2] == "file":
        write_file(sys.argv[1], b"x" * 5000)
    with write_folder(sys.argv[1], "tagger") as folder:
        if sys.argv[2] == "rust":
            save_file({"w": np.zeros(5000)}, folder / "weights.bin")
        (folder / "weights.bin").write_bytes(b"x" * 5000)
except OSError as error:
    print(error.errno, error.filename, error.strerror, sep="|")
"""


@pytest.mark.parametrize(("what", "older"), [("file", True), ("folder", False), ("folder", True), ("rust", False)])
def test_a_full_disk_is_an_error_that_names_the_target_and_leaves_the_older_version(tmp_path, what, older):
    """safetensors and tokenizers raise classes of their own, with the number of the error in the text."""
    path = tmp_path / "ner"
    if older:
        write(path) if what == "folder" else write_file(path, "old")
    before = content(tmp_path)
    number, filename, reason = said_by(LIMITED, path, what).split("|")
    assert (int(number), filename) == (errno.EFBIG, str(path)) and "nothing was left behind" in reason
    assert what == "rust" or "File too large" in reason
    assert content(tmp_path) == before and names(tmp_path) == ["ner"] * older


def test_a_reader_finds_the_older_folder_that_a_kill_between_two_renames_left(tmp_path):
    write(tmp_path / "ner")
    (tmp_path / "ner").rename(tmp_path / ".ner.retired")
    Artefact(tmp_path / "ner").check("tagger", verify=True)
    assert names(tmp_path) == ["ner"]


# What others wrote


@pytest.mark.parametrize("when", ["before", "while the block runs"])
def test_a_folder_that_holds_a_file_of_others_is_not_replaced(tmp_path, when):
    path, late = write(tmp_path / "ner"), tmp_path / "ner" / "inner" / "late"
    if when == "before":
        late.symlink_to("elsewhere")
    with (
        pytest.raises(FileExistsError, match="ner holds inner/late, which Boustro did not"),
        write_folder(path, "tagger"),
    ):
        late.symlink_to("elsewhere")
    assert late.is_symlink()
    Artefact(path).check("tagger", verify=True)


def test_a_card_may_be_edited_and_is_then_not_replaced(tmp_path):
    def write_card() -> None:
        with write_folder(tmp_path / "ner", "tagger") as folder:
            (folder / "README.md").write_text("made by a program")

    write_card()
    write_card()
    (tmp_path / "ner" / "README.md").write_text("and finished by a person")
    Artefact(tmp_path / "ner").check("tagger", verify=True)
    with pytest.raises(FileExistsError, match=r"ner holds README\.md, which .* or which was edited"):
        write_card()


def test_removing_leaves_the_files_of_others(tmp_path):
    for others, left in ((), []), (("notes.txt",), ["notes.txt"]):
        write(tmp_path / "ner")
        for name in others:
            (tmp_path / "ner" / name).write_text("years of work")
        store.remove_folder(tmp_path / "ner")
        assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == left
    store.remove_folder(tmp_path / "ner")  # no folder of ours any more
    assert names(tmp_path / "ner") == ["notes.txt"]


def test_of_a_folder_without_its_manifest_only_what_is_known_to_be_ours_is_removed(tmp_path):
    write(tmp_path / "cell")
    (tmp_path / "cell" / MANIFEST).unlink()
    (tmp_path / "cell" / "inner" / "notes.txt").write_text("years of work")
    store.remove_folder(tmp_path / "cell")
    assert (tmp_path / "cell" / "weights.bin").exists()
    store.remove_folder(tmp_path / "cell", own=("weights.*", "inner/words.txt"))
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["notes.txt"]


@pytest.mark.parametrize(
    "error", [KeyError("x"), RuntimeError("shapes"), IndexError(), OSError("gone"), ValueError("x")]
)
def test_reading_names_the_folder_whatever_is_raised(error):
    with pytest.raises(ValueError, match=r"^ner: damaged, or written by another version \(.*\); write it again$"):  # noqa: SIM117
        with store.reading("ner", "write it again"):
            raise error


@pytest.mark.parametrize("error", [ValueError("ner/x is missing"), MemoryError(), ImportError("pip install peft")])
def test_reading_leaves_alone_what_says_enough(error):
    with pytest.raises(type(error)) as caught, store.reading("ner", "write it again"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr"])
def test_a_device_is_written_to_and_not_replaced_and_a_full_one_or_a_link_to_itself_is_named(tmp_path, name):
    code = f"check_file({name!r}); write_file({name!r}, 'figures')"
    out, problems = run_python(code).communicate(timeout=60)
    assert "figures" in out + problems
    assert not Path(name).is_file() or Path(name).is_symlink()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        write_file(tmp_path / "loop", "text")
    if Path("/dev/full").exists():
        with pytest.raises(OSError, match="/dev/full") as caught:
            write_file("/dev/full", "text")
        assert caught.value.errno == errno.ENOSPC


def test_files_follow_the_umask(tmp_path):
    code = """
import numpy as np
from safetensors.numpy import save_file
os.umask(0o027)
with write_folder(sys.argv[1], "model") as folder:
    save_file({"w": np.zeros(5)}, folder / "model.safetensors")
    (folder / "private").write_text("")
    (folder / "private").chmod(0o600)
"""
    said_by(code, tmp_path / "lm")
    assert {oct(p.stat().st_mode & 0o777) for p in (tmp_path / "lm").iterdir()} == {"0o640"}


# Several writers


def test_a_second_writer_is_refused_and_sees_what_nobody_writes(tmp_path):
    code = """
from boustro.locks import leftovers
print(leftovers(Path(sys.argv[1]).parent))
try:
    with write_folder(sys.argv[1], "tagger"):
        pass
except BlockingIOError as error:
    print(error)
"""
    (tmp_path / ".dead.0123abcd.staging").mkdir()
    with write_folder(tmp_path / "ner", "tagger") as folder:
        (folder / "weights.bin").write_bytes(b"1")
        left, refused = said_by(code, tmp_path / "ner").splitlines()
        assert ".dead.0123abcd.staging" in left and ".ner." not in left
        assert "another run is writing here" in refused
    assert names(tmp_path / "ner") == [MANIFEST, "weights.bin"]


MANY = """
from boustro.locks import lock
path, number = sys.argv[1], sys.argv[2]
for turn in range(8):
    with lock(path):
        with write_folder(path, "tagger") as folder:
            for name in "abc":
                (folder / name).write_text(number * 1000)
    write_file(path + ".json", number * 1000)
    manifest = Artefact(path).check("tagger")
    assert set(manifest["files"]) == set("abc")
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.long)])
def test_many_writers_of_one_folder_all_end_well(tmp_path, count):
    """A reader sees a whole folder at any time, and nothing is left beside it."""
    running = [run_python(MANY, tmp_path / "ner", number) for number in range(count)]
    problems = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * count, problems
    Artefact(tmp_path / "ner").check("tagger", verify=True)
    assert len({(tmp_path / "ner" / name).read_text() for name in "abc"}) == 1
    assert names(tmp_path) == ["ner", "ner.json"]


def test_what_is_claimed_is_checked_first(tmp_path):
    out = tmp_path / "new" / "ner"
    with store.claim(out, "tagger"):
        write(out)
    with (
        pytest.raises(FileExistsError, match="already holds a tagger folder; give --overwrite"),
        store.claim(out, "tagger"),
    ):
        pass
    with store.claim(out, "tagger", overwrite=True):
        write(out, weights=b"new")
    with pytest.raises(FileExistsError, match="is not a model"), store.claim(out, "model", overwrite=True):
        pass


def test_every_thread_of_a_run_writes_what_the_run_claimed(tmp_path):
    """As a page does that saves what was learned; another run, here a thread that claims for itself, does not."""
    out = tmp_path / "ner"

    def claim_too():
        with store.claim(out, "tagger", overwrite=True):
            pass

    with ThreadPoolExecutor(1) as pool:
        with store.claim(out, "tagger"):
            for number in range(3):
                pool.submit(write, out, weights=bytes([number])).result()
            with pytest.raises(BlockingIOError, match="another run is writing here"):
                pool.submit(claim_too).result()
            code = "import sys; from boustro import store\nwith store.write_folder(sys.argv[1], 'tagger'): pass"
            assert "another run is writing here" in run_python(code, out).communicate(timeout=60)[1]
            write(out, weights=b"last")
        pool.submit(claim_too).result()
    Artefact(out).check("tagger", verify=True)
    assert names(tmp_path) == ["ner"]


@pytest.mark.parametrize("path", ["/proc/out", "/dev/null/out"])
def test_a_place_where_nothing_can_be_written_is_known_before(path):
    with pytest.raises(OSError, match="choose another path") as caught, store.claim(path, "tagger"):
        pass
    assert caught.value.filename == path
    with pytest.raises(OSError):
        store.check_file(path)


# Single files


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    write(tmp_path / "real" / "ner")
    (tmp_path / "ner").symlink_to(tmp_path / "real" / "ner")
    write(tmp_path / "ner", weights=b"new")
    assert (tmp_path / "ner").is_symlink() and (tmp_path / "real" / "ner" / "weights.bin").read_bytes() == b"new"


def test_a_file_is_written_as_utf8_or_bytes_and_replaced(tmp_path):
    assert write_file(tmp_path / "new" / "a.txt", "café\n") == tmp_path / "new" / "a.txt"
    assert (tmp_path / "new" / "a.txt").read_bytes() == "café\n".encode()
    write_file(tmp_path / "new" / "a.txt", b"\x00\xff")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"\x00\xff"
    assert names(tmp_path / "new") == ["a.txt"]


def test_a_file_is_never_seen_half_written(tmp_path, monkeypatch):
    write_file(tmp_path / "a.txt", "old")
    replace, seen = os.replace, []

    def look_and_replace(source, target):
        seen.append(Path(target).read_text())
        replace(source, target)

    monkeypatch.setattr(os, "replace", look_and_replace)
    write_file(tmp_path / "a.txt", "new")
    assert seen == ["old"] and (tmp_path / "a.txt").read_text() == "new"


# Fingerprints


def test_a_fingerprint_is_the_same_on_every_machine():
    """The head of sha256sum over `[{"a": "é", "b": 1}]`."""
    assert fingerprint({"b": 1, "a": "é"}) == fingerprint({"a": "é", "b": 1}) == "a6e5e36a42d25b90c4a9"


@given(JSON, JSON)
def test_fingerprints_agree_exactly_when_the_values_do(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (fingerprint(one) == fingerprint(other)) == same


def test_a_content_fingerprint_is_of_the_files_alone(tmp_path):
    one = Artefact(write(tmp_path / "one", recipe="a"))
    other = Artefact(write(tmp_path / "other", recipe="b"))
    changed = Artefact(write(tmp_path / "changed", weights=b"54321"))
    assert one.fingerprint == other.fingerprint != changed.fingerprint
    shutil.copytree(one, tmp_path / "copy")
    assert Artefact(tmp_path / "copy").check("tagger", verify=True) == one.check("tagger")
