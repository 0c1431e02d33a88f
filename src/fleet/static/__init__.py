"""Static programs: a model is declared once, inspected and transformed as data, and run by an Executor.

    from fleet import static

    x = static.data("x", [None, 13])
    y = static.data("y", [None, 1])
    loss = static.layers.mean(static.layers.square_error_cost(static.layers.fc(x, 1), y))
    static.optimizer.SGD(0.01).minimize(loss)

    exe = static.Executor(static.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(feed={"x": ..., "y": ...}, fetch_list=[loss])

Importing this package does nothing: names are resolved when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.static import clip, initializer, io, layers, optimizer, regularizer
    from fleet.static import names as unique_name
    from fleet.static.attr import ParamAttr
    from fleet.static.backward import append_backward, gradients
    from fleet.static.block import Block
    from fleet.static.executor.dataset import FetchHandler
    from fleet.static.executor.executor import Executor
    from fleet.static.executor.lod import LoDTensor, LoDTensorArray, create_lod_tensor, create_random_int_lodtensor
    from fleet.static.executor.memory import memory_optimize, release_memory
    from fleet.static.executor.parallel import CompiledProgram, ParallelExecutor
    from fleet.static.executor.place import CPUPlace, CUDAPinnedPlace, CUDAPlace
    from fleet.static.executor.scope import Scope, global_scope, scope_guard
    from fleet.static.feeding import DataFeeder
    from fleet.static.io import load, load_inference_model, save, save_inference_model
    from fleet.static.layers import (
        accuracy,
        auc,
        case,
        cond,
        create_global_var,
        create_parameter,
        switch_case,
        while_loop,
    )
    from fleet.static.layers.io import fed as data
    from fleet.static.moving_average import ExponentialMovingAverage
    from fleet.static.names import name_scope
    from fleet.static.operator import Operator
    from fleet.static.places import cpu_places, cuda_places
    from fleet.static.program import Program, default_main_program, default_startup_program, program_guard
    from fleet.static.reader import DataLoader, EOFException, PyReader
    from fleet.static.variable import Parameter, Variable
    from fleet.strategy import BuildStrategy, ExecutionStrategy

_HOMES = {
    "Block": "block",
    "BuildStrategy": "executor.parallel",
    "CPUPlace": "executor.place",
    "CUDAPinnedPlace": "executor.place",
    "CUDAPlace": "executor.place",
    "CompiledProgram": "executor.parallel",
    "DataFeeder": "feeding",
    "DataLoader": "reader",
    "EOFException": "reader",
    "ExecutionStrategy": "executor.parallel",
    "Executor": "executor.executor",
    "ExponentialMovingAverage": "moving_average",
    "FetchHandler": "executor.dataset",
    "LoDTensor": "executor.lod",
    "LoDTensorArray": "executor.lod",
    "Operator": "block",  # where the definitions are there that its attributes come from
    "ParallelExecutor": "executor.parallel",
    "ParamAttr": "attr",
    "Parameter": "variable",
    "Program": "program",
    "PyReader": "reader",
    "Scope": "executor.scope",
    "Variable": "variable",
    "accuracy": "layers",
    "append_backward": "backward",
    "auc": "layers",
    "case": "layers",
    "cond": "layers",
    "cpu_places": "places",
    "create_global_var": "layers",
    "create_lod_tensor": "executor.lod",
    "create_parameter": "layers",
    "create_random_int_lodtensor": "executor.lod",
    "cuda_places": "places",
    "data": "layers.io:fed",
    "default_main_program": "program",
    "default_startup_program": "program",
    "global_scope": "executor.scope",
    "gradients": "backward",
    "load": "io",
    "load_inference_model": "io",
    "memory_optimize": "executor.memory",
    "name_scope": "names",
    "program_guard": "program",
    "release_memory": "executor.memory",
    "save": "io",
    "save_inference_model": "io",
    "scope_guard": "executor.scope",
    "switch_case": "layers",
    "while_loop": "layers",
}

_MODULES = {
    "clip": "clip",
    "initializer": "initializer",
    "io": "io",
    "layers": "layers",
    "optimizer": "optimizer",
    "regularizer": "regularizer",
    "unique_name": "names",
}

__all__ = [
    "Block",
    "BuildStrategy",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataFeeder",
    "DataLoader",
    "EOFException",
    "ExecutionStrategy",
    "Executor",
    "ExponentialMovingAverage",
    "FetchHandler",
    "LoDTensor",
    "LoDTensorArray",
    "Operator",
    "ParallelExecutor",
    "ParamAttr",
    "Parameter",
    "Program",
    "PyReader",
    "Scope",
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
    "memory_optimize",
    "name_scope",
    "optimizer",
    "program_guard",
    "regularizer",
    "release_memory",
    "save",
    "save_inference_model",
    "scope_guard",
    "switch_case",
    "unique_name",
    "while_loop",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, modules=_MODULES)
