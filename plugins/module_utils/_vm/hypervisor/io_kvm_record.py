# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether KVM runs guests on this host, for a host without a record of ``virt_node``: proven once, recorded until the next boot."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, io_lock, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm

PROOF_TIMEOUT = 15

_BOOT = "/proc/sys/kernel/random/boot_id"


def record_path() -> pathlib.Path:
    """Return the file with the recorded proof; it does not outlive the boot."""
    return io_lock.lock_folder() / "kvm.json"


def proof(remember: bool) -> dict[str, t.Any]:
    """Return whether KVM is ``usable`` here and the ``reason``: as recorded, otherwise from a test guest.

    The record is valid until the host boots or QEMU is replaced.

    :arg remember: whether the result is recorded (not in check mode).
    """
    key, path = _key(), record_path()
    try:
        recorded = model_schema.KVM_PROOF.load(io_files.read_text(path) or "{}", path)
    except (OSError, ValueError):
        recorded = {}
    if key is not None and recorded.get("key") == key:
        return recorded
    # imported only for a proof: each import slows down every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_machine_proof

    usable, reason, unused = io_machine_proof.prove("kvm", PROOF_TIMEOUT)
    found = {"usable": usable, "reason": reason, "key": key}
    if remember and key is not None:
        if path.parent.parent == io_files.RUN:
            io_files.private_folder(io_files.RUN)
        io_files.private_folder(path.parent)
        io_files.write_atomic(path, json.dumps(model_schema.KVM_PROOF.mark(found)))
    return found


def _key() -> str | None:
    """What the result depends on; ``None`` where no guest is needed to know it."""
    binary = io_kvm.qemu_binary()
    if binary is None or not io_kvm.has_kvm_device():
        return None
    state = os.stat(binary)
    return "|".join((io_files.read_text(_BOOT) or "").split() + [binary, str(state.st_size), str(state.st_mtime_ns)])
