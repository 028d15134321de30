"""The objective prefix-suffix: integers by hand, its distributions, what the prefix sees, and what cannot be split."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForMaskedLM

from boustro.apps.cli.main import main
from boustro.lab.masked import encode
from boustro.lab.objectives.examples import IGNORED, keyed_generator
from boustro.lab.objectives.prefix_suffix import choose_runs, prefix_suffix, split_point
from boustro.lab.objectives.split import PrefixSuffixOptions
from boustro.lab.presets import MASKED_PRESETS, make_masked_config
from boustro.names import locate_model
from pretraining import pretrain_words, write_shards
from test_masked import END, LENGTH, MASK, VOCABULARY, make_lm, make_pieces
from test_masked_objective import Scripted, make_masking


def test_by_hand():
    """Documents of 6 and of 2 pieces. Split after 3; β_Y = 0.5, so β_X = 0.2: two of three and one of three are hidden.

    Prefix: lengths 1 (draw .1) and 2 (.6) leave runs {0} and {1, 2}; the second comes first and is cut to one place.
    Suffix: one run of 3 (.9), cut to two places.
    """
    pieces = np.array([8, 3, 4, 5, 2, 6, END, 1, 9])
    rng = Scripted(integers=[3], random=[0.5, [0.1, 0.6, 0.6], [0.9, 0.1, 0.1]], permutation=[[1, 0], [0]])
    found = prefix_suffix(pieces, rng, make_masking(), PrefixSuffixOptions(least_pieces=3))
    assert found.input_ids.tolist() == [8, 49, 4, 49, 49, 6, END, 1, 9]
    assert found.positions.tolist() == [1, 3, 4, 0, 0, 0, 0, 0, 0]
    assert found.targets.tolist() == [3, 5, 2, *[IGNORED] * 6]
    assert found.suffix.astype(int).tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0]
    assert found.documents.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1]


@given(st.lists(st.integers(0, 48), min_size=1, max_size=80).map(np.array), st.integers(2, 14), st.integers(0, 99))
def test_what_holds_of_every_draw(pieces, least, seed):
    masking, split = make_masking(), PrefixSuffixOptions(least_pieces=least)
    found = prefix_suffix(pieces, keyed_generator(1, 2, seed), masking, split)
    asked = found.targets != IGNORED
    hidden = np.zeros(len(pieces), bool)
    hidden[found.positions[asked]] = True
    assert (found.input_ids == np.where(hidden, 49, pieces)).all(), "always the mask piece, and nothing else changes"
    assert (found.targets[asked] == pieces[found.positions[asked]]).all()
    assert hidden.sum() == asked.sum() and not (hidden & masking.special[pieces]).any()
    for document in range(found.documents[-1] + 1):
        inside = found.documents == document
        content, suffix = inside & ~masking.special[pieces], found.suffix[inside]
        if content.sum() < least:
            assert not hidden[inside].any() and not suffix.any()
            continue
        assert (np.diff(suffix.astype(int)) >= 0).all(), "a suffix lasts to the end of its document"
        assert all((hidden & content & (found.suffix == part)).any() for part in (False, True))
    full = prefix_suffix(
        pieces, keyed_generator(1, 2, seed), masking, PrefixSuffixOptions(least_pieces=least, prefix_attention="full")
    )
    assert not full.suffix.any() and (full.input_ids == found.input_ids).all()


@pytest.mark.parametrize("draws", [8000, pytest.param(100_000, marks=pytest.mark.long)])
def test_the_split_and_both_rates_have_the_stated_distributions(draws):
    """Documents of 100 pieces: i ~ U{20 … 80}, β_Y ~ U(0, 1), β_X = 0.3 - 0.2 β_Y, each to its rounding."""
    pieces, masking, split = np.arange(100) % 40 + 1, make_masking(), PrefixSuffixOptions()
    first, shares = np.empty(draws, int), np.empty((draws, 2))
    rng = np.random.default_rng(0)
    for n in range(draws):
        found = prefix_suffix(pieces, rng, masking, split)
        hidden, first[n] = found.input_ids == 49, int(np.argmax(found.suffix))
        shares[n] = hidden[: first[n]].mean(), hidden[first[n] :].mean()
    counts = np.bincount(first, minlength=100)
    assert counts[:20].sum() == counts[81:].sum() == 0
    expected = draws / 61
    assert ((counts[20:81] - expected) ** 2 / expected).sum() < 99.6, "chi², 60 degrees of freedom, p = 0.001"
    x, y = shares.T
    ordered = np.sort(y)
    assert np.abs(ordered - np.linspace(0, 1, draws)).max() < 0.03, "within half a piece of the smallest suffix"
    assert abs(y.mean() - 0.5) < 0.95 / draws**0.5 and abs(x.mean() - 0.2) < 0.95 / draws**0.5  # three deviations
    assert np.abs(x - (0.3 - 0.2 * y)).max() <= 0.5 / 20 + 0.2 * 0.5 / 20 + 1e-9


def test_every_place_is_hidden_alike():
    rng = np.random.default_rng(0)
    chosen = [choose_runs(300, 0.5, rng, 3) for _ in range(2000)]
    assert {len(places) for places in chosen} == {len(set(places.tolist())) for places in chosen} == {150}
    counts = np.bincount(np.concatenate(chosen), minlength=300)
    assert abs(counts / 2000 - 0.5).max() < 0.06


def test_runs_are_of_one_to_three_pieces_with_p_inversely_to_their_length():
    """A fiftieth of a long text: few runs touch, and runs that touch look like one of more than three."""
    rng, counts = np.random.default_rng(0), np.zeros(4)
    for _ in range(5000):
        places = np.sort(choose_runs(1000, 0.02, rng, 3))
        runs = np.diff(np.flatnonzero(np.diff(places, prepend=-9, append=9999) > 1))
        counts += np.bincount(np.minimum(runs, 4), minlength=5)[1:]
    np.testing.assert_allclose(counts[:3] / counts[:3].sum(), np.array([6, 3, 2]) / 11, atol=0.02)
    assert counts[3] < 0.04 * counts.sum()


@pytest.mark.parametrize(("length", "margin", "wanted"), [(2, 0.2, {1}), (5, 0.2, {1, 2, 3, 4}), (13, 0.49, {7})])
def test_no_part_is_empty(length, margin, wanted):
    rng = np.random.default_rng(0)
    assert {split_point(length, rng, margin) for _ in range(200)} == wanted


# What the model sees


def packed() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pieces (1, 24), documents and suffixes of three documents, split in two, in two, and not at all."""
    pieces = torch.from_numpy(np.random.default_rng(0).integers(1, 50, (1, LENGTH)))
    documents = torch.tensor([[0] * 9 + [1] * 10 + [2] * 5])
    suffix = torch.zeros(1, LENGTH, dtype=torch.bool)
    suffix[:, 4:9] = suffix[:, 15:19] = True
    return pieces, documents, suffix


