"""Places that a command line names, looked at before anything is loaded: a mistyped path is said at once.

    folder: Positional[Model], data: Positional[DataPlace]   boustro evaluate nerr dev.conll
    boustro: nerr: no such folder; did you mean 'ner'?

A type says what its values should be, as a range does of a number (`options`). What a file holds is judged by who reads
it; here it is only looked whether it is there, and whether it can be what is meant: the kind of a file that is not
plain text, by its first bytes, and how to get at its text.

    b"PK\\x03\\x04…" with word/document.xml inside    →  "a Word document (docx)"
    b"version https://git-lfs…"                      →  "a pointer of Git LFS"
    b"Ada left.\\n"                                   →  None

Nothing is read beyond the start of a file, and the list of names in a zip archive.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from boustro.choose import nearest
from boustro.names import (
    LANGUAGES,
    LANGUAGES_TAGGER,
    LARGE,
    NAMES,
    SHIPPED_TAGGER,
    expand_home,
    is_path,
    is_shipped,
    locate_model,
    packaged,
    prepare_hub,
)
from boustro.store import MANIFEST, Artefact
from boustro.text.rows import PACKED, WORKBOOKS

REMOTE_ADDRESS = re.compile(r"(https?|ftp|s3|gs):/+(?=[^/])")
PREFIXES = ("hf:", "neighbours:")
HUB_NAME = re.compile(r"(?!.*(--|\.\.))(\w[\w.-]*/)?\w[\w.-]*")
"""How a model of the Hub is named: with its owner, or one of the old ones without."""
TEXT_EXPECTED = "give a file, or - for standard input"
NO_TEXT = re.compile("zip archive|workbook|spreadsheet|document|PDF|Office|PowerPoint")
"""Kinds of files that no reader takes; a workbook only where openpyxl is not installed."""


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of place that an option names, and its check."""

    check: Callable[[str], None]
    """Raises `ValueError` or `OSError`, with the way on, for a value that cannot be that."""
    name: str
    """What help calls a value."""


def packaged_tagger(name: str) -> Artefact | None:
    """Return the folder of a tagger of the package, where a name means that: `starter-names`, `starter-large` and
    `languages-names` do, and `names` unless a folder that `boustro fit` wrote has that name here, for `boustro predict
    names` must go on from `fit --out names`."""
    if name not in (SHIPPED_TAGGER, LARGE, LANGUAGES_TAGGER, NAMES):
        return None
    is_here = (Path(name) / MANIFEST).is_file()
    if is_here:
        _say_which(name)
    return None if is_here and name == NAMES else packaged(SHIPPED_TAGGER if name == NAMES else name)


@functools.cache
def _say_which(name: str) -> None:
    """Say which of two models a name is, once in a process."""
    here, packaged = f"the folder {Path(name).absolute()}", "the tagger of the package"
    if name == NAMES:
        print(f"note: {name} is {here}, not {packaged}, which {SHIPPED_TAGGER} always is", file=sys.stderr)
    else:
        print(f"note: {name} is {packaged}, not {here}, which only its whole path names", file=sys.stderr)


def check_model(value: str) -> None:
    """A folder that `boustro fit` wrote, here or, as `owner/name`, on the Hub; or the tagger of the package."""
    path = Path(value)
    if packaged_tagger(value):
        return
    if path.is_dir() and not (path / MANIFEST).exists():
        raise ValueError(f"{value} has no {MANIFEST}: it is incomplete, or no folder that boustro fit wrote")
    if path.is_dir() and Artefact(path).kind is None:
        raise ValueError(f"{path / MANIFEST}: damaged; write the folder again")
    if path.is_dir() or (value.count("/") == 1 and not is_path(value) and not path.parent.exists()):
        return
    if path.exists():
        raise ValueError(f"{value} is a file; the model, a folder that boustro fit wrote, comes first")
    raise missing(value, "folder", "a folder that boustro fit wrote is expected here")


def check_served(value: str) -> None:
    """Check a model, or `NAME=DIR`."""
    name, _, folder = value.rpartition("=")
    check_model(folder if name and not Path(value).exists() else value)


