# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read how the kernel's clock is disciplined."""

from __future__ import annotations

import ctypes
import os
import time
import typing as t

_STA_UNSYNC = 0x0040
_TIME_ERROR = 5


class _Timeval(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("part", ctypes.c_long)]


class _Timex(ctypes.Structure):
    """The beginning of ``struct timex``; the kernel writes the rest into the padding."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", _Timeval),
        ("padding", ctypes.c_char * 256),
    ]


def read_clock() -> dict[str, t.Any]:
    """Return the time of this host, and whether a time service keeps it synchronized.

    :returns: ``time``, ``synchronized`` and ``error_seconds``, the largest error according to the kernel; both are ``None`` if the kernel
        does not report it.
    """
    found = _Timex()
    # modes 0 only reads, which needs no privilege
    code = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(found))
    if code < 0:
        return {"time": time.time(), "synchronized": None, "error_seconds": None, "reason": os.strerror(ctypes.get_errno())}
    synchronized = code != _TIME_ERROR and not found.status & _STA_UNSYNC
    return {"time": time.time(), "synchronized": synchronized, "error_seconds": found.maxerror / 1e6 if synchronized else None, "reason": ""}
