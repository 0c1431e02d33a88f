"""How long each process group has stood still, counted in time during which this process ran.

Clock readings are not enough: after a machine was suspended, or a job stopped and continued, every operation in flight
looks old. So a group's wait grows by the time between two looks, and by no more than a look should take.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.collective.stall.flight import GroupKey, Status


class Progress:
    """Fed with looks at the recorder. What was pending before the first look belongs to a group of the past."""

    def __init__(self, before: Mapping[GroupKey, Status], interval_s: float) -> None:
        self._past = {key: status for key, status in before.items() if status.is_pending}
        self._last: dict[GroupKey, Status] = dict(before)
        self._still_s: dict[GroupKey, float] = dict.fromkeys(before, 0.0)
        self._longest_look_s = 2 * interval_s

    def look(self, now: Mapping[GroupKey, Status], elapsed_s: float) -> None:
        """Take in how far each group is now, `elapsed_s` after the look before."""
        for key, status in now.items():
            moved = status != self._last.get(key)
            self._still_s[key] = 0.0 if moved else self._still_s[key] + min(elapsed_s, self._longest_look_s)
        self._last = dict(now)

    def waits(self) -> dict[GroupKey, float]:
        """The groups with something pending, and for how long they have stood still."""
        return {
            key: self._still_s[key]
            for key, status in self._last.items()
            if status.is_pending and status != self._past.get(key)
        }

    def still_s(self, key: GroupKey) -> float:
        """How long nothing has begun or ended in this group."""
        return self._still_s.get(key, 0.0)

    def forget(self, key: GroupKey) -> None:
        """Do not count what is pending in this group now as a wait; what comes later may be one."""
        self._past[key] = self._last[key]