def check_data(value: str, kind: Callable[[Path], str | None] | None = None) -> None:
    """A file of labelled data, or a data set of the Hub."""
    prefix = next((start for start in PREFIXES if value.startswith(start)), "")
    if prefix == PREFIXES[0]:
        return
    expected = "labelled data are expected here; a data set of the Hub is named hf:NAME"
    path = look_at(value.removeprefix(prefix), expected, None if prefix or value.lower().endswith(PACKED) else kind)
    if path.is_dir() and (folder := Artefact(path).kind) is not None:
        raise ValueError(f"{value} is a {folder} folder, and labelled data are expected here")
    if path.is_dir():
        raise ValueError(f"{value} is a folder; for a data set saved there by `datasets` write hf:{value}")


def check_text(value: str, kind: Callable[[Path], str | None] | None = None) -> None:
    """A file of text, a stream, or `-`."""
    if value != "-" and look_at(value, TEXT_EXPECTED, kind).is_dir():
        raise ValueError(f"{value} is a folder; name a file in it")


def check_source(value: str) -> None:
    """A file of text, a stream, `-`, or a folder of files; what a file is `files.DataFile` says."""
    if value != "-" and not Path(value).exists():
        raise missing(value, "file", TEXT_EXPECTED)


def check_corpus(value: str) -> None:
    """A file of text, a folder of files, or a dataset of the Hub."""
    if not is_dataset(value):
        look_at(value, "a file or a folder of text is expected here")


def check_folder(value: str) -> None:
    """A folder of token shards, or of other things that a command wrote."""
    if not Path(value).is_dir():
        raise missing(value, "folder", "a folder that a command of boustro wrote is expected here")


def check_lm(value: str) -> None:
    """A spec: each part of it that can only be a folder is there, and each of the Hub can be loaded."""
    if Path(value).exists():
        return
    for part in value.split("+"):
        path = part.rpartition(":")[2]
        bare = path if Path(path).exists() else path.partition("@")[0]
        if (is_path(bare) or bare.lower().endswith(".gguf")) and not Path(expand_home(bare)).exists():
            what = "file" if bare.lower().endswith(".gguf") else "folder"
            raise missing(part, what, "a model is expected here", bare)
    for part in value.split("+"):
        _check_on_hub(part)


def _check_on_hub(part: str) -> None:
    """`FileNotFoundError` for an LM of the Hub that is not in the cache while the Hub cannot be reached; its client
    would try again and again, and torch would be imported before. A name of the package that is misspelt is said."""
    kind, _, named = part.rpartition(":")
    bare, _, revision = named.partition("@")
    is_lm = kind.partition(":")[0] in ("", "lm", "masked", "backward", "unmasked", "repeated", "sentences")
    is_ours = bare in (LANGUAGES, LANGUAGES_TAGGER) or is_shipped(part)
    if not is_lm or not bare.strip() or is_ours or Path(part).exists() or Path(expand_home(bare)).exists():
        return
    if not HUB_NAME.fullmatch(bare):
        raise missing(part, "folder", "a model is expected here", bare)
    from huggingface_hub import try_to_load_from_cache

    known = try_to_load_from_cache(str(locate_model(bare)), "config.json", revision=revision or None)
    if not isinstance(known, str) and not prepare_hub():
        if near := similar_name(Path(bare)):
            raise FileNotFoundError(f"{bare}: no such folder or model; did you mean {near!r}?")
        why = "it is neither a folder nor in the cache, and the Hub cannot be reached"
        raise FileNotFoundError(f"{bare}: no model could be loaded from this path or name: {why}")


Model = Annotated[Path, Place(check_model, "MODEL")]
ServedModel = Annotated[str, Place(check_served, "MODEL")]
DataPlace = Annotated[Path, Place(check_data, "DATA")]
DataName = Annotated[str, Place(check_data, "DATA")]
TextFile = Annotated[str, Place(check_text, "DATA")]
TextSource = Annotated[str, Place(check_source, "DATA")]
TextPath = Annotated[Path, Place(check_text, "DATA")]
Corpus = Annotated[str, Place(check_corpus, "DATA")]
Folder = Annotated[Path, Place(check_folder, "FOLDER")]
LM = Annotated[str, Place(check_lm, "MODEL")]


