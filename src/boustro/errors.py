"""What another library's error says, fitted into a sentence of ours."""


def reason(error: Exception) -> str:
    """The first line of its message without the mark at its end, or its class's name where it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(":. ") if lines else type(error).__name__
