"""An encoder that asks a server for vectors, `remote:HOST:PORT`: a line of JSON there, a line of JSON back."""

import json
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder, Identity, Stream
from boustro.types import Sentence


def ask(address: str, question: Any) -> Any:
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"remote:{address}: expected remote:HOST:PORT")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rw") as file:
        file.write(json.dumps(question) + "\n")
        file.flush()
        return json.loads(file.readline())


def fingerprint(address: str) -> str:
    return ask(address, "about")["weights"]


class RemoteEncoder(Encoder):
    dtype = np.dtype(np.float16)
    num_parameters = 0

    def __init__(self, path: str, reading: Any, *, spec: str, device: Any = None, tokenizer: Any = None) -> None:
        self.spec, self.counts, self._address = spec, Counter(), path
        self._about = ask(path, "about")
        self.streams = (Stream("remote", 1, self._about["width"]),)

    def identity(self) -> Identity:
        return Identity(weights=self._about["weights"], vocabulary="words", pooling="exit", context="sentence")

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        for sentence in sentences:
            yield (np.array(ask(self._address, sentence.words), self.dtype).reshape(len(sentence), 1, -1),)
