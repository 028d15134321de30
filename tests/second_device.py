"""A second device without having one: tensors in the CPU's memory that say they are elsewhere.

    with second_device("cuda"):
        torch.zeros(3, device="cuda").device            cuda
        torch.zeros(3, device="cuda") + torch.ones(3)   RuntimeError: aten.add.Tensor got tensors on cpu and cuda

Where a tensor is, is a mark on its storage, so that views, gradients and saved tensors have it too. Two modes do it:
`_Calls` sees what Python calls (`.device`, `.to`, `device=`), and `_Operations` every operation below, those of the
backward pass included, and refuses what CUDA refuses. As on CUDA, a number (a tensor without axes) may be anywhere in
arithmetic, an index may be on the CPU, `copy_` goes anywhere, a generator belongs to a device. "mps" refuses float64.
What a device computes otherwise, or not at all, is not pretended.
"""

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU = torch.device("cpu")
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
JOINING = ("cat", "stack")


def place(x: Tensor) -> torch.device:
    """Where a tensor says it is."""
    with torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction():
        return getattr(x.untyped_storage(), "place", CPU)


def put(x: Tensor, device: torch.device) -> Tensor:
    """Mark a tensor, and whatever shares its memory."""
    with torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction():
        x.untyped_storage().place = device  # type: ignore[attr-defined]
    return x


def places(given: Any) -> list[torch.device]:
    """Of all tensors in nested arguments."""
    return [place(x) for x in tree_leaves(given) if isinstance(x, Tensor)]


@contextlib.contextmanager
def second_device(kind: str):
    """See the module; `kind` is "cuda" or "mps"."""
    with _Operations(kind) as operations, _Calls(kind, operations):
        yield torch.device(kind)


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, device: torch.device) -> Tensor:  # type: ignore[override]
        ctx.origin = place(x)
        return put(x.clone(), device)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return put(gradient.clone(), ctx.origin), None


class _Calls(TorchFunctionMode):
    def __init__(self, kind: str, operations: "_Operations") -> None:
        super().__init__()
        self.kind, self.operations = kind, operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return place(args[0])
        if func == Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return place(args[0]).type == "cuda"
        if func in (Tensor.numpy, Tensor.__array__) and place(args[0]) != CPU:
            raise TypeError(f"can't convert {self.kind} device type tensor to numpy. Use Tensor.cpu()")
        if func is Tensor.cpu:
            return self._move(args[0], CPU)
        if func is Tensor.to:
            return self._to(*args, **kwargs)
        if kwargs.get("device") is None:
            self.operations.at_hand = next((p for p in places((args, kwargs)) if p != CPU), CPU)
            try:
                return func(*args, **kwargs)
            finally:
                self.operations.at_hand = CPU
        device = torch.device(kwargs["device"])
        made = func(*args, **kwargs | {"device": CPU})
        return made if device in places(args) else put(made, self._checked(made, device))

    def _to(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if "other" in kwargs or (args and isinstance(args[0], Tensor)):
            other = kwargs["other"] if "other" in kwargs else args[0]
            device, dtype = place(other), other.dtype
        else:
            kwargs.pop("copy", None)
            device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        moved = x if device is None else self._move(x, device, dtype)
        return moved if dtype is None else Tensor.to(moved, dtype)

    def _move(self, x: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
        if place(x).type == device.type:
            return x
        if dtype is not None:  # converted where it is, so that float64 need not exist where it goes
            x = Tensor.to(x, dtype)
        self._checked(x, device)
        moved = _Move.apply(x, torch.device(device.type))
        assert isinstance(moved, Tensor)
        return moved

    @staticmethod
    def _checked(x: Tensor, device: torch.device) -> torch.device:
        if device.type == "mps" and x.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        return torch.device(device.type)


class _Operations(TorchDispatchMode):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.device = torch.device(kind)
        self.at_hand = CPU
        """Where the call is that is at work: what an operation makes out of nothing is made there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        away = any(place(x) != CPU for x in given) if given else self.at_hand != CPU
        if away and name != "copy_":
            self._check(func, name, args, given)
            if isinstance(kwargs.get("generator"), torch.Generator):
                raise RuntimeError(f"Expected a '{self.device}' device type for generator but found 'cpu'")
        made = func(*args, **kwargs)
        if away and name != "copy_":
            for x in tree_leaves(made):
                if isinstance(x, Tensor):
                    put(x, _Calls._checked(x, self.device))
        return made

    def _check(self, func: Any, name: str, args: Any, given: list[Tensor]) -> None:
        must: list[Tensor] = given
        if func is torch.ops.aten.lstm.data:  # of a packed sequence, whose sizes are the CPU's
            must = [x for x in given if x is not args[1] or place(x) != CPU]
        if name in INDEXING:
            indexed = [args[0], *(x for x in args[2:] if isinstance(x, Tensor))]
            indices = [x for x in args[1] if x is not None]
            if place(args[0]) == CPU:
                indexed += indices
            must = indexed
        must = [x for x in must if x.ndim or name in JOINING or place(x) != CPU]
        if len({place(x) for x in must}) > 1:
            raise RuntimeError(
                f"Expected all tensors to be on the same device: {func} got tensors on cpu and {self.device}"
            )
