"""`verified`: a pass whose program is looked at before the next pass gets it, where that is switched on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from fleet import env
from fleet.errors import UsageError
from fleet_programs.program.program import Program
from fleet_programs.program.verify import unmade, verify

P = ParamSpec("P")


def verified(make: Callable[P, Program]) -> Callable[P, Program]:
    """A pass that fails, with its name, if the program that it makes does not hold together.

    It does so where FLEET_VERIFY_PROGRAMS is 1, as in tests. What the programs before it were given by a run, without
    declaring it as data, the one after it may be given as well.
    """

    @wraps(make)
    def verifying(*args: P.args, **kwargs: P.kwargs) -> Program:
        made = make(*args, **kwargs)
        if env.FLEET_VERIFY_PROGRAMS.get() == "1":
            before = [given for given in (*args, *kwargs.values()) if isinstance(given, Program)]
            try:
                verify(made, {name for program in before for name in unmade(program)})
            except UsageError as error:
                raise UsageError(f"pass {make.__name__}: {error}") from None
        return made

    return verifying
