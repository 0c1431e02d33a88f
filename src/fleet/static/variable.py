"""Variables of a program: names with a shape and a dtype; the tensors themselves are in a Scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageTypeError
from fleet.static.dtypes import canonical

if TYPE_CHECKING:
    from fleet.static.block import Block

Shape = tuple[int, ...]

TENSOR = "tensor"
ROWS = "rows"  # some rows of a tensor and their indexes: the gradient of a sparse lookup


@dataclass(frozen=True)
class Penalty:
    """A regularizer as data: kind `l1` or `l2` and its coefficient."""

    kind: str
    coeff: float


class Variable:
    """A value of a program. `-1` in the shape is a size that a batch decides.

    `kind` is "tensor", or "rows" for a sparse gradient. A ragged variable names the variable that holds its offsets in
    `lod`: row i of a batch is `values[offsets[i]:offsets[i + 1]]`.

    Signs such as +, < and x[0] add operators to the program. == and != do not: they tell variables apart, so that these
    can be in sets and be found in lists; `layers.equal` compares values.
    """

    __array_ufunc__ = None  # numpy's numbers at the left of a sign leave it to us

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
        return 0 if self.lod is None else 1

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        from fleet.static.text import variable_line

        return variable_line(self)

    __str__ = __repr__

    # Arithmetic adds operators to the program; `layers` has the words for it.

    def _with(self, other: Any, op: str, is_reversed: bool = False) -> Variable:
        from fleet.static.layers.arithmetic import combine

        return combine(self, other, op, is_reversed)

    def __add__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_add")

    def __radd__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_add", True)

    def __sub__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_sub")

    def __rsub__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_sub", True)

    def __mul__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_mul")

    def __rmul__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_mul", True)

    def __truediv__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_div")

    def __rtruediv__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_div", True)

    def __pow__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_pow")

    def __rpow__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_pow", True)

    def __floordiv__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_floordiv")

    def __rfloordiv__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_floordiv", True)

    def __mod__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_mod")

    def __rmod__(self, other: Any) -> Variable:
        return self._with(other, "elementwise_mod", True)

    def __neg__(self) -> Variable:
        return self._with(-1.0, "elementwise_mul")

    def __lt__(self, other: Any) -> Variable:
        return self._with(other, "less_than")

    def __le__(self, other: Any) -> Variable:
        return self._with(other, "less_equal")

    def __gt__(self, other: Any) -> Variable:
        return self._with(other, "greater_than")

    def __ge__(self, other: Any) -> Variable:
        return self._with(other, "greater_equal")

    def __getitem__(self, key: Any) -> Variable:
        from fleet.static.layers.shaping import part

        return part(self, key)

    def __bool__(self) -> bool:
        raise UsageTypeError(
            f"variable {self.name!r} has no value while a program is built, so Python cannot branch on it; branch on "
            "what is fetched, or compute both sides and multiply each by its condition"
        )

    def __iter__(self) -> Iterator[Variable]:
        raise UsageTypeError(f"variable {self.name!r} cannot be iterated over; take it apart with layers.unstack()")

    def __matmul__(self, other: Variable) -> Variable:
        from fleet.static.layers.table import matmul

        return matmul(self, other)

    if not TYPE_CHECKING:  # a checker would take any name for a method

        def __getattr__(self, name: str) -> Any:
            """Methods that another package gives to variables; see `fleet.static.methods`."""
            from fleet.static.methods import method_of

            return method_of(self, name)

    def astype(self, dtype: Any) -> Variable:
        """The same values as another dtype."""
        from fleet.static.layers.arithmetic import cast

        return cast(self, dtype)


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
