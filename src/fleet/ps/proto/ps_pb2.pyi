from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLOAT32: _ClassVar[Format]
    BFLOAT16: _ClassVar[Format]
    FLOAT16: _ClassVar[Format]
    INT8: _ClassVar[Format]
FLOAT32: Format
BFLOAT16: Format
FLOAT16: Format
INT8: Format

class Caller(_message.Message):
    __slots__ = ("worker", "incarnation", "instance", "is_traced", "term", "told_sequence", "told_norm")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    IS_TRACED_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    TOLD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOLD_NORM_FIELD_NUMBER: _ClassVar[int]
    worker: int
    incarnation: int
    instance: int
    is_traced: bool
    term: int
    told_sequence: int
    told_norm: float
    def __init__(self, worker: _Optional[int] = ..., incarnation: _Optional[int] = ..., instance: _Optional[int] = ..., is_traced: _Optional[bool] = ..., term: _Optional[int] = ..., told_sequence: _Optional[int] = ..., told_norm: _Optional[float] = ...) -> None: ...

class DeclareRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "job", "server_index", "life", "run", "absent_after_ms", "has_left")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        JOB_FIELD_NUMBER: _ClassVar[int]
        SERVER_INDEX_FIELD_NUMBER: _ClassVar[int]
        LIFE_FIELD_NUMBER: _ClassVar[int]
        RUN_FIELD_NUMBER: _ClassVar[int]
        ABSENT_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
        HAS_LEFT_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        job: str
        server_index: int
        life: int
        run: int
        absent_after_ms: int
        has_left: bool
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., job: _Optional[str] = ..., server_index: _Optional[int] = ..., life: _Optional[int] = ..., run: _Optional[int] = ..., absent_after_ms: _Optional[int] = ..., has_left: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: DeclareRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[DeclareRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class DeclareReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("instance", "is_started", "version", "model_dir", "incarnation", "run", "steps", "position", "num_ended", "passed", "data_port", "num_workers")
        INSTANCE_FIELD_NUMBER: _ClassVar[int]
        IS_STARTED_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        MODEL_DIR_FIELD_NUMBER: _ClassVar[int]
        INCARNATION_FIELD_NUMBER: _ClassVar[int]
        RUN_FIELD_NUMBER: _ClassVar[int]
        STEPS_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        NUM_ENDED_FIELD_NUMBER: _ClassVar[int]
        PASSED_FIELD_NUMBER: _ClassVar[int]
        DATA_PORT_FIELD_NUMBER: _ClassVar[int]
        NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
        instance: int
        is_started: bool
        version: int
        model_dir: str
        incarnation: int
        run: int
        steps: int
        position: bytes
        num_ended: int
        passed: _containers.RepeatedScalarFieldContainer[int]
        data_port: int
        num_workers: int
        def __init__(self, instance: _Optional[int] = ..., is_started: _Optional[bool] = ..., version: _Optional[int] = ..., model_dir: _Optional[str] = ..., incarnation: _Optional[int] = ..., run: _Optional[int] = ..., steps: _Optional[int] = ..., position: _Optional[bytes] = ..., num_ended: _Optional[int] = ..., passed: _Optional[_Iterable[int]] = ..., data_port: _Optional[int] = ..., num_workers: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: DeclareReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[DeclareReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller",)
        CALLER_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: StartRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[StartRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class StartReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: StartReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[StartReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class KeepRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "sequence")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: KeepRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[KeepRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class KeepReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: KeepReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[KeepReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "version", "tables", "dense", "timeout_ms", "kept", "only_read", "formats", "dense_format")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        TABLES_FIELD_NUMBER: _ClassVar[int]
        DENSE_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        KEPT_FIELD_NUMBER: _ClassVar[int]
        ONLY_READ_FIELD_NUMBER: _ClassVar[int]
        FORMATS_FIELD_NUMBER: _ClassVar[int]
        DENSE_FORMAT_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        version: int
        tables: _containers.RepeatedScalarFieldContainer[int]
        dense: bool
        timeout_ms: int
        kept: bool
        only_read: _containers.RepeatedScalarFieldContainer[bool]
        formats: _containers.RepeatedScalarFieldContainer[Format]
        dense_format: Format
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., version: _Optional[int] = ..., tables: _Optional[_Iterable[int]] = ..., dense: _Optional[bool] = ..., timeout_ms: _Optional[int] = ..., kept: _Optional[bool] = ..., only_read: _Optional[_Iterable[bool]] = ..., formats: _Optional[_Iterable[_Union[Format, str]]] = ..., dense_format: _Optional[_Union[Format, str]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PullRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PullRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PullReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("version", "data_port")
        VERSION_FIELD_NUMBER: _ClassVar[int]
        DATA_PORT_FIELD_NUMBER: _ClassVar[int]
        version: int
        data_port: int
        def __init__(self, version: _Optional[int] = ..., data_port: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PullReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PullReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Table(_message.Message):
        __slots__ = ("table", "lr", "has_counts", "has_clicks", "format", "row_format")
        TABLE_FIELD_NUMBER: _ClassVar[int]
        LR_FIELD_NUMBER: _ClassVar[int]
        HAS_COUNTS_FIELD_NUMBER: _ClassVar[int]
        HAS_CLICKS_FIELD_NUMBER: _ClassVar[int]
        FORMAT_FIELD_NUMBER: _ClassVar[int]
        ROW_FORMAT_FIELD_NUMBER: _ClassVar[int]
        table: int
        lr: float
        has_counts: bool
        has_clicks: bool
        format: Format
        row_format: Format
        def __init__(self, table: _Optional[int] = ..., lr: _Optional[float] = ..., has_counts: _Optional[bool] = ..., has_clicks: _Optional[bool] = ..., format: _Optional[_Union[Format, str]] = ..., row_format: _Optional[_Union[Format, str]] = ...) -> None: ...
    class Dense(_message.Message):
        __slots__ = ("format", "is_sparse")
        FORMAT_FIELD_NUMBER: _ClassVar[int]
        IS_SPARSE_FIELD_NUMBER: _ClassVar[int]
        format: Format
        is_sparse: bool
        def __init__(self, format: _Optional[_Union[Format, str]] = ..., is_sparse: _Optional[bool] = ...) -> None: ...
    class Header(_message.Message):
        __slots__ = ("caller", "sequence", "step", "pulled_version", "tables", "dense_lrs", "want_dense", "is_delta", "want_rows", "pull_tables", "timeout_ms", "dense_groups", "pull_only_read", "position", "participants", "steps", "is_pass", "dense", "pull_formats", "dense_format", "absent", "squared_norm")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        PULLED_VERSION_FIELD_NUMBER: _ClassVar[int]
        TABLES_FIELD_NUMBER: _ClassVar[int]
        DENSE_LRS_FIELD_NUMBER: _ClassVar[int]
        WANT_DENSE_FIELD_NUMBER: _ClassVar[int]
        IS_DELTA_FIELD_NUMBER: _ClassVar[int]
        WANT_ROWS_FIELD_NUMBER: _ClassVar[int]
        PULL_TABLES_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        DENSE_GROUPS_FIELD_NUMBER: _ClassVar[int]
        PULL_ONLY_READ_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
        STEPS_FIELD_NUMBER: _ClassVar[int]
        IS_PASS_FIELD_NUMBER: _ClassVar[int]
        DENSE_FIELD_NUMBER: _ClassVar[int]
        PULL_FORMATS_FIELD_NUMBER: _ClassVar[int]
        DENSE_FORMAT_FIELD_NUMBER: _ClassVar[int]
        ABSENT_FIELD_NUMBER: _ClassVar[int]
        SQUARED_NORM_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        step: int
        pulled_version: int
        tables: _containers.RepeatedCompositeFieldContainer[PushRequest.Table]
        dense_lrs: _containers.RepeatedScalarFieldContainer[float]
        want_dense: bool
        is_delta: bool
        want_rows: bool
        pull_tables: _containers.RepeatedScalarFieldContainer[int]
        timeout_ms: int
        dense_groups: _containers.RepeatedScalarFieldContainer[int]
        pull_only_read: _containers.RepeatedScalarFieldContainer[bool]
        position: bytes
        participants: _containers.RepeatedScalarFieldContainer[int]
        steps: int
        is_pass: bool
        dense: _containers.RepeatedCompositeFieldContainer[PushRequest.Dense]
        pull_formats: _containers.RepeatedScalarFieldContainer[Format]
        dense_format: Format
        absent: _containers.RepeatedScalarFieldContainer[int]
        squared_norm: float
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ..., step: _Optional[int] = ..., pulled_version: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[PushRequest.Table, _Mapping]]] = ..., dense_lrs: _Optional[_Iterable[float]] = ..., want_dense: _Optional[bool] = ..., is_delta: _Optional[bool] = ..., want_rows: _Optional[bool] = ..., pull_tables: _Optional[_Iterable[int]] = ..., timeout_ms: _Optional[int] = ..., dense_groups: _Optional[_Iterable[int]] = ..., pull_only_read: _Optional[_Iterable[bool]] = ..., position: _Optional[bytes] = ..., participants: _Optional[_Iterable[int]] = ..., steps: _Optional[int] = ..., is_pass: _Optional[bool] = ..., dense: _Optional[_Iterable[_Union[PushRequest.Dense, _Mapping]]] = ..., pull_formats: _Optional[_Iterable[_Union[Format, str]]] = ..., dense_format: _Optional[_Union[Format, str]] = ..., absent: _Optional[_Iterable[int]] = ..., squared_norm: _Optional[float] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PushRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PushRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("version", "was_repeated", "staleness", "skipped", "participants", "rows", "is_held", "passed", "num_ended", "data_port", "num_workers", "is_collected", "squared_norm", "lives")
        VERSION_FIELD_NUMBER: _ClassVar[int]
        WAS_REPEATED_FIELD_NUMBER: _ClassVar[int]
        STALENESS_FIELD_NUMBER: _ClassVar[int]
        SKIPPED_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        IS_HELD_FIELD_NUMBER: _ClassVar[int]
        PASSED_FIELD_NUMBER: _ClassVar[int]
        NUM_ENDED_FIELD_NUMBER: _ClassVar[int]
        DATA_PORT_FIELD_NUMBER: _ClassVar[int]
        NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
        IS_COLLECTED_FIELD_NUMBER: _ClassVar[int]
        SQUARED_NORM_FIELD_NUMBER: _ClassVar[int]
        LIVES_FIELD_NUMBER: _ClassVar[int]
        version: int
        was_repeated: bool
        staleness: int
        skipped: int
        participants: _containers.RepeatedScalarFieldContainer[int]
        rows: _containers.RepeatedScalarFieldContainer[int]
        is_held: bool
        passed: _containers.RepeatedScalarFieldContainer[int]
        num_ended: int
        data_port: int
        num_workers: int
        is_collected: bool
        squared_norm: float
        lives: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, version: _Optional[int] = ..., was_repeated: _Optional[bool] = ..., staleness: _Optional[int] = ..., skipped: _Optional[int] = ..., participants: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ..., is_held: _Optional[bool] = ..., passed: _Optional[_Iterable[int]] = ..., num_ended: _Optional[int] = ..., data_port: _Optional[int] = ..., num_workers: _Optional[int] = ..., is_collected: _Optional[bool] = ..., squared_norm: _Optional[float] = ..., lives: _Optional[_Iterable[int]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PushReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PushReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class AssignRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "sequence", "table")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        TABLE_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        table: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ..., table: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: AssignRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[AssignRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class AssignReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("evicted",)
        EVICTED_FIELD_NUMBER: _ClassVar[int]
        evicted: int
        def __init__(self, evicted: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: AssignReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[AssignReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class NormRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "step", "sequence", "is_told", "squared_norm", "timeout_ms", "is_former")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        IS_TOLD_FIELD_NUMBER: _ClassVar[int]
        SQUARED_NORM_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        IS_FORMER_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        step: int
        sequence: int
        is_told: bool
        squared_norm: float
        timeout_ms: int
        is_former: bool
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., step: _Optional[int] = ..., sequence: _Optional[int] = ..., is_told: _Optional[bool] = ..., squared_norm: _Optional[float] = ..., timeout_ms: _Optional[int] = ..., is_former: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: NormRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[NormRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class NormReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("squared_norm", "is_sum", "is_lost", "outcome", "is_held", "version", "incarnation", "sequence", "lives", "has_left")
        SQUARED_NORM_FIELD_NUMBER: _ClassVar[int]
        IS_SUM_FIELD_NUMBER: _ClassVar[int]
        IS_LOST_FIELD_NUMBER: _ClassVar[int]
        OUTCOME_FIELD_NUMBER: _ClassVar[int]
        IS_HELD_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        INCARNATION_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        LIVES_FIELD_NUMBER: _ClassVar[int]
        HAS_LEFT_FIELD_NUMBER: _ClassVar[int]
        squared_norm: float
        is_sum: bool
        is_lost: bool
        outcome: PushReply.Header
        is_held: bool
        version: int
        incarnation: int
        sequence: int
        lives: _containers.RepeatedScalarFieldContainer[int]
        has_left: bool
        def __init__(self, squared_norm: _Optional[float] = ..., is_sum: _Optional[bool] = ..., is_lost: _Optional[bool] = ..., outcome: _Optional[_Union[PushReply.Header, _Mapping]] = ..., is_held: _Optional[bool] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., lives: _Optional[_Iterable[int]] = ..., has_left: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: NormReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[NormReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "sequence", "is_out", "step", "every")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        IS_OUT_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        EVERY_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        is_out: bool
        step: int
        every: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ..., is_out: _Optional[bool] = ..., step: _Optional[int] = ..., every: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: JoinRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[JoinRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("step",)
        STEP_FIELD_NUMBER: _ClassVar[int]
        step: int
        def __init__(self, step: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: JoinReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[JoinReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "is_absent", "is_unfinished", "sequence", "is_drained", "back")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        IS_ABSENT_FIELD_NUMBER: _ClassVar[int]
        IS_UNFINISHED_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        IS_DRAINED_FIELD_NUMBER: _ClassVar[int]
        BACK_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        is_absent: bool
        is_unfinished: bool
        sequence: int
        is_drained: bool
        back: _containers.RepeatedCompositeFieldContainer[LeaveRequest.HandedBack]
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., is_absent: _Optional[bool] = ..., is_unfinished: _Optional[bool] = ..., sequence: _Optional[int] = ..., is_drained: _Optional[bool] = ..., back: _Optional[_Iterable[_Union[LeaveRequest.HandedBack, _Mapping]]] = ...) -> None: ...
    class HandedBack(_message.Message):
        __slots__ = ("queue", "epoch", "round", "num_done", "rows_taken")
        QUEUE_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        ROUND_FIELD_NUMBER: _ClassVar[int]
        NUM_DONE_FIELD_NUMBER: _ClassVar[int]
        ROWS_TAKEN_FIELD_NUMBER: _ClassVar[int]
        queue: str
        epoch: int
        round: int
        num_done: int
        rows_taken: int
        def __init__(self, queue: _Optional[str] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., num_done: _Optional[int] = ..., rows_taken: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: LeaveRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[LeaveRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: LeaveReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[LeaveReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class SaveRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "folder", "values_only", "in_background", "timeout_ms", "cut", "tracked")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        FOLDER_FIELD_NUMBER: _ClassVar[int]
        VALUES_ONLY_FIELD_NUMBER: _ClassVar[int]
        IN_BACKGROUND_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        CUT_FIELD_NUMBER: _ClassVar[int]
        TRACKED_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        folder: str
        values_only: bool
        in_background: bool
        timeout_ms: int
        cut: int
        tracked: Tracked
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., folder: _Optional[str] = ..., values_only: _Optional[bool] = ..., in_background: _Optional[bool] = ..., timeout_ms: _Optional[int] = ..., cut: _Optional[int] = ..., tracked: _Optional[_Union[Tracked, _Mapping]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: SaveRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[SaveRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class Tracked(_message.Message):
    __slots__ = ("chain", "mark", "parent")
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    chain: str
    mark: str
    parent: str
    def __init__(self, chain: _Optional[str] = ..., mark: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...

class SaveReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("pieces", "is_written", "num_files", "version", "steps", "lost")
        PIECES_FIELD_NUMBER: _ClassVar[int]
        IS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
        NUM_FILES_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        STEPS_FIELD_NUMBER: _ClassVar[int]
        LOST_FIELD_NUMBER: _ClassVar[int]
        pieces: str
        is_written: bool
        num_files: int
        version: int
        steps: _containers.RepeatedScalarFieldContainer[int]
        lost: str
        def __init__(self, pieces: _Optional[str] = ..., is_written: _Optional[bool] = ..., num_files: _Optional[int] = ..., version: _Optional[int] = ..., steps: _Optional[_Iterable[int]] = ..., lost: _Optional[str] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: SaveReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[SaveReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class CutRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        HOLD: _ClassVar[CutRequest.Phase]
        TAKE: _ClassVar[CutRequest.Phase]
        DROP: _ClassVar[CutRequest.Phase]
    HOLD: CutRequest.Phase
    TAKE: CutRequest.Phase
    DROP: CutRequest.Phase
    class Header(_message.Message):
        __slots__ = ("caller", "cut", "phase", "taken", "timeout_ms", "want_dense", "tracked")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        CUT_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        TAKEN_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        WANT_DENSE_FIELD_NUMBER: _ClassVar[int]
        TRACKED_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        cut: int
        phase: CutRequest.Phase
        taken: _containers.RepeatedCompositeFieldContainer[Taken]
        timeout_ms: int
        want_dense: bool
        tracked: Tracked
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., cut: _Optional[int] = ..., phase: _Optional[_Union[CutRequest.Phase, str]] = ..., taken: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ..., timeout_ms: _Optional[int] = ..., want_dense: _Optional[bool] = ..., tracked: _Optional[_Union[Tracked, _Mapping]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: CutRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[CutRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("incarnation", "upto", "later")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    upto: int
    later: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, incarnation: _Optional[int] = ..., upto: _Optional[int] = ..., later: _Optional[_Iterable[int]] = ...) -> None: ...

class CutReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("is_done", "taken", "busy", "num_files", "missing", "lost", "held_s", "is_copied")
        IS_DONE_FIELD_NUMBER: _ClassVar[int]
        TAKEN_FIELD_NUMBER: _ClassVar[int]
        BUSY_FIELD_NUMBER: _ClassVar[int]
        NUM_FILES_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        LOST_FIELD_NUMBER: _ClassVar[int]
        HELD_S_FIELD_NUMBER: _ClassVar[int]
        IS_COPIED_FIELD_NUMBER: _ClassVar[int]
        is_done: bool
        taken: _containers.RepeatedCompositeFieldContainer[Taken]
        busy: str
        num_files: int
        missing: _containers.RepeatedScalarFieldContainer[int]
        lost: str
        held_s: float
        is_copied: bool
        def __init__(self, is_done: _Optional[bool] = ..., taken: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ..., busy: _Optional[str] = ..., num_files: _Optional[int] = ..., missing: _Optional[_Iterable[int]] = ..., lost: _Optional[str] = ..., held_s: _Optional[float] = ..., is_copied: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: CutReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[CutReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ReshardRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        COPY: _ClassVar[ReshardRequest.Phase]
        FILL: _ClassVar[ReshardRequest.Phase]
        HOLD: _ClassVar[ReshardRequest.Phase]
        TAKE: _ClassVar[ReshardRequest.Phase]
        ADOPT: _ClassVar[ReshardRequest.Phase]
        END: _ClassVar[ReshardRequest.Phase]
    COPY: ReshardRequest.Phase
    FILL: ReshardRequest.Phase
    HOLD: ReshardRequest.Phase
    TAKE: ReshardRequest.Phase
    ADOPT: ReshardRequest.Phase
    END: ReshardRequest.Phase
    class Header(_message.Message):
        __slots__ = ("caller", "layout", "phase", "job", "server_index", "num_sources", "taken", "timeout_ms")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        LAYOUT_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        JOB_FIELD_NUMBER: _ClassVar[int]
        SERVER_INDEX_FIELD_NUMBER: _ClassVar[int]
        NUM_SOURCES_FIELD_NUMBER: _ClassVar[int]
        TAKEN_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        layout: int
        phase: ReshardRequest.Phase
        job: str
        server_index: int
        num_sources: int
        taken: _containers.RepeatedCompositeFieldContainer[Taken]
        timeout_ms: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., layout: _Optional[int] = ..., phase: _Optional[_Union[ReshardRequest.Phase, str]] = ..., job: _Optional[str] = ..., server_index: _Optional[int] = ..., num_sources: _Optional[int] = ..., taken: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ReshardRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ReshardRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ReshardReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("is_done", "taken", "missing", "busy", "lost", "rows")
        IS_DONE_FIELD_NUMBER: _ClassVar[int]
        TAKEN_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        BUSY_FIELD_NUMBER: _ClassVar[int]
        LOST_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        is_done: bool
        taken: _containers.RepeatedCompositeFieldContainer[Taken]
        missing: _containers.RepeatedScalarFieldContainer[int]
        busy: str
        lost: str
        rows: int
        def __init__(self, is_done: _Optional[bool] = ..., taken: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ..., missing: _Optional[_Iterable[int]] = ..., busy: _Optional[str] = ..., lost: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ReshardReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ReshardReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "folder", "check_only", "sequence")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        FOLDER_FIELD_NUMBER: _ClassVar[int]
        CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        folder: str
        check_only: bool
        sequence: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., folder: _Optional[str] = ..., check_only: _Optional[bool] = ..., sequence: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: LoadRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[LoadRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class LoadReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("rows", "version")
        ROWS_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        rows: int
        version: int
        def __init__(self, rows: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: LoadReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[LoadReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class MeetRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "name", "is_here", "text", "others", "timeout_ms", "is_between_steps")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        IS_HERE_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        OTHERS_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        IS_BETWEEN_STEPS_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        name: str
        is_here: bool
        text: str
        others: _containers.RepeatedScalarFieldContainer[int]
        timeout_ms: int
        is_between_steps: bool
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., name: _Optional[str] = ..., is_here: _Optional[bool] = ..., text: _Optional[str] = ..., others: _Optional[_Iterable[int]] = ..., timeout_ms: _Optional[int] = ..., is_between_steps: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: MeetRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[MeetRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class MeetReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("is_complete", "texts", "missing", "elsewhere", "signs")
        IS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
        TEXTS_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
        SIGNS_FIELD_NUMBER: _ClassVar[int]
        is_complete: bool
        texts: _containers.RepeatedScalarFieldContainer[str]
        missing: _containers.RepeatedScalarFieldContainer[int]
        elsewhere: _containers.RepeatedScalarFieldContainer[int]
        signs: int
        def __init__(self, is_complete: _Optional[bool] = ..., texts: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[int]] = ..., elsewhere: _Optional[_Iterable[int]] = ..., signs: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: MeetReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[MeetReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class TakeRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "queue", "epoch", "round", "number", "first", "total", "extra", "is_idle")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        QUEUE_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        ROUND_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        FIRST_FIELD_NUMBER: _ClassVar[int]
        TOTAL_FIELD_NUMBER: _ClassVar[int]
        EXTRA_FIELD_NUMBER: _ClassVar[int]
        IS_IDLE_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        queue: str
        epoch: int
        round: int
        number: int
        first: int
        total: int
        extra: _containers.RepeatedScalarFieldContainer[int]
        is_idle: bool
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., queue: _Optional[str] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., number: _Optional[int] = ..., first: _Optional[int] = ..., total: _Optional[int] = ..., extra: _Optional[_Iterable[int]] = ..., is_idle: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: TakeRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[TakeRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class TakeReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("pieces", "rows_taken", "is_over", "awaited", "breaks")
        PIECES_FIELD_NUMBER: _ClassVar[int]
        ROWS_TAKEN_FIELD_NUMBER: _ClassVar[int]
        IS_OVER_FIELD_NUMBER: _ClassVar[int]
        AWAITED_FIELD_NUMBER: _ClassVar[int]
        BREAKS_FIELD_NUMBER: _ClassVar[int]
        pieces: _containers.RepeatedScalarFieldContainer[int]
        rows_taken: _containers.RepeatedScalarFieldContainer[int]
        is_over: bool
        awaited: _containers.RepeatedScalarFieldContainer[int]
        breaks: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, pieces: _Optional[_Iterable[int]] = ..., rows_taken: _Optional[_Iterable[int]] = ..., is_over: _Optional[bool] = ..., awaited: _Optional[_Iterable[int]] = ..., breaks: _Optional[_Iterable[int]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: TakeReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[TakeReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ShrinkRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "table", "unseen_steps", "score_below", "decay", "use_score", "unseen_s", "keys_to", "sequence")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        TABLE_FIELD_NUMBER: _ClassVar[int]
        UNSEEN_STEPS_FIELD_NUMBER: _ClassVar[int]
        SCORE_BELOW_FIELD_NUMBER: _ClassVar[int]
        DECAY_FIELD_NUMBER: _ClassVar[int]
        USE_SCORE_FIELD_NUMBER: _ClassVar[int]
        UNSEEN_S_FIELD_NUMBER: _ClassVar[int]
        KEYS_TO_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        table: str
        unseen_steps: int
        score_below: float
        decay: float
        use_score: bool
        unseen_s: float
        keys_to: str
        sequence: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., table: _Optional[str] = ..., unseen_steps: _Optional[int] = ..., score_below: _Optional[float] = ..., decay: _Optional[float] = ..., use_score: _Optional[bool] = ..., unseen_s: _Optional[float] = ..., keys_to: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ShrinkRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ShrinkRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ShrinkReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("deleted", "rows")
        DELETED_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        deleted: int
        rows: int
        def __init__(self, deleted: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ShrinkReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ShrinkReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "sequence", "tables", "keys")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        TABLES_FIELD_NUMBER: _ClassVar[int]
        KEYS_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        tables: _containers.RepeatedScalarFieldContainer[str]
        keys: bytes
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., keys: _Optional[bytes] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ForgetRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ForgetRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ForgetReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("rows", "waiting")
        ROWS_FIELD_NUMBER: _ClassVar[int]
        WAITING_FIELD_NUMBER: _ClassVar[int]
        rows: int
        waiting: int
        def __init__(self, rows: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: ForgetReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[ForgetReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller",)
        CALLER_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: StatsRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[StatsRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class StatsReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("stats", "awaited", "missing")
        STATS_FIELD_NUMBER: _ClassVar[int]
        AWAITED_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        stats: str
        awaited: str
        missing: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, stats: _Optional[str] = ..., awaited: _Optional[str] = ..., missing: _Optional[_Iterable[int]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: StatsReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[StatsReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class BoardRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Act(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        READ: _ClassVar[BoardRequest.Act]
        PUT: _ClassVar[BoardRequest.Act]
        PUT_FIRST: _ClassVar[BoardRequest.Act]
        ADD: _ClassVar[BoardRequest.Act]
    READ: BoardRequest.Act
    PUT: BoardRequest.Act
    PUT_FIRST: BoardRequest.Act
    ADD: BoardRequest.Act
    class Header(_message.Message):
        __slots__ = ("caller", "act", "keys", "text", "number")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        ACT_FIELD_NUMBER: _ClassVar[int]
        KEYS_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        act: BoardRequest.Act
        keys: _containers.RepeatedScalarFieldContainer[str]
        text: str
        number: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., act: _Optional[_Union[BoardRequest.Act, str]] = ..., keys: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: BoardRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[BoardRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class BoardReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("notes",)
        class NotesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        NOTES_FIELD_NUMBER: _ClassVar[int]
        notes: _containers.ScalarMap[str, str]
        def __init__(self, notes: _Optional[_Mapping[str, str]] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: BoardReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[BoardReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "server", "copy", "lsn", "is_empty", "file", "segment", "at", "timeout_ms")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SERVER_FIELD_NUMBER: _ClassVar[int]
        COPY_FIELD_NUMBER: _ClassVar[int]
        LSN_FIELD_NUMBER: _ClassVar[int]
        IS_EMPTY_FIELD_NUMBER: _ClassVar[int]
        FILE_FIELD_NUMBER: _ClassVar[int]
        SEGMENT_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        server: int
        copy: int
        lsn: int
        is_empty: bool
        file: str
        segment: int
        at: int
        timeout_ms: int
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., server: _Optional[int] = ..., copy: _Optional[int] = ..., lsn: _Optional[int] = ..., is_empty: _Optional[bool] = ..., file: _Optional[str] = ..., segment: _Optional[int] = ..., at: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: FollowRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[FollowRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class FollowReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class File(_message.Message):
        __slots__ = ("name", "size")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        name: str
        size: int
        def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...
    class Header(_message.Message):
        __slots__ = ("term", "lsn", "is_whole", "files", "segment", "lost", "data_port")
        TERM_FIELD_NUMBER: _ClassVar[int]
        LSN_FIELD_NUMBER: _ClassVar[int]
        IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
        FILES_FIELD_NUMBER: _ClassVar[int]
        SEGMENT_FIELD_NUMBER: _ClassVar[int]
        LOST_FIELD_NUMBER: _ClassVar[int]
        DATA_PORT_FIELD_NUMBER: _ClassVar[int]
        term: int
        lsn: int
        is_whole: bool
        files: _containers.RepeatedCompositeFieldContainer[FollowReply.File]
        segment: int
        lost: str
        data_port: int
        def __init__(self, term: _Optional[int] = ..., lsn: _Optional[int] = ..., is_whole: _Optional[bool] = ..., files: _Optional[_Iterable[_Union[FollowReply.File, _Mapping]]] = ..., segment: _Optional[int] = ..., lost: _Optional[str] = ..., data_port: _Optional[int] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: FollowReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[FollowReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ("caller", "sequence", "url", "every_s", "check_only")
        CALLER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        URL_FIELD_NUMBER: _ClassVar[int]
        EVERY_S_FIELD_NUMBER: _ClassVar[int]
        CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
        caller: Caller
        sequence: int
        url: str
        every_s: float
        check_only: bool
        def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., sequence: _Optional[int] = ..., url: _Optional[str] = ..., every_s: _Optional[float] = ..., check_only: _Optional[bool] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PublishRequest.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PublishRequest.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("header", "tensors", "padding")
    class Header(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    header: PublishReply.Header
    tensors: _containers.RepeatedScalarFieldContainer[bytes]
    padding: bytes
    def __init__(self, header: _Optional[_Union[PublishReply.Header, _Mapping]] = ..., tensors: _Optional[_Iterable[bytes]] = ..., padding: _Optional[bytes] = ...) -> None: ...
