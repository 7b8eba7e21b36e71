# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of automatic starts: the service of the leases and what ends VMs without it, the watchdog of systemd, the service of the standby."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_timers
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_lease import ARMED, QEMU
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import HANG, NONE, REQUIRED, RESTARTS, SOFTWARE, WATCHDOG
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

LEASE = "reduced-footprint-standby-lease.service"
FENCE = "reduced-footprint-standby-fence.service"
TAKEOVER = "reduced-footprint-standby-takeover.service"
_PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils._standby"
SCRIPT = pathlib.Path("/var/lib/reduced.footprint/standby-fence")
DROP_IN = pathlib.Path("/etc/systemd/system.conf.d/reduced-footprint-standby.conf")
SOFTDOG = pathlib.Path("/etc/modules-load.d/reduced-footprint-standby.conf")
DEVICE = pathlib.Path("/dev/watchdog0")
#: What the kernel says about it; without its sysfs, nothing.
KNOWN = pathlib.Path("/sys/class/watchdog/watchdog0")
# the older name of the first watchdog, which earlier versions of systemd open
_NAMES = (str(DEVICE), "/dev/watchdog")
_PROC = pathlib.Path("/proc")
_OPENING = 10.0

# without Python, whose start may be what hangs
_KILLER = f"""#!/bin/sh
# Kills all VMs that must not run without a lease, when the service of the leases cannot (reduced.footprint). Exit code 1: one is left.
armed={ARMED}
rm -f {io_owner.PERMITS}/*
# none is armed only where that can be read
names=$(ls "$armed" 2>/dev/null) || {{ [ ! -e "$armed" ] && [ -r "{io_owner.HOME / io_owner.PRESENT}" ] && exit 0; exit 1; }}
[ -n "$names" ] || exit 0
for left in 5 4 3 2 1 0; do
  found=
  for line in $(echo "$names" | grep -lzxF -f - /proc/[0-9]*/cmdline 2>/dev/null); do
    grep -qzxF -e -uuid "$line" 2>/dev/null || continue
    process=${{line%/cmdline}}
    # any user can give a process these arguments
    if owner=$(stat -c %u {QEMU}/dbus 2>/dev/null); then
      user=
      while read -r key user rest && [ "$key" != Uid: ]; do user=; done 2>/dev/null <"$process/status"
      case $user in
      0 | "$owner") ;;
      *) grep -qxF "${{process#/proc/}}" {QEMU}/*.pid 2>/dev/null || continue ;;
      esac
    fi
    found=1
    kill -KILL "${{process#/proc/}}"
  done
  [ -n "$found" ] || exit 0
  sleep 1
done
exit 1
"""


def _program(code: pathlib.Path, module: str) -> str:
    return f"UMask=0077\nWorkingDirectory=/\nEnvironment=PYTHONPATH={code} PYTHONDONTWRITEBYTECODE=1\nExecStart={sys.executable} -m {_PACKAGE}.{module}\n"


def lease_texts(code: pathlib.Path) -> dict[str, str]:
    """Return unit → content on the server of the VMs."""
    lease = (
        "[Unit]\nDescription=Leases of VMs that their standby starts by itself (reduced.footprint)\nWants=network-online.target\n"
        # at a shutdown it ends after the VMs
        "After=network-online.target libvirtd.service virtqemud.service\nBefore=libvirt-guests.service\n"
        f"OnFailure={FENCE}\nOnFailureJobMode=replace-irreversibly\nStartLimitIntervalSec=90\nStartLimitBurst={RESTARTS - 1}\n\n"
        f"[Service]\nType=notify\nNotifyAccess=main\nWatchdogSec={HANG:.0f}\nWatchdogSignal=SIGKILL\nTimeoutStartSec={HANG:.0f}\nTimeoutStopSec=30\n"
        # its memory must be there when the disks are not; and it comes before everything that uses the processors
        "Restart=always\nRestartSec=1\nOOMScoreAdjust=-1000\nNice=-15\nSendSIGKILL=yes\n"
        f"{_program(code, 'run_lease')}\n[Install]\nWantedBy=multi-user.target\n"
    )
    fence = (
        "[Unit]\nDescription=Kill the VMs whose leases are not renewed (reduced.footprint)\nFailureAction=reboot-immediate\nStartLimitIntervalSec=0\n\n"
        "[Service]\nType=oneshot\nTimeoutStartSec=8\nOOMScoreAdjust=-1000\nNice=-15\n"
        f"ExecStart=/bin/sh {SCRIPT}\n"
        # the guard asks about those that need no lease; the others start again when the leases do
        f"ExecStartPost=-/bin/systemctl --no-block start {io_timers.GUARD}\nExecStartPost=-/bin/systemctl reset-failed {LEASE}\n"
        f"ExecStartPost=-systemd-run --quiet --collect --on-active=20 systemctl start {LEASE}\n"
    )
    return {LEASE: lease, FENCE: fence}


def takeover_texts(code: pathlib.Path) -> dict[str, str]:
    """Return unit → content on a standby."""
    text = (
        "[Unit]\nDescription=Start VMs whose server is lost (reduced.footprint)\nWants=network-online.target\n"
        "After=network-online.target libvirtd.service virtqemud.service\nStartLimitIntervalSec=0\n\n"
        f"[Service]\nRestart=always\nRestartSec=2\n{_program(code, 'run_takeover')}\n[Install]\nWantedBy=multi-user.target\n"
    )
    return {TAKEOVER: text}


def _install(unit: str, texts: dict[str, str]) -> list[str]:
    changed = [name for name, text in texts.items() if read_text(io_units.UNITS / name) != text]
    for name in changed:
        write_atomic(io_units.UNITS / name, texts[name], mode=0o644)
    if changed:
        run(["systemctl", "daemon-reload"])
    run(["systemctl", "enable", "--quiet", unit])
    if unit in changed:
        run(["systemctl", "restart", unit])
    elif not io_units.unit_active(unit):
        run(["systemctl", "start", unit])
    return changed


