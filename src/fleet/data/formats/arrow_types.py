"""Whether the columns of an Arrow schema, which Parquet files have too, can be what a schema says they are."""

from difflib import get_close_matches
from typing import Any

from fleet.data.columns.schema import Category, Schema
from fleet.data.places.urls import needed
from fleet.errors import UsageError

MOST_NAMED = 12


def check_columns(found: Any, schema: Schema, path: str) -> None:
    """Every column that is read is there once, and of a type that can be used; `found` is a pyarrow.Schema."""
    for name in schema.names:
        if (times := found.names.count(name)) != 1:
            if times:
                raise UsageError(f"{path} has {times} columns called {name!r}; give each a name of its own")
            raise UsageError(_missing(name, list(found.names), path))
    computed = {one.name for one in schema.derived}
    for role, name in _of_numbers(schema):
        if name not in computed and not is_number(plain := value_type(found.field(name).type)):
            has = f"{path}: column {name!r} has type {found.field(name).type}"
            instead = "derive one, with fleet.data.Derived.seconds" if is_time(plain) else "declare it as a category"
            raise UsageError(f"{has}; a {role} needs numbers: cast it, or {instead}")
    for one in schema.all_categories:
        if one.name not in computed:
            _check_category(one, found.field(one.name).type, path)
    for name, kind in {(name, kind) for one in schema.derived for name, kind in one.of.items() if name not in computed}:
        plain = value_type(found.field(name).type)
        fits = is_number(plain) if kind != "text" else is_text(plain) or is_integer(plain)
        if not fits and not (kind.startswith("time") and (is_time(plain) or is_text(plain))):
            raise UsageError(f"{path}: column {name!r} has type {found.field(name).type}; as {kind} it cannot be given")


def _missing(name: str, names: list[str], path: str) -> str:
    near = get_close_matches(name, names, n=1)
    if near:
        return f"{path} has no column {name!r}; did you mean {near[0]!r}?"
    has = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"{path} has no column {name!r}; it has {has or 'no columns at all'}"


def _of_numbers(schema: Schema) -> list[tuple[str, str]]:
    weight = [] if schema.weight is None else [("weight", schema.weight)]
    labels, numbers = [("label", name) for name in schema.labels], [("number", one.name) for one in schema.all_numbers]
    return [*labels, *numbers, *weight]


def _check_category(one: Category, found: Any, path: str) -> None:
    plain = value_type(found)
    if is_list(plain):
        if not one.has_several:
            raise UsageError(
                f"{path}: column {one.name!r} has type {found}, and the schema has one value a sample; declare it "
                f"Category({one.name!r}, separator=',') for bags, or with length= for a matrix"
            )
        plain = value_type(plain.value_type)
    splits = one.separator is not None and is_text(plain)
    if one.bounds is not None:
        if not is_number(plain) and not splits:
            raise UsageError(f"{path}: column {one.name!r} has type {found}; bounds need numbers")
    elif not one.hash:
        if not is_integer(plain) and not splits:
            raise UsageError(f"{path}: column {one.name!r} has type {found}; hash=False needs whole numbers")
    elif not (is_text(plain) or is_integer(plain)):
        raise UsageError(
            f"{path}: column {one.name!r} has type {found}; a hashed category needs text or whole numbers: cast it, or "
            "give bounds"
        )


def value_type(found: Any) -> Any:
    """The type of the values: without dictionaries, runs and extensions around it."""
    types = needed("pyarrow.types", "Arrow columns")
    while True:
        if types.is_dictionary(found) or types.is_run_end_encoded(found):
            found = found.value_type
        elif hasattr(found, "storage_type"):
            found = found.storage_type
        else:
            return found


def is_list(plain: Any) -> bool:
    """Lists of any kind."""
    types = needed("pyarrow.types", "Arrow columns")
    return bool(
        types.is_list(plain)
        or types.is_large_list(plain)
        or types.is_fixed_size_list(plain)
        or types.is_list_view(plain)
        or types.is_large_list_view(plain)
    )


def is_text(plain: Any) -> bool:
    """Text or bytes of any kind, and columns of nothing but gaps."""
    types = needed("pyarrow.types", "Arrow columns")
    return bool(
        types.is_string(plain)
        or types.is_large_string(plain)
        or types.is_string_view(plain)
        or types.is_binary(plain)
        or types.is_large_binary(plain)
        or types.is_binary_view(plain)
        or types.is_fixed_size_binary(plain)
        or types.is_null(plain)
    )


def is_time(plain: Any) -> bool:
    """Moments and days."""
    types = needed("pyarrow.types", "Arrow columns")
    return bool(types.is_timestamp(plain) or types.is_date(plain))


def is_integer(plain: Any) -> bool:
    """Whole numbers; truth values are 0 and 1."""
    types = needed("pyarrow.types", "Arrow columns")
    is_whole = types.is_decimal(plain) and plain.scale == 0
    return bool(types.is_integer(plain) or types.is_boolean(plain) or types.is_null(plain) or is_whole)


def is_number(plain: Any) -> bool:
    """What a float can be made of."""
    types = needed("pyarrow.types", "Arrow columns")
    return bool(is_integer(plain) or types.is_floating(plain) or types.is_decimal(plain))
