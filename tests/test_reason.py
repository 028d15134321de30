"""What another library's error says, fitted into a sentence of ours."""

import pytest

from boustro.errors import reason


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no such repository.\nMore about it:"), "no such repository"),
        (ValueError("\n  unknown model type:\n"), "unknown model type"),
        (OSError(), "OSError"),
        (RuntimeError("  \n"), "RuntimeError"),
    ],
)
def test_reason_is_one_line_without_the_mark_at_its_end_and_never_empty(error: Exception, said: str) -> None:
    assert reason(error) == said
