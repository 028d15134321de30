"""Corpora in, documents out: an iterator of strings, one a document, read as a stream.

A corpus is a text file, a JSONL file, either of them compressed (.gz, .bz2, .xz), a folder of such files,
a stream of text (`/dev/stdin`, `<(zcat …)`), or the name of a dataset on the Hugging Face hub. In a text file a
blank line ends a document, so that a file of any size streams; `split="file"` or `"line"` says otherwise. In a
JSONL file each line holds one document under `text_key`.
"""

import bz2
import gzip
import json
import lzma
import select
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

Split = Literal["blank-line", "line", "file"]
STANDARD_INPUT = Path("-")
BLOCK = 1 << 16  # bytes read at once
OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def read_documents(corpora: Iterable[str], text_key: str = "text", split: Split = "blank-line") -> Iterator[str]:
    """Documents of all corpora in the order given; empty ones are passed over.

    Raises `FileNotFoundError` for a corpus that is neither here nor on the hub, and `ValueError`,
    with `file:line`, for bytes that are not UTF-8, a line that is not JSON and a missing key.
    """
    for corpus in corpora:
        path = Path(corpus)
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
            if not files:
                raise ValueError(f"{corpus}: the folder holds no file")
            for file in files:
                yield from _read_file(file, text_key, split)
        elif path.exists():
            yield from _read_file(path, text_key, split)
        else:
            yield from _read_dataset(corpus, text_key)


def is_stream(corpus: str) -> bool:
    """Whether a corpus can be read only once."""
    path = Path(corpus)
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a text file, compressed or not, as strict UTF-8.

    A line ends with LF, CR LF or CR, and with nothing else. Raises `ValueError`, with `file:line`, for bytes that
    are not UTF-8 and for a damaged compressed file.
    """
    return (line for line in read_arriving(path) if line is not None)


def read_arriving(path: Path) -> Iterator[tuple[int, str] | None]:
    """The same, and `None` wherever all that has arrived was given and more is to be waited for (pipes, terminals).

    The path `-` is standard input.
    """
    name = "standard input" if path == STANDARD_INPUT else path
    with _open_binary(path) as file:
        number = 0
        try:
            for line in _split_lines(file):
                if line is None:
                    yield None
                    continue
                number += 1
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{name}:{number}: byte 0x{line[error.start]:02x} is not UTF-8; "
                        "convert the file first, for example with iconv -f latin1 -t utf8"
                    ) from error
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{name}: the compressed file is damaged after line {number}: {error}") from error
        except OSError as error:
            if error.errno is not None:  # the disk's word, not the decompressor's
                raise
            raise ValueError(f"{name}: the compressed file is damaged after line {number}: {error}") from error


def _split_lines(file: Any) -> Iterator[bytes | None]:
    """Lines of a binary file without their ends, as they arrive; `None` where reading on would wait."""
    begun: list[bytes] = []  # a line whose end has not come yet
    after_return = False
    while block := file.read1(BLOCK):
        if after_return and block[:1] == b"\n":  # the second half of CR LF
            block = block[1:]
        after_return = block[-1:] == b"\r"
        lines = [*block.splitlines(), b""] if block[-1:] in (b"\r", b"\n", b"") else block.splitlines()
        if len(lines) > 1:
            yield b"".join((*begun, lines[0]))
            yield from lines[1:-1]
            begun.clear()
        begun.append(lines[-1])
        if not _is_ready(file):
            yield None
    if last := b"".join(begun):
        yield last


def _is_ready(file: Any) -> bool:
    """Whether something, or the end, can be read without waiting."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):  # no file of the system's
        return True


def _open_binary(path: Path) -> IO[bytes]:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file to read")
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return OPENERS.get(path.suffix, open)(path, "rb")  # type: ignore[operator]


def _read_file(path: Path, text_key: str, split: Split) -> Iterator[str]:
    suffixes = [s for s in path.suffixes if s not in OPENERS]
    if suffixes and suffixes[-1] in (".jsonl", ".ndjson"):
        yield from _read_jsonl(path, text_key)
        return
    lines: list[str] = []
    for _, line in read_lines(path):
        lines.append(line)
        if split == "line" or (split == "blank-line" and not line.strip()):
            yield from _document(lines)
            lines = []
    yield from _document(lines)


def _document(lines: list[str]) -> Iterator[str]:
    """The lines as one text, without the blank ones at its ends."""
    full = [i for i, line in enumerate(lines) if line.strip()]
    if full:
        yield "\n".join(lines[full[0] : full[-1] + 1])


def _read_jsonl(path: Path, text_key: str) -> Iterator[str]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object ({error})") from error
        if not isinstance(record, dict) or not isinstance(record.get(text_key), str):
            keys = ", ".join(record) if isinstance(record, dict) else type(record).__name__
            raise ValueError(
                f"{path}:{number}: no text under the key {text_key!r} (found: {keys}); name it with --text-key"
            )
        if not record[text_key].isascii():
            try:
                record[text_key].encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"{path}:{number}: the text holds half a character ({error.reason})") from error
        if record[text_key].strip():
            yield record[text_key]


def _read_dataset(name: str, text_key: str) -> Iterator[str]:
    """A dataset of the hub, streamed; `name:configuration` chooses a configuration.

    What ends in a dot and letters is meant as a file; names like `wiki-2.0` are not.
    """
    ending = Path(name.split(":")[0]).suffix[1:]
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or ending.isalpha():
        raise FileNotFoundError(f"{name}: no such file or folder")
    import datasets

    repository, _, configuration = name.partition(":")
    try:
        rows = datasets.load_dataset(repository, configuration or None, split="train", streaming=True)
    except Exception as error:  # the hub's client raises a dozen kinds
        raise FileNotFoundError(
            f"{name}: no such file or folder, and no dataset of this name could be read: {error}"
        ) from error
    for row in rows:
        text = row.get(text_key)  # type: ignore[union-attr]
        if not isinstance(text, str):
            raise ValueError(
                f"{name}: no text under the key {text_key!r} (found: {', '.join(row)}); name it with --text-key"
            )
        if text.strip():
            yield text
