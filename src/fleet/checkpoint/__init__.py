"""Checkpoints: safetensors pieces and a JSON manifest that is written last; ignorant of who owns the state.

    writing = begin(folder)                          one process
    save_table(...), save_dense(...)                 every server, in parallel, into `writing`
    commit(writing, folder, Manifest(...))           one process, with the pieces of all; or abort(writing)

    where = find(folder)                             every server, however many there are now
    manifest = read_manifest(where)
    TableLoad(...).load(), load_dense(...)

An inference copy is the same with `InferenceIndex`, `export_table` and `export_dense`. The checkpoints of a training
run without servers are `StepFolders`: tensors in spans (`write_spans`, `map_spans`) and a `TrainingManifest`, which is
made of the `Account` of each worker.
"""

from fleet.checkpoint.files.buffers import BlockData, join_buffer, recut, split_buffer, state_form
from fleet.checkpoint.files.files import FileInfo, check_file
from fleet.checkpoint.files.forms import (
    BlockForm,
    DensePiece,
    KeptPiece,
    Piece,
    RunPiece,
    TableForm,
    TablePiece,
    pieces_from_text,
    pieces_to_text,
)
from fleet.checkpoint.files.pieces import read_piece, write_piece
from fleet.checkpoint.files.tensor_form import DTYPES, Form
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import abort, begin, check_files, commit, find, read_manifest, saving
from fleet.checkpoint.folders.inference import (
    DenseArray,
    Inference,
    InferenceIndex,
    TablePart,
    Unseen,
    parts_from_text,
    parts_to_text,
    read_inference,
)
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.runs.steps import Best, StepFolders
from fleet.checkpoint.runs.training import Account, TrainingManifest
from fleet.checkpoint.state.dense import load_dense, save_dense
from fleet.checkpoint.state.export import export_dense, export_table
from fleet.checkpoint.state.kept import kept_values, load_kept, save_kept
from fleet.checkpoint.state.sealed import SealableTable, ShardFiles, save_sealed
from fleet.checkpoint.state.spans import Span, SpanData, SpanPiece, map_spans, write_spans
from fleet.checkpoint.state.tables import ReadableTable, TableLike, TableLoad, save_table, shard_groups
from fleet.checkpoint.state.whole import refuse_runs

__all__ = [
    "DTYPES",
    "Account",
    "Best",
    "BlockData",
    "BlockForm",
    "Contents",
    "DenseArray",
    "DensePiece",
    "FileInfo",
    "Form",
    "Inference",
    "InferenceIndex",
    "KeptPiece",
    "Manifest",
    "Piece",
    "ReadableTable",
    "RunPiece",
    "SealableTable",
    "ShardFiles",
    "Span",
    "SpanData",
    "SpanPiece",
    "StepFolders",
    "TableForm",
    "TableLike",
    "TableLoad",
    "TablePart",
    "TablePiece",
    "TrainingManifest",
    "Unseen",
    "abort",
    "begin",
    "check_file",
    "check_files",
    "commit",
    "export_dense",
    "export_table",
    "find",
    "join_buffer",
    "kept_values",
    "load_dense",
    "load_kept",
    "map_spans",
    "parts_from_text",
    "parts_to_text",
    "pieces_from_text",
    "pieces_to_text",
    "read_inference",
    "read_manifest",
    "read_piece",
    "recut",
    "refuse_runs",
    "save_dense",
    "save_kept",
    "save_sealed",
    "save_table",
    "saving",
    "shard_groups",
    "split_buffer",
    "state_form",
    "write_piece",
    "write_spans",
]
