"""`fleet.data.batch_of`: columns in memory as a batch, by the schema that a model was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleet.data.columns.blocks import Problems
from fleet.data.columns.records import Batch
from fleet.data.columns.schema import Schema
from fleet.data.formats.arrow_types import check_columns
from fleet.data.formats.from_arrow import records_of
from fleet.data.places.urls import needed
from fleet.errors import UsageError, UsageTypeError

PLACE = "batch_of"


def batch_of(columns: Mapping[str, Any] | Any, schema: Schema) -> Batch:
    """A batch of columns by name (lists, arrays, or a table of pyarrow), as files with them give it: for serving.

    Label and weight may be missing: the batch has none then. A row that cannot be read is an error.

    >>> fleet.data.batch_of({"price": [9.9], "user": ["anna"]}, schema).ids
    """
    given: object = schema
    if not isinstance(given, Schema) or given.file_format() is not None:
        raise UsageTypeError(f"batch_of takes a fleet.data.Schema, got {type(given).__name__}")
    pa = needed("pyarrow", "columns in memory")
    if isinstance(columns, Mapping):
        try:
            columns = pa.table({name: pa.array(values) for name, values in columns.items()})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise UsageError(
                f"batch_of needs columns of one length and kind: {' '.join(str(error).split())[:200]}"
            ) from error
    if not isinstance(columns, pa.Table):
        raise UsageTypeError(f"batch_of takes columns by name or a pyarrow.Table, got {type(columns).__name__}")
    schema = _as_far_as(schema, set(columns.column_names))
    columns = columns.select([name for name in columns.column_names if name in schema.names])
    check_columns(columns.schema, schema, PLACE)
    return schema.batch(records_of(columns, schema, PLACE, lambda: 0, Problems(0.0, grace=0)))


def _as_far_as(schema: Schema, there: set[str]) -> Schema:
    """The schema without a label and a weight that these columns do not make, and what is derived for those alone."""
    for one in schema.derived:
        if set(one.of) <= there:
            there.add(one.name)
    label = schema.label if {*schema.labels} <= there else None
    weight = schema.weight if schema.weight in there else None
    read = {weight, *(one.name for one in schema.all_numbers), *(one.name for one in schema.all_categories)}
    read |= set() if label is None else {*schema.labels}
    derived = []
    for one in reversed(schema.derived):
        if one.name in read:
            derived.append(one)
            read |= set(one.of)
    return replace(schema, label=label, weight=weight, derived=derived[::-1])
