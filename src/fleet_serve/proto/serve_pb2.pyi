from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Version(_message.Message):
    __slots__ = ("base", "numbers")
    BASE_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    base: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, base: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class TableKeys(_message.Message):
    __slots__ = ("table", "keys", "column")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    table: str
    keys: bytes
    column: str
    def __init__(self, table: _Optional[str] = ..., keys: _Optional[bytes] = ..., column: _Optional[str] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "texts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("tables", "columns")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TableKeys]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, tables: _Optional[_Iterable[_Union[TableKeys, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class TableRows(_message.Message):
    __slots__ = ("table", "width", "rows", "unseen", "offsets")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    table: str
    width: int
    rows: bytes
    unseen: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, table: _Optional[str] = ..., width: _Optional[int] = ..., rows: _Optional[bytes] = ..., unseen: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class LookupReply(_message.Message):
    __slots__ = ("version", "tables")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    version: Version
    tables: _containers.RepeatedCompositeFieldContainer[TableRows]
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TableRows, _Mapping]]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("inputs", "columns")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Tensor]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, inputs: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class PredictReply(_message.Message):
    __slots__ = ("version", "outputs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    version: Version
    outputs: _containers.RepeatedCompositeFieldContainer[Tensor]
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ...) -> None: ...

class InfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TableInfo(_message.Message):
    __slots__ = ("table", "width", "rows", "changed", "format", "unseen")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    table: str
    width: int
    rows: int
    changed: int
    format: str
    unseen: str
    def __init__(self, table: _Optional[str] = ..., width: _Optional[int] = ..., rows: _Optional[int] = ..., changed: _Optional[int] = ..., format: _Optional[str] = ..., unseen: _Optional[str] = ...) -> None: ...

class InfoReply(_message.Message):
    __slots__ = ("version", "is_ready", "why_not", "lag_s", "tables", "stream")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    LAG_S_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    version: Version
    is_ready: bool
    why_not: str
    lag_s: float
    tables: _containers.RepeatedCompositeFieldContainer[TableInfo]
    stream: str
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., is_ready: _Optional[bool] = ..., why_not: _Optional[str] = ..., lag_s: _Optional[float] = ..., tables: _Optional[_Iterable[_Union[TableInfo, _Mapping]]] = ..., stream: _Optional[str] = ...) -> None: ...
