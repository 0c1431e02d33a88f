"""DistributedStrategy: typing, checks, groups, modes, copies."""

from __future__ import annotations

import copy
import pickle
import pydoc
from typing import assert_type

import numpy as np
import pytest

from fleet.errors import StrategyError, UnknownFieldError
from fleet.strategy import DistributedStrategy, Mode


@pytest.fixture
def strategy() -> DistributedStrategy:
    return DistributedStrategy()


def test_a_type_checker_knows_each_field(strategy: DistributedStrategy) -> None:
    assert_type(strategy.amp, bool)
    assert_type(strategy.localsgd_configs.k_steps, int)
    assert_type(strategy.amp_configs.decr_ratio, float)
    assert_type(strategy.dense, str)
    assert_type(strategy.recompute_configs.checkpoints, tuple[str, ...])
    assert_type(strategy.clip_norm, float | None)
    assert_type(strategy.sharding_configs.sharding_degree, int | None)
    assert_type(strategy.mode, Mode)


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("a_sync", True),
        ("a_sync_configs.k_steps", -1),
        ("a_sync_configs.send_queue_size", 2),
        ("a_sync_configs.half_async", False),
        ("dense", "server"),
        ("compile", False),
        ("amp_configs.decr_ratio", 0.8),
        ("amp_configs.init_loss_scaling", 32768.0),
        ("fuse_grad_size_in_MB", 32),
        ("gradient_scale_configs.scale_strategy", "avg"),
    ],
)
def test_defaults(strategy: DistributedStrategy, path: str, default: object) -> None:
    value: object = strategy
    for name in path.split("."):
        value = getattr(value, name)
    assert value == default
    assert type(value) is type(default)


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        (
            "localsgd_configs",
            "k_steps",
            0,
            "strategy.localsgd_configs.k_steps must be >= 1, got 0; "
            "it is the number of local steps between two averages",
        ),
        ("localsgd_configs", "k_steps", True, "must be an int, got True"),
        ("localsgd_configs", "k_steps", 2.0, "must be an int, got 2.0"),
        ("localsgd_configs", "k_steps", 2**70, "must be between"),
        ("adaptive_localsgd_configs", "init_k_steps", 0, "must be >= 1, got 0"),
        ("sharding_configs", "stage", 4, "must be >= 1 and <= 3, got 4"),
        ("amp_configs", "use_pure_bf16", 1, "must be True or False, got 1"),
        ("amp_configs", "decr_ratio", 1, "must be > 0 and < 1, got 1"),
        ("amp_configs", "incr_ratio", float("nan"), "must be a finite number, got nan"),
        ("amp_configs", "incr_ratio", 10**400, "must be a finite number"),
        ("amp_configs", "incr_ratio", "2", "must be a number, got '2'"),
        ("amp_configs", "custom_white_list", "matmul", "must be a list of str, got 'matmul'"),
        ("amp_configs", "custom_white_list", ["a", 3], "custom_white_list[1] must be text, got 3"),
        ("dgc_configs", "sparsity", [0.9, 1.0], "sparsity[1] must be >= 0 and < 1, got 1.0"),
        ("compile_configs", "mode", "fast", 'must be "default" or "reduce-overhead" or'),
        ("amp_configs", "custom_white_list", ["\ud800"], "must be text that UTF-8 can hold"),
    ],
)
def test_a_wrong_value_is_refused_when_set(
    strategy: DistributedStrategy, group: str, name: str, value: object, message: str
) -> None:
    before = copy.deepcopy(strategy)
    for target, attribute, given in (
        (getattr(strategy, group), name, value),
        (strategy, group, {name: value}),
    ):
        with pytest.raises(StrategyError) as caught:
            setattr(target, attribute, given)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"strategy.{group}.{name}")
        assert "\n" not in str(caught.value)
    assert strategy == before


def test_numbers_of_other_kinds_become_plain_ones(strategy: DistributedStrategy) -> None:
    strategy.localsgd_configs = {"k_steps": np.int64(4)}
    strategy.amp_configs.incr_ratio = 3
    strategy.amp_configs = {"decr_ratio": np.float32(0.5)}
    assert type(strategy.localsgd_configs.k_steps) is int
    assert type(strategy.amp_configs.incr_ratio) is float
    assert type(strategy.amp_configs.decr_ratio) is float


