# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source and the requests of a destination, with the ssh connection and the program of a real migration."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import typing as t

from address_watch import AddressWatch
from support import REPOSITORY, Lab, eventually

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import MAINTENANCE_TARGET
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource

NIC = "enp0s31f6"
SERVICES = ("footprint-api.service", "dnsmasq.service", "mariadb.service")
#: Seconds without word after which the source returns; long enough to be asked something in between, also on a busy machine.
LEASE = 20


class SourceMachine:
    """The laptop of the lab."""

    def __init__(self, lab: Lab, folder: pathlib.Path) -> None:
        self.lab = lab
        self.admin = lab.master
        self.temporary = f"{lab.net}.3"
        self.root = lab.state / "laptop" / "root"
        shutil.copy(lab.settings.key, folder / "id_ed25519")
        keys = [line for line in lab.ssh("laptop", "cat", "/etc/ssh/ssh_host_ed25519_key.pub").splitlines() if line]
        code = io_units.keep_code(folder / "lib")
        self.remote = RemoteSource("master", folder, [self.admin, self.temporary], 22, [" ".join(keys[0].split()[:2])], code)

    def watch(self) -> AddressWatch:
        """Start watching who answers for the admin address."""
        return AddressWatch(self.lab.settings.bridge, self.admin)

    def quiesce(self, services: t.Sequence[str] = SERVICES, quiesce: str = "stop_services", lease: float = LEASE, **more: t.Any) -> dict[str, t.Any]:
        """Stop the services (quiesce)."""
        admin = {"interface": NIC, "prefix": 24, "address": self.admin, "temporary_address": self.temporary, "cards": [NIC]}
        given = {"services": list(services), "quiesce": quiesce, "lease": lease, "admin": admin, **more}
        return self.remote.ask("quiesce", given, timeout=120)["state"]

    def park(self, **more: t.Any) -> None:
        """Stop the services and release the admin address (park)."""
        self.quiesce(**more)
        self.remote.ask("detach")
        self.remote.address = self.temporary
        self.await_state("parked", lambda state: "parked_at" in state, 40)

    def hand_over(self) -> None:
        """Hand over permanently, in both steps."""
        self.remote.ask("hand_over", {"lease": LEASE})
        assert self.remote.ask("confirm")["state"]["state"] == "handed_over"

    def state(self) -> dict[str, t.Any]:
        """Return the state that the source reports."""
        return self.remote.ask("state", timeout=15)["state"]

    def await_state(self, wanted: str, also: t.Callable[[dict[str, t.Any]], bool] = lambda state: True, seconds: float = 60) -> float:
        """Wait until the source reports this state."""

        def there() -> bool:
            try:
                state = self.state()
            except FootprintError:
                return False
            return state["state"] == wanted and also(state)

        return eventually(f"the source is {wanted}", there, seconds)

    def serves(self) -> bool:
        """Whether the source serves at the admin address."""
        try:
            return self.lab.health()["rows"] is not None
        except (OSError, ValueError, KeyError):
            return False

    def await_serving(self, seconds: float = 90) -> float:
        """Wait until the source serves at the admin address, including the database."""
        took = eventually("the source serves", self.serves, seconds)
        self.remote.address = self.admin
        return took

    def powered(self) -> bool:
        """Whether the source is powered on."""
        argv = [str(REPOSITORY / "lab" / "lab"), "status", "--json"]
        machines = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout)["machines"]
        return next(each["power"] for each in machines if each["name"] == "laptop") == "on"

    def armed(self) -> bool:
        """Whether the disk is set to the maintenance boot without services."""
        link = self.root / "etc" / "systemd" / "system" / "default.target"
        return link.is_symlink() and link.readlink().name == MAINTENANCE_TARGET

    def take_back(self) -> None:
        """Restore the source from any state that a test left."""
        if not self.powered():
            self.lab.command("start", "laptop", "--no-wait")
        try:
            self.await_serving(5)
        except AssertionError:
            eventually("the source takes everything back", lambda: bool(self.remote.ask("restore", {"reason": "the test ended"})), 90)
            self.await_serving()

    def running(self) -> set[str]:
        """Return the running services."""
        argv = ("systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager")
        return {line.split()[0] for line in self.lab.ssh(self.address(), *argv).splitlines() if line.strip()}

    def listening(self) -> set[str]:
        """Return the TCP ports with a listener that is reachable from other machines."""
        lines = self.lab.ssh(self.address(), "ss", "-Hltn").splitlines()
        return {line.split()[3].rpartition(":")[2] for line in lines if not line.split()[3].startswith(("127.", "[::1]"))}

    def addresses(self) -> str:
        """Return the addresses as printed by ip."""
        return self.lab.ssh(self.address(), "ip", "-o", "address")

    def address(self) -> str:
        """Return the address at which the source answered last."""
        return self.remote.address


def lasting(services: t.Iterable[str]) -> set[str]:
    """Return the services without those of logins and of the migration, which are temporary."""
    passing = (
        "user@",
        "reduced-footprint-",
        "session-",
        "systemd-hostnamed",
        "systemd-timedated",
        "systemd-localed",
        "e2scrub",
        "apt-",
        "dpkg-",
        "man-db",
        "logrotate",
    )
    return {name for name in services if not name.startswith(passing)}
