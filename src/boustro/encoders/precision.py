"""The type that a frozen LM computes in: what is asked for, what a trained folder recorded, or the fastest of here.

    bfloat16    where the hardware is fast at it (`hardware`)
    int8        products of packed models (`models.products`), where a trial on this machine finds them right and
                fastest; a type that changes answers less is taken where it is nearly as fast
    float32     else

The trial takes a tenth of a second. It is made once for a processor, a version of torch and a number of threads, and
kept in the folder of the feature cache. `$BOUSTRO_BF16` decides without it.
"""

import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from boustro.encoders.cache import cache_folder
from boustro.encoders.options import ReadingOptions, RecordedReading
from boustro.hardware import BF16, forced_bf16, has_fast_bf16, uses_bf16
from boustro.locks import lock
from boustro.models.products import INT8, FloatProduct, Int8Product, works
from boustro.store import read_json, write_file

SPEEDS_FILE = "speeds.json"
WORTH_SPEEDUP = 1.25
"""How many times as fast a type must be that changes answers more."""
NUM_INPUTS_TRIED, INPUTS, OUTPUTS, ROUNDS = 128, 576, 1536, 6
_SAID: set[str] = set()


def compute_type(device: torch.device, reading: ReadingOptions, weights: str, packed: bool = False) -> torch.dtype:
    """Return the type that an LM computes in; `weights` is its fingerprint, and `packed` whether it can in int8.

    What was recorded and cannot be had here is computed in float32, see `tell_other_precision`.
    """
    if reading.dtype:
        return getattr(torch, reading.dtype)
    recorded = reading.computed.get(weights) if isinstance(reading, RecordedReading) else None
    if recorded and forced_bf16() is None:
        known = {str(dtype): dtype for dtype in (INT8, torch.bfloat16)}
        wanted = known.get(recorded, torch.float32)
        possible = {INT8: packed and device.type == "cpu" and works(), torch.bfloat16: has_fast_bf16(device)}
        return wanted if possible.get(wanted, True) else torch.float32
    return fastest_type(device, packed)


def float_type(compute: torch.dtype) -> torch.dtype:
    """Return the type of the states."""
    return torch.float32 if compute == INT8 else compute


def refuse_overflow(states: torch.Tensor, name: str, computed: torch.dtype) -> None:
    """`ValueError` for states of an LM that computes in this type, and has values that are no numbers."""
    if states.isfinite().all():
        return
    if computed == torch.float16:
        raise ValueError(
            f"{name}: its states go beyond the range of float16, in which it computes (up to 65,504); "
            "give --dtype bfloat16 or float32"
        )
    raise ValueError(f"{name}: its states are no numbers, so its weights are damaged or of another model; name another")


def fastest_type(device: torch.device, packed: bool) -> torch.dtype:
    """Return that of this machine, for a model whose products may be in int8 or not."""
    if packed and device.type == "cpu" and forced_bf16() is None:
        return choose_type(speeds(torch.get_num_threads()))
    return torch.bfloat16 if uses_bf16(device) else torch.float32


def choose_type(seconds: Mapping[str, float]) -> torch.dtype:
    """Return the fastest of those that were tried, the more exact of those that are nearly as fast."""
    best = torch.float32
    for dtype in (torch.bfloat16, INT8):
        if seconds.get(str(dtype), torch.inf) * WORTH_SPEEDUP < seconds[str(best)]:
            best = dtype
    return best


@lru_cache
def speeds(threads: int) -> dict[str, float]:
    """Seconds of a product in each type that is right here, remembered for this machine."""
    facts = (_processor(), torch.backends.cpu.get_cpu_capability(), f"torch {torch.__version__}", f"{threads} threads")
    key, tried = ", ".join(facts), dict[str, float]()
    with suppress(OSError):  # without a folder that can be written it is tried in each process
        path = cache_folder() / SPEEDS_FILE
        known = _known(path)
        if key in known:
            return known[key]
        with lock(path):  # two trials at once would slow each other
            known = _known(path)
            if key not in known:
                known[key] = tried = _try()
                write_file(path, json.dumps(known, indent=1))
            return known[key]
    return tried or _try()


def _known(path: Path) -> dict[str, dict[str, float]]:
    with suppress(OSError, ValueError):
        known = read_json(path)
        if isinstance(known, dict) and all(
            isinstance(each, dict) and str(torch.float32) in each for each in known.values()
        ):
            return known
    return {}


@torch.inference_mode()
def _try() -> dict[str, float]:
    """Return the shortest of some rounds in turn, so that other load slows all."""
    weight, x = torch.randn(OUTPUTS, INPUTS), torch.randn(NUM_INPUTS_TRIED, INPUTS)
    tried: dict[torch.dtype, Any] = {torch.float32: (FloatProduct(weight), x)}
    if has_fast_bf16(torch.device("cpu")):  # where it is emulated, a product takes a second
        tried[torch.bfloat16] = FloatProduct(weight.bfloat16()), x.bfloat16()
    if works():
        tried[INT8] = Int8Product(weight, None, None, torch.ones(INPUTS)), x
    seconds = dict.fromkeys(map(str, tried), float("inf"))
    for _ in range(ROUNDS):
        for dtype, (product, given) in tried.items():
            started = time.perf_counter()
            product(given)
            seconds[str(dtype)] = min(seconds[str(dtype)], time.perf_counter() - started)
    return seconds


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def told_choice(device: torch.device) -> str:
    """Say in which type packed models compute on a device, and why."""
    name = short_name(str(fastest_type(device, packed=True)))
    if forced_bf16() is not None or device.type != "cpu":
        return f"{name} is used" + ("" if forced_bf16() is None else f", as {BF16}={int(uses_bf16(device))} says")
    times = speeds(torch.get_num_threads())
    tried = ", ".join(f"{1000 * seconds:.1f} ms in {short_name(dtype)}" for dtype, seconds in times.items())
    lacks = "" if str(INT8) in times else "; int8 is not right or not there"
    return f"{name} is used; a product takes {tried}{lacks}"


def short_name(dtype: str) -> str:
    """`torch.bfloat16` → `bf16`."""
    return {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(dtype.removeprefix("torch."), dtype[6:])


def computed_types(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the type that each LM computed in, by the fingerprint of its weights, from `Identity.to_dict`."""
    found: dict[str, str] = {}
    for one in _all_within(identity):
        dtype = one.get("dtype")
        if isinstance(dtype, list) and dtype and isinstance(dtype[0], str) and dtype[0].startswith("torch."):
            found[one["weights"]] = dtype[0]
    return found


def _all_within(identity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield identity
    inner = [*identity.get("parts", []), *(identity[name] for name in ("base", "text") if name in identity)]
    for part in inner:
        if isinstance(part, Mapping):
            yield from _all_within(part)


def tell_other_precision(identity: Mapping[str, Any], reading: ReadingOptions) -> None:
    """Print a line where LMs compute in another type than when a trained folder was made."""
    recorded = reading.computed if isinstance(reading, RecordedReading) and not reading.dtype else {}
    here = computed_types(identity)
    changed = {(recorded[weights], here[weights]) for weights in recorded.keys() & here.keys()}
    for then, now in sorted(pair for pair in changed if pair[0] != pair[1]):
        why = f"as {BF16} says" if forced_bf16() is not None else "which this machine computes in"
        line = (
            f"note: a model computed in {short_name(then)} when this was trained, and does in {short_name(now)} here, "
            f"{why}: probabilities may differ a little"
        )
        if line not in _SAID:
            print(line, file=sys.stderr)
            _SAID.add(line)