@pytest.mark.parametrize(("kind", "attention"), [("biglm", "sdpa"), ("bert", "eager"), ("modernbert", "sdpa")])
def test_another_suffix_changes_the_states_of_the_prefix_by_exactly_nothing(kind, attention):
    lm, (pieces, documents, suffix) = make_lm(kind, attention), packed()
    with torch.no_grad():
        before = encode(lm, pieces, documents, suffix)
        after = encode(lm, torch.where(suffix, MASK, pieces), documents, suffix)
        without = encode(lm, torch.where(suffix, MASK, pieces), documents)
    assert torch.equal(before[~suffix], after[~suffix])
    assert (before[suffix] - after[suffix]).abs().max() > 1e-3
    assert (before[~suffix] - without[~suffix]).abs().max() > 1e-3, "with full attention it does"


@pytest.mark.parametrize(("kind", "attention"), [("biglm", "eager"), ("bert", "sdpa")])
def test_packed_documents_have_the_states_that_they_have_alone(kind, attention):
    lm, (pieces, documents, suffix) = make_lm(kind, attention), packed()
    with torch.no_grad():
        together = encode(lm, pieces, documents, suffix)
        for start, stop in ((0, 9), (9, 19), (19, LENGTH)):
            alone = encode(lm, *(part[:, start:stop] for part in (pieces, documents, suffix)))
            torch.testing.assert_close(together[:, start:stop], alone, rtol=1e-5, atol=1e-5)