def _remove(unit: str, names: tuple[str, ...]) -> None:
    if any((io_units.UNITS / name).exists() for name in names):
        run(["systemctl", "disable", "--quiet", "--now", unit], ok=range(256))
        for name in names:
            (io_units.UNITS / name).unlink(missing_ok=True)
        run(["systemctl", "daemon-reload"])
        run(["systemctl", "reset-failed", *names], ok=range(256))


def watchdog_problem(watchdog: str) -> str | None:
    """Return why a server cannot have automatic VMs, ``None`` if it can."""
    if watchdog == REQUIRED:
        if not DEVICE.exists():
            return f"this server has no hardware watchdog: {DEVICE} does not exist"
        # that of an earlier request stays in the kernel until the next boot
        if (read_text(KNOWN / "identity") or "").strip() == "Software Watchdog":
            return f"this server has no hardware watchdog: {DEVICE} is softdog, which does not fire when the kernel hangs"
    others = [] if watchdog == NONE else [f"{(read_text(each / 'comm') or '').strip()} ({each.name})" for each in _users() if each.name != "1"]
    return f"{DEVICE}, the watchdog of this server, is used by {', '.join(others)}, so systemd cannot use it" if others else None


def _users() -> list[pathlib.Path]:
    """Return the processes that have the watchdog open."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            # it may have ended
            with contextlib.suppress(OSError):
                if any(os.readlink(each) in _NAMES for each in (entry / "fd").iterdir()):
                    found.append(entry)
    return found


def _check_watchdog() -> None:
    """Check that systemd reports to the watchdog, and that this one does not wait longer.

    :raises BackendError: otherwise.
    """
    if not KNOWN.exists():
        return
    until = time.monotonic() + _OPENING
    while not any(each.name == "1" for each in _users()):
        if time.monotonic() > until:
            raise BackendError(f"systemd does not use the watchdog {DEVICE}.", hint="See journalctl _PID=1, and WatchdogDevice in /etc/systemd/system.conf.")
        time.sleep(0.2)
    waits = int(read_text(KNOWN / "timeout") or 0)
    if waits > WATCHDOG:
        hint = "Another file in /etc/systemd/system.conf.d may set RuntimeWatchdogSec, or this watchdog does not support such a short timeout."
        raise BackendError(f"the watchdog {DEVICE} resets this server after {waits} s instead of {WATCHDOG:.0f} s.", hint=hint)


def _watchdog_files(watchdog: str) -> dict[pathlib.Path, str | None]:
    """Return path → content, ``None`` for no file."""
    why = "# Resets this server when systemd hangs, for VMs that their standby starts by itself (reduced.footprint)."
    # systemd that crashes closes the watchdog, and drivers such as i6300esb stop it then; so it restarts the server itself, after 10 s
    text = f"{why}\n[Manager]\nRuntimeWatchdogSec={WATCHDOG:.0f}\nCrashReboot=yes\n"
    return {DROP_IN: None if watchdog == NONE else text, SOFTDOG: "softdog\n" if watchdog == SOFTWARE else None}


def lease_differs(watchdog: str, code: pathlib.Path) -> bool:
    """Whether :func:`install_lease` would change something."""
    files = {**_watchdog_files(watchdog), SCRIPT: _KILLER, **{io_units.UNITS / name: text for name, text in lease_texts(code).items()}}
    return any(read_text(path) != text for path, text in files.items())


def install_lease(watchdog: str, code: pathlib.Path) -> bool:
    """Install and start the service of the leases; returns whether something changed.

    :raises BackendError: the software watchdog cannot be loaded, or systemd does not use the watchdog.
    """
    changed = _set_watchdog(watchdog)
    if read_text(SCRIPT) != _KILLER:
        write_atomic(SCRIPT, _KILLER, mode=0o700)
        changed = True
    return bool(_install(LEASE, lease_texts(code))) or changed


def _set_watchdog(watchdog: str) -> bool:
    if watchdog == SOFTWARE and not DEVICE.exists():
        try:
            run(["modprobe", "softdog"])
        except CommandError as error:
            raise BackendError(f"the software watchdog cannot be loaded: {error.stderr.strip()}", hint="Use a server with a hardware watchdog.") from error
    changed = False
    for path, text in _watchdog_files(watchdog).items():
        if read_text(path) != text:
            changed = True
            if text is None:
                path.unlink()
            else:
                write_atomic(path, text, mode=0o644)
    if changed:
        run(["systemctl", "daemon-reload"])
    if watchdog != NONE:
        _check_watchdog()
    return changed


def remove_lease() -> None:
    """Remove the service of the leases and the watchdog, once no VM of this server is automatic."""
    _remove(LEASE, (LEASE, FENCE))
    _set_watchdog(NONE)
    SCRIPT.unlink(missing_ok=True)


def takeover_differs(code: pathlib.Path) -> bool:
    """Whether :func:`install_takeover` would change something."""
    return any(read_text(io_units.UNITS / name) != text for name, text in takeover_texts(code).items())


def install_takeover(code: pathlib.Path) -> bool:
    """Install and start the service of a standby; returns whether something changed."""
    return bool(_install(TAKEOVER, takeover_texts(code)))


def remove_takeover() -> None:
    """Remove the service of a standby, once it starts no VM by itself."""
    _remove(TAKEOVER, (TAKEOVER,))


def start_guard() -> None:
    """Let the guard decide about the VMs that have no permit."""
    with contextlib.suppress(CommandError):
        run(["systemctl", "--no-block", "start", io_timers.GUARD], timeout=10)
