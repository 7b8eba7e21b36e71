# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""sushy-tools for the servers of the lab, for gunicorn: their power is that of the lab, they have no firmware. ACCOUNT is USER:PASSWORD."""

from __future__ import annotations

import base64
import os
import pathlib
import subprocess
import sys
import threading
import typing as t
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))

from rflab import machines  # noqa: E402
from rflab.settings import current  # noqa: E402
from sushy_tools import error  # noqa: E402
from sushy_tools.emulator import main  # noqa: E402
from sushy_tools.emulator.resources.systems import base  # noqa: E402

LAB = str(ROOT / "lab" / "lab")
NAMES = ("metal1", "metal2", "metal3")
_COMMANDS = {"On": ("start", "--no-wait"), "ForceOff": ("kill",), "GracefulShutdown": ("stop",)}
_AUTHORIZATION = "Basic " + base64.b64encode(os.environ["ACCOUNT"].encode()).decode()


class LabDriver(base.AbstractSystemsDriver):
    """The servers of the lab."""

    driver = "<lab>"
    systems = tuple(str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in NAMES)

    def uuid(self, identity: str) -> str:
        """Return the UUID of a server, whose name is an alias."""
        if identity in NAMES:
            raise error.AliasAccessError(self.systems[NAMES.index(identity)])
        if identity not in self.systems:
            raise error.NotFound(f"no system {identity}")
        return identity

    def name(self, identity: str) -> str:
        """Return the name of a server."""
        return NAMES[self.systems.index(self.uuid(identity))]

    def get_power_state(self, identity: str) -> str:
        """Return whether it is on."""
        lab = current()
        return "On" if machines.is_on(lab, lab.machine(self.name(identity))) else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        """Start a change, which takes effect later."""
        if state not in _COMMANDS:
            raise error.NotSupportedError(state)
        argv = [LAB, _COMMANDS[state][0], self.name(identity), *_COMMANDS[state][1:]]
        print("power", state, self.name(identity), flush=True)
        threading.Thread(target=subprocess.run, args=(argv,), kwargs={"check": False}).start()

    def get_boot_device(self, identity: str) -> None:
        """It has none."""

    def set_boot_device(self, identity: str, boot_source: str) -> t.NoReturn:
        """It has none."""
        raise error.NotSupportedError(boot_source)


type(main.app).systems = LabDriver()


def app(environ: dict[str, t.Any], start_response: t.Callable[..., t.Any]) -> t.Iterable[bytes]:
    """Answer a request of the account."""
    if environ.get("HTTP_AUTHORIZATION") != _AUTHORIZATION and environ["PATH_INFO"].rstrip("/") != "/redfish/v1":
        start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="Redfish"'), ("Content-Length", "0")])
        return []
    return t.cast(t.Iterable[bytes], main.app(environ, start_response))
