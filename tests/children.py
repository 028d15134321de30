"""Commands in processes of their own, which a test may kill: forked from a server that has imported everything once.

The functions here run in such a process: they break a run at a chosen place and then call the command line.
"""

import multiprocessing
import os
import signal
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["boustro.cli", "boustro.pretrain.run", "transformers.models.gpt2.modeling_gpt2"])


def start(target, arguments: list[str], errors: Path, *rest: object, **environment: str):
    """Start `target(*rest)`, then the command, with stderr in a file; returns the process."""
    process = CONTEXT.Process(target=_run, args=(target, rest, arguments, str(errors), environment))
    process.start()
    return process


def finish(process, seconds: float = 60.0) -> int:
    """Its exit code; -9 for a process that was killed."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"still running after {seconds} s")
    return process.exitcode


def _run(target, rest, arguments: list[str], errors: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    from boustro.cli import main

    target(*rest)
    os._exit(main(arguments))


def undisturbed() -> None:
    """Nothing happens to this run."""


def killed_in_micro_batch(number: int) -> None:
    """kill -9 in the middle of the micro-batch of this number, counted from the start of the process."""
    _in_micro_batch(number, lambda: os.kill(os.getpid(), signal.SIGKILL))


def killed_in_sync(number: int) -> None:
    """kill -9 just before the file of this number reaches the disk, counted from the start of the process."""
    from boustro import store

    sync, calls = store._sync, []

    def fatal(path):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(path)

    store._sync = fatal


def signalled_in_micro_batch(number: int, name: str) -> None:
    """A signal arrives in the middle of the micro-batch of this number."""
    _in_micro_batch(number, lambda: os.kill(os.getpid(), signal.Signals[name]))


def signalled_in_validation() -> None:
    """SIGTERM arrives while the first validation loss is measured."""
    from boustro.pretrain.trainer import PretrainTrainer

    evaluate = PretrainTrainer.evaluate

    def signalled(self, *arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *arguments, **options)

    PretrainTrainer.evaluate = signalled


def interrupted_twice(number: int) -> None:
    """Ctrl-C in a micro-batch, and again when it is not over a little later."""

    def interrupt() -> None:
        from boustro.pretrain import signals

        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # at once: delivered twice by a launcher, and ignored
        signals.TWICE_SECONDS = 0.0
        os.kill(os.getpid(), signal.SIGINT)

    _in_micro_batch(number, interrupt)


def _in_micro_batch(number: int, act) -> None:
    from boustro.pretrain.trainer import PretrainTrainer

    compute, calls = PretrainTrainer.compute_loss, []

    def acting(self, *arguments, **options):
        loss = compute(self, *arguments, **options)
        calls.append(1)
        if len(calls) == number:
            act()
        return loss

    PretrainTrainer.compute_loss = acting
