"""Classes whose arguments are one line of text, from which their `__init__` is made."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from fleet_programs.expressions.spelling import Spelling


class Taking:
    """A subclass that says what it `takes` has an `__init__` with that signature, which hands all to `take`.

    >>> class Point(Taking):
    ...     takes = "x, y->height=0"
    ...     def take(self, given): print(given)
    >>> _ = Point(3)
    {'x': 3, 'height': 0}
    """

    takes: ClassVar[str]
    """The arguments as `fleet_programs.expressions.spelling` writes them."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if isinstance(vars(cls).get("takes"), str):
            spelled = Spelling.parse(f"__init__(self, {cls.takes})")
            given = ", ".join(f"{one.attribute}={one.name}" for one in spelled.parameters[1:])
            made = spelled.function(f"self.take(dict({given}))", {}, cls.__doc__ or "", cls.__module__)
            made.__qualname__ = f"{cls.__qualname__}.__init__"
            type.__setattr__(cls, "__init__", made)

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **named: Any) -> None: ...

    @abstractmethod
    def take(self, given: dict[str, Any]) -> None:
        """Begin with these arguments, each under the name behind its arrow."""
