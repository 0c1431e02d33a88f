"""Every name of `fleet_paddle.imperative`; functions take variables of programs as well."""

from __future__ import annotations

from fleet_paddle.functions import either_module

__getattr__ = either_module(__name__, "fleet_paddle.imperative", "fleet_paddle.programs.functions")
