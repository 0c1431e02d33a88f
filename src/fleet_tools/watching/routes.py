"""What can be asked at the port of a job: the page, what it shows, and figures for Prometheus."""

import time
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet.launch.processes.logs import tail
from fleet_tools.watching import prometheus
from fleet_tools.watching.door import Answer, Query, Routes, as_json, page_file
from fleet_tools.watching.picture import Picture, read_events, read_history, read_picture, version_of

LOOK_S = 0.1
HOLD_S = 1.0
"""How long the page's question for news is held back while there are none."""
FEW_LINES, MOST_LINES, MOST_BYTES = 200, 2000, 1 << 18
"""How many lines of a log are shown: unless another number is asked for, at most, and of what length."""


def page_routes(log_dir: Path) -> Routes:
    """What is answered to the page of a job, from its log folder."""

    def job(query: Query) -> Answer:
        deadline = time.monotonic() + HOLD_S
        while (version := str(version_of(log_dir))) == query.get("seen") and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        picture, name = read_picture(log_dir), query.get("log", "")
        answer = {"version": version, **job_to_json(picture, read_events(log_dir))}
        if picture.is_over and name in logs_of(picture):  # the port closes before the page could ask for its end
            answer["lines"] = tail(log_dir / name, FEW_LINES, max_bytes=MOST_BYTES)
        return as_json(answer)

    def log(query: Query) -> Answer:
        name = query.get("name", "")
        if name not in logs_of(read_picture(log_dir)):
            raise UsageError(f"no process of this job has a log {name!r}")
        count = query.get("lines", "")
        number = min(MOST_LINES, int(count)) if count.isascii() and count.isdigit() else FEW_LINES
        return as_json({"lines": tail(log_dir / name, number, max_bytes=MOST_BYTES)})

    kinds = {f"/{name}.js": "text/javascript" for name in ("page", "chart", "series")} | {"/page.css": "text/css"}
    static: Routes = {path: _file(path[1:], f"{kind}; charset=utf-8") for path, kind in kinds.items()}
    return {
        "/": _file("index.html", "text/html; charset=utf-8"),
        **static,
        "/api/job": job,
        "/api/history": lambda _: as_json(read_history(log_dir)),
        "/api/log": log,
    }


def metrics_routes(log_dir: Path) -> Routes:
    """What is answered to Prometheus."""
    return {"/metrics": lambda _: Answer(prometheus.exposition(log_dir), prometheus.CONTENT_TYPE)}


def logs_of(picture: Picture) -> set[str]:
    """The names of the logs of a job's processes."""
    return {str(seen.about.get("log")) for seen in picture.processes}


def job_to_json(picture: Picture, events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page shows of a job."""
    processes = [
        {**seen.about, "name": seen.name, "state": seen.state, "figures": seen.figures()}
        | {"written": seen.written_at, "where": seen.where}
        for seen in picture.processes
    ]
    return {
        "now": time.time(),
        "machines": picture.machines,
        "is_over": picture.is_over,
        "processes": processes,
        "events": events,
        "problems": picture.problems,
    }


def _file(name: str, kind: str) -> Any:
    return lambda _: Answer(page_file(name), kind)
