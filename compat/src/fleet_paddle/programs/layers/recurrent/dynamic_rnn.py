"""`DynamicRNN`: a recurrent layer of one's own along ragged rows; those that have ended take no part in later steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle.programs.layers.recurrent.steps import Steps
from fleet_programs import layers
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.program.variable import Variable

__all__ = [
    "DynamicRNN",
    "array_to_lod_tensor",
    "lod_rank_table",
    "lod_tensor_to_array",
    "max_sequence_len",
    "reorder_lod_tensor_by_rank",
    "shrink_memory",
]


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The rows of ragged `x`, the longest first: [rows, 2], which row it is and how long."""
    layer = LayerBuilder("lod_rank_table")
    if level != 0:
        raise layer.error(f"level must be 0, for there is one level of rows, got {level}")
    out = layer.apply("lod_rank_table", {"Offsets": offsets_of(layer, x, "x")}, {}, "int64")
    out.stop_gradient = True
    return out


def max_sequence_len(rank_table: Variable) -> Variable:
    """How long the longest row is, int64 [1]."""
    layer = LayerBuilder("max_sequence_len")
    out = layer.apply("max_sequence_len", {"RankTable": layer.variable(rank_table, "rank_table")}, {}, "int64")
    out.stop_gradient = True
    return out


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """The first value of each row, the second of those that have one, ..., in the order of the table: an array."""
    layer = LayerBuilder("lod_tensor_to_array")
    out = layer.temporary(x.dtype)
    out.kind = ARRAY
    inputs = {"X": layer.variable(x, "x"), "Offsets": offsets_of(layer, x, "x"), "RankTable": table}
    layer.op("lod_tensor_to_array", inputs, {"Out": out})
    return out


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """Ragged rows again, of what `lod_tensor_to_array` took apart."""
    layer = LayerBuilder("array_to_lod_tensor")
    out = layer.temporary(layer.variable(x, "x").dtype)
    outputs = {"Out": out, "OutOffsets": new_offsets(layer, out)}
    layer.op("array_to_lod_tensor", {"X": x, "RankTable": table}, outputs)
    return out


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The first rows of `x`: those that go on in step `i`."""
    layer = LayerBuilder("shrink_memory")
    inputs = {"X": layer.variable(x, "x"), "I": layer.variable(i, "i"), "RankTable": table}
    return layer.apply("shrink_rnn_memory", inputs, {}, x.dtype)


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """The rows of `x`, ragged or not, in the order of the table."""
    return _reordered(LayerBuilder("reorder_lod_tensor_by_rank"), x, rank_table)


def _reordered(layer: LayerBuilder, x: Variable, table: Variable, step: Variable | None = None) -> Variable:
    var = layer.variable(x, "x")
    out = layer.block.program.current_block().create_var(dtype=var.dtype)
    inputs = {"X": var, "RankTable": table, "I": step}
    outputs = {"Out": out}
    if var.lod is not None:
        inputs["Offsets"] = var.block.var(var.lod)
        outputs["OutOffsets"] = out.block.create_var(f"{out.name}@LOD", [-1], "int64", stop_gradient=True)
    out.block.append_op("reorder_lod_tensor_by_rank", inputs, outputs)
    return out


class DynamicRNN:
    """A recurrent layer: `with rnn.block():` says what happens in one step, along the rows of ragged inputs."""

    def __init__(self, name: str | None = None) -> None:
        self._steps = Steps("dynamic_rnn", name)
        self._table: Variable | None = None
        self._memories: dict[str, str] = {}
        """The memory of the loop that a variable inside was shrunk from."""

    def block(self) -> Any:
        """Inside, layers add to one step."""
        return self._steps.stepping()

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The value of this step of each row that goes on."""
        steps = self._steps
        steps.inside("step_input()")
        with steps.outside():
            if self._table is None:
                self._table = lod_rank_table(x, level)
            array = lod_tensor_to_array(x, self._table)
            count = max_sequence_len(self._table)
        return steps.over(array, count)

    def static_input(self, x: Variable) -> Variable:
        """The rows of `x`, ragged or not, that belong to the rows that go on."""
        step = self._steps.inside("static_input()")
        return _reordered(self._steps.layer, x, self._ranked("static_input()"), step)

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """What the last step left, of the rows that go on: `init`, one row each, or `value`, before the first one.

        `need_reorder` says that `init` is in the order of the batch, as `static_input` takes what it is given; without
        it `init` must be in the order of lengths already.
        """
        steps = self._steps
        step, table = steps.inside("memory()"), self._ranked("memory()")
        with steps.outside():
            if init is not None:
                steps.layer.variable(init, "init")
                first = reorder_lod_tensor_by_rank(init, table) if need_reorder else init
            elif shape is None:
                raise steps.layer.error("memory() needs init or shape")
            else:
                first = layers.fill_constant_batch_size_like(table, [-1, *shape], dtype, value)
        memory = steps.remember(first)
        found = shrink_memory(memory, step, table)
        self._memories[found.name] = memory.name
        return found

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """`new_mem` is what the next step remembers."""
        self._steps.inside("update_memory()")
        self._steps.renew(self._memories.get(ex_mem.name, ex_mem.name), new_mem)

    def output(self, *outputs: Variable) -> None:
        """Outputs of this step, one row for each row that goes on."""
        self._steps.inside("output()")
        for one in outputs:
            self._steps.collect(one)

    def _ranked(self, what: str) -> Variable:
        if self._table is None:
            raise self._steps.layer.error(f"call step_input() before {what}: it says which rows there are")
        return self._table

    def __call__(self) -> Any:
        """The outputs of all steps as ragged rows, as those of the first step_input; a list if there are several."""
        table = self._ranked("the call")
        found = [array_to_lod_tensor(array, table) for array in self._steps.arrays()]
        return found[0] if len(found) == 1 else found
