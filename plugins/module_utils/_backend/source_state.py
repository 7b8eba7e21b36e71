# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source's side of a migration, kept in files on the source: held services, the address it stepped aside from.

The state is one JSON document; every operation can be repeated after a kill or a power loss.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import arp
from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._backend.source_facts import interfaces, read_text, unit_state
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import HANDED_OVER, PARKED, QUIESCED, SERVING

HOME = pathlib.Path("/var/lib/reduced.footprint/source")
DROP_IN = "zz-reduced-footprint-held.conf"
_DROP_IN_TEXT = (
    "# reduced.footprint: held while the master moves; taken away when this machine serves again\n"
    "[Unit]\nConditionPathExists=/run/reduced.footprint/released\n"
)
_TRANSIENT = pathlib.Path("/run/systemd/system")
_PERSISTENT = pathlib.Path("/etc/systemd/system")


def boot_id() -> str:
    """Identity of the running boot of this machine."""
    return (read_text("/proc/sys/kernel/random/boot_id") or "").strip()


class SourceState:
    """State of one migration on its source: ``serving → quiesced → parked → handed_over`` and back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = HOME / f"{name}.json"
        self.request_file = HOME / f"{name}.request"

    def read(self) -> dict[str, t.Any]:
        """The state as it is now; a quiesced source that was rebooted serves again."""
        text = read_text(str(self.file))
        data = json.loads(text) if text else {"state": SERVING}
        if data["state"] == QUIESCED and data.get("boot_id") != boot_id():
            data["state"] = SERVING
            data["reason"] = "the source was rebooted"
        return dict(data)

    def write(self, data: t.Mapping[str, t.Any]) -> None:
        """Keep the state, safe against a power loss."""
        write_atomic(self.file, json.dumps(data, indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """One operation at a time: the destination's and the dead man's hand never mix."""
        HOME.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(HOME / f"{self.name}.lock", "w", encoding="ascii") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def renew(self, lease: float) -> dict[str, t.Any]:
        """Put off the return by ``lease`` seconds from now."""
        with self.locked():
            data = self.read()
            if data["state"] != SERVING:
                data.update(boot_id=boot_id(), deadline=time.clock_gettime(time.CLOCK_BOOTTIME) + lease, lease=lease)
                self.write(data)
            return data

    def remaining(self, data: t.Mapping[str, t.Any]) -> float:
        """Seconds until the source returns by itself."""
        if data.get("boot_id") != boot_id():
            return float("-inf")
        return float(data["deadline"]) - time.clock_gettime(time.CLOCK_BOOTTIME)

    def begin(self, services: t.Sequence[str], lease: float, admin: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Note down what is about to be stopped, so that it comes back whatever happens next.

        :arg admin: interface, prefix, address, temporary_address.
        """
        with self.locked():
            data = self.read()
            if data["state"] == SERVING:
                running = [unit for unit in services if unit_state(unit)["active"] in ("active", "activating", "reloading")]
                data = {"state": QUIESCED, "services": list(services), "running": running, "admin": dict(admin), "stopped_at": time.time()}
                self.request_file.unlink(missing_ok=True)
            data.update(boot_id=boot_id(), deadline=time.clock_gettime(time.CLOCK_BOOTTIME) + lease, lease=lease)
            self.write(data)
            return data

    def stop_services(self, services: t.Sequence[str]) -> None:
        """Hold and stop the services in the order given; they come back at a reboot or at :meth:`restore`.

        :raises BackendError: one of them still runs.
        """
        _hold(_TRANSIENT, services)
        for unit in services:
            run(["systemctl", "stop", "--", unit], timeout=600)
        alive = [unit for unit in services if unit_state(unit)["active"] not in ("inactive", "failed")]
        if alive:
            raise BackendError(f"{', '.join(alive)} did not stop on the source.", mend="List what keeps it up (sockets, timers) in services, before it.")
        run(["sync"])

    def detach(self, files_of: t.Callable[[str], dict[str, str]], readdress: t.Callable[[str, str, str], str]) -> None:
        """Step aside: temporary address up, admin address down, now and after a reboot.

        :arg files_of: gives the configuration files that name an address: path → text.
        :arg readdress: gives a file's text with one address for another.
        """
        with self.locked():
            data = self.read()
            if data["state"] not in (QUIESCED, PARKED):
                return
            admin = data["admin"]
            files = data.get("files") or files_of(admin["address"])
            data.update(state=PARKED, files=files, boot_id=boot_id())
            # from here on a reboot finds the source parked, with the dead man's hand on it
            self.write(data)
            _hold(_PERSISTENT, data["services"])
            for path, text in files.items():
                _rewrite(path, readdress(text, admin["address"], admin["temporary_address"]))
            interface = admin["interface"]
            # without this the kernel takes all other addresses of the network away with the first
            _sysctl(f"net/ipv4/conf/{interface}/promote_secondaries", "1")
            run(["ip", "address", "replace", f"{admin['temporary_address']}/{admin['prefix']}", "dev", interface])
            routes = _default_routes()
            drop_address(admin["address"])
            for route in routes:
                run(["ip", "route", "replace", *route], ok=range(256))
            arp.announce(interface, admin["temporary_address"])
            _reload_network()
            data["parked_at"] = time.time()
            self.write(data)

    def restore(self, reason: str) -> str | None:
        """Come back: admin address, services, everything as it was.

        :returns: ``None`` when done, else the MAC of the one who answers for the admin address;
            nothing was changed then (F16).
        """
        with self.locked():
            data = self.read()
            if data["state"] == SERVING:
                return None
            if data["state"] != QUIESCED:
                admin = data["admin"]
                taken = arp.probe(admin["interface"], admin["address"])
                if taken:
                    return taken
                for path, text in (data.get("files") or {}).items():
                    _rewrite(path, text)
                run(["ip", "address", "replace", f"{admin['address']}/{admin['prefix']}", "dev", admin["interface"]])
                _reload_network()
                run(["ip", "address", "replace", f"{admin['address']}/{admin['prefix']}", "dev", admin["interface"]])
                arp.announce(admin["interface"], admin["address"])
                drop_address(admin["temporary_address"])
            release(data.get("services", []))
            for unit in reversed(data.get("running", [])):
                run(["systemctl", "start", "--no-block", "--", unit], ok=range(256))
            if data["state"] != QUIESCED:
                arp.announce(data["admin"]["interface"], data["admin"]["address"])
            self.write({"state": SERVING, "reason": reason, "returned_at": time.time(), "running": data.get("running", [])})
            return None

    def hand_over(self) -> dict[str, t.Any]:
        """The destination serves for good: no return by itself any more."""
        with self.locked():
            data = self.read()
            if data["state"] == PARKED:
                data["state"] = HANDED_OVER
                self.write(data)
            return data


