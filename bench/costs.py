"""What a text costs beside other programs: CPU seconds to a first answer, words a CPU second on one core, peak memory.

    taskset -c 1 python bench/costs.py --rounds 2

Every row is a process of its own with one thread, which imports, opens, answers one line, and then reads all lines; the
rows run in turn, so that other load affects all, and the best round of each counts. CPU seconds are those of the
process. Lines are the sample's sentences, as raw text. Models of others have random weights of the usual shape (BERT
base; MiniLM, six blocks of 384), which do not change their speed; the pipeline's classifier finds nothing, so that it
has no work after the model. Rows named `avx2` leave the processor's newer instructions unused; of a whole tagger they
would say nothing, since it computes in the types of its training, of which bf16 is emulated then.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tyro

AVX2 = {"FBGEMM_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
AVX2 |= {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}
DEFAULT, WITHOUT_WORDS = "starter-large", "starter-lm+starter-memory"
TAGGERS = {
    "default, int8": (DEFAULT, None),
    "default, bf16": (DEFAULT, "bfloat16"),
    "default, fp32": (DEFAULT, "float32"),
    "default without MiniLM, int8": (WITHOUT_WORDS, None),
    "starter-memory": ("starter-memory", None),
}
TWELVE, TEN = "3,6,9,12", "2,5,7,10"  # a quarter of the blocks each
ENCODERS = {
    "twelve blocks of SmolLM2, int8": (TWELVE, None),
    "ten blocks of SmolLM2, int8": (TEN, None),
    "twelve blocks of SmolLM2, int8, avx2": (TWELVE, None),
    "twelve blocks of SmolLM2, fp32, avx2": (TWELVE, "float32"),
}
OTHERS = ("pipeline, BERT base", "pipeline, BERT base, by length")
TEXTS = ("starter-texts, int8", "sentence-transformers and scikit-learn, MiniLM")
ROWS = [*TAGGERS, *ENCODERS, *OTHERS, *TEXTS]
BATCH = 8
"""Lines that others read at once: of 1, 8 and 32 the fastest."""


def sample(name: str) -> Path:
    """A file of the sample in the package."""
    return Path(__file__).parent.parent / "src" / "boustro" / "data" / "sample" / name


def prepare(folder: Path) -> None:
    """Train the models that the rows open; the processes of the rows measure no training."""
    import torch
    from transformers import BertConfig, BertForTokenClassification, BertModel, PreTrainedTokenizerFast

    import boustro

    train = str(sample("train.conll"))
    for encoder, dtype in {*TAGGERS.values()}:
        tagger = boustro.Tagger(encoder, "mlp", epochs=2, cache=folder / "cache", dtype=dtype).fit(train, seed=1)
        tagger.save_pretrained(folder / f"{encoder}-{dtype}")
    topics = [json.loads(line) for line in sample("topics.jsonl").read_text("utf-8").splitlines()]
    texts, labels = [row["text"] for row in topics], [row["label"] for row in topics]
    boustro.Classifier("starter-texts", cache=False).fit(texts, labels).save_pretrained(folder / "topics")
    (folder / "topics.json").write_text(json.dumps([texts, labels]))

    pieces = PreTrainedTokenizerFast.from_pretrained(sample("..").resolve() / "starter" / "texts")
    base = BertConfig(vocab_size=len(pieces))
    base.num_labels = 9
    small = BertConfig(vocab_size=len(pieces), hidden_size=384, num_hidden_layers=6, intermediate_size=1536)
    tagging = BertForTokenClassification(base)
    torch.nn.init.zeros_(tagging.classifier.weight)
    torch.nn.init.constant_(tagging.classifier.bias[:1], 1.0)
    tagging.config.id2label = {0: "O"} | {n: f"B-{n}" for n in range(1, 9)}
    for name, model in (("bert", tagging), ("minilm", BertModel(small))):
        model.save_pretrained(folder / name)
        pieces.save_pretrained(folder / name)


def open_row(row: str, folder: Path) -> tuple[Callable[[list[str]], Any], Any]:
    """Open what a row measures: it reads lines, in the order that is returned with it."""
    as_given = list
    if row in OTHERS:
        from transformers import pipeline

        tag: Any = pipeline("token-classification", model=str(folder / "bert"), aggregation_strategy="simple")
        order = as_given if row == OTHERS[0] else lambda lines: sorted(lines, key=len)
        return lambda lines: tag(lines, batch_size=BATCH), order
    if row == TEXTS[1]:
        from sentence_transformers import SentenceTransformer
        from sklearn.linear_model import LogisticRegression

        texts, labels = json.loads((folder / "topics.json").read_text())
        model = SentenceTransformer(str(folder / "minilm"), device="cpu")
        head = LogisticRegression(max_iter=1000).fit(model.encode(texts), labels)  # it has no folder of its own
        return lambda lines: head.predict(model.encode(lines)), as_given
    import boustro

    if row in ENCODERS:
        layers, dtype = ENCODERS[row]
        encoder = boustro.load_encoder("starter-lm", layers, dtype=dtype, cache=False)
        return lambda lines: encoder.encode_all([line.split() for line in lines]), as_given
    name = "topics" if row == TEXTS[0] else "{}-{}".format(*TAGGERS[row.removesuffix(", avx2")])
    model = boustro.load(folder / name, cache=False)
    return model.predict, as_given


def measure(row: str, folder: Path, num_words: int) -> dict[str, float]:
    """Measure a row in this process."""
    import torch

    torch.set_num_threads(1)
    lines = [*texts_of(num_words)]
    read, order = open_row(row, folder)
    read(lines[:1])
    first = time.process_time()
    read(order(lines[:BATCH]))
    started = time.process_time()
    read(order(lines))
    seconds = time.process_time() - started
    words = sum(len(line.split()) for line in lines)
    status = Path("/proc/self/status").read_text("utf-8")  # `resource` has the peak of the process that started it, too
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024 / 1e6
    return {"first": first, "words": words / seconds, "lines": len(lines) / seconds, "memory": peak}


def texts_of(num_words: int) -> Iterator[str]:
    """The sentences of the sample, in all about so many words."""
    count = 0
    for name in ("dev.conll", "test.conll", "train.conll"):
        for block in sample(name).read_text("utf-8").split("\n\n"):
            words = [line.split()[0] for line in block.splitlines() if line.strip()]
            if words and count < num_words:
                count += len(words)
                yield " ".join(words)


def main(
    rounds: int = 2, words: int = 2000, only: tuple[str, ...] = (), row: str = "", folder: Path | None = None
) -> None:
    """Measure all rows, or those whose names contain one of `only`; `row` and `folder` are for the processes."""
    if row and folder:
        print(json.dumps(measure(row, folder, words)))
        return
    chosen = [name for name in ROWS if not only or any(part in name for part in only)]
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        for _ in range(rounds):
            for name in chosen:
                own = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
                own |= AVX2 if name.endswith("avx2") else {}
                command = [sys.executable, __file__, "--row", name, "--folder", made, "--words", str(words)]
                done = subprocess.run(command, env=own, capture_output=True, text=True)
                if done.returncode:
                    print(f"{name}: not run: {done.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                found = json.loads(done.stdout.strip().splitlines()[-1])
                before = best.setdefault(name, found)
                for key, value in found.items():
                    before[key] = (max if key in ("words", "lines") else min)(before[key], value)
                print(name, {key: round(value, 1) for key, value in found.items()}, file=sys.stderr, flush=True)
    print("| | CPU seconds to the first answer | words a CPU second | lines a CPU second | memory |")
    print("|---|---:|---:|---:|---:|")
    for name, found in best.items():
        numbers = f"{found['first']:.1f} | {found['words']:,.0f} | {found['lines']:,.1f} | {found['memory']:,.0f} MB"
        print(f"| {name} | {numbers} |")


if __name__ == "__main__":
    tyro.cli(main)
