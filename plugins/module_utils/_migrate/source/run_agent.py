# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent on the source: runs the commands of the destination, and returns the source to service when the lease expires.

``python3 -m …source_agent COMMAND NAME`` with a JSON mapping on standard input and output.
``watch`` is the daemon: only it changes addresses and returns the source to service, because
the ssh connection of a command would not survive that.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_link, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import PATTERNS
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import is_script, names_mac
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import is_network_file, replace_address
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_inside
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_preflight import BTRFS_TOOL, SOURCE_TOOLS
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_facts, io_maintenance, io_services, model_source
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_state import (
    HOME,
    SourceState,
    awaits_boot,
    boot_id,
    keep_report,
    kept_report,
)
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import LENT
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import passphrase_volume, watch_service
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_key_session, io_login, model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, QUIESCED, SERVING

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.run_agent"
_POLL = 0.2
# seconds until a returning source probes the network again
_TAKEN_WAIT = 2.0
# seconds between two checks of the source's addresses
_GUARD = 1.0
# seconds until a reboot that has not started is requested again
_REBOOT_RETRY = 20.0


def gather_facts(
    services: t.Sequence[str] = (),
    address: str | None = None,
    containers: t.Sequence[model_source.Container] = (),
    excludes: t.Sequence[str] = (),
    *,
    secrets: bool = False,
) -> dict[str, t.Any]:
    """The facts of this machine that preflight and fix-ups require.

    :arg address: the admin address; ``address_files`` names the files that configure it.
    :arg secrets: return the configuration files unchanged; without it secrets are masked.
    """
    named = [each for each in services if each != model_source.ALL]
    facts = io_facts.gather(named, (*SOURCE_TOOLS, BTRFS_TOOL), excludes)
    # what services: all would stop; check mode and master_source_info show it
    facts["everything"] = io_services.everything()
    facts["user_services"] = io_services.user_services()
    facts["containers"] = [{**each._asdict(), "state": io_services.container_state(each)} for each in containers]
    facts["running_containers"] = [each._asdict() for each in io_services.running_containers()]
    facts["asks_passphrase"] = passphrase_volume(io_facts.read_text("/etc/crypttab") or "")
    # other scripts and units may contain secrets
    tree = {path: text for path, text in io_facts.read_tree(PATTERNS).items() if not is_script(path) or names_mac(text)}
    facts["address_files"] = sorted(_address_files(address)) if address else []
    facts["tree"] = tree if secrets else {path: mask_text(text, path) for path, text in tree.items()}
    # a destination that asks by ssh has proved that it can
    facts["login"] = [] if secrets else _login()
    return facts


def _login() -> list[str]:
    """Why the migration's key may not work here, as far as the address of the destination is not required."""
    try:
        return io_login.check([])
    except RefusedError as error:
        return [f"The migration's key will not work on the source. {error}"]


def _address_files(address: str) -> dict[str, str]:
    """The network configuration files that contain an address: path → text."""
    tree = io_facts.read_tree(PATTERNS)
    return {path: text for path, text in tree.items() if is_network_file(path) and replace_address(text, address, "0.0.0.0") != text}


def boot_unit(name: str) -> str:
    """Name of the unit that runs :func:`watch` after a reboot of a parked source."""
    return f"reduced-footprint-parked-{name}.service"


def _boot_file(name: str) -> pathlib.Path:
    return pathlib.Path("/etc/systemd/system", boot_unit(name))


def _boot_link(name: str) -> pathlib.Path:
    return pathlib.Path("/etc/systemd/system/multi-user.target.wants", boot_unit(name))


def start_watch(name: str, *, afresh: bool = False) -> None:
    """Run :func:`watch` in a unit of its own, unless a unit runs it already.

    :arg afresh: restart a running one, because it may be about to end.
    """
    unit = f"reduced-footprint-source-{name}.service"
    for running in io_services.up([unit, boot_unit(name), io_maintenance.unit(name)]):
        if not afresh or run(["systemctl", "restart", running], timeout=60, ok=range(256)).rc == 0:
            return
    run(["systemctl", "reset-failed", unit], ok=range(256))
    # restarted without limit: without it the services would not be started again
    properties = ["--property=Restart=on-failure", "--property=RestartSec=1", "--property=StartLimitIntervalSec=0"]
    run(["systemd-run", "--quiet", "--collect", f"--unit={unit}", *properties, *_watch_argv(name)])


