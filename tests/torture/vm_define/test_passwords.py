# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords of displays on a real libvirtd: no read-only client gets one, also after a change."""

from __future__ import annotations

import subprocess
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_hidden
from harden_host import Host
from harden_watch import Death

# not longer than VNC allows
CANARIES = ("cAnaRy-1", "cAnaRy-2", "cAnaRy-3")
TEMPLATE = """<domain type='{{ hypervisor }}'>
  <name>{{ name }}</name><memory unit='MiB'>{{ memory_mb }}</memory><vcpu>1</vcpu>
  <os><type machine='pc'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1' passwd='{{ secret }}'/>
    <graphics type='spice' port='-1' autoport='yes' listen='127.0.0.1' passwd='{{ secret }}'/>
    <video><model type='cirrus'/></video>
  </devices>
</domain>
"""
VNC_ONLY = "\n".join(line for line in TEMPLATE.splitlines() if "spice" not in line)


def _readable(host: Host, name: str) -> str:
    """Return the XML that libvirt shows to read-only and other clients without ``--security-info``."""
    texts = []
    for only in ("-r",), ():
        for which in ((), ("--inactive",)):
            argv = ["virsh", *only, "-c", host.uri, "dumpxml", *which, name]
            texts.append(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return "\n".join(texts)


def _password(host: Host, name: str, *which: str) -> list[str]:
    text = subprocess.run(["virsh", "-c", host.uri, "dumpxml", "--security-info", *which, name], check=True, capture_output=True, text=True).stdout
    return [canary for canary in CANARIES if canary in text]


def _guest(secret: str) -> dict[str, t.Any]:
    return {"id": "seen", "cpu": 1, "memory_mb": 32, "hypervisor": "qemu", "secret": secret}


@pytest.fixture(name="display", params=["both", "vnc"])
def fixture_display(request: pytest.FixtureRequest) -> str:
    """Return a template; not every QEMU supports SPICE."""
    helped = subprocess.run(["qemu-system-x86_64", "-spice", "help"], capture_output=True, text=True, check=False)
    if request.param == "both" and "invalid option" in helped.stderr + helped.stdout:
        return VNC_ONLY
    return TEMPLATE if request.param == "both" else VNC_ONLY


def test_passwords_are_not_readable_without_security_info(host: Host, display: str) -> None:
    first, second, third = CANARIES
    outcomes = [host.done(_guest(first), template=display)]
    assert _password(host, "seen") == [first] and xml_hidden.HIDDEN in _readable(host, "seen")
    outcomes.append(host.done(_guest(first), template=display))
    assert not outcomes[-1].result["changed"]
    outcomes += [host.done(_guest(second), template=display, check=True), host.done(_guest(second), template=display)]
    assert outcomes[-1].result["changed"] and _password(host, "seen", "--inactive") == [second]
    outcomes.append(host.done(_guest(second), template=display, allow_power_cycling=True, force=True))
    assert _password(host, "seen") == [second]
    outcomes.append(host.done(_guest(second), template=display))
    assert not outcomes[-1].result["changed"]
    outcomes.append(host.done(_guest(second), template=display.replace("<vcpu>", "<title>x</title><vcpu>")))
    outcomes.append(host.done({"id": "seen"}, state="rolled_back"))
    assert _password(host, "seen", "--inactive") == [second], "the password of today"
    outcomes.append(host.run(_guest(third), template=display.replace("<vcpu>1", "<vcpu>nonsense")))
    assert not outcomes[-1].ok
    shown = _readable(host, "seen") + "".join(outcome.output for outcome in outcomes)
    assert not [canary for canary in CANARIES if canary in shown]


def test_a_run_that_is_killed_leaves_no_password_behind(host: Host, display: str, whole: bool) -> None:
    first, second, _third = CANARIES
    titled = display.replace("<vcpu>", "<title>x</title><vcpu>")
    host.done(_guest(first), template=display)
    steps = len(host.done(_guest(second), template=titled).steps)
    assert steps
    shown = []
    for at in range(1, steps + 1, 1 if whole else 3):
        host.done(_guest(first), template=display, allow_power_cycling=True, force=True)
        killed = host.run(_guest(second), template=titled, death=Death(at))
        shown += [killed.output, _readable(host, "seen")]
        finished = host.done(_guest(second), template=titled)
        shown += [finished.output, _readable(host, "seen")]
        assert _password(host, "seen", "--inactive") == [second]
        assert not host.done(_guest(second), template=titled).result["changed"]
    logs = "".join(path.read_text("utf-8", "replace") for path in (host.folder / "log").rglob("*.log"))
    assert not [canary for canary in CANARIES if canary in "".join(shown) + logs]
