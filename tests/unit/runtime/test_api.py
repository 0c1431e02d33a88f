"""The facade without other processes: a job of one, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import default_pg_timeout

import fleet
from fleet.errors import NotReadyError, NotSupportedError, RoleError, UsageError, UsageTypeError


@pytest.fixture
def alone() -> Iterator[fleet.Fleet]:
    job = fleet.Fleet()
    yield job
    job.shutdown()


def test_nothing_in_the_environment_means_a_job_of_one(alone: fleet.Fleet) -> None:
    alone.init()
    assert (alone.worker_index(), alone.worker_num(), alone.server_num()) == (0, 1, 0)
    assert alone.is_worker()
    assert alone.is_first_worker()
    assert not alone.is_server()
    assert not dist.is_initialized()
    alone.barrier_worker()
    assert alone.util.all_reduce(3) == 3
    assert alone.util.all_gather("x") == ["x"]


def test_a_collective_job_of_one_has_a_process_group(alone: fleet.Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")  # NCCL would keep ports of its own open in this process
    alone.init(is_collective=True)
    assert dist.get_world_size() == 1
    assert alone.device.type == "cpu"
    total = torch.ones(2, device=alone.device)
    dist.all_reduce(total)
    assert total.tolist() == [1.0, 1.0]
    alone.shutdown()
    assert not dist.is_initialized()


def test_init_again_is_harmless_and_another_role_is_refused(alone: fleet.Fleet) -> None:
    alone.init()
    alone.init()
    other = fleet.UserDefinedRoleMaker(current_id=1, worker_num=2, server_endpoints=["127.0.0.1:1"])
    with pytest.raises(RoleError, match="call fleet.shutdown"):
        alone.init(other)
    alone.shutdown()
    alone.init(other)
    assert alone.server_endpoints() == ["127.0.0.1:1"]
    assert alone.server_endpoints(to_string=True) == "127.0.0.1:1"


def test_init_again_keeps_the_strategy_and_the_kind_of_job(alone: fleet.Fleet) -> None:
    strategy = fleet.DistributedStrategy()
    alone.init(is_collective=True, strategy=strategy)
    alone.init()
    assert alone._strategy is strategy
    another = fleet.DistributedStrategy()
    alone.init(strategy=another)
    assert alone._strategy is another
    alone.shutdown()
    assert not dist.is_initialized()
    assert alone._strategy is None


def test_a_strategy_that_is_kept_is_checked_again(alone: fleet.Fleet) -> None:
    strategy = fleet.DistributedStrategy()
    alone.init(strategy=strategy)
    strategy.dgc = True
    with pytest.raises(NotSupportedError, match=r"strategy\.dgc"):
        alone.init()


def test_a_role_maker_of_workers_and_servers_stays_collective_when_asked_once(alone: fleet.Fleet) -> None:
    alone.init(fleet.UserDefinedRoleMaker(worker_num=1, server_endpoints=["127.0.0.1:1"]), is_collective=True)
    alone.init()
    alone.shutdown()
    assert not dist.is_initialized()


def test_a_process_group_that_the_script_made_outlives_shutdown(alone: fleet.Fleet) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        alone.init(is_collective=True)
        alone.shutdown()
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_a_process_group_that_the_script_made_instead_of_ours_outlives_shutdown(alone: fleet.Fleet) -> None:
    alone.init(is_collective=True)
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        alone.shutdown()
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_the_time_to_meet_does_not_limit_what_comes_after(alone: fleet.Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_INIT_TIMEOUT_S", "15")
    alone.init(is_collective=True)
    group = dist.group.WORLD
    assert group is not None
    assert group._get_backend(torch.device("cpu")).options._timeout == default_pg_timeout


def test_questions_before_init_say_what_to_do() -> None:
    with pytest.raises(NotReadyError, match=r"call fleet.init\(\) first"):
        fleet.Fleet().worker_index()
    with pytest.raises(NotReadyError, match=r"call fleet.init\(\) first"):
        _ = fleet.Fleet().device


@pytest.mark.parametrize("arguments", [{"role_maker": "worker"}, {"is_collective": 1}, {"strategy": {}}])
def test_init_checks_the_kind_of_its_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageTypeError, match=f"{next(iter(arguments))} must be"):
        fleet.Fleet().init(**arguments)  # type: ignore[arg-type]


def test_a_strategy_whose_feature_is_not_built_is_refused(alone: fleet.Fleet) -> None:
    strategy = fleet.DistributedStrategy()
    alone.init(strategy=strategy)
    strategy.dgc = True
    with pytest.raises(NotSupportedError, match=r"strategy\.dgc"):
        alone.init(strategy=strategy)


def test_a_collective_server_is_refused(alone: fleet.Fleet) -> None:
    server = fleet.UserDefinedRoleMaker(role=fleet.Role.SERVER, worker_num=1, server_endpoints=["127.0.0.1:1"])
    with pytest.raises(RoleError, match="a collective job has no servers"):
        alone.init(server, is_collective=True)


@pytest.mark.parametrize("value", [2, 2.5, True, [1, 2], np.arange(3), torch.arange(4.0)])
def test_all_reduce_gives_back_what_it_got(alone: fleet.Fleet, value: object) -> None:
    alone.init()
    result = alone.util.all_reduce(value)
    assert np.array_equal(np.asarray(result), np.asarray(value))
    assert isinstance(result, int if value is True else type(value))


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0, 2)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int16, torch.uint8, torch.bool])
def test_tensors_keep_their_type_and_shape(alone: fleet.Fleet, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    alone.init()
    value = torch.ones(shape, dtype=dtype)
    for result in (alone.util.all_reduce(value), alone.util.all_gather(value)[0]):
        assert result.dtype == dtype
        assert result.shape == shape
        assert torch.equal(result, value)
        assert result is not value


def test_what_is_reduced_is_a_copy(alone: fleet.Fleet) -> None:
    alone.init()
    for value in (torch.zeros(2), np.zeros(2)):
        alone.util.all_reduce(value)[0] = 7
        assert value[0] == 0


def test_values_that_cannot_travel_are_refused(alone: fleet.Fleet) -> None:
    alone.init()
    with pytest.raises(UsageError, match="takes numbers"):
        alone.util.all_reduce("text")
    with pytest.raises(UsageError, match="takes numbers that Gloo can add, got complex64"):
        alone.util.all_reduce(torch.zeros(1, dtype=torch.complex64))
    with pytest.raises(UsageError, match="mode must be"):
        alone.util.all_reduce(1, mode="mean")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="comm_world must be"):
        alone.util.barrier("everyone")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a set cannot be sent"):
        alone.util.all_gather({1})
    with pytest.raises(UsageTypeError, match="takes a list of file names, got str"):
        alone.util.get_file_shard("abc")
    with pytest.raises(UsageTypeError, match="takes names as text, got 3 among them"):
        alone.util.get_file_shard(("a", 3))


def test_a_server_has_no_files_and_prints_for_no_worker(alone: fleet.Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    alone.init(fleet.UserDefinedRoleMaker(role=fleet.Role.SERVER, worker_num=1, server_endpoints=["127.0.0.1:1"]))
    with pytest.raises(UsageError, match="this process is a server"):
        alone.util.get_file_shard(["a"])
    alone.util.print_on_rank("hello", 0)
    assert capsys.readouterr().out == ""
    with pytest.raises(RoleError, match="fleet.device is a worker's"):
        _ = alone.device


@pytest.mark.parametrize("count", range(7))
def test_files_are_dealt_in_blocks_and_none_is_lost(count: int) -> None:
    files = [f"part-{number}" for number in range(count)]
    shards = []
    for index in range(3):
        job = fleet.Fleet()
        job.init(fleet.UserDefinedRoleMaker(current_id=index, worker_num=3, server_endpoints=["127.0.0.1:1"]))
        shards.append(job.util.get_file_shard(files))
        job.shutdown()
    assert [file for shard in shards for file in shard] == files
    sizes = [len(shard) for shard in shards]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


def test_public_names_are_sorted_and_all_resolve() -> None:
    public = vars(fleet)["__all__"]
    assert public == sorted(public)
    only_after_init = {"device", "util"}
    assert all(getattr(fleet, name) is not None for name in set(public) - only_after_init)
    with pytest.raises(AttributeError, match="no attribute 'innit'"):
        _ = fleet.innit  # type: ignore[attr-defined]


def test_what_a_checkpoint_holds_can_be_read_by_its_public_name_without_torch() -> None:
    program = "import fleet, sys; print(fleet.checkpoint.read_inference.__name__, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "read_inference False\n", done.stderr
