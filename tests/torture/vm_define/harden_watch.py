# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count the steps of a run and kill it at one of them.

The code of the module is not changed: its process is observed by Python's audit hooks (files, commands, locks) and
by a wrapper of libvirt's C functions.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import signal
import sys
import threading
import time
import typing as t

import libvirt

# calls that change something; a kill at a call that only reads has the same effect as one at the next change
_CHANGES = re.compile(
    r"Create|Define|Undefine|Set[A-Z]|Attach|Detach|Update|Shutdown|Destroy|Resume|Resize|Refresh|Delete|Wakeup|Upload|Wipe"
)
_FILES = frozenset(("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.setxattr", "os.link", "os.symlink", "fcntl.flock"))
_COMMANDS = frozenset(("subprocess.Popen", "os.posix_spawn"))
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# initialization of the bindings is not a step of a run
_NO_STEPS = ("virRegisterErrorHandler", "virEvent")


@dataclasses.dataclass(frozen=True)
class Death:
    """The point of a kill: immediately before step ``at``, or ``later`` seconds after it started."""

    at: int
    later: float = 0


class Watch:
    """Counts the steps of its process, writes their names to a log and kills the process at one of them."""

    def __init__(self, log: str, death: Death | None) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._death = death
        self._numbers = itertools.count(1)

    def install(self) -> None:
        """Start counting steps."""
        libvirt.libvirtmod = _Wrapper(libvirt.libvirtmod, self)
        real = os.fsync

        def fsync(handle: int) -> None:
            self.step("os.fsync")
            real(handle)

        os.fsync = fsync
        sys.addaudithook(self._hear)

    def step(self, name: str) -> None:
        """Record the start of a step; kill the process if requested."""
        number = next(self._numbers)
        os.write(self._log, f"{name}\n".encode())
        death = self._death
        if death is None or number != death.at:
            return
        if not death.later:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=_kill_later, args=(death.later,), daemon=True).start()

    def _hear(self, event: str, arguments: tuple[t.Any, ...]) -> None:
        if event == "open":
            path, unused, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and not str(path).startswith(("/dev/", "/proc/")):
                self.step(f"open {path}")
        elif event in _FILES:
            self.step(f"{event} {arguments[0]}")
        elif event in _COMMANDS:
            argv = [str(word) for word in arguments[1]]
            self.step(f"command {next((word for word in argv if word in ('qemu-img', 'tar', 'sync', 'xorriso')), argv[0])}")


def _kill_later(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


class _Wrapper:
    """Wrapper of the C functions that libvirt.py calls."""

    def __init__(self, real: t.Any, watch: Watch) -> None:
        self._real = real
        self._watch = watch

    def __getattr__(self, name: str) -> t.Any:
        found = getattr(self._real, name)
        if not name.startswith("vir") or name.startswith(_NO_STEPS) or not _CHANGES.search(name):
            return found

        def call(*arguments: t.Any) -> t.Any:
            self._watch.step(name)
            return found(*arguments)

        return call
