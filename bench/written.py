"""Texts written by fine-tuned LMs, a masked and a causal one side by side, over several training seeds.

    python bench/written.py --systems my-biglm starter-forward --train train.jsonl --dev dev.jsonl --prompt-key source \
        --target-key targets --epochs 2 5 --out summaries
    python bench/written.py --systems my-biglm starter-forward --train train.jsonl.xz --dev dev.jsonl.xz \
        --prompt-key "{answers.0.text} in: {context}" --target-key question --out questions

Every system is fine-tuned on the pairs with each number of epochs and each seed, and writes for the prompts of `--dev`
by each of its strategies. Beside them: the first sentence of the prompt, the most typical text of the training set, and
each system's texts for other prompts (each is rated with the target of another one), which shows how much
of a score comes from the prompt. What is in `--out` already is not computed again.
"""

import json as jsonlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

from boustro.lab.generation.models import CausalLM, open_lm

SCORES = ("rouge1", "rouge2", "rougeL", "bleu", "meteor", "distinct2", "repetition")
STRATEGIES = {
    "masked": {"mask-predict": ["--num-length-candidates", "3"], "left-to-right": ["--strategy", "left-to-right"]},
    "causal": {"causal": ["--length", "60"]},
}


def main(
    systems: list[str],
    train: Path,
    dev: Path,
    out: Path,
    prompt_key: str = "prompt",
    target_key: str = "target",
    prompt_pieces: int = 180,
    epochs: tuple[int, ...] = (3,),
    seeds: tuple[int, ...] = (1, 2, 3),
) -> None:
    """Train, write, rate, and print a table: means over seeds ± their standard deviation."""
    out.mkdir(parents=True, exist_ok=True)
    read = ["--prompt-key", prompt_key, "--prompt-pieces", str(prompt_pieces)]
    targets = ["--target-key", target_key]
    rated: dict[str, list[dict]] = {}
    for seed in seeds:
        for system in systems:
            kind = "causal" if isinstance(open_lm(system), CausalLM) else "masked"
            for passes in epochs:
                name = f"{Path(system).name}, {passes} epochs"
                model = out / f"{Path(system).name}-{passes}-{seed}"
                if not (model / "config.json").exists():
                    given = ["--train", train, "--dev", dev, "--target-key", target_key, "--epochs", passes, *read]
                    boustro("lab", "seq2seq", "--lm", system, *given, "--seed", seed, "--out", model, "--resume")
                for strategy, options in STRATEGIES[kind].items():
                    written = out / f"{model.name}-{strategy}.jsonl"
                    if not written.exists():
                        written.write_text(
                            boustro("lab", "generate", "--encoder", model, *read, *options, "--quiet", dev)
                        )
                    scores = rate(written, [*targets, "--train", str(train)])
                    rated.setdefault(f"{name}, {strategy}", []).append(scores["texts"])
                    other = rate(turn(written), targets)
                    rated.setdefault(f"{name}, {strategy}, other prompts", []).append(other["texts"])
                    rated |= {control: [scores[control]] for control in ("lead-1", "constant")}
        print(f"\n{len(next(iter(rated.values())))} seed(s)\n")
        print(f"| system | {' | '.join(SCORES)} |\n|---|{'---:|' * len(SCORES)}")
        for name, runs in rated.items():
            print(f"| {name} | {' | '.join(shown([score[key] for score in runs]) for key in SCORES)} |", flush=True)


def boustro(*words: object) -> str:
    """What a command wrote to standard output."""
    command = [sys.executable, "-m", "boustro", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def rate(written: Path, options: Sequence[str]) -> dict[str, dict[str, float]]:
    """The scores of `boustro lab score` against targets."""
    return jsonlib.loads(boustro("rate", written, *options, "--json", "-"))


def turn(written: Path) -> Path:
    """A file in which each text stands with a record half the file away: neighbours may have one prompt in common."""
    rows = [jsonlib.loads(line) for line in written.read_text("utf-8").splitlines()]
    half = len(rows) // 2
    texts = [row["text"] for row in rows[half:] + rows[:half]]
    turned = written.with_suffix(".turned.jsonl")
    lines = (jsonlib.dumps(row | {"text": text}) + "\n" for row, text in zip(rows, texts, strict=True))
    turned.write_text("".join(lines), "utf-8")
    return turned


def shown(values: Sequence[float]) -> str:
    """A mean and the spread over seeds."""
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    tyro.cli(main)
