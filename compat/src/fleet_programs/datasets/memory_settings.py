"""Settings of records in memory: what stands in front of a line's slots, how shuffles send, what features are tried."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fleet.checks import count_of, flag_of, seconds_of
from fleet_programs.datasets.dataset import Dataset


class MemorySettings(Dataset):
    """What `InMemoryDataset` can be told beyond other datasets."""

    _settings: ClassVar[dict[str, str]] = {
        **Dataset._settings,
        "merge_size": "_set_merge_size",
        "parse_ins_id": "set_parse_ins_id",
        "parse_content": "set_parse_content",
        "fleet_send_batch_size": "set_fleet_send_batch_size",
        "fleet_send_sleep_seconds": "set_fleet_send_sleep_seconds",
        "candidate_size": "_set_candidate_size",
        "fea_eval": "_set_evaluates",
    }

    def __init__(self) -> None:
        super().__init__()
        self._merge_size: int | None = None
        self._send_size = 8192
        self._send_pause_s = 0.0
        self._num_candidates = 10000
        self._is_fea_eval = False

    def _init_distributed_settings(
        self,
        *,
        parse_ins_id: bool = False,
        parse_content: bool = False,
        merge_size: int = -1,
        fleet_send_batch_size: int = 8192,
        fleet_send_sleep_seconds: float = 0,
        fea_eval: bool = False,
        candidate_size: int = 10000,
    ) -> None:
        """Make the settings of shuffles together; those left out get defaults. A positive `merge_size` needs ids."""
        # Set in the order of the arguments: `merge_size` switches ids on.
        self.update_settings(**{name: value for name, value in locals().items() if name != "self"})

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Whether each line begins with `1 id`, an id that several lines may share."""
        self._format = replace(self._format, has_id=flag_of("parse_ins_id", parse_ins_id))

    def set_parse_content(self, parse_content: bool) -> None:
        """Whether `1 text` stands in front of the slots, behind an id; it is passed over."""
        self._format = replace(self._format, has_content=flag_of("parse_content", parse_content))

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Let `global_shuffle` make one record of `merge_size` lines of one id; ids with fewer or more are left out."""
        self._merge_size = count_of("merge_size", merge_size)
        self.set_parse_ins_id(True)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Records that `global_shuffle` sends to a worker at a time."""
        self._send_size = count_of("fleet_send_batch_size", fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: float = 0) -> None:
        """How long `global_shuffle` waits between two of these, to leave the network to others."""
        self._send_pause_s = seconds_of("fleet_send_sleep_seconds", fleet_send_sleep_seconds)

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Allow `slots_shuffle`, which draws from so many records."""
        self._set_candidate_size(record_candidate_size)
        self._set_evaluates(fea_eval)

    def _set_merge_size(self, merge_size: int) -> None:
        if merge_size == -1:
            self._merge_size = None
        else:
            self.set_merge_by_lineid(merge_size)

    def _set_candidate_size(self, candidate_size: int) -> None:
        self._num_candidates = count_of("record_candidate_size", candidate_size)

    def _set_evaluates(self, fea_eval: bool) -> None:
        self._is_fea_eval = flag_of("fea_eval", fea_eval)

    # As 2.0 spells them.
    _set_parse_ins_id, _set_parse_content = set_parse_ins_id, set_parse_content
    _set_merge_by_lineid, _set_fea_eval = set_merge_by_lineid, set_fea_eval
    _set_fleet_send_batch_size, _set_fleet_send_sleep_seconds = set_fleet_send_batch_size, set_fleet_send_sleep_seconds
