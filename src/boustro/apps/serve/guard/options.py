"""The options of `boustro guard`. torch is not imported here: the command line lists them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from tyro.conf import arg

from boustro.apps.live.redactor import Written
from boustro.options import Count, CountOrZero, OptionError, Positive, check_options

DROPPED = ("obfuscation", "prompt_filter_results", "content_filter_results", "provider", "native_finish_reason",
           "stop_reason", "token_ids", "prompt_token_ids", "timings", "x_groq")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """What is kept from whom."""

    labels: tuple[str, ...] = ()
    """Labels of the entities that are left out, such as PER EMAIL, or PER,EMAIL. By default all that the tagger has."""
    with_: Annotated[Written, arg(name="with")] = "mask"
    """What stands for an entity: mask ([PER_1], the same for the same name), label ([PER]), or event: nothing, and a
    field of the answer, redactions, tells of it."""
    delay: CountOrZero = 8
    """Words after an entity that are read before a streamed answer goes on: more find more, fewer come sooner."""
    direction: Literal["answers", "prompts", "both"] = "both"
    """What is checked: answers, before the client sees them; prompts, before the upstream sees them; or both."""
    put_back: bool = False
    """Give the client the names of its own prompt again where the answer has their masks."""
    key_file: Path | None = None
    """File with the key for the upstream, which is sent instead of the client's own."""
    drop_fields: tuple[str, ...] = DROPPED
    """Fields of an answer that are left out. Others that are not known and hold text end it with an error."""
    pass_fields: tuple[str, ...] = ()
    """Fields of a request that pass unchecked. Others that are not known and hold text are refused."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.put_back and (self.with_ != "mask" or self.direction == "answers"):
            raise OptionError("put-back needs masks in prompts: --with mask, and --direction prompts or both")

    @property
    def wanted(self) -> list[str] | None:
        """The labels, one by one; `None` for all."""
        return [label for word in self.labels for label in word.split(",") if label] or None

    @property
    def checks_answers(self) -> bool:
        """Whether a tagger reads answers."""
        return self.direction != "prompts"

    @property
    def checks_prompts(self) -> bool:
        """Whether a tagger reads prompts."""
        return self.direction != "answers"


@dataclass(frozen=True, kw_only=True)
class GuardLimits:
    """How much the guard takes at once. What is beyond is refused with a reason; nothing is cut."""

    requests: Count = 256
    """Requests that are read or answered at once; further ones are told to come back (429)."""
    body_kb: Count = 4096
    """Size of a request's body in KiB (413)."""
    answer_kb: Count = 16384
    """Size of an answer of the upstream in KiB, or of one event of a stream (502)."""
    characters: Count = 2_000_000
    """Characters of a request that are checked (413)."""
    held: Count = 100_000
    """Characters of a streamed answer that wait to be checked (502): the last words, and arguments of functions."""
    choices: Count = 16
    """Choices of an answer (400)."""
    idle: Positive = 120.0
    """Seconds without a byte from the upstream (504), or without one taken by the client, until a request is given
    up."""
    timeout: Positive = 60.0
    """Seconds that a piece of text may wait for the tagger (503), and a client may take to send its body (408)."""

    def __post_init__(self) -> None:
        check_options(self)


def check_upstream(url: str) -> str:
    """The address without a slash at its end; `OptionError` for what is no http address."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise OptionError(f"--upstream must be an address such as https://api.example.com/v1, not {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise OptionError("--upstream takes no password and no query: name the key's file with --key-file")
    return url.rstrip("/")