def _watch_argv(name: str, command: str = "watch") -> list[str]:
    return ["/usr/bin/env", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", sys.executable, "-m", MODULE, command, name]


def _enable_at_boot(name: str) -> None:
    write_atomic(_boot_file(name), watch_service(_watch_argv(name)), mode=0o644)
    make_link(_boot_link(name), _boot_file(name))


def _disable_at_boot(name: str) -> None:
    if _boot_file(name).exists():
        _boot_link(name).unlink(missing_ok=True)
        _boot_file(name).unlink(missing_ok=True)
        run(["systemctl", "daemon-reload"])


def watch(name: str) -> None:
    """Execute the request in the request file; return to service when the lease expires. Ends when the source serves."""
    state = SourceState(name)
    guarded = reboot_requested = 0.0
    while True:
        request = io_facts.read_text(str(state.request_file))
        data = state.read()
        if data["state"] == SERVING and state.settled(data):
            _disable_at_boot(name)
            return
        if request is not None and request.startswith("restore"):
            _come_back(state, request.partition(" ")[2] or "requested")
        elif awaits_boot(data):
            if data["boot_id"] != boot_id():
                # the watch of the maintenance boot is another unit, so this is a usual boot
                state.missed()
            elif state.remaining(data) <= 0:
                _come_back(state, "the source did not shut down for its maintenance boot in time")
            elif request == "reboot" and time.monotonic() - reboot_requested > _REBOOT_RETRY:
                reboot_requested = time.monotonic()
                # the return first, then the maintenance boot
                _enable_at_boot(name)
                io_maintenance.arm(name, _watch_argv(name, "maintain"))
                run(["systemctl", "--no-block", "reboot"], ok=range(256))
        elif request == "detach" and not _expired(state, data):
            # if this fails, systemd runs the watch again, until the lease expires
            _enable_at_boot(name)
            state.detach(_address_files, replace_address)
            state.request_file.unlink(missing_ok=True)
        else:
            if data["state"] not in (SERVING, HANDED_OVER):
                _keep_lease(state, data)
            if data["state"] != QUIESCED and time.monotonic() - guarded > _GUARD:
                guarded = time.monotonic()
                state.guard()
        time.sleep(_POLL)


def _expired(state: SourceState, data: t.Mapping[str, t.Any]) -> bool:
    """Whether the lease of a source that is set aside has expired in this boot."""
    return data["state"] in (QUIESCED, *LENT) and float("-inf") < state.remaining(data) <= 0


def _keep_lease(state: SourceState, data: t.Mapping[str, t.Any]) -> None:
    left = state.remaining(data)
    if left == float("-inf"):
        # first check after a reboot: the destination has the whole lease again to contact the source
        lease = float(data.get("lease", 120))
        try:
            if data["state"] in LENT:
                state.detach(_address_files, replace_address)
            state.renew(lease)
        except (FootprintError, OSError):
            # nothing can be recorded, for example on a full disk; the destination cannot renew such a lease either
            if time.clock_gettime(time.CLOCK_BOOTTIME) <= lease:
                raise
            _come_back(state, "the lease could not be recorded after a reboot", unasked=True)
    elif left <= 0:
        _come_back(state, "the lease expired without contact to the destination", unasked=True)


def maintain(name: str) -> None:
    """Run :func:`watch` in a maintenance boot; if the migration does not wait for that boot any more, start the usual target."""
    state = SourceState(name)
    if state.arrive():
        state.request_file.unlink(missing_ok=True)
        watch(name)
        return
    io_maintenance.disarm(name)
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "start", "--no-block", "--", io_maintenance.usual_target()])


def _come_back(state: SourceState, reason: str, *, unasked: bool = False) -> None:
    if state.restore(reason, unasked=unasked) is None:
        if not unasked:
            state.request_file.unlink(missing_ok=True)
    else:
        # another machine has the address; taking it now would result in two masters
        time.sleep(_TAKEN_WAIT)


