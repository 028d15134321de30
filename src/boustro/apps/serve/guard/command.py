"""`boustro guard`: a proxy before an OpenAI-compatible server that lets no text pass which its tagger has not read.

torch is imported when the command runs, so that its help does not wait for it.
"""

import os
import sys
from typing import Any

from tyro.conf import Positional

from boustro.apps.serve.guard.options import GuardLimits, GuardOptions, check_upstream
from boustro.apps.serve.http import LOOPBACK, HttpOptions, host_name, listen, read_tokens, require_serve, run_app
from boustro.options import OptionError
from boustro.tasks import task_class, task_of
from boustro.text.places import LM, Model


def guard(
    tagger: Positional[Model],
    upstream: str,
    redaction: GuardOptions = GuardOptions(),  # noqa: B008 (frozen)
    http: HttpOptions = HttpOptions(),  # noqa: B008 (frozen)
    limits: GuardLimits = GuardLimits(),  # noqa: B008 (frozen)
    encoder: LM | None = None,
    device: str | None = None,
) -> None:
    """Stand before an OpenAI-compatible server and leave out what a tagger finds, until Ctrl+C or SIGTERM.

    Clients use http://127.0.0.1:8000/v1 as their base URL. POST /v1/chat/completions and /v1/completions, streamed or
    not, and GET /v1/models are passed on; everything else is refused.

    Args:
        tagger: A tagger folder that boustro fit wrote.
        upstream: Address of the server behind, such as https://api.openai.com/v1.
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps. By default the best available.
    """
    url = check_upstream(upstream)
    require_serve("boustro guard")
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars do not belong into a log
    key = read_tokens(redaction.key_file)[0] if redaction.key_file else None
    if http.token_file and not key:
        raise OptionError("with --token-file the clients' tokens are for this proxy: give it the upstream's --key-file")
    if url.startswith("http:") and host_name(url.removeprefix("http://").partition("/")[0]) not in LOOPBACK:
        print(f"note: {url} is not encrypted: whoever sees the network sees what passes", file=sys.stderr)
    kind: Any = task_class(task_of(tagger))
    if not hasattr(kind, "live"):
        raise ValueError(f"{tagger} is a folder of the task {kind.name}; name a tagger, which finds entities")
    from boustro.apps.serve.guard.app import make_guard
    from boustro.apps.serve.guard.checker import Checker
    from boustro.apps.serve.guard.relay import Relay
    from boustro.apps.serve.guard.upstream import Upstream

    with listen(http) as listener:  # a port that is taken is said before a model is loaded
        opened = kind.from_pretrained(tagger, encoder=encoder, cache=False, device=device)
        checker = Checker(opened, redaction.wanted, redaction.with_, redaction.delay, limits.timeout)
        opened.live(delay=redaction.delay)  # a tagger that cannot, says so now
        relay = Relay(checker, Upstream(url, limits, key), redaction, limits)
        run_app(make_guard(relay, http, limits), http, listener)
