"""Values that settings may have; what they may not is told in one line."""

from fleet.errors import UsageError, UsageTypeError


def count_of(name: str, value: object, least: int = 1) -> int:
    """A number of things."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageTypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise UsageError(f"{name} must be at least {least}, got {value}")
    return value


def seconds_of(name: str, value: object, above: float | None = None) -> float:
    """A number of seconds, greater than `above`; without it, at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageTypeError(f"{name} must be a number of seconds, got {value!r}")
    if not value < float("inf") or value < 0 or (above is not None and value <= above):
        raise UsageError(f"{name} must be {'above' if above is not None else 'at least'} 0 and finite, got {value}")
    return float(value)


def flag_of(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageTypeError(f"{name} must be True or False, got {value!r}")
    return value


def name_of(what: str, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str):
        raise UsageTypeError(f"{what} must be a text, got {value!r}")
    if not value:
        raise UsageError(f"{what} is empty")
    return value
