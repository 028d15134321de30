"""One run in several processes (torchrun, accelerate launch): who speaks, and how they agree.

A single process is the case of one, and needs no torch.distributed. What is exchanged here are single
numbers and short texts, over gloo between the hosts: a GPU is never waited for.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def num_processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """Which of them this one is."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Whether this process is the one that writes and says."""
    return process_index() == 0


def say(message: str) -> None:
    """A line on stderr, once for all processes."""
    if is_first():
        print(message, file=sys.stderr, flush=True)


def agree(value: int) -> int:
    """The largest of the values that the processes bring; each must call it, equally often."""
    if not _together():
        return value
    shared = torch.tensor([value])
    dist.all_reduce(shared, dist.ReduceOp.MAX, group=_hosts())
    return int(shared.item())


def add_up(*values: float) -> list[float]:
    """The sum of each value over the processes."""
    if not _together():
        return list(values)
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, group=_hosts())
    return shared.tolist()


def first_decides(decide: Callable[[], Any]) -> Any:
    """What `decide` returns, or raises, in the first process, in all of them; the others do not call it."""
    if not _together():
        return decide()
    answer: list[Any] = [None, None]
    if is_first():
        try:
            answer[0] = decide()
        except (ValueError, OSError) as error:
            answer[1] = error
    dist.broadcast_object_list(answer, src=0, group=_hosts())
    if answer[1] is not None:
        raise answer[1]
    return answer[0]


def part() -> None:
    """Leave the group, so that the backend does not complain at exit."""
    if dist.is_available() and dist.is_initialized():
        _hosts.cache_clear()
        with contextlib.suppress(RuntimeError):  # of another process that is gone already
            dist.destroy_process_group()


def _together() -> bool:
    return num_processes() > 1 and dist.is_initialized()


@functools.cache
def _hosts() -> Any:
    return dist.new_group(backend="gloo")
