"""Static programs: a model is declared once, inspected and transformed as data, and run by an Executor.

    import fleet_programs as static

    x = static.data("x", [None, 13])
    y = static.data("y", [None, 1])
    loss = static.layers.mean(static.layers.square_error_cost(static.layers.fc(x, 1), y))
    static.optimizer.SGD(0.01).minimize(loss)

    exe = static.Executor(static.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(feed={"x": ..., "y": ...}, fetch_list=[loss])

Importing this package tells Fleet of programs, and nothing else: names are resolved when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleet._lazy import lazily
from fleet.runtime.jobs import register
from fleet_programs.kind import ProgramKind
from fleet_programs.remote import provide

if TYPE_CHECKING:
    from fleet_programs import io, layers, optimizer, transpiler
    from fleet_programs.backward import clip
    from fleet_programs.backward.backward import append_backward, gradients
    from fleet_programs.datasets.dataset_factory import DatasetFactory
    from fleet_programs.datasets.dataset_memory import InMemoryDataset
    from fleet_programs.datasets.dataset_queue import QueueDataset
    from fleet_programs.datasets.generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator
    from fleet_programs.datasets.multislot_files import MultiSlot, Slot
    from fleet_programs.definition.operator import Operator
    from fleet_programs.executor.dataset import FetchHandler
    from fleet_programs.executor.executor import Executor
    from fleet_programs.executor.lod import LoDTensor, LoDTensorArray, create_lod_tensor, create_random_int_lodtensor
    from fleet_programs.executor.memory import memory_optimize, release_memory
    from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy
    from fleet_programs.executor.parallel import CompiledProgram, ParallelExecutor
    from fleet_programs.executor.place import CPUPlace, CUDAPinnedPlace, CUDAPlace
    from fleet_programs.executor.places import cpu_places, cuda_places
    from fleet_programs.executor.scope import Scope, global_scope, scope_guard
    from fleet_programs.expressions import names as unique_name
    from fleet_programs.expressions.names import name_scope
    from fleet_programs.feeding.feeding import DataFeeder
    from fleet_programs.feeding.reader import DataLoader, EOFException, PyReader
    from fleet_programs.io import load, load_inference_model, save, save_inference_model
    from fleet_programs.jobs.current import main_program, startup_program
    from fleet_programs.layers import (
        accuracy,
        auc,
        case,
        cond,
        create_global_var,
        create_parameter,
        switch_case,
        while_loop,
    )
    from fleet_programs.layers.io import fed as data
    from fleet_programs.optimizer.moving_average import ExponentialMovingAverage
    from fleet_programs.parameters import initializer, regularizer
    from fleet_programs.parameters.attr import ParamAttr
    from fleet_programs.program.block import Block
    from fleet_programs.program.program import Program, default_main_program, default_startup_program, program_guard
    from fleet_programs.program.variable import Parameter, Variable
    from fleet_programs.remote import Remote

_HOMES = {
    "backward.backward": "append_backward gradients",
    "datasets.dataset_factory": "DatasetFactory",
    "datasets.dataset_memory": "InMemoryDataset",
    "datasets.dataset_queue": "QueueDataset",
    "datasets.generator": "DataGenerator MultiSlotDataGenerator MultiSlotStringDataGenerator",
    "datasets.multislot_files": "MultiSlot Slot",
    "executor.dataset": "FetchHandler",
    "executor.executor": "Executor",
    "executor.lod": "LoDTensor LoDTensorArray create_lod_tensor create_random_int_lodtensor",
    "executor.memory": "memory_optimize release_memory",
    "executor.options": "BuildStrategy ExecutionStrategy",
    "executor.parallel": "CompiledProgram ParallelExecutor",
    "executor.place": "CPUPlace CUDAPinnedPlace CUDAPlace",
    "executor.places": "cpu_places cuda_places",
    "executor.scope": "Scope global_scope scope_guard",
    "expressions.names": "name_scope",
    "feeding.feeding": "DataFeeder",
    "feeding.reader": "DataLoader EOFException PyReader",
    "io": "load load_inference_model save save_inference_model",
    "jobs.current": "main_program startup_program",
    "layers": "accuracy auc case cond create_global_var create_parameter switch_case while_loop",
    "layers.io": "data=fed",
    "optimizer.moving_average": "ExponentialMovingAverage",
    "parameters.attr": "ParamAttr",
    "program.block": "Block Operator",
    "program.program": "Program default_main_program default_startup_program program_guard",
    "program.variable": "Parameter Variable",
}

_MODULES = {
    "clip": "backward.clip",
    "initializer": "parameters.initializer",
    "io": "io",
    "layers": "layers",
    "optimizer": "optimizer",
    "regularizer": "parameters.regularizer",
    "transpiler": "transpiler",
    "unique_name": "expressions.names",
}

_LIVE = {"main_program", "startup_program"}
"""Those of a job, once `minimize` has made them."""

__all__ = [
    "Block",
    "BuildStrategy",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataFeeder",
    "DataGenerator",
    "DataLoader",
    "DatasetFactory",
    "EOFException",
    "ExecutionStrategy",
    "Executor",
    "ExponentialMovingAverage",
    "FetchHandler",
    "InMemoryDataset",
    "LoDTensor",
    "LoDTensorArray",
    "MultiSlot",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "Operator",
    "ParallelExecutor",
    "ParamAttr",
    "Parameter",
    "Program",
    "PyReader",
    "QueueDataset",
    "Scope",
    "Slot",
    "Variable",
    "accuracy",
    "append_backward",
    "auc",
    "case",
    "clip",
    "cond",
    "cpu_places",
    "create_global_var",
    "create_lod_tensor",
    "create_parameter",
    "create_random_int_lodtensor",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "global_scope",
    "gradients",
    "initializer",
    "io",
    "layers",
    "load",
    "load_inference_model",
    "main_program",
    "memory_optimize",
    "name_scope",
    "optimizer",
    "program_guard",
    "regularizer",
    "release_memory",
    "save",
    "save_inference_model",
    "scope_guard",
    "startup_program",
    "switch_case",
    "transpiler",
    "unique_name",
    "while_loop",
]

__getattr__, __dir__, _ = lazily(__name__, _HOMES, modules=_MODULES, live=_LIVE)


def _remote() -> Remote:
    """What lets programs talk to servers and other trainers; named here, as this file lies above all others."""
    found: Remote = import_module("fleet_programs.jobs.remote").programs
    return found


provide(_remote)
register(ProgramKind())
