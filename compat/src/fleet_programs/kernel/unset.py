"""The value of a variable that no branch has written, and so has none."""

from __future__ import annotations


class Unset:
    """Stands where a tensor would; whatever takes it for one fails."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<no value of {self.name!r}>"
