"""Corpora in, documents out: an iterator of strings, one per document, read as a stream.

A corpus is a text file, a file of rows (JSON, CSV, parquet …: `rows`), any of them compressed (.gz, .bz2, .xz, .zst),
a folder of such files, a stream of text (`/dev/stdin`, `<(zcat …)`), or the name of a dataset on the Hugging Face Hub.
In a text file a blank line ends a document, so that a file of any size streams; `split` "file" or "line" changes that.
A row is one document, its text under `text_key`. What a file holds is judged by the end of its name, a text file by its
first line and bytes too: lines of JSON objects with a text are rows, whatever the name.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import re
import select
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

from boustro.given import refuse_half_characters
from boustro.output import print_notices
from boustro.text.places import START, is_dataset, kind_of_start, missing, refuse_kind, shown_files
from boustro.text.rows import Row, saved_rows
from boustro.types import Note

T = TypeVar("T")
Split = Literal["blank-line", "line", "file"]
STANDARD_INPUT = Path("-")
BYTE_ORDER_MARK = "\ufeff"
MARK = BYTE_ORDER_MARK.encode()
BLOCK = 1 << 16  # bytes read at once
SECONDS_TO_SAY = 1.0
"""How long a program that writes into a pipe may take before somebody would wonder what is waited for."""
SMALL_FILE = 1 << 20  # of a file whose lines are kept: they take a few MB
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, OSError)
"""What reading a damaged compressed file raises."""
WESTERN = (
    "lines that are not UTF-8, read as Windows-1252, in which Excel saves its plain CSV; if that is wrong, convert the "
    "file first: iconv -f ENCODING -t utf-8"
)
CONVERT = "convert the file first, for example from Windows-1252, as Excel writes it: iconv -f cp1252 -t utf-8"
OTHER = "save it as UTF-8 (in Excel: CSV UTF-8), or convert it: iconv -f ENCODING -t utf-8"
WHOLE_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Of UTF-8, with more than one byte."""
CUT_OFF = re.compile(rb"([\xc2-\xf4]|[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})\Z")
NOT_WESTERN = re.compile(rb"[\x81\x8d\x8f\x90\x9d\x00-\x08\x0e-\x1f]")
"""Bytes that Windows-1252 does not have, and control characters that no text has."""


def _open_zstd(path: Path, mode: str) -> IO[bytes]:
    import pyarrow  # of datasets

    stream: Any = pyarrow.input_stream(str(path), compression="zstd")
    return io.BufferedReader(stream)


COMMENT = re.compile(rb"#\s*([\w.:-]+\s*=|newdoc|newpar)")
OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstd}
PACKED_STREAMS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
"""Endings of compressed files by the first bytes of a stream, which has no name."""


def read_documents(
    corpora: Iterable[str], text_key: str = "text", split: Split = "blank-line", option: str = "--text-key"
) -> Iterator[str]:
    """Documents of all corpora in the order given, without empty ones; `option` of the command, if any, names the key.

    Raises `FileNotFoundError` for a corpus that is neither a file nor on the Hub, and `ValueError`, with `file:line`,
    for bytes that are not UTF-8, a line that is not JSON and a missing key.
    """
    for corpus in corpora:
        path = Path(corpus)
        if path.is_dir() and (rows := saved_rows(path)):
            yield from _texts(rows, text_key, option)
        elif path.is_dir():
            for file in shown_files(path):
                yield from _read_file(path / file, text_key, split, option)
        else:
            is_file = path.exists()
            yield from (
                _read_file(path, text_key, split, option) if is_file else _read_dataset(corpus, text_key, option)
            )


def is_stream(corpus: str) -> bool:
    """Return whether a corpus can be read only once."""
    path = Path(corpus)
    return path == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def read_lines(path: Path, notes: list[Note] | None = None) -> Iterator[tuple[int, str]]:
    """Return (line number from 1, line without its end) of a text file, compressed or not, as strict UTF-8.

    Only LF, CR LF and CR end a line. A byte order mark that begins a line is left out; joined files have several.
    Raises `ValueError`, with `file:line`, for bytes that are not UTF-8 and for a damaged compressed file. With `notes`,
    a file in Windows-1252 is read too, see `decode_line`.
    """
    return (line for line in read_arriving(path, notes) if line is not None)


