"""What reading costs beside the bare forward pass of the same blocks: python bench/reading.py LM [--layers ...] [TEXT]

Both sides are plain processor time of one thread, in turn, over the same batches; the median of the ratios is told.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import tyro
from tyro.conf import Positional

from boustro import load_encoder
from boustro.encoders.lm import LMEncoder
from boustro.encoders.transformer import PARAGRAPH


def main(
    lm: Positional[str],
    text: Path | None = None,
    layers: tuple[str, ...] = ("all", "auto"),
    words: int = 2000,
    runs: int = 5,
) -> None:
    """`text` is read in sentences of 25 words; by default the paragraph in the package, again and again."""
    torch.set_num_threads(1)
    given = (text.read_text("utf-8") if text else PARAGRAPH).split()
    given = (given * (words // len(given) + 1))[:words]
    sentences = [given[start : start + 25] for start in range(0, words, 25)]
    for chosen in layers:
        encoder, other = (load_encoder(lm, chosen) for _ in range(2))
        assert isinstance(encoder, LMEncoder)
        assert isinstance(other, LMEncoder)
        print(f"{lm} {chosen}: {measure(encoder, other.model, sentences, runs)}")


def measure(encoder: LMEncoder, model: torch.nn.Module, sentences: list[list[str]], runs: int) -> str:
    """Size and speed of its features, and the ratio."""
    batches, words = batches_of(encoder, sentences), sum(map(len, sentences))

    def bare_pass() -> float:
        return seconds(lambda: [read(model, ids) for ids in batches])

    bare, times, ratios = [bare_pass()], [], []
    for _ in range(runs):
        times.append(seconds(lambda: encoder.encode_all(sentences)))
        bare.append(bare_pass())
        ratios.append(times[-1] / ((bare[-2] + bare[-1]) / 2))
    return (
        f"{len(encoder.scales)} layers, {encoder.bytes_per_word / 1e3:.1f} MB per 1,000 words, "
        f"{words / median(times):,.0f} words/s, {median(ratios):.2f} times the bare pass "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


def batches_of(encoder: LMEncoder, sentences: list[list[str]]) -> list[torch.Tensor]:
    """The model's inputs as `encode_all` makes them."""
    inputs, plain = [], encoder._hidden_states
    encoder._hidden_states = lambda ids, lengths: inputs.append(ids) or plain(ids, lengths)  # type: ignore[method-assign]
    encoder.encode_all(sentences)
    encoder._hidden_states = plain  # type: ignore[method-assign]
    return inputs


@torch.inference_mode()
def read(model: torch.nn.Module, ids: torch.Tensor) -> None:
    """The bare pass of transformers through the blocks that are loaded."""
    model(input_ids=ids, use_cache=False)


def seconds(run: Callable[[], object]) -> float:
    """Of this process."""
    started = time.process_time()
    run()
    return time.process_time() - started


if __name__ == "__main__":
    tyro.cli(main)
