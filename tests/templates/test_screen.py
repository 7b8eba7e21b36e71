# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The screen of a machine: a socket that only QEMU and root can open, which is the same to vm_define whatever path libvirt gives it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import typing as t

import pytest
from conftest import Host

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import PACKAGED

SOCKET = "<graphics type='vnc'>\n      <listen type='socket'/>\n    </graphics>"
# of an earlier version; its port is open to every user of the host
ADDRESS = "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'>\n      <listen type='address' address='127.0.0.1'/>\n    </graphics>"
PATHS = {f"devices/graphics[vnc]/{each}" for each in ("@autoport", "@listen", "listen/@address", "listen/@type")}
STATES = ("present", "running")
#: A user without any right.
OTHER = 65534


def define(host: Host, state: str, graphics: str = SOCKET, **options: t.Any) -> VmResult:
    """Define a machine with this screen."""
    template = PACKAGED["default"].replace(SOCKET, graphics)
    assert graphics in template
    vms = [{"id": "s1", "cpu": 1, "memory_mb": 32, "hypervisor": "qemu"}]
    request = DefineRequest(cluster="lab", vms=vms, uri=host.uris["qemu"], pool="footprint-test", state=state, template=template, **options)
    (result,) = define_vms(request, check_mode=False).vms
    assert result.error is None
    return result


def screen(host: Host, flags: int = 0) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The attributes of the screen and of its address or socket; flags as for libvirt."""
    found = parse(host.connections["qemu"].lookupByName("s1").XMLDesc(flags)).find("devices/graphics")
    return dict(found.attrib), [dict(each.attrib) for each in found]


def settled(host: Host, state: str, graphics: str = SOCKET) -> bool:
    """Whether a further run changes nothing."""
    again = define(host, state, graphics)
    return not (again.changed or again.changes or again.drift or again.restart_required)


@contextlib.contextmanager
def as_other_user() -> t.Iterator[None]:
    """Without any right of root."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(OTHER)
    os.seteuid(OTHER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def greeting(path: pathlib.Path) -> bytes:
    """What VNC says first."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        return client.recv(4)


@pytest.mark.parametrize("template", ["bios", "default", "uefi"])
def test_packaged_templates_have_a_socket(template: str) -> None:
    assert PACKAGED[template].count("<graphics") == PACKAGED[template].count(SOCKET) == 1


def test_only_qemu_and_root_can_open_the_screen(host: Host) -> None:
    define(host, "running")
    attributes, listens = screen(host)
    (listen,) = listens
    # no port and no address
    assert (attributes, listen) == ({"type": "vnc", "socket": listen["socket"]}, {"type": "socket", "socket": listen["socket"]})
    # libvirt's own folders are elsewhere, and more open than on a host
    path = host.pool.parent / "lib" / pathlib.Path(listen["socket"]).relative_to("/var/lib/libvirt")
    assert path.parent.stat().st_mode & 0o7 == 0
    assert greeting(path) == b"RFB "
    with as_other_user(), pytest.raises(PermissionError):
        greeting(path)


@pytest.mark.parametrize("state", STATES)
def test_the_path_is_no_change(host: Host, state: str) -> None:
    define(host, state)
    assert settled(host, state)
    host.restart()
    assert settled(host, state)
    # a definition has no path, so that each start and each host of a move has its own
    assert screen(host, 2) == ({"type": "vnc"}, [{"type": "socket"}])


@pytest.mark.parametrize("state", STATES)
def test_earlier_screen_waits_for_a_restart(host: Host, state: str) -> None:
    define(host, state, ADDRESS)
    number, running = host.connections["qemu"].lookupByName("s1").ID(), state == "running"
    done = define(host, state)
    assert (done.actions, done.drift, done.restart_required) == (["redefine"], [], running)
    assert {change["path"]: change["class"] for change in done.changes} == dict.fromkeys(PATHS, "next_boot")
    assert screen(host, 2) == ({"type": "vnc"}, [{"type": "socket"}])
    if running:
        # reported until the machine is restarted, which needs a permission
        host.restart()
        again = define(host, state)
        assert (again.changed, again.restart_required) == (False, True)
        assert host.connections["qemu"].lookupByName("s1").ID() == number
        assert screen(host)[1] == [{"type": "address", "address": "127.0.0.1"}]
        done = define(host, state, allow_power_cycling=True, force=True, shutdown_timeout=1)
        assert (done.actions, done.restart_required) == (["power_cycle"], False)
        assert screen(host)[1][0]["type"] == "socket"
    assert settled(host, state)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("other", [ADDRESS.replace("127.0.0.1", "0.0.0.0"), ADDRESS.replace("port='-1' autoport='yes'", "port='5999' autoport='no'")])
def test_port_that_others_open_is_closed(host: Host, state: str, other: str) -> None:
    define(host, state)
    connection = host.connections["qemu"]
    connection.defineXML(connection.lookupByName("s1").XMLDesc(2).replace(SOCKET, other))
    assert screen(host, 2)[1][0]["type"] == "address"
    done = define(host, state)
    assert [each["path"] for each in done.drift] == ["devices/graphics[vnc]/listen/@type"]
    assert (done.actions, done.restart_required) == (["redefine"], False)
    assert screen(host, 2) == ({"type": "vnc"}, [{"type": "socket"}])
    assert settled(host, state)


@pytest.mark.parametrize("graphics", ["<graphics type='vnc' socket='{}'/>", "<graphics type='vnc'><listen type='socket' socket='{}'/></graphics>"])
def test_path_of_a_template_is_kept(host: Host, graphics: str) -> None:
    folder = host.pool.parent / "screens"
    folder.mkdir(exist_ok=True)
    # for QEMU, which creates the socket; libvirt ignores a path below its own folders
    folder.chmod(0o777)
    path, other = (f"{folder}/{name}.sock" for name in ("own", "other"))
    own = graphics.format(path)
    define(host, "running", own)
    written = ({"type": "vnc", "socket": path}, [{"type": "socket", "socket": path}])
    assert screen(host) == screen(host, 2) == written
    assert settled(host, "running", own)
    connection = host.connections["qemu"]
    # in both forms, but not in the document that is kept with the definition
    connection.defineXML(connection.lookupByName("s1").XMLDesc(2).replace(f"socket='{path}'", f"socket='{other}'"))
    done = define(host, "running", own)
    assert done.drift and (done.actions, done.restart_required) == (["redefine"], False)
    assert screen(host, 2) == written
    # from here to each other form
    for template, expected in ((ADDRESS, "127.0.0.1"), (own, path), (SOCKET, None)):
        done = define(host, "running", template)
        assert done.actions == ["redefine"]
        (listen,) = screen(host, 2)[1]
        assert listen.get("socket", listen.get("address")) == expected
        assert not define(host, "running", template).changed
