"""Parquet, Arrow and Feather files: batches of rows with the types of their columns, read and written by pyarrow."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from boustro.errors import reason

BATCH_ROWS = 1000


def schema_of(path: Path) -> Any:
    """The types of the columns of a file, a `pyarrow.Schema`; `ValueError` for a damaged one."""
    with _damaged(path):
        return _opened(path)[0]


def read_record_batches(path: Path, only: str | None) -> Iterator[Any]:
    """All rows, or those of one column, where there is one of this name."""
    done = 0
    with _damaged(path, lambda: f" after row {done}"):
        schema, read = _opened(path)
        for batch in read(schema.names if only is None or only not in schema.names else [only]):
            yield batch
            done += len(batch)


def _opened(path: Path) -> tuple[Any, Callable[[list[str]], Iterator[Any]]]:
    """The schema, and a function from names of columns to batches of them."""
    from pyarrow import ipc, memory_map, parquet

    form = columns_format(path)
    if form == "parquet":
        table = parquet.ParquetFile(path)
        return table.schema_arrow, lambda names: table.iter_batches(BATCH_ROWS, columns=names)
    is_file = form == "arrow"
    opened: Any = (ipc.open_file if is_file else ipc.open_stream)(memory_map(str(path)))

    def read(names: list[str]) -> Iterator[Any]:
        for batch in map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened:
            yield batch if names == opened.schema.names else batch.select(names)

    return opened.schema, read


@contextmanager
def _damaged(path: Path, where: Callable[[], str] = str) -> Iterator[None]:
    import pyarrow  # of datasets

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path}: the file is damaged{where()}: {reason(error)}") from error


class Types:
    """The types of the columns of records, of all that it has seen: `schema`.

    Whole numbers that need more than 64 bits make their column one of decimals.
    """

    def __init__(self, schema: Any = None) -> None:
        import pyarrow

        self.schema = pyarrow.schema([]) if schema is None else schema

    def see(self, records: Sequence[dict[str, Any]], name: Path | str) -> None:
        """Widen the types to those of more records; `ValueError` where a column has values of types that differ."""
        import pyarrow

        for key in dict.fromkeys(key for record in records for key in record):
            values = [record.get(key) for record in records]
            try:
                try:
                    kind = pyarrow.array(values).type
                except OverflowError:
                    kind = pyarrow.array([Decimal(v) if type(v) is int else v for v in values]).type
            except (OverflowError, TypeError, ValueError) as error:
                raise _misfit(name, key, error) from None
            self.widen(pyarrow.schema([(key, kind)]), name)

    def add(self, table: Any) -> None:
        """The columns of a `files.Rows`: text of a CSV file, else of no type yet where the file does not say it."""
        import pyarrow

        kind = pyarrow.string() if table.form == "separated" else pyarrow.null()
        self.widen(
            table.schema or pyarrow.schema([(table.padded.get(key, key), kind) for key in table.keys]), table.path
        )

    def widen(self, schema: Any, name: Path | str) -> None:
        """Widen the types to those of a file or of some columns; raises as `see`."""
        import pyarrow

        try:
            self.schema = pyarrow.unify_schemas([self.schema, schema], promote_options="permissive")
        except (TypeError, ValueError) as error:
            raise _misfit(name, ", ".join(schema.names), error) from None

    def table(self, records: Sequence[dict[str, Any]]) -> Any:
        """Records as a `pyarrow.Table` with these types."""
        import pyarrow

        return pyarrow.Table.from_pylist(list(records), schema=self.schema)

    def behind(self, schema: Any) -> Any:
        """Another schema, with what it says of itself, and these columns behind its own."""
        import pyarrow

        return pyarrow.schema([*schema, *self.schema], metadata=schema.metadata)

    def join(self, batch: Any, rows: Sequence[int], records: Sequence[dict[str, Any]]) -> Any:
        """Some rows of a `pyarrow.RecordBatch`, each with a record of these types behind it."""
        import pyarrow

        batch = batch if len(rows) == len(batch) else batch.take(pyarrow.array(rows, pyarrow.int64()))
        columns = [*batch.columns, *self.table(records).columns]
        return pyarrow.Table.from_arrays(columns, schema=self.behind(batch.schema))


def _misfit(name: Path | str, key: str, error: Exception) -> ValueError:
    what = f"{name}: the values under {key!r} do not fit into one table ({reason(error)})"
    return ValueError(f"{what}; write .jsonl, .csv or .xlsx")


def columns_format(path: Path) -> str:
    """Find which form a file has, as `write_columns` names it, by its first bytes."""
    with path.open("rb") as file:
        return {b"PAR1": "parquet", b"ARRO": "arrow"}.get(file.read(4), "stream")


def write_columns(schema: Any, tables: Iterable[Any], target: Path, form: str) -> None:
    """Write `pyarrow.Table`s or batches of one schema, one after the other; another form than parquet is Arrow: a file,
    or a stream."""
    import pyarrow
    from pyarrow import parquet

    writers = {"parquet": parquet.ParquetWriter, "stream": pyarrow.ipc.new_stream}
    with writers.get(form, pyarrow.ipc.new_file)(str(target), schema) as writer:
        for table in tables:
            writer.write_table(table)
