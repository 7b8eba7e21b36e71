# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connects standard input and output to the partial copy of one disk: ``python3 -m …run_channel TARGET KEY``, NBD on both."""

from __future__ import annotations

import contextlib
import os
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import parse_standby_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_nbd
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._standby.run_channel"


def main(argv: t.Sequence[str]) -> int:
    """Entry point; returns the exit code."""
    whose = parse_standby_key(argv[1]) if len(argv) == 2 else None
    if whose is None:
        sys.stderr.write("usage: run_channel TARGET standby-ID@CLUSTER\n")
        return 2
    # so that it can be ended together with its server, see CopyStore.locked; with its key it leads a session already
    with contextlib.suppress(PermissionError):
        os.setsid()
    store = io_copies.CopyStore(*whose)
    try:
        if store.record().get("state") == STARTED:
            raise RefusedError(f"{store.vm_id} was started on the standby.")
        partial = store.partial()
        path = next((each[1] for each in (partial or {"disks": []})["disks"] if each[0] == argv[0]), None)
        if path is None:
            raise BackendError(f"the partial copy of {argv[0]} does not exist.")
        with store.locked(channel=True), io_nbd.served(store.image(path, "partial", argv[0]), "qcow2", writable=True) as address:
            io_channel.join(address)
    except FootprintError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
