"""An option whose value may be left out: `--dashboard` or `--dashboard 8080`, and then a script that is no value."""

from __future__ import annotations

from collections.abc import Sequence

import click


def with_optional_value(
    command: click.Command, arguments: Sequence[str], option: str, default: str, *, takes_next: bool = True
) -> list[str]:
    """The same arguments, with `option=value` where `option` stands among fleetrun's own.

    Its value is the next argument if that is a number, else the default; without `takes_next` it is given by `=` only.
    What follows the script is not looked at.
    """
    flags = {name for one in command.params if isinstance(one, click.Option) and one.is_flag for name in _names(one)}
    found, rest = [], list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name = rest.pop(0)
        if name == option:
            is_given = takes_next and rest and rest[0].isascii() and rest[0].isdigit()
            value = rest.pop(0) if is_given else default
            found.append(f"{option}={value}")
            continue
        found.append(name)
        if "=" not in name and name not in flags and rest:
            found.append(rest.pop(0))
    return [*found, *rest]


def _names(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]