def read_arriving(path: Path, notes: list[Note] | None = None) -> Iterator[tuple[int, str] | None]:
    """Yield numbered lines, as `read_lines`, and `None` whenever the next has not arrived yet (pipes, terminals); `-`
    is standard input."""
    return (item and (item[0], decode_line(path, *item, notes)) for item in read_raw_lines(path))


def decode_line(path: Path, number: int, line: bytes, notes: list[Note] | None = None) -> str:
    """Return a line that `read_raw` gave as text; `ValueError`, with `file:line`, where it is not UTF-8.

    With `notes`, which a reader of a form has that may be in another encoding (lines of text, CSV, CoNLL, and neither
    JSON nor CoNLL-U, which are UTF-8 by definition), a line of a file that is in Windows-1252 as a whole is read, and
    noted.
    """
    line = line.rstrip(b"\r\n")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        fault = f"; {CONVERT}" if notes is None or not path.is_file() else _western_fault(path)
        if fault is not None:
            raise ValueError(f"{_name(path)}:{number}: byte 0x{line[error.start]:02x} is not UTF-8{fault}") from error
        assert notes is not None
        text = line.decode("cp1252")
        notes.append(Note(WESTERN, f"{_name(path)}:{number}", repr(text[:60])))
    rest = text.lstrip(BYTE_ORDER_MARK)
    return text if number > 1 and rest[:1] in ("\t", " ") else rest  # there it is a word, alone in its column


