"""Drawing pieces from log-probabilities: temperature, top-p, one uniform number a row.

    draw_pieces(log_probs, 0.0)                      the likeliest piece of each row
    draw_pieces(log_probs, 0.8, 0.9, uniforms)       from the likeliest pieces that hold 90% of the probability

The random numbers are given, not drawn here, so a caller decides what they depend on. Source of top-p: Holtzman et al.
2020, *The Curious Case of Neural Text Degeneration*. N rows, V pieces.
"""

from torch import Tensor


def draw_pieces(
    log_probs: Tensor, temperature: float = 0.0, top_p: float = 1.0, uniforms: Tensor | None = None
) -> Tensor:
    """(N,) piece ids from (N, V) log-probabilities, which need not be normalised; -inf is never drawn.

    `uniforms` (N,) in [0, 1) are needed where the temperature is above 0. `top_p` in (0, 1] always keeps the likeliest
    piece.
    """
    if temperature == 0:
        return log_probs.argmax(-1)
    assert uniforms is not None
    shares, pieces = (log_probs / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = shares.cumsum(-1) - shares  # the probability of all likelier pieces
    kept = shares.masked_fill((before >= top_p) & (before > 0), 0.0).cumsum(-1)
    wanted = uniforms.to(kept)[:, None] * kept[:, -1:]
    # The first piece whose cumulative share exceeds the number; rounding must not lead beyond the last kept one.
    place = (kept <= wanted).sum(-1, keepdim=True).clamp_max(kept.shape[1] - 1)
    last = (before < top_p).sum(-1, keepdim=True) - 1
    return pieces.gather(-1, place.minimum(last.clamp_min(0)))[:, 0]
