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
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_maintenance, io_network, io_services
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_facts import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import source_after, source_returns
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT, STOP_SERVICES, Container
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import holds_everything
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

HOME = io_journal.SOURCE_HOME
# how long a network manager may take to come to terms with a changed address, in seconds
_SETTLE = 30.0


def boot_id() -> str:
    """Identity of the running boot of this machine."""
    return (read_text("/proc/sys/kernel/random/boot_id") or "").strip()


def awaits_boot(data: t.Mapping[str, t.Any]) -> bool:
    """Whether a source is on its way into its maintenance boot."""
    return data["state"] == QUIESCED and bool(data.get("maintenance")) and not data["maintenance"]["arrived"]


class SourceState:
    """State of one migration on its source: ``serving → quiesced → parked → handing_over → handed_over`` and back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = HOME / f"{name}.json"
        self.request_file = HOME / f"{name}.request"

    def read(self) -> dict[str, t.Any]:
        """The state as it is now; a quiesced source that was rebooted serves again."""
        text = read_text(str(self.file))
        data = json.loads(text) if text else {"state": SERVING}
        if data["state"] == QUIESCED and data.get("boot_id") != boot_id() and not awaits_boot(data):
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
            # on its way into another boot it is nobody's turn to put anything off
            if data["state"] not in (SERVING, HANDED_OVER) and not awaits_boot(data):
                self._lease(data, lease)
                self.write(data)
            return data

    @staticmethod
    def _lease(data: dict[str, t.Any], lease: float) -> None:
        data.update(boot_id=boot_id(), deadline=time.clock_gettime(time.CLOCK_BOOTTIME) + lease, lease=lease)

    def remaining(self, data: t.Mapping[str, t.Any]) -> float:
        """Seconds until the source returns by itself."""
        if data.get("boot_id") != boot_id():
            return float("-inf")
        return float(data["deadline"]) - time.clock_gettime(time.CLOCK_BOOTTIME)

    def begin(
        self,
        services: t.Sequence[str],
        lease: float,
        admin: t.Mapping[str, t.Any],
        containers: t.Sequence[Container] = (),
        quiesce: str = STOP_SERVICES,
        mark: str | None = None,
    ) -> dict[str, t.Any]:
        """Note down what is about to be stopped, so that it comes back whatever happens next.

        :arg admin: interface, prefix, address, temporary_address, cards (whose place the VM's cards take).
        :arg mark: by which the destination tells this machine from its copy; the folder of this state is never copied.
        """
        with self.locked():
            data = self.read()
            if awaits_boot(data):
                if mark:
                    data["mark"] = mark
                    self.write(data)
                return data
            if data["state"] == SERVING:
                together = holds_everything(services, quiesce)
                units = io_services.everything() if together else list(services)
                named = [*containers, *(each for each in (io_services.running_containers() if together else []) if each not in containers)]
                data = {
                    "state": QUIESCED,
                    "services": units,
                    "together": together,
                    "running": io_services.up(units),
                    "containers": [each.__dict__ for each in named if io_services.container_state(each) == "running"],
                    "admin": dict(admin),
                    "stopped_at": time.time(),
                }
                if quiesce == MAINTENANCE_BOOT:
                    io_maintenance.disarm(self.name)
                    data["maintenance"] = {"arrived": False, "usual": io_maintenance.usual_target()}
                self.request_file.unlink(missing_ok=True)
            if mark:
                data["mark"] = mark
            self._lease(data, lease)
            self.write(data)
            return data

    def stop_services(self) -> None:
        """Hold and stop what :meth:`begin` noted: containers, then services; they come back at a reboot or at :meth:`restore`.

        :raises BackendError: one of them still runs.
        """
        data = self.read()
        io_services.stop_containers([Container(**each) for each in data.get("containers", [])])
        io_services.stop(data["services"], together=bool(data.get("together")))
        run(["sync"])

    def arrive(self) -> bool:
        """The maintenance boot is there; tells whether somebody still waits for it."""
        with self.locked():
            data = self.read()
            # its first command put the usual target back already; the rest of what was armed goes when it serves again
            if awaits_boot(data):
                data["maintenance"]["arrived"] = True
                self._lease(data, float(data["lease"]))
                self.write(data)
            return data["state"] == QUIESCED

    def missed(self) -> None:
        """The machine was to boot without services and booted as usual: it serves."""
        with self.locked():
            data = self.read()
            if awaits_boot(data):
                kept = {"mark": data["mark"]} if "mark" in data else {}
                self.write({**kept, "state": SERVING, "reason": "the source booted as usual instead of without services", "returned_at": time.time()})
                io_maintenance.disarm(self.name)

    def detach(self, files_of: t.Callable[[str], dict[str, str]], readdress: t.Callable[[str, str, str], str]) -> None:
        """Step aside: temporary address up, admin address down, now and after a reboot.

        The other static addresses of cards whose place a card of the VM takes go down as well: the
        copy has them too.

        :arg files_of: gives the configuration files that name an address: path → text.
        :arg readdress: gives a file's text with one address for another.
        """
        with self.locked():
            data = self.read()
            if data["state"] not in (QUIESCED, PARKED, HANDING_OVER) or awaits_boot(data):
                return
            admin = data["admin"]
            if data["state"] == QUIESCED:
                ours = io_network.upon([admin["interface"], *admin.get("cards", [])])
                known = (admin["address"], admin["temporary_address"])
                also = [each for each in io_network.addresses() if each["dev"] in ours and each["address"].partition("/")[0] not in known]
                data.update(files=files_of(admin["address"]), also=also, routes=io_network.routes())
            data.update(state=PARKED, boot_id=boot_id())
            # from here on a reboot finds the source parked, with the dead man's hand on it
            self.write(data)
            io_services.hold(io_services.PERSISTENT, data["services"])
            for path, text in data["files"].items():
                _rewrite(path, readdress(text, admin["address"], admin["temporary_address"]))
            interface = admin["interface"]
            # without this the kernel takes all other addresses of the network away with the first
            io_network.promote_secondaries(interface)
            io_network.put(f"{admin['temporary_address']}/{admin['prefix']}", interface)
            self._stand_aside(data)
            io_network.reload_manager()
            self._stand_aside(data)
            data["parked_at"] = time.time()
            self.write(data)

    def guard(self) -> None:
        """See that this machine has the addresses it should have and no other's.

        Nobody else does: a network manager brings back what it once read, and loses what it did not.
        """
        with self.locked():
            data = self.read()
            if data["state"] in (PARKED, HANDING_OVER, HANDED_OVER):
                self._stand_aside(data)
            elif data["state"] == SERVING and not self.settled(data):
                admin = data["admin"]
                io_network.drop([admin["temporary_address"]])
                if io_network.keep([{"dev": admin["interface"], "address": f"{admin['address']}/{admin['prefix']}"}, *data.get("also", [])]):
                    io_network.put_routes(data.get("routes", []))
                    io_arp.announce(admin["interface"], admin["address"])

    @staticmethod
    def _stand_aside(data: t.Mapping[str, t.Any]) -> None:
        """The temporary address and nothing that is the VM's now."""
        admin = data["admin"]
        temporary = {"dev": admin["interface"], "address": f"{admin['temporary_address']}/{admin['prefix']}"}
        # first the one, then not the others: the machine is never without
        missing = io_network.keep([temporary])
        dropped = io_network.drop([admin["address"], *(each["address"].partition("/")[0] for each in data.get("also", []))])
        if missing or dropped:
            io_network.put_routes(data.get("routes", []))
            io_arp.announce(admin["interface"], admin["temporary_address"])

    def settled(self, data: t.Mapping[str, t.Any]) -> bool:
        """Whether a source that serves needs no more looking after: the network managers had time for their changes."""
        return data.get("boot_id") != boot_id() or time.clock_gettime(time.CLOCK_BOOTTIME) > float(data.get("settled_at", 0.0))

    def restore(self, reason: str, *, unasked: bool = False) -> str | None:
        """Come back: admin address, services, everything as it was.

        :arg unasked: only if the lease is over still; the last word of the destination may just have come.
        :returns: ``None`` when done, else the MAC of the one who answers for the admin address;
            nothing was changed then.
        """
        with self.locked():
            data = self.read()
            if data["state"] == SERVING or (unasked and not source_returns(data["state"], self.remaining(data), False)):
                return None
            admin = data["admin"]
            address = f"{admin['address']}/{admin['prefix']}"
            if data["state"] != QUIESCED:
                taken = io_arp.probe(admin["interface"], admin["address"])
                if taken:
                    return taken
                for path, text in (data.get("files") or {}).items():
                    # a full disk costs the next boot its address, not this one its services
                    with contextlib.suppress(OSError):
                        _rewrite(path, text)
                io_network.put(address, admin["interface"])
                io_network.reload_manager()
                io_network.put(address, admin["interface"])
                io_arp.announce(admin["interface"], admin["address"])
                for each in data.get("also", []):
                    io_network.put(each["address"], each["dev"], needed=False)
                io_network.drop([admin["temporary_address"]])
                io_network.put_routes(data.get("routes", []))
            failed = self._serve(data)
            if data["state"] != QUIESCED:
                io_arp.announce(admin["interface"], admin["address"])
            kept = {key: data[key] for key in ("running", "containers", "admin", "also", "routes", "mark") if key in data}
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            settled = now + (_SETTLE if data["state"] != QUIESCED else 0.0)
            self.write({**kept, "state": SERVING, "reason": reason, "returned_at": time.time(), "failed": failed, "boot_id": boot_id(), "settled_at": settled})
            return None

    def _serve(self, data: t.Mapping[str, t.Any]) -> list[str]:
        """Services and containers as they were; returns what does not run."""
        if data.get("maintenance"):
            io_maintenance.disarm(self.name)
        together = bool(data.get("together"))
        units = list(data.get("running", []))
        io_services.release(data.get("services", []))
        if data.get("maintenance") and data["maintenance"]["arrived"]:
            # also what systemd starts by its own reckoning: it never ran in this boot
            with contextlib.suppress(CommandError):
                run(["systemctl", "start", "--no-block", "--", data["maintenance"]["usual"]], timeout=30)
        failed = io_services.start(units if together else units[::-1], together=together)
        # after the services, for an engine may be one of them
        containers = [Container(**each) for each in data.get("containers", [])]
        return failed + io_services.start_containers(containers[::-1])

    def hand_over(self, command: str, lease: float | None = None) -> dict[str, t.Any]:
        """One of the two steps after which the destination serves for good and there is no return by itself any more.

        :arg command: ``hand_over``, which begins a new lease, or ``confirm``, which ends it.
        :arg lease: seconds the destination has for its next word, those of the last lease without.
        """
        with self.locked():
            data = self.read()
            after = source_after(data["state"], command)
            if after == HANDING_OVER and data.get("boot_id") == boot_id():
                self._lease(data, float(lease or data["lease"]))
            if after != data["state"] or after == HANDING_OVER:
                data["state"] = after
                self.write(data)
            return data


def _rewrite(path: str, text: str) -> None:
    """Change a configuration file and keep its owner and mode."""
    before = os.stat(path)
    write_atomic(path, text, mode=before.st_mode & 0o7777)
    os.chown(path, before.st_uid, before.st_gid)
