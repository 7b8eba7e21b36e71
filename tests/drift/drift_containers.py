# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of containers."""

from __future__ import annotations

import dataclasses

from drift_case import APPLIED, CONFIG, LEFT, Case, add, drop, put, swap

NIC = "<interface type='network'><mac address='52:54:00:00:00:99'/><source network='drift-b'/></interface>"
FILES = "<filesystem type='mount'><source dir='POOL/NAME-other'/><target dir='/opt'/></filesystem>"

_ALL = (
    Case("no change"),
    Case("memory", put("memory", text="131072"), found={"memory": "oc"}),
    Case("currentMemory", lambda guest: guest.domain.setMemoryFlags(32768, CONFIG), found={"currentMemory": "oc"}),
    Case("vcpu", put("vcpu", text="2"), found={"vcpu": "oc", "vcpu/@current": "oc"}),
    Case("init", put("os/init", text="/bin/true"), found={"os/init": "oc"}),
    Case("arguments of init", put("os/initarg", text="5"), found={"os/initarg": "oc"}),
    Case("arguments of init added", add("os", "<initarg>7</initarg>"), fate=LEFT),
    Case("private network off", drop("features/privnet"), found={"features": "oc"}),
    Case("capabilities", add("features", "<capabilities policy='allow'/>"), fate=LEFT),
    Case("user map", add(".", "<idmap><uid start='0' target='1000' count='10'/><gid start='0' target='1000' count='10'/></idmap>"), fate=LEFT),
    Case(
        "file system: other directory",
        lambda guest: put("devices/filesystem/source", dir=f"{guest.host.pool}/{guest.name}-other")(guest),
        found={"devices/filesystem[/]/source/@dir": "oc"},
    ),
    Case("file system: access mode", put("devices/filesystem[2]", accessmode="mapped"), found={"devices/filesystem[/srv]/@accessmode": "oc"}),
    Case("file system removed", drop("devices/filesystem[2]"), found={"devices/filesystem[/srv]": "oc"}),
    Case("file system added", add("devices", FILES), found={"devices/filesystem[/opt]": "oc"}),
    Case(
        "file system: other mount point",
        put("devices/filesystem[2]/target", dir="/var"),
        found={"devices/filesystem[/srv]": "oc", "devices/filesystem[/var]": "oc"},
    ),
    Case("NIC: network", put("devices/interface/source", network="drift-b"), found={"devices/interface[MAC0]/source/@network": "oc"}),
    Case("NIC added", add("devices", NIC), found={"devices/interface[52:54:00:00:00:99]": "oc"}),
    Case("NIC removed", drop("devices/interface"), found={"devices/interface[MAC0]": "oc"}),
    Case("on_crash", put("on_crash", text="restart"), found={"on_crash": "oc"}),
    Case("template: memory", template=swap("'MiB'>64<", "'MiB'>96<"), found={"memory": "c", "currentMemory": "c"}, fate=APPLIED),
    Case(
        "template: file system removed",
        template=lambda text: text.replace(text[text.rindex("<filesystem") : text.index("<interface")], ""),
        found={"devices/filesystem[/srv]": "c"},
        fate=APPLIED,
    ),
    Case(
        "template: order",
        template=lambda text: text.replace("<features><privnet/></features>", "").replace("<title>", "<features><privnet/></features><title>"),
        fate=APPLIED,
    ),
)
CASES = tuple(dataclasses.replace(case, name=f"container: {case.name}", hypervisor="lxc") for case in _ALL)
