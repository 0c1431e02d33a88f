"""What `pretrained=True` is answered with."""

from __future__ import annotations

from typing import TypeVar

from fleet.errors import NotSupportedError

T = TypeVar("T")


def untrained(model: T, pretrained: bool) -> T:
    """The model; NotSupportedError if weights are wanted that somebody has trained."""
    if pretrained:
        raise NotSupportedError(
            f"{type(model).__name__}: pretrained weights are not downloaded; leave pretrained out, then "
            "model.set_state_dict(paddle.load(file))"
        )
    return model
