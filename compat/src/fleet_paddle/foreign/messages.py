"""The messages of PaddlePaddle's program files: fields by number, as far as they are read here."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "fleet_paddle.foreign"

FORM: dict[str, dict[str, tuple[int, str]]] = {
    "TensorDesc": {"data_type": (1, "int32"), "dims": (2, "int64*")},
    "LoDTensorDesc": {"tensor": (1, "TensorDesc"), "lod_level": (2, "int32")},
    "VarType": {
        "type": (1, "int32"),
        "selected_rows": (2, "TensorDesc"),
        "lod_tensor": (3, "LoDTensorDesc"),
        "tensor_array": (4, "LoDTensorDesc"),
    },
    "VarDesc": {
        "name": (1, "string"),
        "type": (2, "VarType"),
        "persistable": (3, "bool"),
        "is_parameter": (5, "bool"),
        "stop_gradient": (6, "bool"),
    },
    "Slot": {"parameter": (1, "string"), "arguments": (2, "string*")},
    "Attr": {
        "name": (1, "string"),
        "type": (2, "int32"),
        "i": (3, "int32"),
        "f": (4, "float"),
        "s": (5, "bytes"),
        "ints": (6, "int32*"),
        "floats": (7, "float*"),
        "strings": (8, "bytes*"),
        "b": (10, "bool"),
        "bools": (11, "bool*"),
        "block_idx": (12, "int32"),
        "l": (13, "int64"),
        "blocks_idx": (14, "int32*"),
        "longs": (15, "int64*"),
        "float64s": (16, "double*"),
        "var_name": (17, "string"),
        "vars_name": (18, "string*"),
        "float64": (19, "double"),
    },
    "OpDesc": {"inputs": (1, "Slot*"), "outputs": (2, "Slot*"), "type": (3, "string"), "attrs": (4, "Attr*")},
    "BlockDesc": {"idx": (1, "int32"), "parent_idx": (2, "int32"), "vars": (3, "VarDesc*"), "ops": (4, "OpDesc*")},
    "ProgramDesc": {"blocks": (1, "BlockDesc*")},
}
"""Message -> field -> its number and kind, `*` where there are many."""

VALUES = {
    0: "i",
    1: "f",
    2: "s",
    3: "ints",
    4: "floats",
    5: "strings",
    6: "b",
    7: "bools",
    8: "block_idx",
    9: "l",
    10: "blocks_idx",
    11: "longs",
    12: "float64s",
    13: "var_name",
    14: "vars_name",
    15: "float64",
}
"""The type of an attribute -> the field that has its value."""

DTYPES = {
    0: "bool",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "float16",
    5: "float32",
    6: "float64",
    20: "uint8",
    21: "int8",
    22: "bfloat16",
}
"""Types of values by number."""

TENSOR = 7
"""The type of a variable that is a tensor."""


def message(name: str) -> Any:
    """A new message."""
    return _classes()[name]()


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="foreign.proto", package=_PACKAGE, syntax="proto2")
    for name, form in FORM.items():
        described = file.message_type.add(name=name)
        for field, (number, kind) in form.items():
            _describe(described.field.add(name=field, number=number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in FORM}


def _describe(added: Any, kind: str) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    added.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
    plain = kind.rstrip("*")
    if plain in FORM:
        added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
    else:
        added.type = kinds.Type.Value(f"TYPE_{plain.upper()}")