def refuse_swapped(values: Iterable[str], example: str) -> None:
    """`ValueError` where the first of the values without an option is a file, and a later one a folder with a model."""
    model, *data = [*values] or [""]
    folders = [value for value in data if Artefact(value).kind is not None]
    if Path(model).is_file() and folders:
        what = f"{folders[0]} is the model, and {model} is a file"
        raise ValueError(f"{what}; the model comes first, as in: boustro {example}")


def look_at(value: str, advice: str, kind_of_path: Callable[[Path], str | None] | None = None) -> Path:
    """Return the path of what is there; `ValueError` for a file that is no text, `FileNotFoundError` for nothing."""
    path = Path(value)
    if not path.exists():
        raise missing(value, "file", advice)
    kind = (kind_of_path or kind_of_file)(path) or ""
    is_read = kind == BOOK and path.suffix.lower() in WORKBOOKS and find_spec("openpyxl")
    if NO_TEXT.search(kind) and not is_read:
        with path.open("rb") as file:
            refuse_kind(path, file.read(1 << 16))
    return path


def missing(value: str, what: str, advice: str, path: str | None = None) -> FileNotFoundError:
    """Return the error for what is not there: the most similar name beside it, else what is expected."""
    if match := REMOTE_ADDRESS.match(value):
        address = f"{match[1]}://{value[match.end() :]}"
        return FileNotFoundError(f"{address} is an address; fetch the file (curl -LO {address}) and name that file")
    place = Path(expand_home(path or value))
    if near := similar_name(place):
        return FileNotFoundError(f"{value}: no such {what}; did you mean {near!r}?")
    return FileNotFoundError(f"{value}: no such {what}; {advice}")


def similar_name(path: Path) -> str | None:
    """Return the most similar name in the folder of a path, without hidden ones."""
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return nearest(path.name, [name for name in names if not name.startswith(".")], cutoff=0.78)


def shown_files(folder: Path) -> list[Path]:
    """Return the files in a folder, in order and relative to it, without hidden ones; `ValueError` where there is
    none."""
    inside = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    if found := [file for file in inside if not any(part.startswith(".") for part in file.parts)]:
        return found
    raise ValueError(f"{folder}: the folder holds no file")


def is_dataset(name: str) -> bool:
    """Return whether a corpus that is not there may be a dataset of the Hub, `name` or `owner/name:configuration`.

    A name that ends in a dot and letters is taken for a file; names like `wiki-2.0` are not.
    """
    ending = Path(name.split(":")[0]).suffix[1:]
    is_file = is_path(name) or name.count("/") > 1 or ending.isalpha() or REMOTE_ADDRESS.match(name)
    return not Path(name).exists() and not is_file


START = 512
"""The number of bytes that show the kind."""

BOOK = "an Excel workbook (xlsx)"
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
    ("xl/workbook.bin", "a binary Excel workbook (xlsb)", SHEET),
    ("xl/", BOOK, EXCEL),
    ("word/", "a Word document (docx)", DOCUMENT),
    ("ppt/", "a PowerPoint file (pptx)", DOCUMENT),
    ("META-INF/container.xml", "an e-book (epub)", CONVERT),
)
"""(the start of a name in a zip archive, kind, the way on)."""
NAMED = {**dict.fromkeys(WORKBOOKS, 1), ".docx": 2, ".pptx": 3}
"""Which of these a damaged archive was to be, by its name."""


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
    """Return the kind of a file with these first bytes, unpacked if its name says so, and the way on; `None` for
    text."""
    begin, how = start[:START], re.DOTALL | re.IGNORECASE
    known_kind = next(((kind, way) for pattern, kind, way in FILE_KINDS if re.match(pattern, begin, how)), None)
    if known_kind is None or known_kind[0] != "a zip archive":
        return known_kind
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):  # a stream shows the first names alone
        headers = re.finditer(rb"PK\x03\x04.{22}(..)..", start, re.DOTALL)
        names = [start[m.end() :][: int.from_bytes(m[1], "little")].decode(errors="replace") for m in headers]
    ending = path.suffix.lower()
    inside = ((kind, way) for begin, kind, way in ZIP_KINDS for name in names if name.startswith(begin))
    kind, way = next(inside, ZIP_KINDS[NAMED[ending]][1:] if ending in NAMED else known_kind)
    is_other = kind == BOOK and ending not in WORKBOOKS and find_spec("openpyxl")
    return kind, f"give it as a file whose name ends in {WORKBOOKS[0]}" if is_other else way
