"""`DistributedStrategy` of 2.0 to 2.2: every field is set, read, printed and saved; a use refuses what is not built."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fleet.runtime.collective_job  # noqa: F401 - imported in a job, torch.distributed.nn would keep that job's group
import fleet_programs as static
from fleet import api
from fleet.errors import NotSupportedError, StrategyError, UnknownFieldError
from fleet.strategy import DistributedStrategy as FleetStrategy
from fleet_paddle.strategies.form import FORM
from fleet_paddle.strategies.hints import HINTS
from fleet_paddle.strategies.server_strategy import ServerStrategy
from fleet_paddle.strategies.strategy import DistributedStrategy

LARGER = {"incr_ratio": 3.0, "decr_ratio": 0.25, "stage": 2, "k_steps": 7, "reduce_strategy": 1}
"""Values for fields with bounds that the next number would leave."""
CHOSEN = {"scale_strategy": "sum", "sparsity": (0.75, 0.5)}


def _other(name: str, kind: str, value: Any) -> Any:
    """A value of the same kind that is not the default."""
    if name in CHOSEN:
        return CHOSEN[name]
    if kind.endswith("*"):
        return ("a", "b") if kind == "string*" else (2, 3)
    if kind == "bool":
        return not value
    if kind == "string":
        return "other"
    return LARGER.get(name, (value or 0) + 2)


def _all_changed() -> tuple[Any, dict[str, Any]]:
    strategy: Any = DistributedStrategy()
    given: dict[str, Any] = {}
    for name, kind in FORM.items():
        found = getattr(strategy, name)
        if isinstance(kind, dict):
            given[name] = {field: _other(field, one, found[field]) for field, one in kind.items()}
        else:
            given[name] = _other(name, kind, found)
        setattr(strategy, name, given[name])
    return strategy, given


def test_every_field_is_set_read_printed_saved_and_loaded(tmp_path: Path) -> None:
    strategy, given = _all_changed()
    strategy.save_to_prototxt(tmp_path / "strategy.prototxt")
    loaded: Any = DistributedStrategy()
    loaded.load_from_prototxt(tmp_path / "strategy.prototxt")
    for one in (strategy, loaded, copy.deepcopy(strategy), pickle.loads(pickle.dumps(strategy))):
        for name, value in given.items():
            found = getattr(one, name)
            assert (dict(found) | value == dict(found)) if isinstance(value, dict) else found == value, name
    assert loaded == strategy
    loaded.hybrid_configs["mp_degree"] = 16
    assert loaded != strategy
    new: Any = DistributedStrategy()
    assert new.hybrid_configs["mp_degree"] == 1


def test_the_file_is_that_of_protobuf(tmp_path: Path) -> None:
    strategy: Any = DistributedStrategy()
    strategy.recompute = True
    strategy.recompute_configs = {"checkpoints": ["x", 'y "z"']}
    strategy.amp_configs = {"use_pure_fp16": True, "init_loss_scaling": 128.0}
    strategy.save_to_prototxt(tmp_path / "a")
    assert (tmp_path / "a").read_text() == (
        "recompute: true\n"
        'recompute_configs {\n  checkpoints: "x"\n  checkpoints: "y \\"z\\""\n}\n'
        "amp_configs {\n  init_loss_scaling: 128.0\n  use_pure_fp16: true\n}\n"
    )
    # As another program may write it, with comments and commas.
    (tmp_path / "b").write_text(
        "# mine\nlocalsgd: true, localsgd_configs: < k_steps: 4 >\na_sync_configs { k_steps: 9 } a_sync: 1"
    )
    strategy.load_from_prototxt(tmp_path / "b")
    assert (strategy.localsgd, strategy.localsgd_configs.k_steps, strategy.a_sync_configs.k_steps) == (True, 4, 9)
    assert strategy.recompute


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ampp: true", 'b is no strategy in protobuf\'s text format: .*has no field named "ampp"'),
        ("amp: tru", "b is no strategy in protobuf's text format"),
        ("localsgd_configs { k_steps: 0 }", "b: strategy.localsgd_configs.k_steps must be >= 1, got 0"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "b").write_text(text)
    with pytest.raises(StrategyError, match=said):
        DistributedStrategy().load_from_prototxt(tmp_path / "b")
    with pytest.raises(StrategyError, match="nowhere cannot be read"):
        DistributedStrategy().load_from_prototxt(tmp_path / "nowhere")


def test_what_the_format_has_no_field_for(tmp_path: Path) -> None:
    strategy: Any = DistributedStrategy()
    strategy.compile = True
    with pytest.raises(NotSupportedError, match=r"strategy.compile is Fleet's own.*strategy.save\("):
        strategy.save_to_prototxt(tmp_path / "a")


def test_names_are_checked_when_they_are_set() -> None:
    strategy: Any = DistributedStrategy()
    with pytest.raises(UnknownFieldError, match="strategy has no field 'pipelin'; did you mean 'pipeline'"):
        strategy.pipelin = True
    with pytest.raises(UnknownFieldError, match="strategy.hybrid_configs has no field 'dp'"):
        strategy.hybrid_configs = {"mp_degree": 2, "dp": 2}
    assert strategy.hybrid_configs["mp_degree"] == 1  # all or none
    strategy._calc_comm_same_stream = True
    assert strategy.calc_comm_same_stream


def test_kinds_are_refused_all_at_once_when_the_strategy_is_used(caplog: pytest.LogCaptureFixture) -> None:
    strategy: Any = DistributedStrategy()
    with caplog.at_level("WARNING", "fleet"):
        strategy.pipeline = 3
        strategy.hybrid_configs = 4
        strategy.amp_configs = {"init_loss_scaling": "much"}
        strategy.lars = "no"
    assert "strategy.pipeline must be a bool, got 3; it will be refused when the strategy is used" in caplog.text
    strategy.lars = False  # said again, as it should be
    assert strategy.pipeline is False
    with pytest.raises(StrategyError) as found:
        strategy.require_supported()
    told = str(found.value).split("; ")
    assert told[0] == "strategy.pipeline must be a bool, got 3"
    assert "strategy.hybrid_configs must be a dict of fields, got 4" in told
    assert any(one.startswith("strategy.amp_configs.init_loss_scaling must be") for one in told)
    assert "lars" not in str(found.value)


def test_what_is_not_built_is_refused_all_at_once() -> None:
    strategy: Any = DistributedStrategy()
    strategy.pipeline = True
    strategy.hybrid_configs = {"mp_degree": 2}
    with pytest.raises(NotSupportedError, match=r"(?s)strategy\.pipeline.*; strategy\.hybrid_configs\.mp_degree"):
        strategy.require_supported()


def test_the_table() -> None:
    strategy: Any = DistributedStrategy()
    strategy.amp = True
    strategy.amp_configs = {"custom_white_list": ["softmax"]}
    strategy.hybrid_configs = {"pp_degree": 2}
    lines = str(strategy).splitlines()
    assert len({len(line) for line in lines}) == 1
    words = [line.split("|")[1:3] for line in lines if line.count("|") == 3]
    found = {name.rstrip(): value.strip() for name, value in words}
    assert found[" amp"] == "True"
    assert found["   custom_white_list"] == "['softmax']"
    assert found["   pp_degree"] == "2"
    assert found[" num_iteration_per_drop_scope"] == "10"
    assert " recompute" not in found
    assert str(strategy) == repr(strategy)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[api.Fleet]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # imports what would keep the group of a job that is there
    made = api.Fleet()
    yield made
    made.shutdown()


REFUSED = [
    ("pipeline", True, r"strategy.pipeline is not built: divide a large model with strategy.sharding"),
    ("hybrid_configs", {"mp_degree": 2}, r"strategy.hybrid_configs.mp_degree is not built"),
    ("elastic", True, "strategy.elastic is not built: start the job with fleetrun"),
    ("asp", True, "strategy.asp is not built: prune the module"),
]


@pytest.mark.parametrize(("name", "value", "said"), REFUSED)
def test_what_is_not_built_is_refused_where_it_is_used(job: api.Fleet, name: str, value: Any, said: str) -> None:
    strategy = DistributedStrategy()
    job.init(is_collective=True, strategy=strategy)
    setattr(strategy, name, value)
    model = torch.nn.Linear(2, 1)
    with pytest.raises(NotSupportedError, match=said):
        job.distributed_model(model)
    with pytest.raises(NotSupportedError, match=said):
        job.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), strategy)
    with pytest.raises(NotSupportedError, match=said):
        job.distributed_optimizer(static.optimizer.SGD(0.1), strategy)


def test_a_worker_of_servers_refuses_it_too(job: api.Fleet) -> None:
    strategy: Any = DistributedStrategy()
    job.init(strategy=strategy)
    strategy.a_sync_configs = {"use_ps_gpu": 1}
    job.distributed_model(torch.nn.Linear(2, 1))
    with pytest.raises(NotSupportedError, match="strategy.a_sync_configs.use_ps_gpu is not built"):
        job.init_worker()


def test_what_changes_no_result_and_what_a_switch_leaves_unused_is_let_pass() -> None:
    strategy: Any = DistributedStrategy()
    strategy.sharding_configs = {"mp_degree": 2}  # sharding is off
    for dotted in HINTS:
        group, _, field = dotted.rpartition(".")
        value = getattr(strategy, group)[field] if group else getattr(strategy, field)
        changed = not value if isinstance(value, bool) else value + 1
        setattr(strategy, group or field, {field: changed} if group else changed)
    strategy.a_sync = True
    strategy.require_supported()
    strategy.sharding = True
    with pytest.raises(NotSupportedError, match="strategy.sharding_configs.mp_degree is not built"):
        strategy.require_supported()


def test_a_strategy_of_an_older_version_refuses_when_it_is_set() -> None:
    strategy: Any = ServerStrategy()
    with pytest.raises(NotSupportedError, match="strategy.pipeline is not built"):
        strategy.pipeline = True
    with pytest.raises(NotSupportedError, match="strategy.hybrid_configs.mp_degree is not built"):
        strategy.hybrid_configs["mp_degree"] = 2
    with pytest.raises(UnknownFieldError, match="strategy has no field 'pipeline'; help"):
        FleetStrategy().pipeline = True  # type: ignore[attr-defined]
