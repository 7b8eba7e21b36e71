# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The other end of a VLAN for a kernel without 802.1Q: ``vlan_wire.py TRUNK TAP ID``.

Frames with the tag on TRUNK come out of TAP without it and the other way round, so what
answers on TAP can only be reached by tagged frames.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys

SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
TP_STATUS_VLAN_VALID = 0x10
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x0002 | 0x1000
ETH_P_ALL = 0x0003
ETH_P_8021Q = 0x8100
#: struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
AUXDATA = struct.Struct("=IIIHHHH")


def tag_of(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """Return the VLAN of a frame; the kernel removes the tag and reports it as auxiliary data."""
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _length, _snap, _mac, _net, tci, _tpid = AUXDATA.unpack(data[: AUXDATA.size])
            return tci & 0x0FFF if status & TP_STATUS_VLAN_VALID else None
    return None


def main(trunk_name: str, tap_name: str, vlan: int) -> None:
    trunk = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    trunk.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    trunk.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    trunk.bind((trunk_name, 0))
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", tap_name.encode(), IFF_TAP_NO_PI))
    while True:
        for ready in select.select([trunk, tap], [], [])[0]:
            if ready is trunk:
                frame, ancillary, _flags, _address = trunk.recvmsg(65536, socket.CMSG_SPACE(AUXDATA.size))
                if tag_of(ancillary) == vlan:
                    os.write(tap, frame)
            else:
                frame = os.read(tap, 65536)
                trunk.send(frame[:12] + struct.pack("!HH", ETH_P_8021Q, vlan) + frame[12:])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
