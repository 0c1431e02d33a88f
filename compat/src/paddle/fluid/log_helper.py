"""Loggers."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.tools.checks": "get_logger"})
