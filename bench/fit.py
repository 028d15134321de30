"""Training a tagger: `boustro fit` against a plain transformers Trainer loop over the same frozen pair.

The Trainer loop is the usual one: both LMs in one module, frozen, without gradients, their last states at each word's
first piece concatenated, the same two-layer head, batches padded to their longest sentence, and every sentence encoded
again in every epoch. Both train on the same sentences for the same epochs, and both compute entity F1 on the same dev
set after each epoch.

    python bench/fit.py --train train.conll --dev dev.conll --epochs 3

Times are wall-clock, in one run, one after the other; the last line is their ratio.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import nn
from transformers import AutoModel, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

import boustro
from boustro.encoders.spec import Spec
from boustro.metrics.spans import score_spans
from boustro.tasks.data import read_data
from boustro.text.alignment import Aligner
from boustro.text.tokenizers import load_tokenizer


class PlainPair(nn.Module):
    """Two frozen LMs and the paper's head, in a simple implementation."""

    def __init__(self, forward_path: str, backward_path: str, num_tags: int) -> None:
        super().__init__()
        self.ahead = AutoModel.from_pretrained(forward_path, dtype=torch.float32).requires_grad_(False)
        self.back = AutoModel.from_pretrained(backward_path, dtype=torch.float32).requires_grad_(False)
        width = self.ahead.config.hidden_size + self.back.config.hidden_size
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, num_tags))

    def forward(self, input_ids, reversed_ids, at, at_reversed, labels):
        with torch.no_grad():
            ahead = self.ahead(input_ids=input_ids, use_cache=False).last_hidden_state
            back = self.back(input_ids=reversed_ids, use_cache=False).last_hidden_state
        pick = lambda states, where: states.gather(1, where.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # noqa: E731
        logits = self.head(torch.cat([pick(ahead, at), pick(back, at_reversed)], -1))
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def plain_loop(forward_path: str, backward_path: str, train, dev, epochs: int, seed: int) -> tuple[float, float]:
    """(seconds, best dev F1) of the Trainer loop."""
    started = time.monotonic()
    tokenizer = load_tokenizer(forward_path)
    sentinel, aligner = tokenizer.eos_token_id, Aligner(tokenizer)
    tags = sorted({t for s in train for t in s.tags})
    ids = {tag: i for i, tag in enumerate(tags)}

    def prepare(sentences) -> list[dict[str, Any]]:
        rows = []
        for s, pieces in zip(sentences, aligner.align([(s.words, s.spaces) for s in sentences]), strict=True):
            count = len(pieces.ids)
            rows.append(
                {
                    "input_ids": [sentinel, *pieces.ids],
                    "reversed_ids": [sentinel, *pieces.ids[::-1]],
                    "at": pieces.bounds[:-1] + 1,
                    "at_reversed": count - pieces.bounds[:-1],
                    "labels": [ids.get(t, 0) for t in s.tags],
                }
            )
        return rows

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = {}
        for key in rows[0]:
            longest = max(len(r[key]) for r in rows)
            padded = np.full((len(rows), longest), -100 if key == "labels" else 0)
            for row, values in zip(padded, rows, strict=True):
                row[: len(values[key])] = values[key]
            batch[key] = torch.from_numpy(padded)
        return batch

    def metrics(prediction) -> dict[str, float]:
        best = prediction.predictions.argmax(-1)
        predicted = [[tags[i] for i in row[: len(s)]] for row, s in zip(best, dev, strict=True)]
        return {"f1": score_spans([s.tags for s in dev], predicted).f1}

    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            PlainPair(forward_path, backward_path, len(tags)),
            TrainingArguments(
                output_dir=folder,
                num_train_epochs=epochs,
                per_device_train_batch_size=32,
                per_device_eval_batch_size=32,
                learning_rate=1e-3,
                lr_scheduler_type="linear",
                eval_strategy="epoch",
                save_strategy="no",
                logging_strategy="no",
                label_names=["labels"],
                remove_unused_columns=False,
                report_to="none",
                disable_tqdm=True,
                use_cpu=not torch.cuda.is_available(),
                seed=seed,
            ),
            data_collator=collate,
            train_dataset=prepare(train),  # type: ignore[arg-type]
            eval_dataset=prepare(dev),  # type: ignore[arg-type]
            compute_metrics=metrics,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    scores = [row["eval_f1"] for row in trainer.state.log_history if "eval_f1" in row]
    return time.monotonic() - started, max(scores)


def ours(encoder: str, train, dev, epochs: int, seed: int, cache: Path) -> tuple[float, float]:
    """(seconds, best dev F1) of `boustro fit` on the same sentences; prints how long its parts took."""
    started, used = time.monotonic(), time.process_time()
    record = boustro.Tagger(encoder, "mlp", cache=cache, epochs=epochs).fit(train, dev=dev, seed=seed).record
    seconds, used = time.monotonic() - started, time.process_time() - used
    parts = f"encoding {record['encode_seconds']:.1f} s, training {record['train_seconds']:.1f} s"
    print(f"    {parts}, processor time of all {used:.1f} s")
    return seconds, max(record["dev_curve"])


def main(
    train: Path, dev: Path, encoder: str = "starter", epochs: int = 3, sentences: int | None = None, seed: int = 1
) -> None:
    """Measure both on the first `sentences` of the training set, and print the ratio."""
    train_data, dev_data = read_data(train)[:sentences], read_data(dev)
    forward_path, backward_path = (part.place for part in Spec.parse(encoder).parts)
    print(f"{len(train_data):,} sentences, {epochs} epochs, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as cache:
        cold, f1 = ours(encoder, train_data, dev_data, epochs, seed, Path(cache))
        print(f"boustro, empty cache      {cold:8.1f} s   dev F1 {f1:.2f}", flush=True)
        warm, f1 = ours(encoder, train_data, dev_data, epochs, seed, Path(cache))
        print(f"boustro, filled cache     {warm:8.1f} s   dev F1 {f1:.2f}", flush=True)
    plain, f1 = plain_loop(forward_path, backward_path, train_data, dev_data, epochs, seed)
    print(f"Trainer, frozen pair      {plain:8.1f} s   dev F1 {f1:.2f}")
    print(f"ratio: {plain / cold:.1f} times faster with an empty cache, {plain / warm:.1f} times with a filled one")


if __name__ == "__main__":
    tyro.cli(main)
