"""What is asked by HTTP and what is answered, as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fleet.errors import UsageError
from fleet_serve.doors.answers import Answers
from fleet_serve.rows.model import FoundRows, Keys

NUMBERS: dict[str, tuple[type, ...]] = {"i": (int,), "u": (int,), "f": (int, float), "b": (bool,)}
"""What of JSON may be an element of an input, by its kind of numbers; the rest would be made to fit in silence."""


def info(answers: Answers) -> dict[str, Any]:
    """What is served, as JSON has it."""
    why, state = answers.why_not_ready(), answers.state
    found: dict[str, Any] = {"ready": not why, "why_not": why, "stream": state.stream, "lag_s": state.lag_s}
    if answers.has_model:
        model = answers.model()
        found["version"] = model.version.__dict__
        found["tables"] = {
            table.name: {
                "width": table.width,
                "rows": len(table.base),
                "changed": model.num_changed(table.name),
                "format": table.form,
                "unseen": table.unseen.reads,
            }
            for table in model.tables.values()
        }
    return found


def _asked(data: bytes, wanted: str, like: str) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What a request wants, and its columns; UsageError where it is not of that form."""
    try:
        asked = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is no JSON ({error}); send {like}") from None
    is_right = isinstance(asked, dict) and set(asked) <= {wanted, "columns"}
    if not is_right or not asked or any(not isinstance(one, dict) for one in asked.values()):
        raise UsageError(f'the request must be {like}, with "columns" or without; send that')
    columns = asked.get("columns", {})
    if odd := [name for name, values in columns.items() if not isinstance(values, list)]:
        raise UsageError(f"column {odd[0]!r} must be a list with a value for each sample; send a list")
    return asked.get(wanted, {}), columns


def predict(answers: Answers, data: bytes) -> dict[str, Any]:
    """What the program makes of a request."""
    given, columns = _asked(data, "inputs", '{"inputs": {"ids": [[1, 2], [3, 4]]}}')
    inputs = {}
    for name, values in given.items():
        try:
            kind = answers.input_type(name)
            if not isinstance(values, list):
                raise TypeError(f"got {values!r:.80}")
            inputs[name] = np.array(values, kind)
            if not _are_all(values, NUMBERS.get(kind.kind, ())):
                raise TypeError(f"one is no {kind}")
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"input {name!r} must be a list of samples of numbers: {error}; mend it") from None
    found, version = answers.predict("http", inputs, columns)
    return {"version": version.__dict__, "outputs": {name: _listed(one) for name, one in found.items()}}


def _are_all(values: list[Any], kinds: tuple[type, ...]) -> bool:
    return all(_are_all(one, kinds) if type(one) is list else type(one) in kinds for one in values)


def lookup(answers: Answers, data: bytes) -> dict[str, Any]:
    """The rows that a request asks for."""
    tables, columns = _asked(data, "tables", '{"tables": {"TABLE": [1, 2, 3]}}')
    wanted = [(name, _keys(name, given)) for name, given in tables.items()]
    found, version = answers.lookup("http", wanted, columns)
    return {"version": version.__dict__, "tables": {one.table: _told(one) for one in found}}


def _told(one: FoundRows) -> dict[str, Any]:
    told = {"rows": _listed(one.rows), "unseen": one.num_unseen}
    return told if one.offsets is None else {**told, "offsets": one.offsets.tolist()}


def _keys(table: str, given: Any) -> Keys | str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or any(type(key) is not int for key in given):
        raise UsageError(
            f"keys of table {table!r} must be a list of whole numbers, or the name of a column; send [1, 2, 3]"
        )
    try:
        return np.array(given, np.int64)
    except OverflowError:
        raise UsageError(
            f"keys of table {table!r} must be int64: at least -2^63 and less than 2^63; mend them"
        ) from None


def _listed(values: Any) -> list[Any]:
    """Numbers as JSON has them: what is not finite, which JSON has not, is null."""
    if values.dtype.kind != "f" or np.isfinite(values).all():
        listed: list[Any] = values.tolist()
        return listed
    return [_listed(one) if one.ndim else (one.item() if np.isfinite(one) else None) for one in values]
