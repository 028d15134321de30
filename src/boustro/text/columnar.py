"""Parquet, Arrow and Feather files: batches of rows with the types of their columns, read and written by pyarrow.

A file that `datasets` wrote has numbers in the place of classes, and their names in the metadata of its schema:

    {"label": 1}    with    {"label": {"_type": "ClassLabel", "names": ["good", "bad"]}}    →    {"label": "bad"}
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from boustro.errors import reason

BATCH_ROWS = 1000
CLASS = "ClassLabel"


def schema_of(path: Path) -> Any:
    """Return the types of the columns of a file, a `pyarrow.Schema`; `ValueError` for a damaged one."""
    with _damaged(path):
        return _opened(path)[0]


def read_record_batches(path: Path, only: str | None) -> Iterator[Any]:
    """Yield all rows, or those of one column, where there is one of this name."""
    done = 0
    with _damaged(path, lambda: f" after row {done}"):
        schema, read = _opened(path)
        for batch in read(schema.names if only is None or only not in schema.names else [only]):
            yield batch
            done += len(batch)


def arrow_table(given: Any) -> Any:
    """Return a `pyarrow.Table` of what gives itself as Arrow."""
    import pyarrow  # of datasets

    return pyarrow.table(given)


def class_columns(schema: Any) -> dict[str, Any]:
    """Return the columns of a schema that have classes, with what `datasets` says of them."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return with_classes(json.loads(schema.metadata[b"huggingface"])["info"]["features"])
    return {}


def are_alike(one: Any, other: Any) -> bool:
    """Return whether schemas have the same columns, whose numbers stand for the same classes."""
    return one.equals(other) and class_columns(one) == class_columns(other)


def with_classes(features: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with classes, alone or in lists and objects, of features as JSON has them."""
    return {name: feature for name, feature in features.items() if f'"{CLASS}"' in json.dumps(feature)}


def name_classes(record: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the names of classes for their numbers, none for -1, by which `datasets` has a missing one;
    another number without a name stays."""
    return record | {key: _name(record[key], feature) for key, feature in classes.items() if key in record}


def _name(value: Any, feature: Any) -> Any:
    if value is None:
        return None
    names, parts, item = _parts(feature)
    if names is not None:
        return names[value] if isinstance(value, int) and 0 <= value < len(names) else None if value == -1 else value
    if isinstance(value, dict):
        return {key: _name(part, parts.get(key)) for key, part in value.items()}
    return [_name(part, item) for part in value] if isinstance(value, list) and item is not None else value


def _parts(feature: Any) -> tuple[list[str] | None, dict[str, Any], Any]:
    """Return the names of a class, or the features of an object's parts, or that of a list's items."""
    given = feature if isinstance(feature, dict) else {}
    if isinstance(given.get("_type"), str):
        item = given.get("feature")
        objects = item if isinstance(item, dict) and not isinstance(item.get("_type"), str) else {}
        parts = {key: [part] for key, part in objects.items()}  # older files store objects as one of lists
        return (given.get("names", []) if given["_type"] == CLASS else None), parts, item
    return None, given, feature[0] if isinstance(feature, list) and feature else None


def _plain_type(kind: Any, feature: Any = None) -> Any:
    """Return the type of a column without views, which few functions of pyarrow take, and with the names of its
    classes."""
    import pyarrow

    types, (names, parts, item) = pyarrow.types, _parts(feature)
    if names is not None or types.is_string_view(kind):
        return pyarrow.string()
    if types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_dictionary(kind):
        return pyarrow.dictionary(kind.index_type, _plain_type(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pyarrow.struct([part.with_type(_plain_type(part.type, parts.get(part.name))) for part in kind])
    if not hasattr(kind, "value_field"):
        return kind
    part = kind.value_field.with_type(_plain_type(kind.value_type, item))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pyarrow.large_list(part)
    if types.is_list(kind) or types.is_list_view(kind):
        return pyarrow.list_(part)
    return pyarrow.list_(part, kind.list_size) if types.is_fixed_size_list(kind) else kind


def _opened(path: Path) -> tuple[Any, Callable[[list[str]], Iterator[Any]]]:
    """Yield the schema, and a function from names of columns to batches of them."""
    import pyarrow
    from pyarrow import ipc, memory_map, parquet

    form = columns_format(path)
    if form == "parquet":
        table = parquet.ParquetFile(path)
        schema = table.schema_arrow

        def given(names: list[str]) -> Iterable[Any]:
            return table.iter_batches(BATCH_ROWS, columns=names)
    else:
        is_file = form == "arrow"
        opened: Any = (ipc.open_file if is_file else ipc.open_stream)(memory_map(str(path)))
        schema = opened.schema

        def given(names: list[str]) -> Iterable[Any]:
            return map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened

    plain = _plain_schema(schema)

    def read(names: list[str]) -> Iterator[Any]:
        for batch in given(names):
            some = batch if names == batch.schema.names else batch.select(names)
            types = [plain.field(name) for name in names]
            yield some if plain.equals(schema) else some.cast(pyarrow.schema(types, plain.metadata))

    return plain, read


def _plain_schema(schema: Any, classes: Mapping[str, Any] = MappingProxyType({})) -> Any:
    import pyarrow

    fields = [field.with_type(_plain_type(field.type, classes.get(field.name))) for field in schema]
    return pyarrow.schema(fields, schema.metadata)


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
        schema = table.schema or pyarrow.schema([(table.padded.get(key, key), kind) for key in table.keys])
        self.widen(_plain_schema(schema, class_columns(schema)), table.path)

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
        """Return some rows of a `pyarrow.RecordBatch`, each with a record of these types behind it."""
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
