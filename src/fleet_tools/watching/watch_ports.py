"""The ports of a job at which it can be watched, as `--metrics_port` and `--dashboard` ask for them."""

from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet_tools.watching import prometheus
from fleet_tools.watching.access import own_access
from fleet_tools.watching.door import WatchDoor
from fleet_tools.watching.routes import metrics_routes, page_routes


class WatchPorts:
    """Taken before anything starts, so that a port in use is a mistake of the command and not of the job."""

    def __init__(self, options: Options) -> None:
        asked = {"--metrics_port": options.metrics_port, "--dashboard": options.dashboard}
        given = {option: port for option, port in asked.items() if port is not None}
        if given and env.FLEET_METRICS.get() == "0":
            raise UsageError(f"{next(iter(given))} has nothing to show with FLEET_METRICS=0; leave out one of them")
        if options.metrics_port is not None:
            prometheus.require_client()
        ports = list(given.values())
        if len(ports) == 2 and ports[0] == ports[1] != 0:
            raise UsageError(f"--metrics_port and --dashboard are both {ports[0]}; give each a port of its own")
        log_dir, access = Path(options.log_dir).absolute(), own_access() if given else None
        self._doors: dict[str, WatchDoor] = {}
        for option, port in given.items():
            assert access is not None
            routes = metrics_routes(log_dir) if option == "--metrics_port" else page_routes(log_dir)
            try:
                self._doors[option] = WatchDoor(port, option, access, routes)
            except UsageError:
                self.close()
                raise

    def open(self) -> list[str]:
        """Begin to answer, once the job has something to show; a line about each port."""
        paths = {"--metrics_port": ("figures for Prometheus", "/metrics"), "--dashboard": ("watch this job", "/")}
        for door in self._doors.values():
            door.open()
        return [f"{paths[option][0]}: {door.url}{paths[option][1]}" for option, door in self._doors.items()]

    def close(self) -> None:
        """Answer who has asked, and end."""
        for door in self._doors.values():
            door.close()
