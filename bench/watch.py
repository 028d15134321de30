"""Generation that a tagger watches, against the same without it, and against a second pass of a separate tagger.

    PYTHONPATH=src python bench/watch.py --lm FOLDER [--train train.conll] [--pieces 256] [--rounds 8] [--folder ner]

The LM is any causal LM. All ways take turns in one process, round by round, after one of a few pieces that does not
count. Of each way the processor time and the wall time are compared with those of the plain generation of the same
round. In every second round the text is sampled, with the seed of the round; all texts of a round must be equal. The
tagger stays in `--folder`, where the next run finds it.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro
from transformers import AutoModelForCausalLM, AutoTokenizer

from boustro import Tagger
from boustro.apps.live.watch import Watch
from boustro.hardware import uses_bf16
from boustro.tasks.data import read_data

SAMPLE = Path(__file__).parents[1] / "src/boustro/data/sample/train.conll"
PROMPT = "The minister of finance arrived in Brussels on Tuesday, where she met"


def main(
    lm: str,
    train: Path = SAMPLE,
    sentences: int = 200,
    pieces: int = 256,
    rounds: int = 8,
    delay: int = 8,
    every: tuple[int, ...] = (0, 1, 8),
    folder: Path | None = None,
) -> None:
    """Print, for each way, its time in percent of the plain generation.

    Args:
        lm: Any causal LM.
        train: Labelled sentences that the tagger learns.
        sentences: How many of them.
        pieces: Length of a text.
        rounds: How often each way is timed; 0 only trains.
        delay: Words behind an entity that make it final.
        every: Pieces between two answers of the tagger; 0 is once, at the end.
        folder: Where the tagger stays.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = folder or Path(place) / "ner"
        if not folder.exists():
            trained = Tagger(lm, "mlp", epochs=5).fit(read_data(train)[:sentences], seed=1)
            trained.save_pretrained(folder)
        tagger = Tagger.from_pretrained(folder, cache=False)
        watching = Tagger.from_pretrained(folder, given_states=True)
    if not rounds:
        return
    dtype = torch.bfloat16 if uses_bf16(torch.device("cpu")) else torch.float32
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(lm, dtype=dtype),
        AutoTokenizer.from_pretrained(lm),
    )
    prompt = tokenizer(PROMPT, return_tensors="pt")

    turn = {"number": 0, "pieces": 16}

    def write() -> str:
        torch.manual_seed(turn["number"])
        length, sampled = turn["pieces"], turn["number"] % 2 == 0
        written = model.generate(**prompt, max_new_tokens=length, min_new_tokens=length, do_sample=sampled)
        return tokenizer.decode(written[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)

    def watch(**how: int | None) -> str:
        with Watch(watching, model, **how) as seen:
            text = write()
        assert seen[0].text == text
        return text

    def second_pass() -> str:
        text = write()
        tagger.predict(text)
        return text

    ways: dict[str, Callable[[], str]] = {"plain": write, "second pass": second_pass}
    for gap in every:
        how = {"delay": delay, "every": gap} if gap else {"delay": None}
        ways[f"watch, every {gap}" if gap else "watch, at the end"] = lambda how=how: watch(**how)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        turn |= {"number": number, "pieces": pieces if number else 16}
        order = list(ways) if number % 4 < 2 else list(reversed(ways))
        texts = set()
        for name in order:
            start, processor = time.perf_counter(), time.process_time()
            texts.add(ways[name]())
            if number:
                seconds[name].append((time.perf_counter() - start, time.process_time() - processor))
        assert len(texts) == 1, "the texts differ"
    for name, measured in seconds.items():
        ratios = [[a[k] / b[k] for a, b in zip(measured, seconds["plain"], strict=True)] for k in (0, 1)]
        wall, processor = (statistics.median(column) for column in ratios)
        spread = [round(100 * (r - 1), 1) for r in sorted(ratios[1])]
        row = {"way": name, "seconds": round(statistics.median(m[1] for m in measured), 3)}
        print(
            json.dumps(
                row
                | {"wall %": round(100 * (wall - 1), 1), "processor %": round(100 * (processor - 1), 1), "all": spread}
            )
        )


if __name__ == "__main__":
    tyro.cli(main)
