# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host for fault injection: a private libvirtd, pools, images, and the module in processes that may be killed."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

from ansible.module_utils import basic
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.modules import vm_define
from harden_watch import Death, Watch
from lxml import etree

SUPPORT = pathlib.Path(__file__).resolve().parents[2] / "support" / "libvirtd"
POOL = "footprint-test"
CLUSTER = "torture"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of one process of the module; ``steps`` are the steps it started."""

    code: int
    result: t.Mapping[str, t.Any]
    steps: tuple[str, ...]
    output: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether the process was killed."""
        return self.code == -signal.SIGKILL

    @property
    def ok(self) -> bool:
        """Whether the module succeeded."""
        return self.code == 0 and not self.result.get("failed")

    @property
    def message(self) -> str:
        """The error message of the module."""
        return str(self.result.get("msg", ""))

    def vm(self, number: int = 0) -> t.Mapping[str, t.Any]:
        """The result of one VM."""
        return self.result["vms"][number]


@dataclasses.dataclass(frozen=True)
class Started:
    """A running module."""

    pid: int
    output: pathlib.Path
    log: pathlib.Path
    since: float

    def wait(self, limit: float = 120) -> Outcome:
        """Wait for the end of the process; exceeding the limit in seconds is a failure."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - self.since > limit:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"hangs for {limit} s: {self.output.read_text()} {self.log.read_text()[-300:]}")
            time.sleep(0.005)
        text = self.output.read_text("utf-8", "surrogateescape")
        steps = tuple(self.log.read_text("utf-8", "surrogateescape").splitlines())
        self.output.unlink()
        self.log.unlink()
        result = {}
        with contextlib.suppress(ValueError, IndexError):
            result = json.loads(text.strip().splitlines()[-1])
        return Outcome(os.waitstatus_to_exitcode(status), result, steps, text, time.monotonic() - self.since)


class Host:
    """The host and its operations."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.start_daemon()
        self.scratch = folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        (folder / "lock").mkdir(exist_ok=True)
        # other runs on this machine have their own locks
        io_lock.lock_folder = lambda: folder / "lock"

    def start_daemon(self) -> None:
        """Start libvirtd, also after it was stopped or killed."""
        started = subprocess.run([str(SUPPORT), "start", str(self.folder)], check=True, capture_output=True, text=True).stdout
        values = dict(pair.split("=", 1) for pair in shlex.split(started))
        self.uri, self.lxc, self.pool = values["FOOTPRINT_TEST_QEMU_URI"], values["FOOTPRINT_TEST_LXC_URI"], pathlib.Path(values["FOOTPRINT_TEST_POOL"])

    def end_daemon(self, number: int) -> None:
        """Send libvirtd a signal and wait until it is gone."""
        pid = int((self.folder / "run" / "libvirtd.pid").read_text())
        os.kill(pid, number)
        until = time.monotonic() + 20
        stat = pathlib.Path(f"/proc/{pid}/stat")
        while stat.exists() and time.monotonic() < until and stat.read_text().split()[2] != "Z":
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop libvirtd and remove the folder."""
        subprocess.run([str(SUPPORT), "stop", str(self.folder)], check=True)

    def image(self, name: str) -> None:
        """Create a base image of 1 MiB."""
        path = self.pool / "images" / f"{name}.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)

    def root(self, name: str) -> None:
        """Create a root file system for containers; its init only waits."""
        with tempfile.TemporaryDirectory() as made:
            root = pathlib.Path(made)
            (root / "sbin").mkdir()
            (root / "bin").mkdir()
            (root / "srv").mkdir()
            shutil.copy("/bin/busybox", root / "bin" / "busybox")
            init = root / "sbin" / "init"
            init.write_text("#!/bin/busybox sh\nwhile :; do /bin/busybox sleep 1; done\n")
            init.chmod(0o755)
            subprocess.run(["tar", "--create", "--file", str(self.pool / "images" / f"{name}.tar"), "--directory", made, "."], check=True)

    def begin(self, *vms: t.Any, check: bool = False, death: Death | None = None, prelude: t.Callable[[], None] | None = None, **params: t.Any) -> Started:
        """Start the module in a separate process, as Ansible runs it.

        :arg prelude: is called in that process first; ``vms_text`` in ``params`` are details as JSON text.
        """
        text = params.pop("vms_text", None)
        requested = list(vms) if text is None else text
        arguments = {"cluster": CLUSTER, "uri": self.uri, "pool": POOL, "vms": requested, "lock_timeout": 60, "shutdown_timeout": 1, **params}
        handle, output = tempfile.mkstemp(dir=self.scratch)
        log = f"{output}.steps"
        pathlib.Path(log).touch()
        since = time.monotonic()
        pid = os.fork()
        if pid:
            os.close(handle)
            return Started(pid, pathlib.Path(output), pathlib.Path(log), since)
        code = 99
        try:
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            sys.stdin, sys.stdout, sys.stderr = open(os.devnull), open(1, "w", closefd=False), open(2, "w", closefd=False)
            plain = {key: value for key, value in arguments.items() if value is not None}
            basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {**plain, "_ansible_check_mode": check, "_ansible_diff": True}}).encode()
            basic._ANSIBLE_PROFILE = "legacy"
            if prelude is not None:
                prelude()
            Watch(log, death).install()
            vm_define.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            print(f"TRACEBACK {type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(code)

    def run(self, *vms: t.Any, **params: t.Any) -> Outcome:
        """Run the module and return its outcome, also after an error."""
        return self.begin(*vms, **params).wait()

    def done(self, *vms: t.Any, **params: t.Any) -> Outcome:
        """Run the module; it must succeed."""
        outcome = self.run(*vms, **params)
        assert outcome.ok, outcome.output
        return outcome

    @contextlib.contextmanager
    def libvirt(self, uri: str | None = None) -> t.Iterator[DomainHost]:
        """Open a connection for a short time; none may be open when a process is forked."""
        host = DomainHost(uri or self.uri)
        try:
            yield host
        finally:
            host.close()

    def domain(self, uuid: str, uri: str | None = None) -> DomainRecord | None:
        """Return the current record of a domain."""
        with self.libvirt(uri) as host:
            return host.domain(uuid)

    def domain_id(self, uuid: str, uri: str | None = None) -> int:
        """Return the libvirt id of a running domain, -1 if it is off."""
        with self.libvirt(uri) as host:
            return host.connection.lookupByUUIDString(uuid).ID()

    def pid(self, name: str) -> int:
        """Return the process id of a VM."""
        return int((self.folder / "run" / "qemu" / f"{name}.pid").read_text())

    def leftovers(self) -> list[str]:
        """List files an incomplete operation would leave: hidden files in the pool and next to its images and domains."""
        places = (self.pool, self.pool / "images", self.folder / "etc" / "qemu")
        return [str(path) for place in places for path in place.glob(".*")]

    def clear(self) -> None:
        """Remove all domains and volumes."""
        for uri in (self.uri, self.lxc):
            with self.libvirt(uri) as host, concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda domain: _forget(host, domain), host.connection.listAllDomains(0)))
        for path in self.pool.iterdir():
            if path.name != "images":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _forget(host: DomainHost, domain: t.Any) -> None:
    with contextlib.suppress(Exception):
        domain.destroy()
    with contextlib.suppress(Exception):
        host.undefine(domain.UUIDString())


def guest(vm_id: t.Any, memory: int | None = 32, /, **more: t.Any) -> dict[str, t.Any]:
    """Return the details of a small VM."""
    return {"id": vm_id, "cpu": 1, "memory_mb": memory, "hypervisor": "qemu", **more}


def memory_of(xml: str | None) -> int:
    """Return the memory of a document in MiB."""
    return int(etree.fromstring(xml or "").findtext("memory")) // 1024


def disks_of(xml: str | None) -> list[str]:
    """Return the names of the disk files of a document."""
    return [pathlib.Path(source.get("file") or "").name for source in etree.fromstring(xml or "").iterfind("devices/disk/source")]


def macs_of(xml: str | None) -> list[str]:
    """Return the MACs of a document."""
    return [mac.get("address") for mac in etree.fromstring(xml or "").iterfind("devices/interface/mac")]
