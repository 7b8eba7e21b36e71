# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State of a migration on the source, in files: held services, addresses that were given up, the lease.

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

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import SOURCE_REPORT, SOURCE_STATE
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_maintenance, io_network, io_services
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_facts import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import source_after, source_returns
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT, STOP_SERVICES, Container
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import holds_everything
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

HOME = io_journal.SOURCE_HOME
# seconds in which a network manager may still revert a changed address
_SETTLE = 30.0


def keep_report(name: str, report: t.Mapping[str, t.Any], home: pathlib.Path | None = None) -> None:
    """Store the last report about a migration: for an operator if the destination host is lost, and for another destination."""
    write_atomic(_report_file(name, home), json.dumps(SOURCE_REPORT.mark(report), indent=1, sort_keys=True) + "\n")


def kept_report(name: str, home: pathlib.Path | None = None) -> dict[str, t.Any] | None:
    """The last report, ``None`` if there never was one."""
    path = _report_file(name, home)
    text = read_text(str(path))
    return SOURCE_REPORT.load(text, path) if text else None


def kept_reports(home: pathlib.Path | None = None) -> list[dict[str, t.Any]]:
    """The last reports of all migrations this machine was the source of."""
    return [report for path in sorted((home or HOME).glob("*.journal")) for report in [kept_report(path.stem, home)] if report]


def _report_file(name: str, home: pathlib.Path | None) -> pathlib.Path:
    return (home or HOME) / f"{name}.journal"


