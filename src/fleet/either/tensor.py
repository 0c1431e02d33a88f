"""Every name of `fleet.imperative`; functions take variables of programs as well."""

from __future__ import annotations

from fleet.either.functions import either_module

__getattr__ = either_module(__name__, "fleet.imperative", "fleet.static.functions")
