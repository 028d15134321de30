"""Commands in processes of their own, which a test may kill: forked from a server that has imported everything once.

The functions here run in such a process: they break a run at a chosen place and then call the command line.
"""

import multiprocessing
import os
import signal
import time
import traceback
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["boustro.apps.cli.main", "boustro.lab.pretrain.run", "transformers.models.gpt2.modeling_gpt2"]
)


def start(target, arguments: list[str] | None, errors: Path, *rest: object, **environment: str):
    """Start `target(*rest)`, then the command if there is one, with stderr in a file; returns the process."""
    errors.touch()
    process = CONTEXT.Process(target=_run, args=(target, rest, arguments, str(errors), environment))
    process.start()
    return process


def finish(process, seconds: float = 300.0) -> int:
    """Its exit code; -9 for a process that was killed."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"still running after {seconds} s")
    return process.exitcode


def _run(target, rest, arguments: list[str] | None, errors: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests were started in the background
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    multiprocessing.set_start_method("fork", force=True)  # as from a shell, for the processes that read ahead
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    try:
        target(*rest)
    except BaseException:
        traceback.print_exc()
        os._exit(99)
    if arguments is None:
        os._exit(0)
    from boustro.apps.cli.main import main

    os._exit(main(arguments))


def undisturbed() -> None:
    """Nothing happens to this run."""


def killed_in_micro_batch(number: int) -> None:
    """kill -9 in the middle of the micro-batch of this number, counted from the start of the process."""
    _in_micro_batch(number, lambda: os.kill(os.getpid(), signal.SIGKILL))


def killed_in_sync(number: int) -> None:
    """kill -9 just before the file of this number reaches the disk, counted from the start of the process."""
    from boustro import store

    sync, calls = store.sync, []

    def fatal(path):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(path)

    store.sync = fatal


def signalled_in_micro_batch(number: int, name: str) -> None:
    """A signal arrives in the middle of the micro-batch of this number."""
    _in_micro_batch(number, lambda: os.kill(os.getpid(), signal.Signals[name]))


def signalled_in_a_destructor() -> None:
    """SIGTERM arrives in the first micro-batch while Python destroys an object: what a handler raises there is lost."""

    class Dying:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    _in_micro_batch(1, Dying)


def signalled_in_validation() -> None:
    """SIGTERM arrives while the first validation loss is measured."""
    from boustro.lab.pretrain.trainer import PretrainTrainer

    evaluate = PretrainTrainer.evaluate

    def signalled(self, *arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *arguments, **options)

    PretrainTrainer.evaluate = signalled


def interrupted_twice(number: int) -> None:
    """Ctrl-C in a micro-batch, and again when it is not over a little later."""

    def interrupt() -> None:
        from boustro.lab.pretrain import distributed as signals

        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # at once: delivered twice by a launcher, and ignored
        signals.TWICE_SECONDS = 0.0
        os.kill(os.getpid(), signal.SIGINT)

    _in_micro_batch(number, interrupt)


def _in_micro_batch(number: int, act) -> None:
    from boustro.lab.pretrain.trainer import PretrainTrainer

    compute, calls = PretrainTrainer.compute_loss, []

    def acting(self, *arguments, **options):
        loss = compute(self, *arguments, **options)
        calls.append(1)
        if len(calls) == number:
            act()
        return loss

    PretrainTrainer.compute_loss = acting


def sharded_training(lm: str, out: str, checkpoint: str, steps: list[int]) -> None:
    """Train under FSDP2 for these steps, from a checkpoint if there is one; leave losses and a checkpoint in `out`."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    from boustro.lab.pretrain.trainer import MuonAdamW

    dist.init_process_group("gloo")
    module = make_module(lm)
    optimizer = MuonAdamW(module.lm, lr=0.02, bf16=False)
    before = {id(parameter): name for name, parameter in module.named_parameters()}
    for layer in module.lm.base_model.layers:
        fully_shard(layer)
    fully_shard(module)
    sharded = dict(module.named_parameters())
    for group in optimizer.param_groups:  # as accelerate does: the groups stay, their parameters are exchanged
        group["params"] = [sharded[before[id(parameter)]] for parameter in group["params"]]
    train_steps(module, optimizer, out, checkpoint, steps)
    dist.destroy_process_group()


def make_module(lm: str):
    """An LM with its loss: of a masked one that of the objective prefix-suffix."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    from boustro.lab.masked import MaskedLMWithLoss
    from boustro.models.loss import LMWithLoss
    from boustro.models.pretrained import architecture_kind

    if architecture_kind(AutoConfig.from_pretrained(lm)) == "masked":
        return MaskedLMWithLoss(AutoModelForMaskedLM.from_pretrained(lm))
    return LMWithLoss(AutoModelForCausalLM.from_pretrained(lm))


def make_batch(module, step: int) -> dict:
    """Four rows for a step; of a masked LM each is split in two, with any number of targets."""
    import numpy as np
    import torch

    from boustro.lab.masked import MaskedLMWithLoss
    from boustro.lab.objectives.examples import collate, keyed_generator
    from boustro.lab.objectives.masking import Masking
    from boustro.lab.objectives.prefix_suffix import prefix_suffix
    from boustro.lab.objectives.split import PrefixSuffixOptions

    if not isinstance(module, MaskedLMWithLoss):
        ids = torch.randint(400, (4, 9), generator=torch.Generator().manual_seed(step))
        return {"input_ids": ids, "targets": ids.roll(1, dims=1)}
    rng, special = np.random.default_rng(step), np.zeros(module.lm.config.vocab_size, bool)
    special[[0, 400]] = True
    masking = Masking(mask_id=400, end_id=0, special=special)
    rows = [
        prefix_suffix(rng.integers(1, 400, 24), keyed_generator(1, step, row), masking, PrefixSuffixOptions())
        for row in range(4)
    ]
    return collate(rows)


def train_steps(module, optimizer, out: str, checkpoint: str, steps: list[int]) -> list[float]:
    """Steps of a batch of four, shared out over the processes; writes a checkpoint with the losses into `out`."""
    import torch
    from transformers import TrainerState, get_wsd_schedule

    from boustro.lab.pretrain.checkpoints import load_steps, load_weights, write_checkpoint
    from boustro.lab.pretrain.distributed import all_reduce_sum, num_processes, process_index

    scheduler = get_wsd_schedule(optimizer, num_warmup_steps=2, num_decay_steps=2, num_training_steps=6)
    if checkpoint:
        load_weights(checkpoint, module)
        load_steps(checkpoint, optimizer, scheduler)
    losses = []
    share = 4 // num_processes()
    for step in steps:
        batch, part = make_batch(module, step), slice(process_index() * share, (process_index() + 1) * share)
        mine = {name: rows[part] for name, rows in batch.items()}
        if "positions" in mine:  # as the Trainer gives it: the mean over processes of their numbers of targets
            mine["num_targets"] = (batch["targets"] != -100).sum().float() / num_processes()
        loss = module(**mine)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(all_reduce_sum(loss.item())[0] / num_processes())
    write_checkpoint(Path(out), module, optimizer, scheduler, TrainerState(), {"losses": losses})
    return losses
