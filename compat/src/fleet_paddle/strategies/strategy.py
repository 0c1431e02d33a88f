"""DistributedStrategy as scripts of versions 2.0 to 2.2 use it.

    strategy = fleet.DistributedStrategy()
    strategy.pipeline = True                        kept, and refused by fleet.distributed_optimizer
    strategy.save_to_prototxt("strategy.prototxt")

Fleet's own strategy refuses a setting that is not built on the line that sets it. Scripts set many that they never use,
and print or save the rest; so this one keeps them all, and `require_supported`, which every use of a strategy goes
through before anything is built, refuses all that would have changed something, in one line. A value of another kind
than the field's is refused there, too: the line that sets it logs a warning, and the field stays as it was.
"""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING, Any

from fleet.errors import NotSupportedError, StrategyError
from fleet.strategy import DistributedStrategy as FleetStrategy
from fleet_paddle.strategies import prototxt
from fleet_paddle.strategies.form import FORM
from fleet_paddle.strategies.hints import HINTS
from fleet_paddle.strategies.program_strategy import ProgramStrategy
from fleet_paddle.strategies.shown import table
from fleet_paddle.strategies.support import keep_what_is_not_built, not_built, refuse

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


class DistributedStrategy(ProgramStrategy):
    """A strategy of which every field can be set, read, printed and saved.

    docs/strategy.md has the fields of Fleet, docs/migrate/settings.md the rest.
    """

    def __init__(self) -> None:
        super().__init__()
        keep_what_is_not_built(self)

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            refused = self.__dict__.setdefault("_refused", {})
            try:
                super().__setattr__(_own_name(name), value)
                refused.pop(name, None)
            except StrategyError as error:
                if self.__dict__.get("_is_strict"):
                    raise
                refused[name] = str(error)
                _log.warning("%s; it will be refused when the strategy is used", error)

        def __getattr__(self, name: str) -> Any:
            return super().__getattr__(_own_name(name))

    def require_supported(self, is_collective: bool | None = None) -> None:
        """StrategyError for values that no field takes, NotSupportedError for what is set and not built: all at once.

        Each names the field and says what to do.
        """
        if refused := self.__dict__.get("_refused"):
            raise StrategyError("; ".join(refused.values()))
        super().require_supported(is_collective)
        said = []
        for path, name, value in sorted(not_built(self), key=lambda one: "." in one[0]):  # switches first
            if ".".join((*path.split(".")[1:], name)) not in HINTS and not self._is_idle(path):
                try:
                    refuse(path, name, value, self._members)
                except NotSupportedError as error:
                    said.append(str(error))
        if said:
            raise NotSupportedError("; ".join(said))

    def _is_idle(self, path: str) -> bool:
        """Whether settings belong to a switch that is off: they are not used."""
        switch = path.partition(".")[2].removesuffix("_configs")
        return switch in FORM and not getattr(self, switch)

    def save_to_prototxt(self, output: str | PathLike[str]) -> None:
        """Write what was set in the text format of protobuf."""
        prototxt.save(self, output)

    def load_from_prototxt(self, pb_file: str | PathLike[str]) -> None:
        """Set what a file of `save_to_prototxt` has, of this library or of PaddlePaddle."""
        self.__dict__["_is_strict"] = True  # a file has no line behind the one that is wrong
        try:
            prototxt.load(self, pb_file)
        finally:
            self.__dict__["_is_strict"] = False

    def __eq__(self, other: object) -> bool:
        same = super().__eq__(other)
        if same is not True:
            return same
        theirs = not_built(other) if isinstance(other, FleetStrategy) else ()
        return sorted(map(repr, not_built(self))) == sorted(map(repr, theirs))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return table(self)


def _own_name(name: str) -> str:
    """`_calc_comm_same_stream`, as some versions spell a field that is not for everybody, is the field."""
    return name[1:] if name.startswith("_") and name[1:] in FORM else name
