"""Variables of a program: names with a shape and a dtype; the tensors themselves are in a Scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageTypeError
from fleet_programs.definition.dtypes import canonical
from fleet_programs.definition.kinds import TENSOR, Shape
from fleet_programs.definition.literals import plain, write_name, write_value
from fleet_programs.expressions.appending import Appender
from fleet_programs.expressions.methods import method_of
from fleet_programs.expressions.signs import Signs

if TYPE_CHECKING:
    from fleet_programs.program.block import Block

SETTINGS = ("kind", "lod", "persistable", "stop_gradient", "is_data")
PARAMETER_SETTINGS = ("trainable", "learning_rate", "regularizer", "need_clip", "is_distributed")


@dataclass(frozen=True)
class Penalty:
    """A regularizer as data: kind `l1` or `l2` and its coefficient."""

    kind: str
    coeff: float


class Variable(Signs):
    """A value of a program. `-1` in the shape is a size that a batch decides.

    `kind` is "tensor", or "rows" for a sparse gradient. A ragged variable names the variable that holds its offsets in
    `lod`: row i of a batch is `values[offsets[i]:offsets[i + 1]]`. Where that variable is ragged too, there are two
    levels: its rows are groups of rows.

    Signs such as +, < and x[0] add operators to the program; == and != do so beside a number. Two variables they tell
    apart, so that these can be in sets and be found in lists; `layers.equal` compares values.
    """

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int] = (),
        dtype: Any = "float32",
        *,
        kind: str = TENSOR,
        lod: str | None = None,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
    ) -> None:
        self.block = block
        self.name = name
        self.shape: Shape = tuple(int(size) for size in shape)
        self.dtype = canonical(dtype)
        self.kind = kind
        self.lod = lod
        self.persistable = persistable
        self.stop_gradient = stop_gradient
        self.is_data = is_data

    @property
    def lod_level(self) -> int:
        """1 for a ragged variable, 2 if its rows are in groups, else 0."""
        return len(self.block.levels_of(self))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def settings(self) -> dict[str, Any]:
        """What it is beside name, dtype and shape, as plain values."""
        return {name: getattr(self, name) for name in SETTINGS}

    def __repr__(self) -> str:
        """Its line in the text of a program: settings that are as usual are left out."""
        is_parameter = isinstance(self, Parameter)
        word = "param" if is_parameter else "data" if self.is_data else "var"
        usual = usual_settings(is_parameter, word == "data", getattr(self, "trainable", True))
        parts = [word, write_name(self.name), ":", f"{self.dtype}{list(self.shape)}"]
        for key, value in self.settings().items():
            if key == "trainable" and not value:
                parts.append("trainable=false")
            elif write_value(plain(value, key)) != write_value(usual[key]):
                parts.append(_setting(key, value))
        return " ".join(parts)

    __str__ = __repr__

    def appender(self, kind: str) -> Appender:
        """What appends the operators of one sign, where layers append theirs."""
        return Appender(kind, self.block.current)

    def __bool__(self) -> bool:
        raise UsageTypeError(
            f"variable {self.name!r} has no value while a program is built, so Python cannot branch on it; branch on "
            "what is fetched, or in the program: static.cond() and static.while_loop()"
        )

    def __iter__(self) -> Iterator[Variable]:
        raise UsageTypeError(f"variable {self.name!r} cannot be iterated over; take it apart with layers.unstack()")

    if not TYPE_CHECKING:  # a checker would take any name for a method

        def __getattr__(self, name: str) -> Any:
            """Methods that another package gives to variables; see `fleet_programs.expressions.methods`."""
            return method_of(self, name)


class Parameter(Variable):
    """A persistable variable that training changes."""

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int],
        dtype: Any = "float32",
        *,
        trainable: bool = True,
        learning_rate: float = 1.0,
        regularizer: Penalty | None = None,
        need_clip: bool = True,
        is_distributed: bool = False,
    ) -> None:
        super().__init__(block, name, shape, dtype, persistable=True, stop_gradient=not trainable)
        self.trainable = trainable
        self.learning_rate = learning_rate
        """A factor on the optimizer's rate."""
        self.regularizer = regularizer
        self.need_clip = need_clip
        self.is_distributed = is_distributed
        """Whether its rows are only ever on servers."""

    def settings(self) -> dict[str, Any]:
        penalty = self.regularizer
        own = {name: getattr(self, name) for name in PARAMETER_SETTINGS}
        return {**super().settings(), **own, "regularizer": None if penalty is None else [penalty.kind, penalty.coeff]}


def usual_settings(is_parameter: bool, is_data: bool = False, trainable: bool = True) -> dict[str, Any]:
    """Settings of a variable that a form may leave out."""
    usual = {"kind": TENSOR, "lod": None, "is_data": is_data}
    if not is_parameter:
        return {**usual, "persistable": False, "stop_gradient": is_data}
    own = {
        "trainable": trainable,
        "learning_rate": 1.0,
        "regularizer": None,
        "need_clip": True,
        "is_distributed": False,
    }
    return {**usual, "persistable": True, "stop_gradient": not trainable, **own}


def _setting(key: str, value: object) -> str:
    if value is True:
        return key
    if key in ("kind", "lod") and isinstance(value, str):
        return f"{key}={write_name(value)}"
    return f"{key}={write_value(plain(value, key))}"
