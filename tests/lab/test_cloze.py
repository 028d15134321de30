"""A fusion's output head as a judge of pieces: against the loss of its training, alone and together with the pair."""

import pytest
import torch

from boustro.apps.cli.main import main
from boustro.lab.generation.both_ends.filling import Gap
from boustro.lab.generation.both_ends.pair import Ends, LMPair
from boustro.lab.generation.options import InfillOptions
from cloze import ClozeHead
from gaps import surer, write_in_turn

TEXTS = [[5, 7, 300, 9, 12, 44, 90], [8, 31, 21, 22, 23, 24], [61, 62, 63]]
CONTEXTS = [([5, 7, 300], [9]), ([8], [12, 44, 90, 31]), ([21, 22], [23, 24])]


@pytest.fixture(scope="module", params=["attention", "linear"])
def fusion(request, tmp_path_factory, tiny_pair):
    folder = tmp_path_factory.mktemp("cloze")
    forward, backward = tiny_pair.split("+")
    (folder / "text.txt").write_text("The ferry to Vellmar leaves at seven.\n\n" * 30)
    words = ["lab", "tokenize", str(folder / "text.txt"), "--out", str(folder / "shards"), "--tokenizer", forward]
    assert main([*words, "--workers", "1"]) == 0
    words = ["lab", "fuse", "--forward", forward, "--backward", backward, "--shards", str(folder / "shards")]
    words += ["--out", str(folder / "fusion"), "--kind", request.param, "--width", "16"]
    assert main([*words, "--tokens", "64", "--segment-length", "16", "--batch-segments", "2"]) == 0
    return folder / "fusion"


def test_scores_are_the_loss_that_the_fusion_was_trained_by(fusion):
    head = ClozeHead.load(fusion, "cpu")
    for text in TEXTS:
        pieces = torch.tensor([text])
        with torch.no_grad():
            loss = head.cloze(head.towers.states(pieces, torch.tensor([len(text)])), pieces)
        (found,) = head.scores([([], text, [])])
        assert float(found) == pytest.approx(-float(loss) * len(text), rel=1e-4)


def test_a_piece_is_judged_by_all_others_and_never_by_itself(fusion):
    head = ClozeHead.load(fusion, "cpu")
    found = head.closing(CONTEXTS)
    for row, (left, right) in enumerate(CONTEXTS):
        torch.testing.assert_close(found[row], head.closing([(left, right)])[0], atol=1e-4, rtol=0)
        for piece in (40, 41):
            (score,) = head.scores([(left, [piece], right)])
            assert float(score) == pytest.approx(float(found[row, piece]), abs=1e-4)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(3), atol=1e-4, rtol=0)
    changed = head.closing([([5, 7, 301], [9]), CONTEXTS[1]])
    assert (changed[0] - found[0]).abs().max() > 1e-3
    middles = head.scores([(left, [40, 41, 42][: 1 + row], right) for row, (left, right) in enumerate(CONTEXTS)])
    for row, (left, right) in enumerate(CONTEXTS):
        middle = [40, 41, 42][: 1 + row]
        parts = [
            head.closing([([*left, *middle[:n]], [*middle[n + 1 :], *right])])[0, middle[n]] for n in range(row + 1)
        ]
        assert float(middles[row]) == pytest.approx(float(sum(parts)), abs=1e-3)
    with pytest.raises(ValueError, match="pieces, and the two LMs read 63 together"):
        head.closing([([5] * 60, [6] * 60)])


def test_it_fills_and_closes_gaps(fusion, tiny_pair):
    head, pair = ClozeHead.load(fusion, "cpu"), LMPair.load(tiny_pair, "cpu")
    (first, second), *_ = head.fill(CONTEXTS, 2, pair.writable)
    for place, piece in enumerate((first, second)):
        left = [*CONTEXTS[0][0], first][: 3 + place]
        scores = head.closing([(left, CONTEXTS[0][1])])[0, : len(pair.writable)]
        assert piece == int(scores.masked_fill(~pair.writable, -torch.inf).argmax())
    ends = Ends(pair, CONTEXTS)
    gaps, options = [Gap(left, right) for left, right in CONTEXTS], InfillOptions(tokens_per_gap="3")

    def written(close=None):
        return [[*middle] for (middle,) in write_in_turn(surer, True, close, ends, gaps, options)]

    plain, closed = written(), written(lambda ends: head.closer(ends.contexts))
    for row, (one, other) in enumerate(zip(plain, closed, strict=True)):
        differing = [n for n in range(3) if one[n] != other[n]]
        assert len(differing) <= 1, "only the last piece is chosen in another way"
        for place in differing or range(3):
            left, right = [*CONTEXTS[row][0], *other[:place]], [*other[place + 1 :], *CONTEXTS[row][1]]
            scores = head.closing([(left, right)])[0].masked_fill(~pair.writable, -torch.inf)
            if differing:
                assert int(scores.argmax()) == other[place]
    assert any(one != other for one, other in zip(plain, closed, strict=True))
    mostly_pair = written(lambda ends: head.closer(ends.contexts, 1e6))
    assert mostly_pair == plain, "with all the weight on the pair its own choice is left"
