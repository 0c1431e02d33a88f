"""Layers that only call a function, made from rows; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from importlib import import_module

from fleet_paddle.imperative.nn.base.of_function import FunctionLayer
from fleet_paddle.rows.function import TABLES, Function
from fleet_paddle.rows.listing import functions


def _class(row: Function) -> type[FunctionLayer]:
    fields = {
        "function": staticmethod(getattr(import_module(TABLES[row.spelling.home]), row.spelling.name)),
        "inputs": row.num_operands,
        "__doc__": row.doc,
        "__module__": __name__,
    }
    return type(row.layer, (FunctionLayer,), fields)


_made = {one.layer: _class(one) for one in functions() if one.layer}
__all__ = sorted(_made)
globals().update(_made)
