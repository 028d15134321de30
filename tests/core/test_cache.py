"""The feature cache: nothing stale, nothing lost, whatever other programs do to it at the same time."""

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import children
from boustro.encoders import cache as features
from boustro.encoders import loading
from boustro.encoders.cache import CachedEncoder
from boustro.encoders.spec import Spec, load_encoder
from boustro.store import MANIFEST
from boustro.types import Sentence
from conftest import SENTENCES

WORDS = [text.split() for text in SENTENCES]


@pytest.fixture
def lm(tiny_lm, tmp_path) -> Path:
    """An LM that a test may change."""
    return Path(shutil.copytree(tiny_lm("llama"), tmp_path / "lm"))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*"))


def change_weights(lm: Path) -> None:
    """Other numbers in a file of the same size."""
    before = (lm / "model.safetensors").stat().st_size
    changed = {name: array[::-1].copy() for name, array in load_file(lm / "model.safetensors").items()}
    save_file(changed, lm / "model.safetensors", metadata={"format": "pt"})
    assert (lm / "model.safetensors").stat().st_size == before


def test_an_lm_that_is_overwritten_in_its_folder_is_another_one(lm, tmp_path):
    before = load_encoder(str(lm), cache=tmp_path / "c").encode_all(WORDS).streams[0]
    named = Spec.parse(str(lm)).fingerprint()
    change_weights(lm)
    after = load_encoder(str(lm), cache=tmp_path / "c").encode_all(WORDS).streams[0]
    np.testing.assert_array_equal(after, load_encoder(str(lm)).encode_all(WORDS).streams[0])
    assert not np.array_equal(before, after)
    assert Spec.parse(str(lm)).fingerprint() != named


def test_so_is_one_with_a_manifest_of_ours(lm):
    """What the manifest says of the weights is not believed."""
    from boustro.store import write_manifest

    write_manifest(lm, "model")
    named = Spec.parse(str(lm)).fingerprint()
    change_weights(lm)
    assert Spec.parse(str(lm)).fingerprint() != named


@pytest.mark.parametrize("name", ["tokenizer.json", "merges.txt", "vocab.txt", "spiece.model", "config.json"])
def test_files_of_the_tokenizer_decide_too(lm, name):
    named = Spec.parse(str(lm)).fingerprint()
    (lm / name).write_text(((lm / name).read_text() if (lm / name).exists() else "") + "\n")
    assert Spec.parse(str(lm)).fingerprint() != named


@pytest.mark.parametrize("name", ["training.json", "generation_config.json", "README.md", "notes.txt", "picture.png"])
def test_files_that_change_no_number_do_not(lm, name):
    named = Spec.parse(str(lm)).fingerprint()
    (lm / name).write_text("{}")
    assert Spec.parse(str(lm)).fingerprint() == named


def test_a_large_file_is_hashed_once_and_again_when_it_has_changed(lm, tmp_path, monkeypatch):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "LARGE_FILE_BYTES", 1000)
    hashed, hash_file = [], loading.hash_file
    monkeypatch.setattr(loading, "hash_file", lambda path: hashed.append(path.name) or hash_file(path))

    def times() -> int:
        Spec.parse(str(lm)).fingerprint()
        return hashed.count("model.safetensors")

    monkeypatch.setattr(loading, "SETTLED_SECONDS", 1e12)  # it could change again without a new time
    assert [times(), times()] == [1, 2]
    monkeypatch.setattr(loading, "SETTLED_SECONDS", 2.0)
    os.utime(lm / "model.safetensors", (1e9, 1e9))
    assert [times(), times()] == [3, 3]
    change_weights(lm)
    assert times() == 4


