"""The page of a job in a real browser: Debian's chromium, driven by selenium. Skipped where they are missing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.jobs import FLEETRUN, RunningJob, clean_environ, running, script
from support.processes import wait_until
from support.serving.watched import TRAIN, port_of, seen_of, trained

webdriver = pytest.importorskip("selenium.webdriver")

pytestmark = [
    pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs chromium"),
    pytest.mark.timeout(240),
]
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,1600"),
)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    made = webdriver.Chrome(options, service)
    yield made
    made.quit()


def script_of(browser: Any, text: str) -> Any:
    return browser.execute_script(f"return {text}")


def states(browser: Any) -> dict[str, str]:
    found: dict[str, str] = script_of(
        browser,
        "Object.fromEntries([...document.querySelectorAll('.process')].map(e => [e.dataset.name, e.dataset.state]))",
    )
    return found


def text(browser: Any, element: str = "document.body") -> str:
    return str(script_of(browser, f"{element}.innerText"))


def test_a_worker_that_is_killed_is_seen_within_three_seconds(tmp_path: Path, browser: Any) -> None:
    train, log = script(tmp_path, f"{TRAIN}    print('goodbye')\n"), tmp_path / "log"
    arguments = ("--server_num", 2, "--worker_num", 2, "--durable", "kept", "--dashboard", train)
    # No look at the log by chance: the page asks for it every two seconds besides.
    never = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "window.setInterval = () => 0"})
    with RunningJob(arguments, tmp_path, warm=True) as job:
        browser.get(port_of(tmp_path, "watch this job"))
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", never)
        wait_until(lambda: trained(tmp_path), 120, "the steps")
        everybody = {"server 0", "server 1", "worker 0", "worker 1"}
        wait_until(lambda: states(browser) == dict.fromkeys(everybody, "running"), 30, "all processes on the page")
        wait_until(lambda: "rows · " in text(browser), 30, "figures")
        assert "loss · mean of 2" in text(browser)
        curves = "document.querySelectorAll('.chart path.curve').length"
        wait_until(lambda: script_of(browser, curves) > 2, 30, "curves")
        os.kill(int(seen_of(log)["worker 1"].about["pid"]), signal.SIGKILL)
        killed_at = time.monotonic()
        told = "worker 1 was killed by SIGKILL; started again in its place (life 2)"
        wait_until(lambda: told in text(browser, "document.getElementById('events')"), 30, "the event")
        took_s = time.monotonic() - killed_at
        assert took_s < 3 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1), f"{took_s:.1f} s"
        wait_until(lambda: "worker 1 is back after" in text(browser), 60, "its return")
        wait_until(lambda: "life 2" in text(browser, "document.getElementById('processes')"), 30, "its card")
        (tmp_path / "enough").touch()
        assert job.finish().code == 0
        wait_until(lambda: browser.title.startswith(("finished", "ended")), 30, "the end on the page")
        assert "finished" in browser.title, "the last word of the launcher was read before it ended"
        assert "samples a second · with start-up" in text(browser, "document.getElementById('tiles')")
        assert text(browser, "document.getElementById('lines')").endswith("goodbye")
    errors = [entry for entry in browser.get_log("browser") if "ERR_CONNECTION" not in entry["message"]]
    assert errors == []


@pytest.mark.exhaustive
def test_a_job_that_has_failed_is_shown_from_its_folder(tmp_path: Path, browser: Any) -> None:
    train = script(tmp_path, "import os, sys\nprint('<b>bold</b>')\nsys.exit(3 * int(os.environ['RANK']))")
    with RunningJob(("--nproc_per_node", 2, "--device", "cpu", train), tmp_path, warm=True) as job:
        assert job.finish().code == 3
    (tmp_path / "log" / "observe" / "fleetrun.1.json").write_text("{")
    with running([*FLEETRUN, "view", "log"], tmp_path, clean_environ(), warm=False) as view:
        address = view.stderr.readline  # type: ignore[union-attr]
        line = address()
        assert "fleetrun.1.json is damaged or half-written" in line
        browser.get(address().split()[5])
        wait_until(lambda: states(browser) == {"worker 0": "ended", "worker 1": "dead"}, 30, "the job on the page")
        assert browser.title == "failed, exit code 3: train.py"
        page = text(browser)
        assert "dead: exit code 3" in page
        assert "fleetrun.1.json is damaged or half-written" in page
        wait_until(lambda: "<b>bold</b>" in text(browser, "document.getElementById('lines')"), 30, "the log as text")
        view.send_signal(signal.SIGINT)
        assert view.wait(30) == 0
