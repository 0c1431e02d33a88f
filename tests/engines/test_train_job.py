"""What Kubeflow's controller is told of a TrainJob: by a real HTTPS server here, and by Kubeflow's own models."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet_tools.engines.train_job import TrainJobProgress
from support.certificates import authority
from support.engines import asked, needed
from support.processes import wait_until

pytestmark = pytest.mark.timeout(120)
LIMIT_S = 30.0
MODEL = """
import json, sys
from kubeflow_trainer_api.models import TrainerV1alpha1UpdateTrainJobStatusRequest as Request
print(json.dumps([Request.from_dict(one).to_dict() for one in json.load(sys.stdin)], default=str))
"""


class Controller(ThreadingHTTPServer):
    """Notes what it is told; refuses while it is busy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.told: list[tuple[str, str, Any]] = []
        self.is_busy = False
        certificate, key = authority("kubeflow").issue("localhost")
        for name, text in (("ca", authority("kubeflow").certificate), ("own", certificate + key)):
            (folder / name).write_bytes(text)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "own")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def bodies(self) -> list[Any]:
        return [body for *_, body in self.told]


class Asked(BaseHTTPRequestHandler):
    server: Controller

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append((self.path, self.headers["Authorization"], body))
        self.send_response(503 if self.server.is_busy else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    with Controller(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (tmp_path / "token").write_text("first\n")
        told = {"URL": f"https://localhost:{server.server_port}/status", "CA_CERT": "ca", "TOKEN": "token"}
        for name, value in told.items():
            path = value if name == "URL" else str(tmp_path / value)
            monkeypatch.setenv(f"KUBEFLOW_TRAINER_SERVER_{name}", path)
        yield server
        server.shutdown()
        thread.join()


def test_progress_reaches_the_controller(controller: Controller, tmp_path: Path) -> None:
    progress = TrainJobProgress(200, every_s=0.01)
    progress.tell(50, loss=0.5, auc=float("nan"))
    wait_until(lambda: len(controller.told) == 1, LIMIT_S, "the first message")
    (tmp_path / "token").write_text("second\n")
    controller.is_busy = True
    progress.tell(100)
    wait_until(lambda: len(controller.told) == 2, LIMIT_S, "the second message")
    controller.is_busy = False
    progress.tell(200, loss=0.25)
    progress.close()
    assert [(path, token) for path, token, _ in controller.told] == [
        ("/status", "Bearer first"),
        ("/status", "Bearer second"),
        ("/status", "Bearer second"),
    ]
    told = [body["trainerStatus"] for body in controller.bodies()]
    assert [one["progressPercentage"] for one in told] == [25, 50, 100]
    assert told[0]["metrics"] == [{"name": "loss", "value": "0.5"}]
    assert "estimatedRemainingSeconds" not in told[0], "nothing is known before a second word"
    assert told[2]["estimatedRemainingSeconds"] == 0


@needed
def test_messages_are_what_kubeflow_reads(controller: Controller) -> None:
    progress = TrainJobProgress(10, every_s=0.01)
    progress.tell(1)
    progress.tell(5, loss=0.5)
    progress.close()
    told = controller.bodies()
    for ours, theirs in zip(told, asked(MODEL, told), strict=True):
        sent, read = ours["trainerStatus"], theirs["trainerStatus"]
        assert sent["lastUpdatedTime"].rstrip("Z").replace("T", " ") == read.pop("lastUpdatedTime").split("+")[0]
        assert read == {name: value for name, value in sent.items() if name != "lastUpdatedTime"}


def test_nothing_happens_elsewhere(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_INDEX", "1")
    other = TrainJobProgress(10, every_s=0.01)
    other.tell(5)
    other.close()
    monkeypatch.delenv("FLEET_INDEX")
    monkeypatch.delenv("KUBEFLOW_TRAINER_SERVER_URL")
    alone = TrainJobProgress(10)
    alone.tell(5)
    alone.close()
    assert controller.told == []


def test_a_controller_that_is_away_is_one_warning(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", "/nowhere")
    progress = TrainJobProgress(10, every_s=0.01)
    progress.tell(5)
    wait_until(lambda: caplog.records, LIMIT_S, "the warning")
    progress.tell(10)
    progress.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the TrainJob does not hear of its progress, trying on: " in caplog.text
    assert controller.told == []