def _request(state: SourceState, what: str) -> dict[str, t.Any]:
    write_atomic(state.request_file, what)
    start_watch(state.name)
    return {"state": state.read()}


def _quiesce(state: SourceState, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    containers = [model_source.Container(**each) for each in given.get("containers", ())]
    quiesce = given.get("quiesce", model_source.STOP_SERVICES)
    data = state.begin(given["services"], given["lease"], given["admin"], containers, quiesce, given.get("new_mark"))
    if awaits_boot(data):
        start_watch(state.name, afresh=True)
        return _request(state, "reboot")
    # the watch must run before the first service stops
    start_watch(state.name, afresh=True)
    if data["state"] == QUIESCED and quiesce != model_source.MAINTENANCE_BOOT:
        state.stop_services()
    return {"state": data}


def answer(command: str, name: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Run one command of the destination and return its result."""
    state = SourceState(name)
    if given.get("journal"):
        keep_report(name, given["journal"])
    if command == "mirror":
        return {"kept": kept_report(name), "state": state.read()}
    if command == "facts":
        containers = [model_source.Container(**each) for each in given.get("containers", ())]
        facts = gather_facts(given.get("services", ()), given.get("address"), containers, given.get("excludes", ()), secrets=True)
        return {"facts": facts, "state": state.read()}
    if command == "state":
        return {"state": state.read(), "boot_id": io_facts.read_text("/proc/sys/kernel/random/boot_id")}
    if command == "quiesce":
        return _quiesce(state, given)
    if command == "renew":
        return {"state": state.renew(given["lease"])}
    if command == "detach":
        return _request(state, "detach")
    if command == "restore":
        return _request(state, f"restore {given.get('reason', '')}")
    if command == "hand_over" or command == "confirm":  # pylint: disable=consider-using-in  # a test reads the commands here
        return {"state": state.hand_over(command, given.get("lease"))}
    if command == "look_inside":
        return io_inside.look(given)
    if command == "run":
        run(given["command"], timeout=given["timeout"])
        return {}
    if command == "forget_key":
        return {"changed": io_authorized_keys.forget(given["marker"])}
    if command == "leave":
        if given.get("forget"):
            # the manifest only speeds up another attempt, and there will be none
            (HOME / f"{name}.manifest").unlink(missing_ok=True)
        io_authorized_keys.disallow(name)
        if given.get("power_off"):
            # scheduled first, because no command can be sent once the key is withdrawn
            run(["systemd-run", "--quiet", "--collect", "--on-active=3", "--timer-property=AccuracySec=100ms", "systemctl", "poweroff"])
        return {"changed": io_authorized_keys.forget(given["marker"], given.get("key"))}
    raise InputError(f"Unknown command {command!r} for the source's agent.")


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 with ``{"ok": …}`` or 1 with ``{"error": …}``."""
    if len(argv) != 2 or not re.match(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", argv[1]):
        sys.stderr.write("usage: source_agent COMMAND NAME\n")
        return 2
    command, name = argv
    if command in ("watch", "maintain"):
        {"watch": watch, "maintain": maintain}[command](name)
        return 0
    known: dict[str, t.Any] = {}
    try:
        given = json.loads(sys.stdin.read() or "{}")
        io_key_session.require()
        if os.environ.get(io_key_session.VARIABLE):
            model_one_time_key.check_source_command(command, given, name, io_authorized_keys.allowed(name))
        mark = given.pop("mark", None)
        if mark is not None and SourceState(name).read().get("mark") != mark:
            raise InputError(f"This machine is not the source of {name}: it is a copy of the source, or its state is lost.")
        known = {"mark": mark}
        model_source.check_request(given)
        sys.stdout.write(json.dumps({"ok": answer(command, name, given), **known}) + "\n")
        return 0
    except FootprintError as error:
        sys.stdout.write(json.dumps({"error": {"message": error.message, "hint": error.hint}, **known}) + "\n")
        return 1
    except (OSError, ValueError, KeyError) as error:
        # e.g. a full disk; the error must appear in the destination's log
        sys.stdout.write(json.dumps({"error": {"message": f"{command}: {type(error).__name__}: {error}", "hint": None}, **known}) + "\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
