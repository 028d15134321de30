"""The kind of a file that is not plain text, by its first bytes, and how to get at its text.

    b"PK\\x03\\x04…" with word/document.xml inside    →  "a Word document (docx)"
    b"version https://git-lfs…"                      →  "a pointer of Git LFS"
    b"Ada left.\\n"                                   →  None

Nothing is read beyond the start of a file, and the list of names in a zip archive.
"""

import re
import zipfile
from pathlib import Path

START = 512
"""The number of bytes that show the kind."""

EXCEL = "save it as CSV (UTF-8), or install what reads it: pip install 'boustro[excel]'"
SHEET, DOCUMENT, UNPACK = "save it as CSV (UTF-8)", "save it as plain text (UTF-8)", "unpack it first"
CONVERT, DATA = "convert it to text first", "give text or labelled data"
FRAME = "read it with pandas, and give the data frame from Python or write it with to_csv"
UTF_8 = "save it in UTF-8, for example with iconv -f {} -t utf-8"

FILE_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.text", "an OpenDocument text (odt)", DOCUMENT),
    (rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.spreadsheet", "a spreadsheet (ods)", SHEET),
    (rb"PK\x03\x04.{26}mimetypeapplication/epub", "an e-book (epub)", CONVERT),
    (rb"PK(\x03\x04|\x05\x06)", "a zip archive", UNPACK),
    (rb"%PDF-", "a PDF", CONVERT),
    (rb"\{\\rtf", "a rich text file (rtf)", DOCUMENT),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file (doc, xls or ppt)", "save it as plain text or CSV"),
    (rb"PAR1[\x00-\x1f]", "a parquet file", FRAME),
    (rb"ARROW1\x00|\xff{4}.{2}\x00\x00", "an Arrow file", FRAME),
    (rb"FEA1\x00", "a Feather file", FRAME),
    (rb"Obj\x01", "an Avro file", CONVERT),
    (rb"SQLite format 3\x00", "an SQLite database", FRAME),
    (rb"\x89HDF\r\n", "an HDF5 file", FRAME),
    (rb"\x93NUMPY", "a NumPy array", CONVERT),
    (rb"\x80[\x02-\x05][\x80-\xff\x00-\x1fc(\]}]", "a pickle", FRAME),
    (rb"\x1f\x8b", "a gzip file", UNPACK + ", or end its name in .gz"),
    (rb"BZh[1-9]1AY&SY", "a bzip2 file", UNPACK + ", or end its name in .bz2"),
    (rb"\xfd7zXZ\x00", "an xz file", UNPACK + ", or end its name in .xz"),
    (rb"\x28\xb5\x2f\xfd", "a zstd file", UNPACK + ", or end its name in .zst"),
    (rb"\x04\x22\x4d\x18", "an lz4 file", UNPACK),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (rb"Rar!\x1a", "a rar archive", UNPACK),
    (rb"(?=.*\x00).{257}ustar", "a tar archive", UNPACK),
    (rb"GGUF[\x00-\x0f]", "a model (GGUF)", DATA),
    (rb".{5}\x00{3}\{\s*\"", "model weights (safetensors)", DATA),
    (rb"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch the file with git lfs pull"),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II\*\x00|MM\x00\*|RIFF.{4}WEBP", "an image", CONVERT),
    (rb"RIFF.{4}(WAVE|AVI )|ID3[\x02-\x04]\x00|OggS\x00|fLaC\x00|\x00{2}.{2}ftyp", "sound or film", CONVERT),
    (rb"\x7fELF|MZ.\x00", "a program", DATA),
    (rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff", "text in UTF-32", UTF_8.format("utf-32")),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", UTF_8.format("utf-16")),
    (rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html[\s>])", "a web page (HTML)", CONVERT),
)
"""(a pattern of the first bytes, kind, the way on); the first that matches."""

ZIP_KINDS: tuple[tuple[str, str, str], ...] = (
    ("xl/", "an Excel workbook (xlsx)", EXCEL),
    ("word/", "a Word document (docx)", DOCUMENT),
    ("ppt/", "a PowerPoint file (pptx)", DOCUMENT),
    ("META-INF/container.xml", "an e-book (epub)", CONVERT),
)
"""(the start of a name in a zip archive, kind, the way on)."""
NAMED = {".xlsx": 0, ".docx": 1, ".pptx": 2}
"""Which of these a damaged archive was to be, by its name."""
PATTERNS = [(re.compile(pattern, re.DOTALL | re.IGNORECASE), kind, way) for pattern, kind, way in FILE_KINDS]


def kind_of_file(path: Path | str) -> str | None:
    """Name the kind of a file, such as "an Excel workbook (xlsx)"; `None` for plain text, and for what is no file."""
    path = Path(path)
    if not path.is_file():  # a stream can be read only once
        return None
    with path.open("rb") as file:
        return (kind_of_start(path, file.read(START)) or (None,))[0]


def refuse_kind(path: Path, start: bytes) -> None:
    """`ValueError`, with the way on, where the first bytes are not plain text's, see `kind_of_start`."""
    if known_kind := kind_of_start(path, start):
        raise ValueError(f"{path}: this is {known_kind[0]}, which is not read as text; {known_kind[1]}")


def kind_of_start(path: Path, start: bytes) -> tuple[str, str] | None:
    """The kind of a file with these first bytes, unpacked if its name says so, and the way on; `None` for text."""
    known_kind = next(((kind, way) for pattern, kind, way in PATTERNS if pattern.match(start[:START])), None)
    if known_kind is None or known_kind[0] != "a zip archive":
        return known_kind
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        names = []
    inside = ((kind, way) for begin, kind, way in ZIP_KINDS for name in names if name.startswith(begin))
    return next(inside, ZIP_KINDS[NAMED[path.suffix.lower()]][1:] if path.suffix.lower() in NAMED else known_kind)
