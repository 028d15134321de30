"""A run's options in the words of the transformers Trainer, and how a batch is shared out.

A batch of 512 segments over 8 processes with micro-batches of 16 is 4 micro-batches a process: the batch is
a global one, so the same options compute the same run on any number of processes.
"""

import sys
from pathlib import Path

import torch
from transformers import TrainingArguments
from transformers.utils.logging import disable_progress_bar

from boustro.models.hardware import best_device, uses_bf16
from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.processes import num_processes, say


def training_arguments(
    config: PretrainConfig, steps: int, validate: bool, folder: Path | None = None
) -> TrainingArguments:
    """The Trainer's arguments; making them also joins this process with the others.

    Checkpoints lie in `folder`, by default where the run keeps them.

    Raises `ValueError` for a batch that processes and micro-batches do not share out evenly.
    """
    device = best_device()
    together = num_processes() * (micro := config.micro_batch_segments or _micro_batch(config, device))
    if config.batch_segments % together:
        processes = f" in each of {num_processes()} processes" if num_processes() > 1 else ""
        raise ValueError(
            f"--batch-segments {config.batch_segments} is no multiple of --micro-batch-segments {micro}{processes}"
        )
    wsd = config.schedule == "wsd"
    if not sys.stderr.isatty():
        disable_progress_bar()
    arguments = TrainingArguments(
        output_dir=str(folder or config.checkpoints),
        max_steps=steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=config.batch_segments // together,
        learning_rate=config.lr,
        lr_scheduler_type="warmup_stable_decay" if wsd else "cosine",
        lr_scheduler_kwargs={"num_decay_steps": round(config.decay * steps)} if wsd else {},
        warmup_steps=round(config.warmup * steps),
        bf16=uses_bf16(device) if config.bf16 is None else config.bf16,
        use_cpu=device.type == "cpu",
        torch_compile=config.compile,
        logging_steps=max(1, min(50, steps // 20)),
        logging_nan_inf_filter=False,  # it would wait for the GPU in every micro-batch, and hide what it finds
        eval_strategy="steps" if validate else "no",
        eval_steps=max(1, steps // max(1, config.evaluations)),
        save_strategy="steps",
        save_steps=10**9,  # by the clock instead, see PretrainTrainer
        seed=config.seed,
        dataloader_num_workers=config.data_workers,
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )
    if arguments.n_gpu > 1:  # one process and several GPUs: nn.DataParallel would multiply the batch
        say(f"{arguments.n_gpu} GPUs are here and one is used; for all, start with torchrun --nproc-per-node")
        arguments._n_gpu = 1
    return arguments


def _micro_batch(config: PretrainConfig, device: torch.device) -> int:
    """The largest divisor of a process's batch that keeps a pass near 4,096 pieces (CPU) or 65,536 (GPU)."""
    share, left = divmod(config.batch_segments, num_processes())
    if left:
        raise ValueError(
            f"--batch-segments {config.batch_segments} cannot be shared out over {num_processes()} processes; "
            "choose a multiple"
        )
    most = max(1, (4096 if device.type == "cpu" else 65536) // config.segment_length)
    return max(n for n in range(1, min(most, share) + 1) if share % n == 0)
