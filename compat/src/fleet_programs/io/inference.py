"""An inference model: the part of a program that leads from some feeds to some targets, and its parameters.

dirname/__model__               the program's JSON form; its note `inference` has the names of feeds and targets
dirname/fc_0.w_0.npy, ...       the parameters, or one safetensors file if `params_filename` is given
dirname/fleet-checksums.json    the checksums of all of them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import CheckpointError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import global_scope, scope_guard
from fleet_programs.io.files import Replacing, checked_filename, folder_of, read_text
from fleet_programs.io.variables import (
    Dirname,
    check_executor,
    chosen,
    is_persistable,
    load_vars,
    program_of,
    values_of,
)
from fleet_programs.program.json_form import to_json
from fleet_programs.program.notes import INFERENCE_NOTE, SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.remote import remote

MODEL = "__model__"


def save_inference_model(
    dirname: Dirname,
    feeded_var_names: Sequence[str] | str,
    target_vars: Sequence[Variable] | Variable,
    executor: Executor,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Save what computes `target_vars` from the variables `feeded_var_names`; returns the names of the targets.

    The program is pruned: no backward, no optimizer, dropout and batch norm as in evaluation. Of a program with servers
    it is the one that one process runs, with the values that the servers have now. Without
    `export_for_deployment` the whole program is saved as well, as `__model__.main_program`. With `program_only` no
    parameters are. All files take their places together.
    """
    whole = program_of(main_program)
    model = checked_filename(model_filename, "model_filename") or MODEL
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    for target in targets:
        if not isinstance(target, Variable):
            raise UsageTypeError(f"target_vars must hold variables, got {type(target).__name__}")
    if not targets:
        raise UsageError("target_vars must have at least one variable")
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    names, source, scope = [target.name for target in targets], whole, global_scope()
    if SERVERS_NOTE in whole.notes or scope.trainer is not None:
        source, scope = remote().for_inference(whole, feeds, names, scope, folder_of(dirname))
    program = prune(source, feeds, names)
    folder = folder_of(dirname)
    check_executor(executor)
    with scope_guard(scope):
        values = {} if program_only else values_of(program, chosen(program, None, is_persistable))
    with Replacing(folder) as replacing:
        if not program_only:
            replacing.tensors(values, checked_filename(params_filename, "params_filename"))
        if not export_for_deployment:
            replacing.text(f"{model}.main_program", to_json(whole))
        replacing.text(model, to_json(program))
    return names


def load_inference_model(
    dirname: Dirname,
    executor: Executor,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    """What `save_inference_model` saved: [program, names of feeds, target variables]; parameters go to the scope."""
    if pserver_endpoints is not None:
        raise NotSupportedError("pserver_endpoints: an inference model has all its parameters; leave it out")
    folder = folder_of(dirname)
    path = folder / (checked_filename(model_filename, "model_filename") or MODEL)
    try:
        program = Program.from_json(read_text(folder, path.name))
        note = program.notes[INFERENCE_NOTE]
        feeds, targets = list(note["feed"]), [program.global_block().var(name) for name in note["fetch"]]
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} has no inference model: there is no {path.name}; save one with save_inference_model()"
        ) from None
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not an inference model: {error}") from None
    load_vars(executor, folder, program, predicate=is_persistable, filename=params_filename)
    return [program, feeds, targets]


def prune(program: Program, feeds: Sequence[str], targets: Sequence[str]) -> Program:
    """The part of a program that computes `targets` from `feeds`; UsageError names a feed that is missing."""
    block = program.global_block()
    given = {name: block.var(name) for name in feeds}
    offsets = {name for var in given.values() for name in block.levels_of(var)}
    pruned = program.prune(targets, {*given, *offsets})
    kept = pruned.global_block()
    have = {*given, *offsets}
    for op in kept.ops:
        for name in op.input_names:
            if name not in have and not kept.var(name).persistable:
                raise UsageError(
                    f"target {targets[0]!r} needs {name.removesuffix('@LOD')!r}, which {op.type} reads; add it to "
                    "feeded_var_names"
                )
        have |= set(op.output_names)
    used = {name for op in kept.ops for name in (*op.input_names, *op.output_names)} | set(targets) | have
    kept.vars = {name: var for name, var in kept.vars.items() if name in used}
    pruned.notes = {INFERENCE_NOTE: {"feed": list(feeds), "fetch": list(targets)}}
    return pruned
