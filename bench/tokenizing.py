"""Tokenizing a corpus: `boustro lab tokenize` against `datasets.map` with the group-texts recipe of transformers.

Same text (JSON lines), same tokenizer, same number of processes. Both read the file and write the input of a training
run: Boustro shards, `datasets` an Arrow file of fixed-length segments. Each runs in its own process, with an empty
cache, in alternating rounds; start-up of the interpreter and of the libraries counts for both.

    python bench/tokenizing.py --corpus articles.jsonl --tokenizer gpt2

Memory is the largest resident set of the main process; `datasets` maps its files, and mapped pages count.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro

SEGMENT = 1024


def boustro(corpus: Path, tokenizer: str, workers: int, out: Path) -> int:
    """The number of pieces, including the end-of-text pieces."""
    from boustro.lab.pretrain.shards import Shards, tokenize

    tokenize((str(corpus),), out / "shards", tokenizer=tokenizer, workers=workers)
    return Shards.open(out / "shards").config["num_pieces"]


def group_texts(corpus: Path, tokenizer: str, workers: int, out: Path) -> int:
    """transformers' examples/pytorch/language-modeling/run_clm.py: two maps, the second concatenates and cuts."""
    import datasets

    from boustro.text.tokenizers import end_of_text_id, load_tokenizer

    datasets.disable_progress_bars()
    loaded = load_tokenizer(tokenizer)
    end = end_of_text_id(loaded)
    raw = datasets.load_dataset("json", data_files=str(corpus), split="train", cache_dir=str(out))

    def tokenize(rows):
        return {"input_ids": [[*ids, end] for ids in loaded(rows["text"], add_special_tokens=False)["input_ids"]]}

    def group(rows):
        joined = [piece for ids in rows["input_ids"] for piece in ids]
        whole = len(joined) // SEGMENT * SEGMENT
        segments = [joined[i : i + SEGMENT] for i in range(0, whole, SEGMENT)]
        return {"input_ids": segments, "labels": [list(s) for s in segments]}

    tokenized = raw.map(tokenize, batched=True, num_proc=workers, remove_columns=raw.column_names)
    return SEGMENT * len(tokenized.map(group, batched=True, num_proc=workers))


SYSTEMS = {"boustro lab tokenize": boustro, "datasets.map, group-texts": group_texts}


def main(corpus: Path, tokenizer: str, workers: int = os.cpu_count() or 1, rounds: int = 3) -> None:
    """Measure both, and print the best of the rounds and the ratio."""
    best: dict[str, dict[str, float]] = {}
    for turn in range(rounds):
        for name in SYSTEMS:
            command = [sys.executable, __file__, "--one", name, str(corpus), tokenizer, str(workers)]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
            figures = json.loads(told)
            print(f"round {turn + 1}, {name}: {figures['seconds']:.1f} s", file=sys.stderr)
            if name not in best or figures["seconds"] < best[name]["seconds"]:
                best[name] = figures
    print(f"{corpus.name}, {corpus.stat().st_size / 1e6:,.0f} MB, {workers} processes, best of {rounds}\n")
    print("| | pieces | seconds | pieces/s | CPU seconds | memory, MB |\n|---|---:|---:|---:|---:|---:|")
    for name, f in best.items():
        speed = f["pieces"] / f["seconds"]
        print(f"| {name} | {f['pieces']:,} | {f['seconds']:.1f} | {speed:,.0f} | {f['cpu']:.1f} | {f['memory']:.0f} |")
    ours, theirs = (f["pieces"] / f["seconds"] for f in best.values())
    print(f"\nratio of the speeds: {ours / theirs:.2f}")


def one(name: str, corpus: str, tokenizer: str, workers: str) -> None:
    """Run one system once; print its measurements as JSON."""
    started, folder = time.monotonic(), tempfile.mkdtemp()
    try:
        pieces = SYSTEMS[name](Path(corpus), tokenizer, int(workers), Path(folder))
        seconds = time.monotonic() - started
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in usage)
    print(json.dumps({"pieces": pieces, "seconds": seconds, "cpu": cpu, "memory": usage[0].ru_maxrss / 1024}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        tyro.cli(main)