def boot_id() -> str:
    """Boot ID of this machine."""
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
        """Read the state; a quiesced source that was rebooted serves again."""
        text = read_text(str(self.file))
        data = SOURCE_STATE.load(text, self.file) if text else {"state": SERVING}
        if data["state"] == QUIESCED and data.get("boot_id") != boot_id() and not awaits_boot(data):
            data["state"] = SERVING
            data["reason"] = "the source was rebooted"
        return dict(data)

    def write(self, data: t.Mapping[str, t.Any]) -> None:
        """Write the state, safe against a power loss."""
        write_atomic(self.file, json.dumps(SOURCE_STATE.mark(data), indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Serialize the operations of the destination's commands and of the watch."""
        HOME.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(HOME / f"{self.name}.lock", "w", encoding="ascii") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def renew(self, lease: float) -> dict[str, t.Any]:
        """Extend the lease to ``lease`` seconds from now; returns the state."""
        with self.locked():
            data = self.read()
            # the deadline for the maintenance boot must not be extended
            if data["state"] not in (SERVING, HANDED_OVER) and not awaits_boot(data):
                self._lease(data, lease)
                self.write(data)
            return data

    @staticmethod
    def _lease(data: dict[str, t.Any], lease: float) -> None:
        data.update(boot_id=boot_id(), deadline=time.clock_gettime(time.CLOCK_BOOTTIME) + lease, lease=lease)

    def remaining(self, data: t.Mapping[str, t.Any]) -> float:
        """Seconds until the lease expires; minus infinity after a reboot."""
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
        """Record what will be stopped, so that it is restored after any failure; returns the state.

        :arg services: units in the order in which they stop, or ``("all",)``.
        :arg lease: in seconds.
        :arg admin: interface, prefix, address, temporary_address, cards (that the VM's cards replace).
        :arg mark: distinguishes this machine from its copy; the folder of this state is never copied.
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
                    "containers": [each._asdict() for each in named if io_services.container_state(each) == "running"],
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
        """Hold and stop what :meth:`begin` recorded: containers, then services; a reboot or :meth:`restore` starts them again.

        :raises BackendError: one of them is still running, or the lease expired meanwhile and the source serves again.
        """
        data = self.read()
        try:
            io_services.stop_containers([Container(**each) for each in data.get("containers", [])], self._check_quiesced)
            io_services.stop(data["services"], together=bool(data.get("together")), check=self._check_quiesced)
            run(["sync"])
        finally:
            self._undo_stop(data)

    def _check_quiesced(self) -> None:
        """Check that the source has not returned while its services stop.

        :raises BackendError: it has.
        """
        if self.read()["state"] != QUIESCED:
            raise _too_slow()

    def _undo_stop(self, data: t.Mapping[str, t.Any]) -> None:
        """Start again what was stopped after the source had returned: nothing else would start it.

        :raises BackendError: the source has returned.
        """
        with self.locked():
            now = self.read()
            if now["state"] == SERVING:
                self.write({**now, "failed": self._serve(data)})
                raise _too_slow()

    def arrive(self) -> bool:
        """Record that the maintenance boot has been reached; returns whether the migration still waits for it."""
        with self.locked():
            data = self.read()
            # the boot's first command has restored the default target already; its files are removed on the return to service
            if awaits_boot(data):
                data["maintenance"]["arrived"] = True
                self._lease(data, float(data["lease"]))
                self.write(data)
            return data["state"] == QUIESCED

    def missed(self) -> None:
        """Record that the machine booted as usual instead of without services: it serves."""
        with self.locked():
            data = self.read()
            if awaits_boot(data):
                kept = {"mark": data["mark"]} if "mark" in data else {}
                self.write({**kept, "state": SERVING, "reason": "the source booted as usual instead of without services", "returned_at": time.time()})
                io_maintenance.disarm(self.name)

    def detach(self, files_of: t.Callable[[str], dict[str, str]], readdress: t.Callable[[str, str, str], str]) -> None:
        """Set the source aside: add the temporary address and remove the admin address, now and after a reboot.

        The other static addresses of cards that the VM's cards replace are removed as well, because
        the copy has them too.

        :arg files_of: returns the configuration files that contain an address: path → text.
        :arg readdress: returns a file's text with one address replaced by another.
        """
        with self.locked():
            data = self.read()
            if data["state"] not in (QUIESCED, PARKED, HANDING_OVER) or awaits_boot(data):
                return
            admin = data["admin"]
            if data["state"] == QUIESCED:
                moving = io_network.upon([admin["interface"], *admin.get("cards", [])])
                known = (admin["address"], admin["temporary_address"])
                also = [each for each in io_network.addresses() if each["dev"] in moving and each["address"].partition("/")[0] not in known]
                data.update(files=files_of(admin["address"]), also=also, routes=io_network.routes())
            if data.get("boot_id") != boot_id():
                # the deadline is measured from the boot
                self._lease(data, float(data["lease"]))
            data["state"] = PARKED
            # from here on the source is parked after a reboot, with the watch running
            self.write(data)
            io_services.hold(io_services.PERSISTENT, data["services"])
            for path, text in data["files"].items():
                _rewrite(path, readdress(text, admin["address"], admin["temporary_address"]))
            interface = admin["interface"]
            # otherwise the kernel removes all other addresses of the network together with the primary one
            io_network.promote_secondaries(interface)
            io_network.put(f"{admin['temporary_address']}/{admin['prefix']}", interface)
            self._stand_aside(data)
            io_network.reload_manager()
            self._stand_aside(data)
            data["parked_at"] = time.time()
            self.write(data)

    def guard(self) -> None:
        """Make sure that this machine has the addresses of its state and no others.

        A network manager may restore addresses from its old configuration, and remove those it does not know.
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
        """Add the temporary address if it is missing, and remove all addresses that the VM has."""
        admin = data["admin"]
        temporary = {"dev": admin["interface"], "address": f"{admin['temporary_address']}/{admin['prefix']}"}
        # add before removing, so that the machine always has an address
        missing = io_network.keep([temporary])
        dropped = io_network.drop([admin["address"], *(each["address"].partition("/")[0] for each in data.get("also", []))])
        if missing or dropped:
            io_network.put_routes(data.get("routes", []))
            io_arp.announce(admin["interface"], admin["temporary_address"])

    def settled(self, data: t.Mapping[str, t.Any]) -> bool:
        """Whether a source that serves need not be guarded any more, because the network managers had time for their changes."""
        return data.get("boot_id") != boot_id() or time.clock_gettime(time.CLOCK_BOOTTIME) > float(data.get("settled_at", 0.0))

    def restore(self, reason: str, *, unasked: bool = False) -> str | None:
        """Return to service: admin address, other addresses, services, containers.

        :arg unasked: only if the lease is still expired; a command of the destination may have arrived just now.
        :returns: ``None`` when done, else the MAC of the machine that answers for the admin address;
            nothing is changed in that case.
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
                    # a full disk must not keep the services from starting; only the next boot lacks the address then
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
        """Start services and containers that were running; returns those that do not run."""
        if data.get("maintenance"):
            io_maintenance.disarm(self.name)
        together = bool(data.get("together"))
        units = list(data.get("running", []))
        io_services.release(data.get("services", []))
        if data.get("maintenance") and data["maintenance"]["arrived"]:
            # also units that the default target starts: they have not run in this boot
            with contextlib.suppress(CommandError):
                run(["systemctl", "start", "--no-block", "--", data["maintenance"]["usual"]], timeout=30)
        failed = io_services.start(units if together else units[::-1], together=together)
        # after the services, because an engine may be one of them
        containers = [Container(**each) for each in data.get("containers", [])]
        return failed + io_services.start_containers(containers[::-1])

    def hand_over(self, command: str, lease: float | None = None) -> dict[str, t.Any]:
        """Execute one of the two steps of the hand-over; after the second one the source never returns on its own.

        :arg command: ``hand_over``, which starts a new lease, or ``confirm``, which ends it.
        :arg lease: seconds until the destination must send its next command; default is the length of the last lease.
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


def _too_slow() -> BackendError:
    return BackendError(
        "The services of the source did not stop within the lease, so the source serves again.",
        "lease_timeout",
        "Raise it above the time that stopping all services and containers takes.",
    )


def _rewrite(path: str, text: str) -> None:
    """Change a configuration file and keep its owner and mode."""
    before = os.stat(path)
    write_atomic(path, text, mode=before.st_mode & 0o7777)
    os.chown(path, before.st_uid, before.st_gid)
