"""Tagging raw text: `Tagger.predict` against the transformers token-classification pipeline at the same size.

Boustro runs the shipped pair with an mlp head, trained for a few epochs on the shipped sample, without the cache. The
other system is one model with as many parameters as the two LMs together, over the same tokenizer, randomly initialised
(its weights do not affect its speed), once as a Llama and once as a BERT. It is measured at its best: several batch
sizes, lines in the given order and sorted by length (Boustro sorts them itself), and a classifier that finds no entity,
so it has no work after the model.

    python bench/predict.py --text sentences.txt

The text has one sentence per line. All systems tag the same lines with the same threads in one process, one after the
other; `boustro.text.words` splits and counts the words. CPU seconds are of all threads together: on a machine with
other load they are the fairer measure.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path

import torch
import tyro
from transformers import AutoConfig, AutoModelForTokenClassification, BertConfig, PreTrainedConfig, pipeline

import boustro
from boustro.encoders.spec import Spec
from boustro.hardware import best_device, uses_bf16
from boustro.text.tokenizers import load_tokenizer
from boustro.text.words import split_text

ENCODER = "starter"
LABELS = ["O", *(f"{prefix}-{label}" for label in ("LOC", "MISC", "ORG", "PER") for prefix in "BI")]


@dataclass(slots=True)
class System:
    """A function that tags lines, and its best times over the rounds."""

    name: str
    parameters: int
    read: Callable[[list[str]], Iterable]
    lines: list[str]
    seconds: float = math.inf
    cpu_seconds: float = math.inf

    def measure(self) -> None:
        """Tag all lines once, after a few for warming up."""
        list(self.read(self.lines[:32]))
        wall, cpu = time.monotonic(), time.process_time()
        list(self.read(self.lines))
        self.seconds = min(self.seconds, time.monotonic() - wall)
        self.cpu_seconds = min(self.cpu_seconds, time.process_time() - cpu)


def ours(epochs: int, lines: list[str]) -> System:
    """The shipped pair with a trained head."""
    sample = files("boustro") / "data" / "sample"
    tagger = boustro.Tagger(ENCODER, "mlp", epochs=epochs).fit(Path(str(sample / "train.conll")), seed=1)
    parameters = tagger.record["encoder_parameters"] + tagger.record["head_parameters"]
    return System("boustro, the pair", parameters, tagger.predict, lines)


def rivals(lines: list[str], batch_sizes: Iterable[int], num_parameters: int) -> Iterator[System]:
    """The pipeline over each kind of model, with every batch size and both orders of lines."""
    path = Spec.parse(ENCODER).parts[0].place
    tokenizer = load_tokenizer(path)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    llama = AutoConfig.from_pretrained(path)
    bert = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=llama.hidden_size,
        intermediate_size=4 * llama.hidden_size,
        num_attention_heads=llama.num_attention_heads,
        max_position_embeddings=2048,
    )
    orders = {"as given": lines, "by length": sorted(lines, key=len)}
    for kind, config in (("Llama", llama), ("BERT", bert)):
        model = grow(config, num_parameters)
        size = sum(p.numel() for p in model.parameters())
        tag = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple")
        for batch_size, (order, given) in product(batch_sizes, orders.items()):
            name = f"pipeline, {kind}, batches of {batch_size}, lines {order}"
            yield System(name, size, partial(tag, batch_size=batch_size), given)


def grow(config: PreTrainedConfig, num_parameters: int) -> torch.nn.Module:
    """A token classifier with the number of layers that comes closest to this number of parameters."""
    config.id2label = dict(enumerate(LABELS))
    config.pad_token_id = 0

    def make(num_layers: int) -> torch.nn.Module:
        config.num_hidden_layers = num_layers
        return AutoModelForTokenClassification.from_config(config)

    sizes = [sum(p.numel() for p in make(n).parameters()) for n in (1, 2)]
    model = make(1 + round((num_parameters - sizes[0]) / (sizes[1] - sizes[0])))
    classifier = next(m for m in model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == len(LABELS))
    torch.nn.init.zeros_(classifier.weight)
    with torch.no_grad():
        classifier.bias.copy_(torch.tensor([1.0] + [0.0] * (len(LABELS) - 1)))  # O, always
    device = best_device()
    return model.to(device, torch.bfloat16 if uses_bf16(device) else torch.float32).eval()


def main(
    text: Path,
    sentences: int = 2000,
    batch_sizes: tuple[int, ...] = (1, 8, 32),
    threads: int | None = None,
    rounds: int = 1,
    epochs: int = 5,
) -> None:
    """Measure all on the first `sentences` lines of `text`, `rounds` times in turn, and print the best of each."""
    if threads:
        torch.set_num_threads(threads)
    lines = [line for line in text.read_text("utf-8").splitlines() if line.strip()][:sentences]
    words = sum(len(placed.sentence) for line in lines for placed in split_text(line))
    print(f"{len(lines):,} lines, {words:,} words, {torch.get_num_threads()} threads, best of {rounds}")
    pair = ours(epochs, lines)
    others = list(rivals(lines, batch_sizes, pair.parameters))
    for system in [pair, *others] * rounds:
        system.measure()
    print(f"\n{'':50} {'parameters':>10} {'seconds':>8} {'words/s':>8} {'CPU s':>7}")
    for system in [pair, *others]:
        size, speed = f"{system.parameters / 1e6:.1f}M", words / system.seconds
        print(f"{system.name:50} {size:>10} {system.seconds:8.1f} {speed:8,.0f} {system.cpu_seconds:7.1f}")
    for order in ("as given", "by length"):
        same = [system for system in others if system.name.endswith(order)]
        wall, cpu = min(s.seconds for s in same), min(s.cpu_seconds for s in same)
        print(
            f"\nlines {order}: {wall / pair.seconds:.2f} times as fast as the fastest of them, "
            f"{cpu / pair.cpu_seconds:.2f} in CPU seconds",
            end="",
        )
    print()


if __name__ == "__main__":
    tyro.cli(main)
