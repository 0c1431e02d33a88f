"""The parameter-server modes, and which fields choose which."""

from enum import StrEnum
from typing import NamedTuple

from fleet.errors import StrategyError


class Mode(StrEnum):
    """How workers and servers keep step; `DistributedStrategy.mode` works it out."""

    OFF = "off"  # no mode was chosen: the roles decide
    SYNC = "sync"  # a step ends when every worker's gradients are in
    ASYNC = "async"  # a gradient counts when it arrives
    HALF_ASYNC = "half_async"  # as async, but a worker waits for its own send
    GEO = "geo"  # workers train on copies and exchange differences every k steps


MODE_FIELDS = ("a_sync", "a_sync_configs.k_steps", "a_sync_configs.half_async")


class ModeChoice(NamedTuple):
    """The values of MODE_FIELDS that choose a mode, as the reference page prints them."""

    a_sync: str
    k_steps: str
    half_async: str


MODES = {
    Mode.OFF: ModeChoice("any", "-1", "False"),
    Mode.SYNC: ModeChoice("False", "0", "False"),
    Mode.ASYNC: ModeChoice("True", "0", "False"),
    Mode.HALF_ASYNC: ModeChoice("True", "0", "True"),
    Mode.GEO: ModeChoice("True", "> 0", "False"),
}


def mode_of(a_sync: bool, k_steps: int, half_async: bool) -> Mode:
    """The mode in MODES that the values choose; StrategyError when they contradict each other."""
    steps = str(k_steps) if k_steps <= 0 else "> 0"
    for mode, choice in MODES.items():
        if choice.a_sync in ("any", str(a_sync)) and choice[1:] == (steps, str(half_async)):
            return mode
    if half_async and k_steps == -1:  # a_sync reads True, and only writing it chooses a mode
        raise StrategyError(
            "strategy.a_sync_configs.half_async = True goes with async mode, and no mode is chosen (k_steps = -1); "
            "write strategy.a_sync = True too, which chooses it"
        )
    if half_async:
        raise StrategyError(
            "strategy.a_sync_configs.half_async needs strategy.a_sync = True and k_steps = 0, "
            f"got a_sync = {a_sync} and k_steps = {k_steps}; set both or leave half_async False"
        )
    raise StrategyError(
        f"strategy.a_sync_configs.k_steps = {k_steps} chooses geo mode, which needs "
        "strategy.a_sync = True, got False; set k_steps to 0 for synchronous training"
    )