def test_an_unknown_field_names_the_nearest(strategy: DistributedStrategy) -> None:
    with pytest.raises(UnknownFieldError) as caught:
        strategy.a_snyc = True  # type: ignore[attr-defined]
    assert str(caught.value) == "strategy has no field 'a_snyc'; did you mean 'a_sync'?"
    with pytest.raises(UnknownFieldError, match="did you mean 'a_sync'"):
        strategy.a_snyc  # type: ignore[attr-defined]  # noqa: B018
    nearest = "strategy.amp_configs has no field 'init_loss_scale'; did you mean 'init_loss_scaling' or "
    nearest += "'use_dynamic_loss_scaling'?"
    for attempt in (
        lambda: setattr(strategy, "amp_configs", {"init_loss_scale": 1.0}),
        lambda: setattr(strategy.amp_configs, "init_loss_scale", 1.0),
        lambda: strategy.amp_configs["init_loss_scale"],
        lambda: strategy.amp_configs.init_loss_scale,  # type: ignore[attr-defined]
    ):
        with pytest.raises(UnknownFieldError) as caught:
            attempt()
        assert str(caught.value) == nearest
    with pytest.raises(UnknownFieldError, match="it has k_steps, begin_step"):
        strategy.localsgd_configs = {3: 4}  # type: ignore[dict-item]


def test_a_field_like_no_other_is_sent_to_help(strategy: DistributedStrategy) -> None:
    with pytest.raises(
        UnknownFieldError, match=r"has no field 'zzz'; help\(fleet.DistributedStrategy\) lists them all$"
    ):
        strategy.zzz = 1  # type: ignore[attr-defined]


def test_help_describes_each_field() -> None:
    everything = pydoc.plain(pydoc.render_doc(DistributedStrategy))
    for leaf in DistributedStrategy().leaves():
        assert f"{leaf.path[-1]} {leaf.field.doc}" in everything
    assert "amp computes in half precision" in pydoc.render_doc(DistributedStrategy.amp)
    assert "k_steps is the number of local steps" in pydoc.render_doc(DistributedStrategy.localsgd_configs)


def test_the_mode_cannot_be_set(strategy: DistributedStrategy) -> None:
    with pytest.raises(StrategyError) as caught:
        strategy.mode = Mode.GEO  # type: ignore[misc]
    assert str(caught.value) == "strategy.mode cannot be set; it follows from a_sync and a_sync_configs"


def test_a_bool_of_numpy_is_a_bool(strategy: DistributedStrategy) -> None:
    strategy.amp = np.bool_(True)  # type: ignore[assignment]
    assert strategy.amp is True
    for value in (np.array([True]), np.int64(1), "True"):
        with pytest.raises(StrategyError, match="must be True or False"):
            strategy.amp = value  # type: ignore[assignment]


def test_update_is_the_assignment_of_a_dict(strategy: DistributedStrategy) -> None:
    strategy.amp_configs.update({"incr_ratio": 3, "decr_ratio": 0.5})
    assert (strategy.amp_configs.incr_ratio, strategy.amp_configs.decr_ratio) == (3.0, 0.5)
    with pytest.raises(StrategyError, match="decr_ratio"):
        strategy.amp_configs.update({"incr_ratio": 4, "decr_ratio": 7})
    assert strategy.amp_configs.incr_ratio == 3.0


def test_an_unknown_name_behaves_in_lookups(strategy: DistributedStrategy) -> None:
    assert not hasattr(strategy, "nothing")
    assert getattr(strategy.amp_configs, "nothing", 5) == 5
    assert strategy.amp_configs.get("nothing") is None
    assert "nothing" not in strategy.amp_configs
    assert issubclass(UnknownFieldError, TypeError)


def test_a_group_reads_as_a_mapping(strategy: DistributedStrategy) -> None:
    strategy.a_sync_configs = {"k_steps": 100}
    group = strategy.a_sync_configs
    assert group.k_steps == group["k_steps"] == 100
    assert group.send_queue_size == 2, "fields not given keep their values"
    assert dict(group)["k_steps"] == 100
    assert "k_steps" in group
    assert len(group) == len(list(group)) == len(dict(group))
    strategy.recompute_configs = {"checkpoints": ["x", "y"]}
    assert strategy.recompute_configs == {
        "checkpoints": ["x", "y"],
        "enable_offload": False,
    }
    assert strategy.recompute_configs != {"checkpoints": ["x", "y"]}
    group["k_steps"] = 7
    assert group.k_steps == 7


def test_a_dict_is_kept_whole_or_not_at_all(strategy: DistributedStrategy) -> None:
    with pytest.raises(StrategyError):
        strategy.a_sync_configs = {"send_queue_size": 99, "k_steps": -2}
    assert strategy.a_sync_configs.send_queue_size == 2
    with pytest.raises(StrategyError, match=r"strategy\.amp_configs must be a dict, got 3"):
        strategy.amp_configs = 3  # type: ignore[assignment]


def test_a_group_of_another_strategy_is_copied(strategy: DistributedStrategy) -> None:
    other = DistributedStrategy()
    other.localsgd_configs.k_steps = 9
    strategy.localsgd_configs = other.localsgd_configs
    other.localsgd_configs.k_steps = 2
    assert strategy.localsgd_configs.k_steps == 9


