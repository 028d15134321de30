import pytest
import torch

from boustro.generation.canvas import Canvas, between
from boustro.generation.models import open_lm
from gaps import fill_masked
from generators import write_masked_lm

CONTEXTS = [([5, 7, 300], [9]), ([8], [12, 44, 90, 31]), ([21, 22], [23, 24])]


@pytest.fixture(scope="module", params=["full", "prefix"])
def model(request, tmp_path_factory, tiny_tokenizer):
    folder = tmp_path_factory.mktemp("masked") / request.param
    write_masked_lm(folder, tiny_tokenizer, request.param)
    return open_lm(str(folder))


def test_a_gap_is_read_as_if_it_were_alone(model):
    read, blank = between(model, CONTEXTS, 3)
    written = blank.clone()
    written[:, 1] = 40
    for suffix in (blank, written):
        found = read(suffix)
        for row, context in enumerate(CONTEXTS):
            alone, _ = between(model, [context], 3)
            torch.testing.assert_close(found[row], alone(suffix[row : row + 1])[0], atol=1e-4, rtol=0)
            if not model.has_prefix_mask:
                ids = torch.tensor([[*context[0], *suffix[row].tolist(), *context[1]]])
                with torch.inference_mode():
                    logits = model.lm(ids).logits[0, len(context[0]) :][:3].masked_fill(~model.writable, -torch.inf)
                torch.testing.assert_close(found[row], logits.log_softmax(-1), atol=1e-4, rtol=0)
    places = torch.tensor([[2], [0], [1]])
    torch.testing.assert_close(read(blank, places)[:, 0], read(blank)[torch.arange(3), places[:, 0]], atol=1e-4, rtol=0)


def test_without_a_right_context_it_is_the_canvas(model):
    lefts = [left for left, _ in CONTEXTS]
    canvas = Canvas.of(model, lefts, 3)
    read, blank = between(model, [(left, []) for left in lefts], 3)
    torch.testing.assert_close(read(blank), canvas.reader(cached=False)(canvas.blank()), atol=1e-4, rtol=0)


def test_steps_write_the_least_confident_again(model):
    read, blank = between(model, CONTEXTS, 4)
    assert [list(own) for own in fill_masked(model, CONTEXTS, 4, steps=1)] == read(blank).argmax(-1).tolist()
    allowed = torch.zeros(400, dtype=torch.bool)
    allowed[30:34] = True
    found = fill_masked(model, CONTEXTS, 4, steps=4, writable=allowed)
    assert {piece for own in found for piece in own} <= {30, 31, 32, 33}
    with pytest.raises(ValueError, match="the window of"):
        fill_masked(model, [([5] * 300, [6] * 300)], 4, steps=1)
