"""One run in several processes (torchrun, accelerate launch): ranks, collectives, and tensors sharded by FSDP2.

With one process no torch.distributed is needed. Collectives over single numbers run over gloo on the CPU, so they
never wait for a GPU. FSDP2 leaves a DTensor with this process's rows of a tensor: `whole` gathers the rows of all
processes, `like` shards a whole tensor again. A plain tensor (one process, or DDP) is whole already.

SIGTERM and SIGINT during a long run: recorded when they arrive, handled between (micro-)batches.

After the first signal the run writes a checkpoint of its last whole step and exits. A second SIGINT, at least two
seconds later (a launcher may deliver one Ctrl-C twice), ends it at once, as does any signal while there is nothing
to save yet.
"""

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def num_processes() -> int:
    """Return how many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """Return the rank of this process."""
    return int(os.environ.get("RANK", "0"))


def is_rank0() -> bool:
    """Return whether this process is the one that writes files and messages."""
    return process_index() == 0


def say(message: str) -> None:
    """Print a line on stderr, on rank 0 only."""
    if is_rank0():
        print(message, file=sys.stderr, flush=True)


def all_reduce_max(value: int) -> int:
    """Return the maximum over the processes; a collective."""
    if not _is_distributed():
        return value
    shared = torch.tensor([value])
    dist.all_reduce(shared, dist.ReduceOp.MAX, group=_gloo_group())
    return int(shared.item())


def all_reduce_sum(*values: float) -> list[float]:
    """Return the sum of each value over the processes; a collective."""
    if not _is_distributed():
        return list(values)
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, group=_gloo_group())
    return shared.tolist()


def broadcast_from_rank0(call: Callable[[], Any]) -> Any:
    """Call on rank 0, and return or raise its outcome in every process; a collective. Other ranks do not call it."""
    if not _is_distributed():
        return call()
    answer: list[Any] = [None, None]
    if is_rank0():
        try:
            answer[0] = call()
        except (ValueError, OSError) as error:
            answer[1] = error
    dist.broadcast_object_list(answer, src=0, group=_gloo_group())
    if answer[1] is not None:
        raise answer[1]
    return answer[0]


def destroy_process_group() -> None:
    """Leave the process group, so that the backend does not warn at exit."""
    if dist.is_available() and dist.is_initialized():
        _gloo_group.cache_clear()
        with contextlib.suppress(RuntimeError):  # from another process that has already exited
            dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """Return all rows of a tensor, in every process; a collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharded_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return a whole tensor, sharded as `parameter` is."""
    if not isinstance(parameter, DTensor):
        return tensor
    tensor = tensor.to(parameter.device)
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """Return the state dict with whole tensors; a tied tensor is one object under all its names.

    Call it on the outermost module, which frees what FSDP2 has gathered for a forward pass.
    """
    state = module.state_dict(keep_vars=True)
    gathered = {id(tensor): whole(tensor.detach()) for tensor in state.values()}
    return {name: gathered[id(tensor)] for name, tensor in state.items()}


def distinct_tensors(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each tensor under the first of its names only."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in state.items():
        first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


def _is_distributed() -> bool:
    return num_processes() > 1 and dist.is_initialized()


@functools.cache
def _gloo_group() -> Any:
    return dist.new_group(backend="gloo")


TWICE_SECONDS = 2.0  # launchers repeat a Ctrl-C at once; only a later one is from a person who will not wait


class Stopped(Exception):
    """The run stops because of this signal, between two micro-batches."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """While entered, `received` is 0 or the number of the signal that came; the run sets `worth_saving`."""

    def __init__(self) -> None:
        self.received = 0
        self.worth_saving: Callable[[], bool] = lambda: False
        self._at, self._process = 0.0, os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # other threads may not set handlers
            self._before = {s: signal.signal(s, self._note) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # in a data-loading process, before its first batch
            return
        if not self.worth_saving():
            self.received = number  # an exception in a destructor is lost: then the run stops after the micro-batch
            _say(number, "stopped; nothing was completed since the start, so there is nothing to save")
            raise SystemExit(128 + number)
        now = time.monotonic()
        if self.received and number == signal.SIGINT and now - self._at > TWICE_SECONDS:
            raise KeyboardInterrupt
        if not self.received:
            self.received, self._at = number, now
            _say(number, "writing a checkpoint after this batch, then stopping")


def wait_for_parent() -> None:
    """Ignore signals in a data-loading process: schedulers and terminals signal it too, and its parent ends it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _say(number: int, message: str) -> None:
    """Unbuffered, because a handler may interrupt a write to Python's buffers."""
    if is_rank0():
        os.write(2, f"{signal.Signals(number).name}: {message}\n".encode())
