"""`boustro serve`: trained folders over HTTP.

torch is imported when the command runs, so that its help does not wait for it.
"""

import os
import signal
import sys
from typing import Any

from boustro.apps.serve.http import HttpOptions, ServeLimits, listen, require_serve, run_app
from boustro.options import OptionError, Positional
from boustro.text.places import LM, ServedModel


def serve(
    folders: Positional[tuple[ServedModel, ...]],
    http: HttpOptions = HttpOptions(),  # noqa: B008 (frozen)
    limits: ServeLimits = ServeLimits(),  # noqa: B008 (frozen)
    encoder: LM | None = None,
    device: str | None = None,
) -> None:
    """Serve trained folders over HTTP, with a page to try them, until Ctrl+C or SIGTERM.

    POST /v1/predict and /v1/embed; GET /v1/models, /livez, /readyz, /metrics and /openapi.json.

    Args:
        folders: Folders that boustro fit wrote; NAME=DIR serves one under another name.
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps. By default the best available.
    """
    if not folders:
        raise OptionError("name at least one folder that boustro fit wrote")
    require_serve("boustro serve")
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars do not belong into a log
    from boustro.apps.serve.app import Service, make_service
    from boustro.apps.serve.models import Served, name_folders

    named = name_folders(folders)

    def open_models() -> dict[str, Served]:
        from boustro.apps.serve.models import open_model

        opened = {name: open_model(name, folder, device, encoder) for name, folder in named.items()}
        print(f"serving {', '.join(f'{name} ({model.task})' for name, model in opened.items())}", file=sys.stderr)
        return opened

    def failed() -> Any:
        os.kill(os.getpid(), signal.SIGTERM)

    with listen(http) as listener:  # a port that is taken is said before a model is loaded
        service = Service(open_models, limits)
        run_app(make_service(service, http, failed), http, listener, service.stop)
    if service.failure is not None:
        raise service.failure
