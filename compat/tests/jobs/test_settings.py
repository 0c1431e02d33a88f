"""Settings that are not built take their default alone; fields about programs are honoured or say why they are not."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import FleetError, NotSupportedError, StrategyError, UnknownFieldError
from fleet_paddle.strategies.not_built import NOT_BUILT, Names, NotBuilt
from fleet_paddle.strategies.program_strategy import ProgramStrategy

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "migrate" / "settings.md"
sys.path.insert(0, str(ROOT / "website"))
try:
    from settings_page import page
finally:
    sys.path.remove(str(ROOT / "website"))


def _settings(names: Names = NOT_BUILT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], NotBuilt]]:
    for name, found in names.items():
        if isinstance(found, NotBuilt):
            yield (*path, name), found
        else:
            yield from _settings(found, (*path, "my.table" if name == "*" else name))


SETTINGS = list(_settings())


@pytest.fixture
def strategy() -> Any:
    """Of no type: a type checker knows what is built, and nothing else."""
    return ProgramStrategy()


@pytest.mark.parametrize(("path", "setting"), SETTINGS, ids=[".".join(path) for path, _ in SETTINGS])
def test_what_is_not_built_is_read_and_takes_its_default_alone(
    strategy: Any, path: tuple[str, ...], setting: NotBuilt
) -> None:
    *groups, name = path
    found = strategy
    for group in groups:
        found = found[group] if group == "my.table" else getattr(found, group)
    assert getattr(found, name) == setting.default
    setattr(found, name, setting.default)
    given: Any = setting.default
    for inner in reversed(path[1:]):
        given = {inner: given}
    setattr(strategy, path[0], given)
    with pytest.raises(NotSupportedError) as caught:
        setattr(found, name, "another")
    said = str(caught.value)
    assert said.startswith(f"strategy.{'.'.join(path)} is not built: {setting.instead}; its default is ")
    assert strategy == ProgramStrategy()
    strategy.require_supported()


def test_a_dict_with_one_value_that_is_not_built_changes_nothing(strategy: Any) -> None:
    with pytest.raises(NotSupportedError, match="^strategy.amp_configs.use_pure_fp16 is not built: set amp"):
        strategy.amp_configs = {"incr_ratio": 3.0, "use_pure_fp16": True}
    assert strategy.amp_configs.incr_ratio == 2.0
    with pytest.raises(NotSupportedError, match="^strategy.hybrid_configs.mp_degree is not built: "):
        strategy.hybrid_configs = {"dp_degree": -1, "mp_degree": 2}
    with pytest.raises(NotSupportedError, match="^strategy.sparse_table_configs.user.sparse_optimizer is not built: "):
        strategy.sparse_table_configs["user"] = {"sparse_optimizer": "adam"}
    with pytest.raises(NotSupportedError, match="^strategy.fleet_desc_configs.user.sparse_embedx_dim is not built: "):
        strategy.fleet_desc_configs.update({"user": {"sparse_embedx_dim": 16}})


def test_a_password_is_not_shown(strategy: Any) -> None:
    with pytest.raises(NotSupportedError) as caught:
        strategy.fs_client_param = {"passwd": "hunter2"}
    assert "hunter2" not in str(caught.value)


def test_a_group_without_fields_reads_as_a_mapping(strategy: Any) -> None:
    assert dict(strategy.tensor_parallel_configs) == {"tensor_parallel_degree": 1, "tensor_init_seed": -1}
    assert repr(strategy.tensor_parallel_configs) == "{'tensor_parallel_degree': 1, 'tensor_init_seed': -1}"
    assert (len(strategy.sparse_table_configs), dict(strategy.sparse_table_configs)) == (0, {})
    assert strategy.recompute_configs["checkpoint_shape"] == ()
    assert "checkpoint_shape" in strategy.recompute_configs
    assert len(strategy.recompute_configs) == 3
    for twin in (copy.deepcopy(strategy.hybrid_configs), pickle.loads(pickle.dumps(strategy.hybrid_configs))):
        assert twin == strategy.hybrid_configs


def test_a_wrong_name_among_those_that_are_not_built(strategy: Any) -> None:
    with pytest.raises(UnknownFieldError, match=r"^strategy.hybrid_configs has no field 'mp_degre'; did you mean"):
        strategy.hybrid_configs = {"mp_degre": 1}
    with pytest.raises(UnknownFieldError, match="^strategy has no field 'pipelin'; did you mean 'pipeline'"):
        strategy.pipelin = True
    with pytest.raises(StrategyError, match="^strategy.sparse_table_configs.a must be a dict of fields, got 3$"):
        strategy.sparse_table_configs = {"a": 3}
    with pytest.raises(StrategyError, match="^strategy.pipeline_configs must be a dict of fields, got 3$"):
        strategy.pipeline_configs = 3


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("pipeline = true", NotSupportedError, ": strategy.pipeline is not built: divide a large model with"),
        (
            "[fleet_desc_configs.t]\nsparse_shard_num = 5",
            NotSupportedError,
            "fleet_desc_configs.t.sparse_shard_num",
        ),
        ("[sparse_table_configs]\nsparse_shard_num = 3", StrategyError, "must be a dict of fields, got 3"),
    ],
)
def test_a_file_that_asks_for_what_is_not_built(
    tmp_path: Path, content: str, kind: type[FleetError], message: str
) -> None:
    path = tmp_path / "strategy.toml"
    path.write_text(content)
    with pytest.raises(kind) as caught:
        ProgramStrategy.load(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    path.write_text("pipeline = false\n[fleet_desc_configs.t]\nsparse_shard_num = 1000\n")
    assert ProgramStrategy.load(path) == ProgramStrategy()


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        ("build_strategy", "debug_graphviz_path", "a.dot", "is not built; print the program"),
        ("build_strategy", "use_hierarchical_allreduce", True, "is not built; NCCL finds the way"),
        ("build_strategy", "sync_batch_norm", True, "is not built for programs; leave it out. For torch modules set"),
        (
            "build_strategy",
            "memory_optimize",
            True,
            "is for one program; give the BuildStrategy to fleet_programs.Compi",
        ),
        ("execution_strategy", "num_iteration_per_run", 2, "must be 1; run the program in a loop"),
    ],
)
def test_options_of_programs_that_no_job_honours(
    strategy: Any, group: str, name: str, value: object, message: str
) -> None:
    setattr(getattr(strategy, group), name, value)
    with pytest.raises(NotSupportedError, match=f"^strategy.{group}.{name} {message}"):
        strategy.require_supported()


def test_hints_say_that_they_are_hints(strategy: ProgramStrategy) -> None:
    """A field of programs is read by the Executor, refused, or says why it changes nothing."""
    read = {"torch_compile", "cuda_graph", "memory_optimize", "num_trainers", "trainer_id"}
    for options in (strategy.build_strategy, strategy.execution_strategy):
        for leaf in options.leaves():
            is_hint = leaf.field.doc.startswith("changes nothing: ")
            assert is_hint != (leaf.dotted in read or leaf.dotted in options._only), leaf.dotted
    assert (static.BuildStrategy, static.ExecutionStrategy) == (
        type(strategy.build_strategy),
        type(strategy.execution_strategy),
    )


def test_options_of_programs_are_taken(strategy: ProgramStrategy) -> None:
    built, run = static.BuildStrategy(fuse_bn_act_ops=True, sync_batch_norm=True), static.ExecutionStrategy()
    run.num_threads = 4
    strategy.build_strategy, strategy.execution_strategy = built, run  # as 2.0 does
    said = {"sync_batch_norm", "build_strategy.fuse_bn_act_ops", "execution_strategy.num_threads"}
    assert {leaf.dotted for leaf in strategy.changed()} == said
    strategy.require_supported()
    with pytest.raises(UnknownFieldError, match="strategy.build_strategy has no field 'fuse'"):
        strategy.build_strategy = {"fuse_bn_add_act_ops": False, "fuse": 1}
    assert strategy.build_strategy.fuse_bn_add_act_ops


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python website/settings_page.py > docs/migrate/settings.md"


def test_the_page_has_everything() -> None:
    text = page()
    for path, _ in SETTINGS:
        dotted = ".".join(path).replace("my.table", "*").replace("fleet_desc", "sparse_table")
        assert f"| `{dotted}` | " in text
    strategy = ProgramStrategy()
    for leaf in (*strategy.build_strategy.leaves(), *strategy.execution_strategy.leaves()):
        assert f"| `{leaf.path[-1]}` | " in text


def test_nothing_is_built_and_not_built() -> None:
    assert not {leaf.path for leaf in ProgramStrategy().leaves()} & {path for path, _ in SETTINGS}


def test_every_setting_says_what_to_do_instead() -> None:
    for path, setting in SETTINGS:
        assert setting.instead, path
        assert setting.instead[-1] != ".", path
        assert "|" not in setting.instead, path


def test_what_is_set_on_a_group_stays_there(tmp_path: Path) -> None:
    """Three fields have the names of fields of the strategy itself, which mean more there."""
    path = tmp_path / "strategy.toml"
    strategy = ProgramStrategy()
    strategy.build_strategy.fuse_all_reduce_ops = False
    strategy.build_strategy.nccl_comm_num = 2
    strategy.save(path)
    loaded = ProgramStrategy.load(path)
    assert loaded == strategy
    assert loaded.fuse_all_reduce_ops
    assert loaded.build_strategy.nccl_comm_num == 2


def test_an_array_is_refused_as_any_other_value() -> None:
    with pytest.raises(FleetError, match="split_data is not built"):
        ProgramStrategy().split_data = np.array([1, 2])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("hybrid_configs.dp_degree", -1),
        ("build_strategy.fuse_bn_add_act_ops", True),
        ("build_strategy.enable_backward_optimizer_op_deps", True),
        ("pipeline_configs.schedule_mode", "1F1B"),
        ("tensor_parallel_configs.tensor_init_seed", -1),
    ],
)
def test_defaults(strategy: Any, path: str, default: object) -> None:
    for name in path.split("."):
        strategy = getattr(strategy, name)
    assert strategy == default


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_trainers", 0, "must be >= 1, got 0"),
        ("debug_graphviz_path", "\ud800", "must be text that UTF-8 can hold"),
        ("debug_graphviz_path", 1234, "must be text, got 1234"),
    ],
)
def test_a_wrong_option_of_programs_is_refused_when_set(strategy: Any, name: str, value: object, message: str) -> None:
    with pytest.raises(StrategyError, match=f"^strategy.build_strategy.{name} {message}"):
        strategy.build_strategy = {name: value}