def test_a_prefix_has_the_states_that_it_has_without_its_suffix():
    lm, (pieces, documents, suffix) = make_lm("biglm"), packed()
    with torch.no_grad():
        whole = encode(lm, pieces, documents, suffix)[:, :4]
        torch.testing.assert_close(
            whole, lm.base_model(input_ids=pieces[:, :4]).last_hidden_state, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(("size", "millions"), [("136m", 136), ("360m", 360), ("1.3b", 1300), ("3.5b", 2490)])
def test_presets_have_the_parameters_of_the_paper(size, millions):
    """With the paper's 50,304 pieces. What it calls 3.5B has 2.49B with the layers of its own table."""
    assert f"biglm-{size}" in MASKED_PRESETS
    config = make_masked_config(f"biglm-{size}", make_pieces(), VOCABULARY, 2048)
    config.vocab_size = 50_304
    with torch.device("meta"):
        lm = AutoModelForMaskedLM.from_config(config)
    assert lm.num_parameters() / 1e6 == pytest.approx(millions, rel=0.02)


def test_the_size_for_a_processor_has_the_shape_of_the_shipped_forward_lm():

    ours, theirs = (
        make_masked_config("biglm-mini", make_pieces(), VOCABULARY, 256),
        AutoConfig.from_pretrained(locate_model("starter-forward")),
    )
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    names += ("rms_norm_eps", "rope_parameters", "tie_word_embeddings", "hidden_act")
    assert [name for name in names if getattr(ours, name) != getattr(theirs, name)] == []


# What is refused


def test_options_have_ranges():
    with pytest.raises(ValueError, match="least_pieces must be at least 2"):
        PrefixSuffixOptions(least_pieces=1)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("Ada left.\n\nIt rained.", [], "no document is long enough to be split in two: --least-pieces is 12"),
        ("Ada left. " * 30, ["--segment-length", "8"], "and a segment 8; lower it"),
        ("Ada left. " * 30, ["--hide", "word"], "hides runs of single pieces; remove --hide word"),
        ("Ada left. " * 30, ["--preset", "tiny-llama"], "unknown masked preset 'tiny-llama'"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, capsys, text, options, message):
    shards = write_shards(tmp_path / "shards", [text], "--tokenizer", "starter")
    usual = {"--objective": "prefix-suffix", "--shards": shards, "--preset": "tiny", "--segment-length": 16}
    usual |= {"--batch-segments": 1, "--out": tmp_path / "lm"}
    assert main(pretrain_words(usual, options)) == 1
    assert message in capsys.readouterr().err


def test_a_run_starts_from_the_shipped_forward_lm_and_says_what_its_prefix_sees(tmp_path, capsys):
    long = "The ferry to Port Lisse leaves at seven and nobody there reads the bulletin. " * 9
    shards = write_shards(tmp_path / "shards", ["It rained.", long], "--tokenizer", "starter")
    command = ["lab", "pretrain", "--objective", "prefix-suffix", "--init-from", "starter-forward", "--no-compile"]
    command += ["--shards", str(shards), "--tokens", "64", "--segment-length", "32", "--batch-segments", "2"]
    for attention in ("prefix", "full"):
        assert main([*command, "--prefix-attention", attention, "--out", str(tmp_path / attention)]) == 0
        assert AutoConfig.from_pretrained(tmp_path / attention).prefix_attention == attention
    assert "1 of 2 documents are not split: under 12 pieces" in capsys.readouterr().err
