"""What another library's error says, fitted into a sentence of ours."""

import pytest

from boustro.errors import lacks_memory, reason


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no such repository.\nMore about it:"), "no such repository"),
        (ValueError("\n  unknown model type:\n"), "unknown model type"),
        (OSError(), "OSError"),
        (RuntimeError("  \n"), "RuntimeError"),
        (KeyError("shape"), "no 'shape'"),
    ],
)
def test_reason_is_one_line_without_the_mark_at_its_end_and_never_empty(error: Exception, said: str) -> None:
    assert reason(error) == said


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 20 MiB"), True),
        (RuntimeError("The size of tensor a (3) must match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_too_little_memory_is_told_from_other_errors(error: Exception, lacks: bool) -> None:
    assert lacks_memory(error) is lacks
