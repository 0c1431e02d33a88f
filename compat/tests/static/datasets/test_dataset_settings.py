"""Settings of datasets: each is honoured or refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import FleetError, NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet_programs import DatasetFactory, InMemoryDataset, QueueDataset
from support.data.slots import USE_VAR, Var


def test_the_factory_makes_datasets_by_name() -> None:
    assert type(DatasetFactory().create_dataset()) is QueueDataset
    assert type(DatasetFactory().create_dataset("InMemoryDataset")) is InMemoryDataset
    with pytest.raises(NotSupportedError, match="BoxPSDataset is not built: .*; use InMemoryDataset"):
        DatasetFactory().create_dataset("BoxPSDataset")
    with pytest.raises(UsageError, match="there is no dataset 'Queue'; there are QueueDataset, InMemoryDataset"):
        DatasetFactory().create_dataset("Queue")


def test_settings_one_by_one_and_together_are_the_same() -> None:
    single, together = InMemoryDataset(), InMemoryDataset()
    single.set_batch_size(8)
    single.set_thread(2)
    single.set_use_var(USE_VAR)
    single.set_pipe_command("sort")
    single.set_queue_num(3)
    single.set_merge_by_lineid(2)
    single.set_parse_content(True)
    single.set_fleet_send_batch_size()
    single.set_fleet_send_sleep_seconds(0.5)
    single.set_fea_eval(10)
    together.init(batch_size=8, thread_num=2, use_var=USE_VAR, pipe_command="sort", queue_num=3)
    together._init_distributed_settings(
        merge_size=2, parse_content=True, fleet_send_batch_size=1024, fleet_send_sleep_seconds=0.5
    )
    together.update_settings(fea_eval=True, candidate_size=10)
    assert vars(single) == vars(together)
    together.init()
    together._init_distributed_settings()
    assert vars(together) == vars(InMemoryDataset())


@pytest.mark.parametrize(
    ("setting", "kind", "says"),
    [
        ({"batch_size": 0}, UsageError, "batch_size must be at least 1, got 0"),
        ({"batch_size": 2.0}, UsageTypeError, "batch_size must be an int, got 2.0"),
        ({"thread_num": True}, UsageTypeError, "thread_num must be an int, got True"),
        ({"queue_num": -2}, UsageError, "queue_num must be at least 1, got -2"),
        ({"pipe_command": " "}, UsageError, "pipe_command is empty; 'cat' reads files as they are"),
        ({"pipe_command": None}, UsageTypeError, "pipe_command must be text, got None"),
        ({"pipe_timeout_s": 0}, UsageError, "pipe_timeout_s must be above 0"),
        ({"pipe_timeout_s": float("nan")}, UsageError, "pipe_timeout_s must be above 0 and finite, got nan"),
        ({"input_type": 2}, UsageError, "input_type must be 0, a sample in a line, or 1"),
        ({"fs_name": "hdfs://x"}, NotSupportedError, "fs_name 'hdfs://x': a remote file system is not read; mount it"),
        ({"fs_ugi": "a,b"}, NotSupportedError, "fs_ugi names a user of a remote file system"),
        ({"download_cmd": "get"}, NotSupportedError, "download_cmd 'get' is not run; put it in front of pipe_command"),
        ({"data_feed_type": "Other"}, NotSupportedError, "reads MultiSlotInMemoryDataFeed, not 'Other'"),
        ({"merge_size": 0}, UsageError, "merge_size must be at least 1, got 0"),
        ({"parse_ins_id": 1}, UsageTypeError, "parse_ins_id must be True or False, got 1"),
        ({"fleet_send_sleep_seconds": -1}, UsageError, "fleet_send_sleep_seconds must be at least 0"),
        ({"fleet_send_sleep_seconds": "1"}, UsageTypeError, "fleet_send_sleep_seconds must be a number of seconds"),
        ({"batch_sise": 1}, UnknownFieldError, "no setting 'batch_sise'; did you mean 'batch_size'?"),
        ({"use_var": Var("a", "int64", (-1, 1))}, UsageTypeError, "use_var.0. must be a variable with name"),
        ({"use_var": 5}, UsageTypeError, "use_var must be a list of variables, got int"),
        ({"use_var": [Var("", "int64", (-1, 1))]}, UsageTypeError, "the name of use_var.0. must be text, got ''"),
        ({"use_var": [USE_VAR[0]] * 2}, UsageError, "use_var has 'dense' more than once"),
        ({"use_var": [Var("a", "int32", (-1, 1))]}, NotSupportedError, "'a' has dtype int32; a dataset reads float32"),
        ({"use_var": [Var("a", "int64", (4, 1))]}, UsageError, "slot 'a' has shape .4, 1.; it must begin with -1"),
        ({"use_var": [Var("a", "int64", (-1, -1))]}, UsageError, "it must begin with -1 for the batch, and the rest"),
        ({"use_var": [Var("a", "int64", (-1, 1), 2)]}, NotSupportedError, "'a' has lod_level 2; a line can hold"),
        ({"use_var": [Var("a", "int64", (-1, 3), 1)]}, UsageError, "'a' is ragged and has shape .-1, 3.; its values"),
    ],
)
def test_what_a_setting_may_not_be(setting: dict[str, Any], kind: type[FleetError], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        InMemoryDataset().update_settings(**setting)
    assert "\n" not in str(caught.value)


def test_a_slip_in_the_name_of_a_setting() -> None:
    with pytest.raises(UnknownFieldError, match=r"^InMemoryDataset has no setting 'batchsize'; did you mean 'batch_si"):
        InMemoryDataset().init(batchsize=4)


@pytest.mark.parametrize("files", ["a.txt", 5, [5]])
def test_a_filelist_is_a_list_of_names(files: Any) -> None:
    with pytest.raises(UsageTypeError, match="filelist must"):
        QueueDataset().set_filelist(files)