def _western_fault(path: Path) -> str | None:
    """Why a file with bytes that are not UTF-8 is not taken for Windows-1252; `None` where it is."""
    facts = path.stat()
    return _fault_of(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _fault_of(path: Path, size: int, written: int) -> str | None:
    """Say what is wrong with a line that is no UTF-8, by what stands in the file, which is known by its size and time.

    No text in Windows-1252 has a whole character of UTF-8 in it but by a rare accident, so a file with one and with
    other bytes is UTF-8 that was damaged; a file that ends within its only one was cut off. In the languages of
    Windows-1252 at most 15% of the letters are not ASCII: another code page (Cyrillic, Greek) has far more.
    """
    letters = foreign = foreign_bytes = 0
    line = b""
    try:
        with open_binary(path) as file:
            for line in file:
                if line.isascii():
                    continue
                if WHOLE_CHARACTER.search(line):
                    return ", and other characters of the file are: it is damaged, or of two encodings; mend this line"
                if NOT_WESTERN.search(line):
                    return f", nor Windows-1252; {OTHER}"
                own = [letter for letter in line.decode("cp1252") if letter.isalpha()]
                letters += len(own)
                foreign += sum(not letter.isascii() for letter in own)
                foreign_bytes += sum(byte > 127 for byte in line)
    except DAMAGE:
        return ", and the file is damaged"
    if (cut := CUT_OFF.search(line)) and foreign_bytes == len(cut[0]):
        return ", and the file may have been cut off within a character; mend its end"
    return f", nor, by its letters, Windows-1252; {OTHER}" if 3 * foreign > letters else None


def read_raw_lines(path: Path) -> Iterator[tuple[int, bytes] | None]:
    """Yield numbered lines as bytes with their ends, as `read_arriving`.

    Raises `ValueError`, with what it is, for a file that is not plain text.
    """
    return _numbered(path, refuse_kind)


class LineSource:
    """The lines of a file as bytes, each time from its beginning; those of a stream once.

    Args:
        keeps: Whether the lines of a small file stay in memory, so that it is opened once, however often it is read.

    Attributes:
        kind: What a file is that was looked at and is no plain text, see `places`; `None` before that.
    """

    def __init__(self, path: Path, keeps: bool = False) -> None:
        self.path: Path = path
        self.kind: str | None = None
        self._stream = None if path.is_file() else read_raw_lines(path)
        self._held: list[tuple[int, bytes] | None] = []
        self._first: list[tuple[int, bytes]] | None = None
        self._keeps = keeps and path.is_file() and path.suffix not in OPENERS and path.stat().st_size <= SMALL_FILE

    def __iter__(self) -> Iterator[tuple[int, bytes] | None]:
        held, self._held = self._held, []
        if self._stream is None:
            if self._keeps and self.first(1):
                return iter(self._first or ())
            self._first = None  # whoever reads the file knows by now what it is
            return iter(held) if held else read_raw_lines(self.path)
        return chain(held, self._stream)

    def first(self, most: int) -> list[tuple[int, bytes]]:
        """Return the first lines of a file, which are kept until it is read; none of one that is no plain text."""
        if self._first is None:
            lines: list[tuple[int, bytes]] = []
            with contextlib.suppress(ValueError):  # which is said when the file is read
                read = islice(_numbered(self.path, self._see), None if self._keeps else most)
                lines += (item for item in read if item is not None)
            self._first, self.kind = lines, self.kind or ""
        return self._first[:most]

    @property
    def is_western(self) -> bool:
        """Whether it is a file in Windows-1252: it has bytes that are not UTF-8, and is not damaged."""
        if self._stream is None:
            for _, line in filter(None, self):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return _western_fault(self.path) is None
        return False

    def _see(self, path: Path, start: bytes) -> None:
        if known_kind := kind_of_start(path, start):
            self.kind = known_kind[0]
            raise ValueError(self.kind)

    def whole(self) -> list[tuple[int, bytes]]:
        """Return all lines, which are kept for whoever reads them next."""
        first, lines = self._first, [item for item in self if item is not None]
        self._first, self._held = first, [*lines]
        return lines

    def look(self, most: int) -> list[tuple[int, str]]:
        """Return the first lines; of a stream, those to the first that is neither blank nor a comment of CoNLL-U."""
        if self._stream is None:
            lines = self.first(most)
        else:
            for item in self._stream:
                self._held.append(item)
                if item is not None and item[1].strip() and not COMMENT.match(item[1]):
                    break
            lines = [item for item in self._held if item is not None]
        texts = ((number, raw.rstrip(b"\r\n").decode(errors="replace")) for number, raw in lines)
        return [(number, text.lstrip(BYTE_ORDER_MARK)) for number, text in texts]


class EndedLine(NamedTuple):
    """A line of a text file with its number, what ends it, whether a byte order mark stood before it, and why it cannot
    be read, with the place."""

    number: int
    line: str
    end: str
    has_mark: bool = False
    problem: str = ""


def read_ended(
    path: Path, notes: list[Note] | None, source: Iterable[tuple[int, bytes] | None] | None = None
) -> Iterator[EndedLine]:
    """Yield the lines of a file as `read_lines` has them, each with its end: "\\n", "\\r\\n", "\\r", or "" for the
    last. One that cannot be read is empty and has its `problem`. They are read from `source` where it is given."""
    for item in read_raw_lines(path) if source is None else source:
        if item is not None:
            number, raw = item
            end = raw[len(raw.rstrip(b"\r\n")) :].decode()
            try:
                line = EndedLine(number, decode_line(path, number, raw, notes), end, raw[:3] == MARK)
            except ValueError as error:
                line = EndedLine(number, "", "", problem=str(error))
            yield line


def _numbered(path: Path, see: Callable[[Path, bytes], None]) -> Iterator[tuple[int, bytes] | None]:
    with open_binary(path) as file:
        number = 0
        try:
            see(path, file.peek(START))  # type: ignore[attr-defined]
            for line in _split_lines(file):
                number += line is not None
                yield None if line is None else (number, line)
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:  # an error of the disk, not of the file
                raise
            message = f"{_name(path)}: the compressed file is damaged after line {number}: {error}"
            raise ValueError(message) from error


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _split_lines(file: Any) -> Iterator[bytes | None]:
    """Lines of a binary file with their ends, as they arrive; `None` whenever reading on would wait."""
    begun: list[bytes] = []  # a line whose end has not come yet
    after_return = False
    while block := file.read1(BLOCK):
        if after_return and block[:1] == b"\n":  # the second half of CR LF
            block = block[1:]
        if block[-1:] == b"\r" and _is_ready(file) and file.peek(1)[:1] == b"\n":
            block += file.read(1)
        after_return = block[-1:] == b"\r"
        lines = block.splitlines(keepends=True)
        lines += [b""] if block[-1:] in (b"\r", b"\n", b"") else []
        if len(lines) > 1:
            yield b"".join((*begun, lines[0]))
            yield from lines[1:-1]
            begun.clear()
        begun.append(lines[-1])
        if not _is_ready(file):
            yield None
    if last := b"".join(begun):
        yield last


def _is_ready(file: Any, seconds: float = 0) -> bool:
    """Return whether something, or the end, can be read without waiting longer."""
    try:
        return bool(select.select([file], [], [], seconds)[0])
    except (OSError, ValueError):  # not a file of the operating system
        return True


def open_binary(path: Path) -> IO[bytes]:
    """Return the bytes of a file, not compressed, or of standard input."""
    if path == STANDARD_INPUT and sys.stdin is None:
        raise ValueError("standard input is closed; name a file to read")
    if not is_stream(str(path)):
        return OPENERS.get(path.suffix, open)(path, "rb")
    is_own = path != STANDARD_INPUT
    stream: Any = open(path if is_own else sys.stdin.fileno(), "rb", closefd=is_own)  # noqa: SIM115 (the caller's)
    if stream.isatty() or not _is_ready(stream, SECONDS_TO_SAY):
        print(f"reading {_name(path)}{' (Ctrl-D ends it)' * stream.isatty()}", file=sys.stderr, flush=True)
    start = stream.peek(START)
    return next((OPENERS[ending](stream) for mark, ending in PACKED_STREAMS.items() if start.startswith(mark)), stream)


def _read_file(path: Path, text_key: str, split: Split, option: str) -> Iterator[str]:
    from boustro.text.files import DataFile  # which reads its lines by this file

    notes: list[Note] = []
    rows = DataFile(path).open(notes=notes, only=text_key, keys=(text_key,))
    given = _noted(rows, notes)
    return _split((line for _, line in given), split) if rows.form == "text" else _texts(given, text_key, option)


def _noted(rows: Iterable[Row], notes: list[Note]) -> Iterator[Row]:
    """Yield rows without the blank ones of tables; notes on them are counted, as a corpus may have any number, and
    printed at its end."""
    counts: Counter[str] = Counter()
    for place, record in rows:
        counts.update(note.what for note in notes)
        notes.clear()
        if not getattr(record, "is_blank", False):
            yield place, record
    print_notices(counts + Counter(note.what for note in notes))


def _split(given: Iterable[str], split: Split) -> Iterator[str]:
    """Yield the documents of plain text."""
    lines: list[str] = []
    for line in given:
        lines.append(line)
        if split == "line" or (split == "blank-line" and not line.strip()):
            yield from _document(lines)
            lines = []
    yield from _document(lines)


def _document(lines: list[str]) -> Iterator[str]:
    """Yield the lines as one text, without the blank ones at its ends."""
    full = [i for i, line in enumerate(lines) if line.strip()]
    if full:
        yield "\n".join(lines[full[0] : full[-1] + 1])


def _texts(rows: Iterable[Row], text_key: str, option: str) -> Iterator[str]:
    """Yield the texts of rows that are not empty."""
    for place, record in rows:
        text = _text(record, text_key, place, option)
        refuse_half_characters(text, place)
        if text.strip():
            yield text


def _read_dataset(name: str, text_key: str, option: str) -> Iterator[str]:
    """Yield a dataset of the Hub, streamed; `name:configuration` chooses a configuration.

    A name that cannot be one, see `places.is_dataset`, is that of a missing file.
    """
    if not is_dataset(name):
        raise missing(name, "file or folder", "a file or a folder of text is expected here")
    import datasets

    repository, _, configuration = name.partition(":")
    try:
        rows = datasets.load_dataset(repository, configuration or None, split="train", streaming=True)
    except Exception as error:  # the Hub's client raises a dozen kinds
        raise FileNotFoundError(
            f"{name}: no such file or folder, and no dataset of this name could be read: {error}"
        ) from error
    yield from _texts(((name, row) for row in rows), text_key, option)


def _text(record: Any, text_key: str, where: str, option: str) -> str:
    """Return the text of one record of a corpus; `ValueError` if it has none."""
    if isinstance(record, dict) and isinstance(record.get(text_key), str):
        return record[text_key]
    keys = ", ".join(record) if isinstance(record, dict) else type(record).__name__
    texts = {key: value for key, value in record.items() if isinstance(value, str)} if isinstance(record, dict) else {}
    longest = max(texts, key=lambda key: len(texts[key]), default="KEY")
    named = f"name it with {shlex.join([option, longest])}" if option else f"rename that of the texts to {text_key}"
    raise ValueError(f"{where}: no text under the key {text_key!r} (found: {keys}); {named}")
