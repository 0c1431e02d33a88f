"""Pods of rendered manifests as real processes: a network namespace each, with the names that a cluster would have.

What Kubernetes would do is done here from the manifest alone: it fills in variables and `$(NAME)`, mounts what a claim
stands for, names the pod, and starts the container's command. A name leads nowhere until its pod has an address.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.hosts import Host, hosts_at_a_switch
from support.jobs import clean_environ
from support.rendered import of_kind

TOKEN = "the-token-of-a-mounted-secret"
PROBE = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    request = health_pb2.HealthCheckRequest(service=sys.argv[2])
    print(health_pb2_grpc.HealthStub(channel).Check(request, timeout=10).status)
"""


class Pod:
    """One pod: its container is started here, again and again if need be, and may move to another address."""

    def __init__(
        self, cluster: Cluster, name: str, domain: str, spec: Mapping[str, Any], labels: Mapping[str, str]
    ) -> None:
        self.name, self.fields = name, labels
        self._cluster, self._domain, self._spec = cluster, domain, spec
        (self.container,) = spec["containers"]
        self.log = cluster.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.host: Host | None = None

    def schedule(self) -> None:
        """Give it a place, which may be another than before: its name leads there from now on."""
        self.host = self._cluster.free_hosts.pop(0)
        self._cluster.names[f"{self.name}.{self._domain}"] = self.host.address
        self._cluster.names[self.name] = self.host.address
        self._cluster.write_names()

    def start(self) -> None:
        """Start the container, as kubelet does first and after each end."""
        assert self.host is not None
        variables = self._variables()
        command = [self._filled(word, variables) for word in self.container["command"]]
        mounts = " && ".join(f"mount --bind {self._volume(mount)} {mount['mountPath']}" for mount in self._mounts)
        inside = [
            "unshare",
            "--mount",
            "--uts",
            "sh",
            "-c",
            f'hostname {self.name} && {mounts or "true"} && exec "$@"',
            "sh",
        ]
        environ = {**clean_environ(), "OMP_NUM_THREADS": "1", "HOSTNAME": self.name, **variables}
        environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.host.prefix, *inside, *command], cwd=self._cluster.folder, env=environ, stdout=log, stderr=log
            )

    @property
    def _mounts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.container.get("volumeMounts", [])
        return found

    def _volume(self, mount: Mapping[str, Any]) -> Path:
        """What lies behind a mount: what the pod's claim stands for, or that of its place in the set."""
        claims = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in self._spec.get("volumes", ())}
        path: Path = self._cluster.folder / "volumes" / claims.get(mount["name"], f"{mount['name']}-{self.name}")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in self.container["env"]:
            if "value" in one:
                found[one["name"]] = self._filled(one["value"], found)  # only what stands before it is known
            elif "fieldRef" in one["valueFrom"]:
                (key,) = re.findall(r"\['(.*)'\]", one["valueFrom"]["fieldRef"]["fieldPath"])
                found[one["name"]] = self.fields[key]
            else:
                assert one["valueFrom"]["secretKeyRef"]["key"] == "token"
                found[one["name"]] = TOKEN
        return found

    @staticmethod
    def _filled(text: str, variables: Mapping[str, str]) -> str:
        return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), text)

    def kill(self) -> None:
        """End the container's processes at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def stop(self) -> int:
        """End it as a deleted pod is ended, within its grace; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(self._spec["terminationGracePeriodSeconds"])

    def wait(self, limit_s: float) -> int:
        """The exit code of its container."""
        assert self._process is not None
        return self._process.wait(limit_s)

    def probe(self, kind: str) -> str:
        """What the health service answers to a probe of the manifest, which sends no token: 1 is SERVING."""
        assert self.host is not None
        asked = self.container[kind]["grpc"]
        command = [
            *self.host.prefix,
            sys.executable,
            "-c",
            PROBE,
            f"{self.host.address}:{asked['port']}",
            asked["service"],
        ]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return told.stdout.strip() or told.stderr


class Cluster:
    """Places for pods, and the names that lead to them."""

    def __init__(self, folder: Path, hosts: list[Host]) -> None:
        self.folder = folder
        self.free_hosts = list(hosts)
        self.names: dict[str, str] = {}
        self._file = folder / "hosts"
        self.write_names()
        self._etc = [Path("/etc/netns", host.namespace) for host in hosts]
        for path in self._etc:
            path.mkdir(parents=True)
            (path / "hosts").symlink_to(self._file)

    def write_names(self) -> None:
        """Into the file that every pod sees, which stays the same one."""
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in self.names.items())]
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.truncate()

    def forget(self) -> None:
        """Take away what namespaces were told."""
        for path in self._etc:
            shutil.rmtree(path, ignore_errors=True)

    def of_statefulset(self, found: list[dict[str, Any]]) -> list[Pod]:
        """The pods that a StatefulSet makes."""
        one = of_kind(found, "StatefulSet")
        spec, template = one["spec"], one["spec"]["template"]
        names = [f"{one['metadata']['name']}-{n}" for n in range(spec["replicas"])]
        return [Pod(self, name, spec["serviceName"], template["spec"], {}) for name in names]

    def of_job(self, job: Mapping[str, Any], name: str, domain: str = "", set_name: str = "") -> list[Pod]:
        """The pods that an indexed Job makes; those of a JobSet have the set's domain."""
        template = job["spec"]["template"]["spec"]
        found = []
        for n in range(job["spec"]["completions"]):
            fields = {"batch.kubernetes.io/job-completion-index": str(n), "jobset.sigs.k8s.io/jobset-name": set_name}
            found.append(Pod(self, f"{name}-{n}", domain or template["subdomain"], template, fields))
        return found

    def of_volcano(self, spec: Mapping[str, Any], name: str) -> list[list[Pod]]:
        """The pods of each task of a Job of Volcano, whose plugins give them names and indexes."""
        found = []
        for task in spec["tasks"]:
            own = [
                (f"{name}-{task['name']}-{n}", {"name": "VC_TASK_INDEX", "value": str(n)})
                for n in range(task["replicas"])
            ]
            (container,) = task["template"]["spec"]["containers"]
            told = [{**container, "env": [*container["env"], index]} for _, index in own]
            specs = [{**task["template"]["spec"], "containers": [one]} for one in told]
            found.append([Pod(self, pod, name, one, {}) for (pod, _), one in zip(own, specs, strict=True)])
        return found

    def of_compose(self, services: Mapping[str, Any]) -> list[Pod]:
        """The containers of services, which know each other by the services' names; the secret is the file `token`."""
        found = []
        for name, service in services.items():
            told = {**service["environment"], "FLEET_JOB_TOKEN_FILE": str(self.folder / "token")}
            env = [{"name": key, "value": value} for key, value in told.items()]
            command = [word.replace("$$", "$") for word in service["command"]]
            spec = {"containers": [{"command": command, "env": env}], "terminationGracePeriodSeconds": 60}
            found.append(Pod(self, name, "compose", spec, {}))
        return found

    def of_jobset(self, spec: Mapping[str, Any], name: str) -> list[list[Pod]]:
        """The pods of each job of a JobSet with this name."""
        jobs = spec["replicatedJobs"]
        return [self.of_job(job["template"], f"{name}-{job['name']}-0", name, name) for job in jobs]


@contextmanager
def cluster(folder: Path, num_places: int) -> Iterator[Cluster]:
    """A cluster with so many places; every pod is ended with it."""
    with ExitStack() as stack:
        found = Cluster(folder, stack.enter_context(hosts_at_a_switch(num_places)))
        stack.callback(found.forget)
        yield found
