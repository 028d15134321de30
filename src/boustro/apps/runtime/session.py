"""A graph of an exported folder, opened and run; `graph.check_graph` has looked at it before."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from boustro.apps.runtime.graph import check_graph
from boustro.errors import reason

THREADS = "OMP_NUM_THREADS"
"""The environment variable that says how many threads compute, as it does for torch."""


class Session:
    """A graph that runs; `ValueError` for a damaged one, and for one that is not as `boustro export` writes them."""

    def __init__(self, path: Path, inputs: tuple[str, ...]) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("an exported folder needs onnxruntime: pip install 'boustro[onnx]'") from error
        check_graph(path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if os.environ.get(THREADS, "").isdigit():
            options.intra_op_num_threads = int(os.environ[THREADS])
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own classes
            raise ValueError(f"{path}: onnxruntime cannot open it ({reason(error)})") from error
        if (found := [given.name for given in self._session.get_inputs()]) != [*inputs]:
            raise ValueError(f"{path}: its inputs are {', '.join(found)}, not {', '.join(inputs)}; export it again")

    def run(self, given: Mapping[str, np.ndarray]) -> list[Any]:
        """The outputs."""
        return list(self._session.run(None, dict(given)))
