# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of a cloud: its administrator, who creates instances of a tenant, and some that note when a service answers."""

from __future__ import annotations

import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import typing as t
import urllib.request

from . import openstack_client
from .settings import Lab

#: Seconds until a request without an answer is given up.
TIMEOUT = 2


class Watch(threading.Thread):
    """Asks a service again and again, and notes when it answered.

    :arg answers: asks once; an exception is the answer no.
    :arg interval: seconds from one answer to the next question.

    :ivar reached: times of the monotonic clock.
    """

    def __init__(self, answers: t.Callable[[], bool], interval: float = 0.2) -> None:
        super().__init__(daemon=True)
        self._answers, self._interval = answers, interval
        self.reached: list[float] = []
        self._end = threading.Event()

    def run(self) -> None:
        """Ask until the end."""
        while not self._end.wait(self._interval):
            if ask(self._answers):
                self.reached.append(time.monotonic())

    def close(self) -> None:
        """Ask no longer."""
        self._end.set()
        self.join(10)

    def gap(self, begin: float, end: float) -> float:
        """Return the longest time without an answer between two points in time, in seconds."""
        return longest_gap(self.reached, begin, end)


def ask(answers: t.Callable[[], bool]) -> bool:
    """Return whether a service answers."""
    try:
        return answers()
    except Exception:  # pylint: disable=broad-except  # whatever a service that is lost or starting answers
        return False


def longest_gap(reached: t.Sequence[float], begin: float, end: float) -> float:
    """Return the longest time without an answer between two points in time."""
    times = [begin, *(at for at in reached if begin < at < end), end]
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def wait(title: str, condition: t.Callable[[], bool], seconds: float) -> float:
    """Return the seconds until a condition is met; end the demo if it is not met in time."""
    began = time.monotonic()
    while not ask(condition):
        if time.monotonic() - began > seconds:
            sys.exit(f"Timed out after {seconds:.0f} s while waiting for {title}. Run with KEEP=1 to keep the lab and look at its logs.")
        time.sleep(0.5)
    return time.monotonic() - began


def ssh_answers(address: str) -> bool:
    """Return whether an ssh server sends its banner."""
    with socket.create_connection((address, 22), timeout=1) as connection:
        return connection.recv(4) == b"SSH-"


def http_answers(url: str) -> bool:
    """Return whether a web server answers without an error."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=1) as answer:
        return answer.status == 200


def logs_in(lab: Lab, address: str, name: str) -> bool:
    """Return whether an instance accepts the key, and has its name from the metadata."""
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={lab.state}/known_servers"]
    command = ["ssh", "-i", str(lab.key), *options, f"root@{address}", "hostname"]
    # one that is still starting may accept the connection and nothing else
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=30)
    return done.stdout.strip() == name


class Cloud:
    """The administrator of a cloud.

    :arg inventory: its directory, with the login.
    """

    def __init__(self, lab: Lab, inventory: pathlib.Path) -> None:
        packages = str(openstack_client.directory())
        if packages not in sys.path:
            sys.path.append(packages)
        import openstack  # installed for the demo

        # its warnings while the API does not answer are expected
        logging.getLogger("keystoneauth").setLevel(logging.CRITICAL)
        (login,) = inventory.glob(".secrets/*/clouds.yaml")
        os.environ["OS_CLIENT_CONFIG_FILE"] = str(login)
        self.lab = lab
        self.connection: t.Any = openstack.connect(cloud="footprint", api_timeout=10)

    def answers(self) -> bool:
        """Return whether nova answers a request that reads its database."""
        done = self.connection.session.get("/servers", endpoint_filter={"service_type": "compute"}, timeout=TIMEOUT, raise_exc=False)
        return bool(done.status_code == 200)

    def create_instance(self, name: str, host: str) -> tuple[str, float, float]:
        """Create an instance on a compute server; return its floating address, and the seconds until it was active and until a login.

        :arg name: of the instance; network, security group and key of the tenant are named ``demo``.
        """
        began = time.monotonic()
        cloud = self.connection
        server = cloud.compute.create_server(
            name=name,
            image_id=cloud.image.find_image("test", ignore_missing=False).id,
            flavor_id=cloud.compute.find_flavor("tiny", ignore_missing=False).id,
            networks=[{"uuid": cloud.network.find_network("demo", ignore_missing=False).id}],
            key_name="demo",
            security_groups=[{"name": "demo"}],
            availability_zone=f"nova:{host}",
        )
        cloud.compute.wait_for_server(server, wait=300)
        active = time.monotonic() - began
        port = next(iter(cloud.network.ports(device_id=server.id)))
        public = cloud.network.find_network("public", ignore_missing=False)
        address = cloud.network.create_ip(floating_network_id=public.id, port_id=port.id).floating_ip_address
        wait(f"a login to {name}", lambda: logs_in(self.lab, address, name), 300)
        return address, active, time.monotonic() - began

    def states(self) -> dict[str, tuple[str, str]]:
        """Return the compute server and the state of each instance by its name."""
        return {one.name: (one.compute_host, one.status) for one in self.connection.compute.servers()}
