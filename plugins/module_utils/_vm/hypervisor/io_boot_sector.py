# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The test guest of the hypervisor proof, assembled from ``io_boot_sector.asm`` in this folder.

Regenerate after a change of the source: ``nasm -f bin -o FILE io_boot_sector.asm``; a unit test
compares these bytes with the output of nasm.
"""

from __future__ import annotations

# QEMU's exit codes, 2 * value written to isa-debug-exit + 1.
EXIT_PROVEN = 43
EXIT_NO_LONG_MODE = 45

# The output of the guest on its first serial port, one letter per stage.
STAGES = {
    "R": "real mode",
    "P": "protected mode",
    "L": "64-bit long mode",
    "M": "writing model specific registers",
    "W": "a busy loop",
    "I": "an exception through the 64-bit interrupt table",
    "T": "a timer interrupt",
}

_CODE = (
    "ea057c0000fafc31c08ed88ec08ed0bc007cb052baf803eee4920c0224fee69266b8000000800fa2663d010000807245"
    "66b8010000800fa2660fbae21d73366631c0bf0010b90010f366abc70600100320c70600200330c70600308300c70608"
    "3083000f0116987d0f20c00c010f22c0ea7b7c0800b016e6f4ebfe66b810008ed88ec08ed0bc007c0000b05066baf803"
    "ee0f20e083c8200f22e0b8001000000f22d8b9800000c00f320d010100000f300f20c00fbae81f0f22c0eac17c000018"
    "0066baf803b04cee48bbefcdab8967452301488d3c250080200048891f488b0425008000004839d875feb9820000c031"
    "d2b8c17c00000f30b9010100c0b8008000000f306548391c250000000075fe66baf803b04deeb900000004ffc975fcb0"
    "57eebf60400000c707407d1800c74704008e00000f011c259e7d00000f0bebfe66baf803b049ee66c704258040000069"
    "7dc604258240000018c60425854000008eb0fee621fbf4ebfe66baf803b054eeb015e6f4ebfe90900000000000000000"
    "ffff0000009acf00ffff00000092cf00ffff0000009aaf001f00787d0000ff000040"
)

BOOT_SECTOR = bytes.fromhex(_CODE).ljust(510, b"\x00") + b"\x55\xaa"
