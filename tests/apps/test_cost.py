"""What encoding costs is told before it is done, and a deep LM is read in four layers by default."""

import re

import pytest

from boustro import load_encoder
from boustro.apps.cli.main import main
from boustro.encoders.transformer import parse_layers

WORDS = ["Ada", "left", "Paris", "on", "Friday", "."]
TRAIN = "".join(f"{w} {'B-PER' if w == 'Ada' else 'O'}\n" for w in WORDS) + "\nAda B-PER\nslept O\n\n"
DEV = "Ada B-PER\nwoke O\n"


@pytest.mark.parametrize(
    ("num_blocks", "layers"), [(4, (0, 1, 2, 3, 4)), (8, tuple(range(9))), (18, (5, 9, 14, 18)), (32, (8, 16, 24, 32))]
)
def test_four_layers_of_a_deep_lm_are_read_and_all_of_a_shallow_one(num_blocks, layers):
    assert parse_layers("auto", num_blocks) == layers


def test_a_slow_encoding_is_told_beforehand_with_its_time(tiny_lm, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("boustro.encoders.cache.SLOW", 1)
    encoder = load_encoder(str(tiny_lm("llama")), cache=tmp_path)
    capsys.readouterr()
    encoder.encode_all([WORDS, WORDS[:2]])
    told = capsys.readouterr().err
    assert re.search(r": about \d+ seconds \([\d,]+ words a second\), .* of 8 words, written to ", told), told
    encoder.encode_all([WORDS, WORDS[:2]])
    assert not capsys.readouterr().err, "nothing is computed again"


def test_a_training_tells_the_cost_once_for_both_lms_and_sets(tiny_pair, file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("boustro.encoders.cache.SLOW", 1)
    sets = ("--train", str(file("train.txt", TRAIN)), "--dev", str(file("dev.txt", DEV)))
    assert main(["fit", *sets, "--out", str(tmp_path / "out"), "--encoder", tiny_pair, "--epochs", "1"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "of features" in line]
    assert len(told) == 1 and " of 10 words, written to " in told[0]


@pytest.mark.parametrize("cache", [True, False])
def test_a_dry_run_tells_the_cost_and_writes_nothing(tiny_lm, file, tmp_path, monkeypatch, capsys, cache):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    out, sets = tmp_path / "out", ("--train", str(file("train.txt", TRAIN)), "--dev", str(file("dev.txt", DEV)))
    options = ("--encoder", str(tiny_lm("llama")), "--epochs", "1", *(() if cache else ("--no-cache",)))
    command = ["fit", *sets, "--out", str(out), *options]

    def dry_run(*more: str) -> str:
        assert main([*command, "--dry-run", *more]) == 0
        return capsys.readouterr().out

    place = re.escape(f"MB to write to {tmp_path / 'cache'}" if cache else "MB in memory")
    assert re.search(rf": 10 words to read, 384 bytes each; 0\.0 {place}, about \d+ seconds", dry_run())
    assert not out.exists() and not list(tmp_path.glob("cache/??"))
    assert main(command) == 0
    capsys.readouterr()
    if cache:
        monkeypatch.setattr("boustro.encoders.cache.words_per_second", lambda *_: pytest.fail("all is there"))
        assert "10 words to read" in dry_run("--overwrite")
