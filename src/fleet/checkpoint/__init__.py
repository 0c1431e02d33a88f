"""Checkpoints: safetensors pieces and a JSON manifest that is written last; ignorant of who owns the state.

    writing = begin(folder)                          one process
    save_table(...), save_dense(...)                 every server, in parallel, into `writing`
    commit(writing, folder, Manifest(...))           one process, with the pieces of all; or abort(writing)

    chain = read_chain(folder)                       every server, however many there are now: increments too
    TableLoad(chain, ...).load(), load_dense(...)

An inference copy is the same with `InferenceIndex`, `export_table` and `export_dense`. The checkpoints of a training
run without servers are `StepFolders`: tensors in spans (`write_spans`, `map_spans`) and a `TrainingManifest`, which is
made of the `Account` of each worker.
"""

from fleet.checkpoint.files.buffers import BlockData as BlockData
from fleet.checkpoint.files.buffers import join_buffer as join_buffer
from fleet.checkpoint.files.buffers import recut as recut
from fleet.checkpoint.files.buffers import split_buffer as split_buffer
from fleet.checkpoint.files.buffers import state_form as state_form
from fleet.checkpoint.files.files import FileInfo as FileInfo
from fleet.checkpoint.files.files import check_file as check_file
from fleet.checkpoint.files.forms import DTYPES as DTYPES
from fleet.checkpoint.files.forms import BlockForm as BlockForm
from fleet.checkpoint.files.forms import ChangedPiece as ChangedPiece
from fleet.checkpoint.files.forms import DensePiece as DensePiece
from fleet.checkpoint.files.forms import Form as Form
from fleet.checkpoint.files.forms import KeptPiece as KeptPiece
from fleet.checkpoint.files.forms import Piece as Piece
from fleet.checkpoint.files.forms import RunPiece as RunPiece
from fleet.checkpoint.files.forms import TableForm as TableForm
from fleet.checkpoint.files.forms import TablePiece as TablePiece
from fleet.checkpoint.files.forms import pieces_from_text as pieces_from_text
from fleet.checkpoint.files.forms import pieces_to_text as pieces_to_text
from fleet.checkpoint.files.pieces import read_piece as read_piece
from fleet.checkpoint.files.pieces import write_piece as write_piece
from fleet.checkpoint.folders.chain import ChainLink as ChainLink
from fleet.checkpoint.folders.chain import next_increment as next_increment
from fleet.checkpoint.folders.chain import parent_at as parent_at
from fleet.checkpoint.folders.chain import read_chain as read_chain
from fleet.checkpoint.folders.chain import read_manifest as read_manifest
from fleet.checkpoint.folders.contents import Contents as Contents
from fleet.checkpoint.folders.folder import abort as abort
from fleet.checkpoint.folders.folder import begin as begin
from fleet.checkpoint.folders.folder import check_files as check_files
from fleet.checkpoint.folders.folder import commit as commit
from fleet.checkpoint.folders.folder import find as find
from fleet.checkpoint.folders.folder import read_contents as read_contents
from fleet.checkpoint.folders.folder import saving as saving
from fleet.checkpoint.folders.inference import DenseArray as DenseArray
from fleet.checkpoint.folders.inference import Inference as Inference
from fleet.checkpoint.folders.inference import InferenceIndex as InferenceIndex
from fleet.checkpoint.folders.inference import TablePart as TablePart
from fleet.checkpoint.folders.inference import Unseen as Unseen
from fleet.checkpoint.folders.inference import parts_from_text as parts_from_text
from fleet.checkpoint.folders.inference import parts_to_text as parts_to_text
from fleet.checkpoint.folders.inference import read_inference as read_inference
from fleet.checkpoint.folders.manifest import Manifest as Manifest
from fleet.checkpoint.folders.manifest import Parent as Parent
from fleet.checkpoint.runs.steps import Best as Best
from fleet.checkpoint.runs.steps import StepFolders as StepFolders
from fleet.checkpoint.runs.training import Account as Account
from fleet.checkpoint.runs.training import TrainingManifest as TrainingManifest
from fleet.checkpoint.state.changed import TouchedRows as TouchedRows
from fleet.checkpoint.state.changed import save_changed as save_changed
from fleet.checkpoint.state.dense import load_dense as load_dense
from fleet.checkpoint.state.dense import save_dense as save_dense
from fleet.checkpoint.state.export import export_dense as export_dense
from fleet.checkpoint.state.export import export_table as export_table
from fleet.checkpoint.state.kept import kept_values as kept_values
from fleet.checkpoint.state.kept import load_kept as load_kept
from fleet.checkpoint.state.kept import save_kept as save_kept
from fleet.checkpoint.state.rows import among as among
from fleet.checkpoint.state.rows import only as only
from fleet.checkpoint.state.sealed import SealableTable as SealableTable
from fleet.checkpoint.state.sealed import ShardFiles as ShardFiles
from fleet.checkpoint.state.sealed import save_sealed as save_sealed
from fleet.checkpoint.state.spans import Span as Span
from fleet.checkpoint.state.spans import SpanData as SpanData
from fleet.checkpoint.state.spans import SpanPiece as SpanPiece
from fleet.checkpoint.state.spans import map_spans as map_spans
from fleet.checkpoint.state.spans import write_spans as write_spans
from fleet.checkpoint.state.tables import ReadableTable as ReadableTable
from fleet.checkpoint.state.tables import TableLike as TableLike
from fleet.checkpoint.state.tables import TableLoad as TableLoad
from fleet.checkpoint.state.tables import save_table as save_table
from fleet.checkpoint.state.tables import shard_groups as shard_groups
from fleet.checkpoint.state.whole import refuse_runs as refuse_runs
