# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of OVN's tunnels in the lab, whose machines have no datapath of Open vSwitch in the kernel.

A datapath in a process sends tunnels through bridges of Open vSwitch only, so their address is on one, which has a device on the NIC.
"""

from __future__ import annotations

import typing as t

SCRIPT = """#!/bin/sh
set -e
test -e /sys/class/net/NIC
ip link show lab-tunnel >/dev/null 2>&1 || ip link add lab-tunnel link NIC type macvlan mode bridge
ip link set lab-tunnel arp off up
device=lab-tunnel
if systemctl --quiet is-active ovs-vswitchd; then
    hwaddr=$(cat /sys/class/net/lab-tunnel/address)
    ovs-vsctl --may-exist add-br br-tunnel -- --may-exist add-port br-tunnel lab-tunnel \\
        -- set Bridge br-tunnel datapath_type=netdev "other_config:hwaddr=\\"$hwaddr\\""
    ip address flush dev lab-tunnel
    ip link set br-tunnel up
    device=br-tunnel
fi
ip address replace ADDRESS/24 dev $device
"""
UNIT = """[Unit]
After=network-online.target openvswitch-switch.service ovs-vswitchd.service
Wants=network-online.target
Before=ovn-controller.service
# its devices are new after a restart
PartOf=ovs-vswitchd.service

StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-tunnels
# until a bridge of the network exists
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
#: Open vSwitch is installed later, and its devices are new after each start.
SWITCH = """[Service]
ExecStartPost=/usr/bin/systemctl --no-block restart lab-tunnels.service
"""
#: File → content.
FILES = {
    "/usr/local/sbin/lab-tunnels": SCRIPT,
    "/etc/systemd/system/lab-tunnels.service": UNIT,
    "/etc/systemd/system/ovs-vswitchd.service.d/lab-tunnels.conf": SWITCH,
}
#: Runs a command of one machine, with a text as its standard input.
Run = t.Callable[..., object]


def variables(number: int) -> dict[str, str]:
    """Return the variables of the inventory for the tunnels of one machine, in a network of their own.

    :arg number: of the machine, from 1.
    """
    return {"ovn_chassis_address": f"192.168.250.{10 + number}"}


def place(nic: str, address: str, run: Run) -> None:
    """Set the address of a machine's tunnels, on Open vSwitch if it is running, also after each start of the machine.

    :arg nic: the NIC or bridge of the network.
    :arg run: runs a command on the machine, with its keyword ``stdin``.
    """
    for path, content in FILES.items():
        run(["mkdir", "-p", path.rpartition("/")[0]])
        run(["tee", path], stdin=content.replace("NIC", nic).replace("ADDRESS", address))
    run(["chmod", "0755", "/usr/local/sbin/lab-tunnels"])
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "enable", "lab-tunnels"])
    # it is repeated until there is the bridge
    run(["sh", "-c", "systemctl restart lab-tunnels || true"])