def release(services: t.Sequence[str]) -> None:
    """Let units start again."""
    for base in (_TRANSIENT, _PERSISTENT):
        for unit in services:
            (base / f"{unit}.d" / DROP_IN).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (base / f"{unit}.d").rmdir()
    run(["systemctl", "daemon-reload"])


def _hold(base: pathlib.Path, services: t.Sequence[str]) -> None:
    for unit in services:
        write_atomic(base / f"{unit}.d" / DROP_IN, _DROP_IN_TEXT, mode=0o644)
    run(["systemctl", "daemon-reload"])


def drop_address(address: str) -> bool:
    """Take an address off whatever interface has it; tells whether one had."""
    dropped = False
    for interface in interfaces():
        for each in interface["addresses"]:
            if each.partition("/")[0] == address:
                run(["ip", "address", "del", each, "dev", interface["name"]], ok=range(256))
                dropped = True
    return dropped


def _rewrite(path: str, text: str) -> None:
    """Change a configuration file and keep its owner and mode."""
    before = os.stat(path)
    write_atomic(path, text, mode=before.st_mode & 0o7777)
    os.chown(path, before.st_uid, before.st_gid)


def _sysctl(key: str, value: str) -> None:
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys", key).write_text(value, encoding="ascii")


def _default_routes() -> list[list[str]]:
    routes = json.loads(run(["ip", "-json", "route", "show", "default"]).stdout or "[]")
    return [["default", "via", each["gateway"], "dev", each["dev"]] for each in routes if each.get("gateway") and each.get("dev")]


def _reload_network() -> None:
    """Let a running network manager read its changed files, so that it does not bring back the old ones.

    Best effort: the addresses themselves are set by hand, and nothing may keep a source from returning.
    """
    commands = {
        "systemd-networkd.service": (["netplan", "generate"], ["networkctl", "reload"]),
        "NetworkManager.service": (["nmcli", "connection", "reload"],),
    }
    for unit, argvs in commands.items():
        if unit_state(unit)["active"] != "active":
            continue
        for argv in argvs:
            with contextlib.suppress(CommandError):
                run(argv, timeout=30)