def test_without_a_home_there_is_no_cache_and_it_is_said_once(tiny_lm, monkeypatch, capsys):
    for name in ("BOUSTRO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody():
        raise RuntimeError("Could not determine home directory.")

    for home, why in ((nobody, "there is no home folder"), (lambda: Path("/proc/nobody"), "/proc/nobody")):
        monkeypatch.setattr(Path, "home", home)
        for _ in range(2):
            encoder = load_encoder(str(tiny_lm("llama")), cache=True)
            assert not isinstance(encoder, CachedEncoder)
        (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
        assert said.startswith(f"note: features are not kept on disk: {why}") and "in BOUSTRO_CACHE" in said


def test_documents_matter_only_where_they_are_read(tiny_lm, tmp_path):
    alone = [Sentence(tuple(words)) for words in WORDS]
    together = [Sentence(tuple(words), document="bulletin") for words in WORDS]
    renamed = [Sentence(tuple(words), document="gazette") for words in WORDS]
    by_sentence = load_encoder(str(tiny_lm("llama")), cache=tmp_path)
    by_document = load_encoder(str(tiny_lm("llama")), cache=tmp_path, context="document")
    assert by_sentence.entry(alone) == by_sentence.entry(together)
    assert by_document.entry(alone) != by_document.entry(together) == by_document.entry(renamed)


def test_how_long_words_are_read_matters_where_there_are_any(tiny_lm, tmp_path, monkeypatch):
    encoder = load_encoder(str(tiny_lm("llama")), cache=tmp_path)
    short, long = [Sentence(("Ada", "left"))], [Sentence(("Ada", "x" * 300))]
    before = encoder.entry(short), encoder.entry(long)
    monkeypatch.setattr("boustro.encoders.cache.LONG_WORDS", "another way")
    assert encoder.entry(short) == before[0] and encoder.entry(long) != before[1]


def test_what_was_noticed_is_told_by_a_warm_cache_too(tiny_lm, tmp_path):
    long = [["harbour"] * 3000, *WORDS]
    cold, warm = (load_encoder(str(tiny_lm("llama")), cache=tmp_path) for _ in range(2))
    for encoder in (cold, warm):
        encoder.encode_all(WORDS)
        encoder.encode_all(long)
    assert +cold.counts and +cold.counts == +warm.counts


def test_an_entry_without_its_file_is_computed_again(tiny_lm, tmp_path):
    """As two programs that shared one staging folder left it: a manifest that lists nothing."""
    encoder = load_encoder(str(tiny_lm("llama")), cache=tmp_path)
    first = encoder.encode_all(WORDS).streams[0].copy()
    (entry,) = entries(tmp_path)
    (entry / "features.bin").unlink()
    manifest = json.loads((entry / MANIFEST).read_text())
    (entry / MANIFEST).write_text(json.dumps(manifest | {"files": {}}))
    np.testing.assert_array_equal(encoder.encode_all(WORDS).streams[0], first)


def encode_often(lm: str, cache: str, all_started, out: str) -> None:
    encoder, sentences = load_encoder(lm, cache=cache, dtype="float32"), [line.split() for line in SENTENCES]
    all_started.wait()
    for _ in range(3):
        for count in (len(sentences), 3):
            found = encoder.encode_all(sentences[:count]).streams[0]
    Path(out).write_text(repr(float(np.abs(found).sum())))


def test_many_programs_share_one_cache(tiny_lm, tmp_path):
    cache, outs, all_started = tmp_path / "cache", [tmp_path / str(n) for n in range(3)], children.CONTEXT.Barrier(3)
    limit = {"BOUSTRO_CACHE_LIMIT": "300K"}  # both entries do not fit, so that each is removed again and again
    given = [(str(tiny_lm("llama")), str(cache), all_started, str(out)) for out in outs]
    running = [children.start(encode_often, None, Path(f"{own[-1]}.err"), *own, **limit) for own in given]
    assert [children.finish(process) for process in running] == [0] * len(outs), Path(f"{outs[0]}.err").read_text()
    assert len({out.read_text() for out in outs}) == 1
    assert not list(cache.glob("??/.*"))


def test_entries_give_way_before_a_full_disk_is_complained_of(tiny_lm, tmp_path, monkeypatch):
    encoder = CachedEncoder(load_encoder(str(tiny_lm("llama"))), tmp_path)
    encoder.encode_all(WORDS)
    (first,) = entries(tmp_path)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0 if first.exists() else 10**9))
    encoder.encode_all(WORDS[:2])
    assert not first.exists() and len(entries(tmp_path)) == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0))
    with pytest.raises(ValueError, match=r"words x \d+ layers.* are needed, only 0\.00 GiB are free; fewer layers"):
        encoder.encode_all(WORDS[:3])
    assert len(entries(tmp_path)) == 1


def test_what_another_program_writes_or_removes_meanwhile_is_no_entry(tiny_lm, tmp_path, monkeypatch):
    encoder = CachedEncoder(load_encoder(str(tiny_lm("llama"))), tmp_path)
    encoder.encode_all(WORDS)
    (first,) = entries(tmp_path)
    shutil.copytree(first, first.with_name(".another.staging"))
    listed = features._entries
    assert listed(tmp_path) == [first]
    monkeypatch.setattr(features, "_entries", lambda folder: [*listed(folder), folder / "ab" / "removed"])
    encoder.encode_all(WORDS[:2])
    assert [entry for entry, _ in features._by_age(tmp_path)][:1] == [first]