@pytest.mark.parametrize(
    ("a_sync", "configs", "mode"),
    [
        (None, {}, Mode.OFF),
        (False, {}, Mode.SYNC),
        (True, {}, Mode.ASYNC),
        (True, {"half_async": True}, Mode.HALF_ASYNC),
        (True, {"k_steps": 100}, Mode.GEO),
        (None, {"k_steps": 100}, Mode.GEO),
        (None, {"k_steps": 0}, Mode.ASYNC),
    ],
)
@pytest.mark.parametrize("configs_first", [False, True])
def test_mode(
    strategy: DistributedStrategy,
    a_sync: bool | None,
    configs: dict[str, int],
    mode: Mode,
    configs_first: bool,
) -> None:
    if configs_first:
        strategy.a_sync_configs = configs
    if a_sync is not None:
        strategy.a_sync = a_sync
    if not configs_first:
        strategy.a_sync_configs = configs
    assert strategy.mode is mode
    assert strategy.mode == mode.value


@pytest.mark.parametrize(
    ("a_sync", "configs", "message"),
    [
        (False, {"k_steps": 5}, "needs strategy.a_sync = True"),
        (False, {"half_async": True}, "half_async needs strategy.a_sync = True"),
        (True, {"half_async": True, "k_steps": 5}, "k_steps = 0"),
        (None, {"half_async": True}, "no mode is chosen .k_steps = -1.; write strategy.a_sync = True too"),
    ],
)
def test_contradicting_modes(
    strategy: DistributedStrategy, a_sync: bool | None, configs: dict[str, int], message: str
) -> None:
    if a_sync is not None:
        strategy.a_sync = a_sync
    strategy.a_sync_configs = configs
    with pytest.raises(StrategyError, match=message):
        strategy.mode  # noqa: B018


def test_copies_are_equal_and_independent(strategy: DistributedStrategy) -> None:
    strategy.a_sync = False
    strategy.dgc_configs = {"sparsity": [0.9, 0.99]}
    for twin in (copy.copy(strategy), copy.deepcopy(strategy), pickle.loads(pickle.dumps(strategy))):
        assert twin == strategy
        twin.amp = True
        twin.dgc_configs.rampup_step = 8
        assert twin != strategy
    assert not strategy.amp
    assert strategy.dgc_configs.rampup_step == 1
    assert strategy != 5


def test_instances_share_nothing(strategy: DistributedStrategy) -> None:
    strategy.amp = True
    strategy.amp_configs.incr_ratio = 4.0
    fresh = DistributedStrategy()
    assert not fresh.amp
    assert fresh.amp_configs.incr_ratio == 2.0


def test_repr_is_an_aligned_table_of_differences(strategy: DistributedStrategy) -> None:
    assert repr(strategy) == "DistributedStrategy: every field has its default"
    strategy.localsgd = True
    strategy.localsgd_configs.k_steps = 4
    strategy.amp = False
    assert str(strategy).splitlines() == [
        "DistributedStrategy",
        "  field                     value  default",
        "  localsgd                  True   False",
        "  localsgd_configs.k_steps  4      1",
    ]
    assert "k_steps=4" in repr(strategy.localsgd_configs)


def test_nothing_can_be_deleted(strategy: DistributedStrategy) -> None:
    with pytest.raises(AttributeError, match="assign its default"):
        del strategy.amp


def test_what_a_call_has_read_cannot_be_set_until_it_is_let_go(strategy: DistributedStrategy) -> None:
    strategy.close("fleet.init_worker()")
    with pytest.raises(StrategyError, match=r"strategy\.a_sync was set after fleet\.init_worker\(\), which has read"):
        strategy.a_sync = True
    with pytest.raises(StrategyError, match=r"strategy\.a_sync_configs\.k_steps was set after fleet\.init_worker\(\)"):
        strategy.a_sync_configs = {"k_steps": 4}
    for one in (copy.copy(strategy), pickle.loads(pickle.dumps(strategy))):
        one.a_sync = True
        one.a_sync_configs.k_steps = 4
    strategy.close("")
    strategy.a_sync_configs.k_steps = 4


def test_a_strategy_that_was_meant_and_not_given(
    strategy: DistributedStrategy, caplog: pytest.LogCaptureFixture
) -> None:
    strategy.clip_norm = 0.0625  # as no other strategy that is alive
    DistributedStrategy().close("fleet.init_worker()")
    says = (
        "strategy.clip_norm = 0.0625 was set in a strategy that Fleet was not given; write "
        "fleet.init(strategy=strategy)"
    )
    assert says in caplog.messages
    caplog.clear()
    strategy.close("fleet.init_worker()")
    DistributedStrategy().close("fleet.init_worker()")
    assert says not in caplog.messages
