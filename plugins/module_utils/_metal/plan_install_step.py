# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done with a server to install it. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
from ansible_collections.reduced.footprint.plugins.module_utils._metal.plan_discovery import OFF, Step

INSTALLED, BOOT, RESTART, WRITE, REFUSE = "installed", "boot", "restart", "write", "refuse"
#: After this time, a server whose installation was interrupted may have been put into use in another way.
FORGOTTEN = 24 * 3600


class Situation(t.NamedTuple):
    """The state of a server.

    :arg installed: whether it answers with the host key that was installed, and its installation is confirmed.
    :arg begun: seconds since the installation was started; negative without an unfinished one.
    :arg restart: whether the user named it for a restart.
    :arg power: its power state.
    :arg booted: whether it runs the small system.
    """

    installed: bool
    begun: int
    restart: bool
    power: str
    booted: bool


def choose(name: str, now: Situation) -> Step:
    """Return what is done with a server. One that runs anything else than the small system is restarted only if it is named."""
    if now.installed:
        return Step(INSTALLED, "it is installed")
    if now.power == OFF:
        return Step(BOOT, "it is off")
    if now.booted:
        return Step(WRITE, "it already runs the system that is booted over the network")
    if 0 <= now.begun <= FORGOTTEN:
        return Step(RESTART, "its installation was interrupted")
    if now.restart:
        return Step(RESTART, "install_server_restart names it")
    return Step(
        REFUSE,
        f"{name} is {now.power} and runs something else, so it is not restarted. Shut it down, or name it in install_server_restart: [{name}], "
        "which shuts it down and boots it over the network. Its disk is written only if it is empty or named in install_server_erase.",
    )


def check(
    asked: t.Sequence[str], restart: t.Sequence[str], variables: t.Mapping[str, t.Mapping[str, t.Any]], found: t.Sequence[model_install.Install]
) -> None:
    """Check the request.

    :arg asked: names of servers; empty means every server with ``install``.
    :arg found: the servers that are installed.
    """
    for position, name in enumerate(asked):
        if name not in variables:
            raise InputError(f"{name!r} is not a server of the inventory.", f"install_server_names[{position}]", did_you_mean(name, variables, "Correct it."))
    if not found:
        raise InputError("no server has the key install.", "servers", "Add install to the servers, with the serial number of the disk.")
    names = [one.name for one in found]
    for name in names:
        if not variables[name].get("bmc"):
            hint = "Add {address: 192.0.2.101, user: operator, secret: bmc/NAME, boot_mac: '52:54:00:12:34:56'}."
            raise InputError("is required to boot the server over the network.", f"servers.{name}.bmc", hint)
        user = variables[name].get("ansible_user")
        if user not in (None, "", "root"):
            raise InputError(f"{user!r} is not a user of the installed system.", f"servers.{name}.ansible_user", "Use root, or remove it.")
    for position, name in enumerate(restart):
        if name not in names:
            hint = did_you_mean(name, names, f"Use some of {', '.join(names)}.")
            raise InputError(f"{name!r} is not one of the servers that are installed.", f"install_server_restart[{position}]", hint)
