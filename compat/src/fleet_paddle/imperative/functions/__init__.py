"""Functions of tensors, with Paddle's names, arguments and meanings; `methods` gives them to tensors as well."""

from __future__ import annotations

from fleet_paddle.imperative.functions import methods

methods.install()
