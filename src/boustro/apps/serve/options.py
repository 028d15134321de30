"""The bounds of the service."""

from dataclasses import dataclass

from boustro.options import Count, Positive, check_options


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """How much the service takes at once. What is beyond is refused with a reason; nothing is cut."""

    requests: Count = 128
    """Requests that are read, wait or are answered at once; further ones are told to come back (429)."""
    body_kb: Count = 1024
    """Size of a request's body in KiB (413)."""
    inputs: Count = 1000
    """Inputs of a request (413)."""
    characters: Count = 100_000
    """Characters of an input (413)."""
    waiting: Count = 1_000_000
    """Characters that wait for a model; a request that finds as many is told to come back (429)."""
    batch: Count = 8192
    """Characters that a model is given at once, of all requests that wait: more are faster for many clients, fewer
    make one client wait less for another."""
    timeout: Positive = 30.0
    """Seconds until a request is given up: to send its body (408), and to be answered (504)."""
    streams: Count = 32
    """Texts that are tagged as they arrive, at once (/v1/live); further ones are told to come back (429)."""
    stream_characters: Count = 1_000_000
    """Characters of such a text (413)."""
    idle: Positive = 60.0
    """Seconds in which nothing of such a text comes, until it is given up (408)."""

    def __post_init__(self) -> None:
        check_options(self)
