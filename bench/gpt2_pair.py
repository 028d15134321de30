"""A forward and a backward LM of GPT-2's size: trains and measures both, trains taggers on them, and prints a table.

    python bench/gpt2_pair.py --corpus articles/*.jsonl.bz2 --tokenizer gpt2 --train train.txt --dev dev.txt --out pair

Each step is a `boustro` command and is skipped if its result exists, so an interrupted run continues. Model FLOP
utilisation: 6 FLOPs per matrix parameter and piece, and 6 · layers · length · width for causal attention, divided by
the rate of a large matrix product, measured first on the same device in the precision of the training.

At toy size, on a CPU: --preset tiny --tokens 200000 --segment-length 128 --batch-segments 8 --sentences 300 --epochs 2.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import torch
import tyro
from transformers import AutoModelForCausalLM

from boustro.hardware import best_device, uses_bf16

MATRIX, REPEATS = {"cuda": 8192, "cpu": 1024}, {"cuda": 50, "cpu": 10}


def boustro(*arguments: str | Path) -> None:
    """Run one command with the same output streams; exit if it fails."""
    print("\n$ boustro", *arguments, file=sys.stderr, flush=True)
    code = subprocess.run([sys.executable, "-m", "boustro", *map(str, arguments)], check=False).returncode
    if code:
        sys.exit(code)


def matmul_rate() -> float:
    """FLOP/s of a square matrix product in the precision that training uses, the best of three."""
    device = best_device()
    size, repeats = MATRIX.get(device.type, 1024), REPEATS.get(device.type, 10)
    dtype = torch.bfloat16 if uses_bf16(device) else torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype)
    best = 0.0
    for _ in range(4):  # the first warms up
        started = time.perf_counter()
        for _ in range(repeats):
            b = a @ a
        b.sum().item()  # waits for the device
        best = max(best, 2 * size**3 * repeats / (time.perf_counter() - started))
    return best


def flops_a_piece(folder: Path, length: int) -> float:
    """FLOPs of a training step, forward and backward, per piece."""
    lm = AutoModelForCausalLM.from_pretrained(folder)
    config = lm.config
    tables = {id(p) for m in lm.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()}
    products = sum(p.numel() for p in lm.parameters() if p.ndim == 2 and id(p) not in tables)
    products += config.vocab_size * config.hidden_size if config.tie_word_embeddings else 0
    return 6 * products + 6 * config.num_hidden_layers * length * config.hidden_size


def main(
    corpus: tuple[str, ...],
    tokenizer: str,
    train: Path,
    dev: Path,
    out: Path,
    validation: tuple[str, ...] = (),
    preset: str = "gpt2-base",
    tokens: int = 1_000_000_000,
    segment_length: int = 1024,
    batch_segments: int = 512,
    lr: float = 3e-3,
    epochs: int = 10,
    sentences: int | None = None,
    seeds: int = 3,
) -> None:
    """Tokenize, train both directions, compare forward, backward and both on labelled sentences."""
    started, rate = time.monotonic(), matmul_rate()
    seconds: dict[str, float] = {}
    for name, texts in {"shards": corpus, "validation": validation}.items():
        if texts and not (out / name / "config.json").is_file():
            begun = time.monotonic()
            boustro("lab", "tokenize", *texts, "--tokenizer", tokenizer, "--out", out / name)
            seconds[f"tokenizing ({name})"] = time.monotonic() - begun
    runs = {}
    for direction in ("forward", "backward"):
        folder = out / direction
        if not (folder / "training.json").is_file():
            begun = time.monotonic()
            held_out = ["--validation", out / "validation", "--evaluations", "1"] if validation else []
            sizes = ["--tokens", tokens, "--segment-length", segment_length, "--batch-segments", batch_segments]
            options = [*held_out, *sizes, "--preset", preset, "--lr", lr, "--direction", direction, "--resume"]
            boustro("lab", "pretrain", "--shards", out / "shards", "--out", folder, *map(str, options))
            seconds[f"training ({direction})"] = time.monotonic() - begun
        runs[direction] = json.loads((folder / "training.json").read_text("utf-8"))
    begun = time.monotonic()
    pair = f"{out / 'forward'}+{out / 'backward'}"
    fewer = ["--train-sentences", str(sentences)] if sentences else []
    options = ["--train", train, "--dev", dev, "--epochs", epochs, "--seeds", seeds, *fewer]
    encoders = [str(out / "forward"), str(out / "backward"), pair]
    report = out / "comparison"
    boustro(
        "compare",
        "--encoders",
        ",".join(encoders),
        *map(str, options),
        "--out",
        report,
        "--json",
        out / "comparison.json",
    )
    seconds["encoding, heads and evaluation"] = time.monotonic() - begun
    scores = json.loads((out / "comparison.json").read_text("utf-8"))["systems"]

    print(f"\n{torch.__version__}, {best_device().type}, a matrix product runs at {rate / 1e12:.2f} TFLOP/s\n")
    print("| | pieces | pieces/s | utilisation | validation loss | dev F1 |\n|---|---:|---:|---:|---:|---:|")
    for number, (direction, run) in enumerate(runs.items()):
        speed = run["pieces_seen"] / run["seconds"]
        share = speed * flops_a_piece(out / direction, segment_length) / rate
        loss = f"{run['validation_loss']:.3f}" if run["validation_loss"] else "–"
        f1 = scores[number]["dev"]["mean"]
        print(f"| {direction} | {run['pieces_seen']:,} | {speed:,.0f} | {share:.0%} | {loss} | {f1:.2f} |")
    print(f"| both | | | | | {scores[2]['dev']['mean']:.2f} |")
    for name, took in seconds.items():
        print(f"\n{name}: {took:,.0f} s", end="")
    print(f"\nall: {time.monotonic() - started:,.0f} s")


if __name__ == "__main__":
    tyro.cli(main)
