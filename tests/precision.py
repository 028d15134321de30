"""A tolerance belongs to a dtype."""

import torch

from boustro.hardware import uses_bf16


def tolerance(fp32: float, bf16: float) -> float:
    """That of the dtype which is computed in here where nothing names one."""
    return bf16 if uses_bf16(torch.device("cpu")) else fp32
