"""A program file of PaddlePaddle as a program of Fleet, where all its operators are known here.

Operators, slots and attributes have the names that they have there. What says nothing about a result is left out: which
kernel computes, on which device, at which line of a script. An attribute that is unknown and set is refused by its
name, and so are operators that nobody has defined here, all of them in one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.errors import CheckpointError, FleetError
from fleet_paddle.foreign.messages import DTYPES, TENSOR, VALUES, message
from fleet_paddle.foreign.spelled import RENAMED, respelled
from fleet_programs.definition.registry import Definition, definition
from fleet_programs.expressions import names
from fleet_programs.program.block import Block
from fleet_programs.program.notes import INFERENCE_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.program.verify import verify

_SILENT = """
op_role op_role_var op_namescope op_callstack op_device with_quant_attr use_cudnn use_mkldnn mkldnn_data_type
use_quantizer is_test trainable_statistics exhaustive_search workspace_size_MB use_addto Scale_in Scale_out
Scale_in_eltwise Scale_weights Scale_x Scale_y force_fp32_output fuse_alpha fuse_beta fuse_brelu_threshold
use_calc_stream is_distributed remote_prefetch trainer_id slot height_sections epmap
table_names entry_config entry grad_inplace force_cpu place_type
"""
SILENT = frozenset(_SILENT.split())
"""Attributes that choose between ways to the same result, or that only training looks at."""

_DTYPE_ATTRS = ("dtype", "in_dtype", "out_dtype")
_FRAMEWORK = ("feed", "fetch")


def read_program(path: Path) -> tuple[Program, list[str], list[str]]:
    """The program of a file, and the names of its feeds and fetches in their order."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    described = message("ProgramDesc")
    try:
        described.ParseFromString(data)
    except Exception:  # protobuf's DecodeError has several homes
        raise _damaged(path, "it is no message of protobuf") from None
    if not described.blocks:
        raise _damaged(path, "it has no block")
    if len(described.blocks) > 1:
        raise CheckpointError(
            f"{path} has {len(described.blocks)} blocks, and branches and loops of a file are not read; build the "
            "program with layers and load its parameters"
        )
    try:
        return _program(described.blocks[0], path)
    except CheckpointError:
        raise
    except FleetError as error:
        raise CheckpointError(f"{path} does not fit the operators here: {error}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # names that are no text, and the like
        raise _damaged(path, " ".join(str(error).split())[:120]) from None


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged, or no program of PaddlePaddle: {why}; copy it again")


def _program(block: Any, path: Path) -> tuple[Program, list[str], list[str]]:
    unknown = sorted(
        {op.type for op in block.ops if op.type not in _FRAMEWORK and not _is_known(RENAMED.get(op.type, op.type))}
    )
    if unknown:
        raise CheckpointError(
            f"{path} has operators that are not known here: {', '.join(unknown)}; build the program with layers and "
            "load its parameters"
        )
    program = Program()
    own = program.global_block()
    feeds, fetches = _ends(block, "feed"), _ends(block, "fetch")
    for var in block.vars:
        if var.type.type == TENSOR:
            own.add_var(_variable(own, var, feeds, path))
    for op in block.ops:
        if op.type not in _FRAMEWORK:
            _add(own, op, path)
    used = {name for op in own.ops for name in (*op.input_names, *op.output_names)} | {*feeds, *fetches}
    for name in used:
        if name not in own.vars:
            raise _damaged(path, f"variable {name!r} is used and not declared")
    own.vars = {name: var for name, var in own.vars.items() if name in used}
    program.notes[INFERENCE_NOTE] = {"feed": feeds, "fetch": fetches}
    program.changed()
    verify(program)
    return program, feeds, fetches


def _is_known(type: str) -> bool:
    try:
        definition(type)
    except FleetError:
        return False
    return True


def _ends(block: Any, kind: str) -> list[str]:
    """The variables that feed or fetch operators name, in the order of their columns."""
    found: dict[int, str] = {}
    for op in block.ops:
        if op.type == kind:
            column = next((attr.i for attr in op.attrs if attr.name == "col"), len(found))
            slots = op.outputs if kind == "feed" else op.inputs
            found[column] = next((name for slot in slots for name in slot.arguments), "")
    return [found[column] for column in sorted(found)]


def _variable(block: Block, var: Any, feeds: list[str], path: Path) -> Variable:
    tensor = var.type.lod_tensor.tensor
    dtype = DTYPES.get(tensor.data_type)
    if dtype is None:
        raise _damaged(path, f"variable {var.name!r} is of type {tensor.data_type}")
    shape = list(tensor.dims)
    if var.type.lod_tensor.lod_level:
        raise CheckpointError(f"{path}: variable {var.name!r} is ragged, and such programs are not read; {_REBUILD}")
    if var.is_parameter or (var.persistable and not var.stop_gradient):
        return Parameter(block, var.name, shape, dtype)
    return Variable(
        block,
        var.name,
        shape,
        dtype,
        persistable=var.persistable,
        stop_gradient=var.stop_gradient,
        is_data=var.name in feeds,
    )


def _add(block: Block, op: Any, path: Path) -> None:
    type, given = respelled(op.type, {attr.name: _value(attr) for attr in op.attrs})
    known = definition(type)
    inputs, outputs = (
        {slot.parameter: list(slot.arguments) for slot in slots if slot.arguments} for slots in (op.inputs, op.outputs)
    )
    for slot in inputs:
        if slot not in known.input_slots:
            raise CheckpointError(f"{path}: {op.type} reads {slot}, which it does not know here; {_REBUILD}")
    attrs = {}
    for name, value in given.items():
        if name in known.attrs:
            attrs[name] = _converted(type, name, value)
        elif name == "data_layout" and value in ("NCHW", "AnyLayout"):
            continue  # the only one that an operator without this attribute has
        elif name not in SILENT and value not in (False, 0, "", -1):
            raise CheckpointError(
                f"{path}: {op.type} has {name} = {str(value)[:40]}, which it does not know here; {_REBUILD}"
            )
    if "is_test" in known.attrs:
        attrs["is_test"] = True
    written = {slot: several for slot, several in outputs.items() if _is_wanted(slot, several, known, block)}
    for slot, mark in known.output_slots.items():
        if mark == "" and slot not in written:  # an evaluation leaves it out, and a kernel here writes it
            written[slot] = [names.generate(f"{type}.{slot}", block.has_var)]
    for name in (name for several in written.values() for name in several):
        if not block.has_var(name):
            block.create_var(name, stop_gradient=True)
    block.append_op(type, _ordered(inputs, known.input_slots), _ordered(written, known.output_slots), attrs)


def _is_wanted(slot: str, names: list[str], known: Definition, block: Block) -> bool:
    """Whether an operator must say an output: not one that only a gradient would read, and that nothing declares."""
    mark = known.output_slots.get(slot)
    return mark is not None and (mark != "?" or all(block.has_var(name) for name in names))


_REBUILD = "build the program with layers and load its parameters"


def _ordered(given: dict[str, list[str]], slots: dict[str, str]) -> dict[str, list[str]]:
    return {slot: given[slot] for slot in slots if slot in given}


def _value(attr: Any) -> Any:
    field = VALUES.get(attr.type)
    if field is None:
        return f"of type {attr.type}"
    value = getattr(attr, field)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "append"):
        return [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value]
    if field == "f":
        return float(f"{value:.7g}")  # as it was written down, not as float32 holds it
    return value


def _converted(type: str, name: str, value: Any) -> Any:
    if name in _DTYPE_ATTRS and isinstance(value, int):
        return DTYPES.get(value, "float32")
    usual = definition(type).attrs[name]
    if isinstance(usual, bool):
        return bool(value)
    if isinstance(usual, float) and isinstance(value, int):
        return float(value)
    return value
