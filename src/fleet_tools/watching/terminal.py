"""`fleetrun top`: a job as a table in the terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.observe.timing.duration import in_words
from fleet_tools.watching.picture import Picture, SeenProcess, read_events, read_picture

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 1.0
NUM_EVENTS = 8
_COLOURS = {"running": "green", "waiting": "yellow", "dead": "red", "gone": "red", "ended": "dim", "stopped": "dim"}


class Rates:
    """How fast counters of processes grow, between two looks."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[float, float]] = {}

    def of(self, seen: SeenProcess, figure: str) -> float | None:
        """Per second since the last look; None if this is the first, or the process has begun anew."""
        value, when = seen.figures().get(figure), seen.written_at
        if value is None or when is None:
            return None
        key = seen.name, figure
        before, self._last[key] = self._last.get(key), (value, when)
        if before is None or value < before[0] or when <= before[1]:
            return None
        return (value - before[0]) / (when - before[1])


def print_once(log_dir: Path) -> None:
    """The job as it is now; rates need two looks a second apart if it runs."""
    from rich.console import Console

    rates = Rates()
    drawn = draw(log_dir, rates)
    if not read_picture(log_dir).is_over:
        time.sleep(1.1 * EVERY_S)
        drawn = draw(log_dir, rates)
    Console().print(drawn)


def follow(log_dir: Path) -> None:
    """The job as it goes on, until it ends."""
    from rich.live import Live

    rates = Rates()
    with Live(draw(log_dir, rates), auto_refresh=False, screen=False) as live:
        while not read_picture(log_dir).is_over:
            time.sleep(EVERY_S)
            live.update(draw(log_dir, rates), refresh=True)


def draw(log_dir: Path, rates: Rates) -> RenderableType:
    """Head, processes, events."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    picture = read_picture(log_dir)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("state")
    for name in ("steps", "samples/s", "loss", "rows", "pushes/s", "stale", "memory"):
        table.add_column(name, justify="right")
    for seen in picture.processes:
        table.add_row(seen.name, Text(_state(seen), style=_COLOURS.get(seen.state, "")), *_cells(seen, rates))
    events = [
        Text(f"{time.strftime('%H:%M:%S', time.localtime(event['time']))}  {event['who']}  {event['text']}", "dim")
        for event in read_events(log_dir, NUM_EVENTS)
    ]
    problems = [Text(problem, style="yellow") for problem in picture.problems]
    return Group(Text(head(picture), style="bold"), "", table, "", *events, *problems)


def head(picture: Picture) -> str:
    """`train.py: 2 servers and 2 workers, running for 12 s`."""
    if not picture.machines:
        return "nothing is known of this job yet"
    first = picture.machines[0]
    last = max(float(machine.get("ended") or machine["time"]) for machine in picture.machines)
    took = in_words(max(0.0, last - float(first["began"])))
    counts = {"servers": first["num_servers"], "workers": first["num_workers"]}
    what = " and ".join(f"{number} {kind[: None if number > 1 else -1]}" for kind, number in counts.items() if number)
    codes = [machine["code"] for machine in picture.machines if machine.get("code") is not None]
    if not picture.is_over:
        how = f"running for {took}"
    elif not codes:
        how = f"fleetrun is gone, after {took}"
    else:
        how = f"finished in {took}" if max(codes) == 0 else f"failed after {took}, exit code {max(codes)}"
    return f"{first['script']}: {what}, {how}"


def _state(seen: SeenProcess) -> str:
    life = int(seen.about.get("life") or 0)
    text = f"{seen.state}, life {life + 1}" if life else seen.state
    waits = seen.about.get("waits") or ()
    if waits:
        return f"{text} for {waits[0]['what']}"
    return f"{text}, at {seen.where}" if seen.where else text


def _cells(seen: SeenProcess, rates: Rates) -> list[str]:
    figures = seen.figures()
    rows = [value for name, value in figures.items() if name.startswith("fleet_table_rows|")]
    count = figures.get("fleet_server_staleness_steps|count")
    stale = figures["fleet_server_staleness_steps|sum"] / count if count else None
    return [
        _number(figures.get("fleet_worker_steps_total")),
        _number(rates.of(seen, "fleet_worker_samples_total")),
        _number(figures.get("fleet_worker_reported|loss"), 4),
        _number(sum(rows) if rows else None),
        _number(rates.of(seen, "fleet_server_pushes_total")),
        _number(stale, 1),
        f"{figures['fleet_process_resident_memory_bytes'] / 2**20:,.0f} MiB" if seen.is_up else "",
    ]


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
