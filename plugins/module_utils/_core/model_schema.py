# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Schema numbers of everything that is kept between runs, so that a version of this collection knows what it must not read.

Raise the number of a kind in the change after which an earlier version would misread it, let its reader accept the earlier form as well, and
freeze a file of the earlier form first (``tests/support/state_files.py``). A new key that an earlier version may ignore needs no new number.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

KEY = "schema"
HINT = "Use the version of the collection that wrote it, or a newer one."


class Schema(t.NamedTuple):
    """One kind of file, metadata or record.

    :arg number: what this version writes; it reads this number and all earlier ones. Without a number it is from before there were numbers.
    :arg cache: whether it can be determined again, so that a newer one is replaced instead of refused.
    """

    what: str
    number: int = 1
    key: str = KEY
    cache: bool = False

    def mark(self, values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the values with the schema number."""
        return {**values, self.key: self.number}

    def check(self, found: t.Any, place: t.Any) -> None:
        """Check the number of something that was read.

        :arg found: ``None`` if it has none.
        """
        if found is None or isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= self.number:
            return
        raise model_errors.RefusedError(
            f"the {self.what} in {place} has the schema {model_errors.shown(found)}; this version of reduced.footprint supports schemas up to {self.number}.",
            hint=HINT,
        )

    def values(self, found: t.Mapping[str, t.Any], place: t.Any) -> dict[str, t.Any]:
        """Return values that were read, without the schema number; of a newer cache none."""
        try:
            self.check(found.get(self.key), place)
        except model_errors.RefusedError:
            if self.cache:
                return {}
            raise
        return {key: value for key, value in found.items() if key != self.key}

    def load(self, text: str, place: t.Any, unnumbered: str | None = None) -> dict[str, t.Any]:
        """Return the values of a JSON text, without the schema number.

        :arg unnumbered: the key of the value that was the whole text before there were numbers; a text that is not JSON is such a value as well.
        :raises ValueError: it is not a JSON mapping.
        """
        try:
            found = json.loads(text)
        except ValueError:
            if unnumbered is None:
                raise
            found = text.strip()
        if isinstance(found, dict):
            return self.values(found, place)
        if unnumbered is None:
            raise ValueError(f"expected a mapping, found {type(found).__name__}")
        return {unnumbered: found}


#: Kinds that playbooks write with the filter ``state_text``.
KINDS: t.Mapping[str, Schema] = {
    "completed_step": Schema("record of a completed step"),
    "discovered_server": Schema("record of the server's hardware", cache=True),
    "secrets_record": Schema("record of the secrets directory"),
}
DISCOVERED_SERVER = KINDS["discovered_server"]

INSTALLED_SERVER = Schema("record of the installed server")
MIGRATION_JOURNAL = Schema("journal of the migration")
MOVE_JOURNAL = Schema("journal of the move")
REQUEST = Schema("request of the worker")
SOURCE_STATE = Schema("state of the source")
SOURCE_REPORT = Schema("report of the migration")
KEY_COMMANDS = Schema("list of commands of a one-time key")
VM_GUARD = Schema("record of a guarded VM")
WORKER_STARTS = Schema("record of the worker's starts", cache=True)
BLOCK_HASHES = Schema("list of block hashes", cache=True)
MANIFEST = Schema("manifest", cache=True)

STANDBY_JOURNAL = Schema("journal of the copies")
STANDBY_COPY = Schema("manifest of the copy")
STANDBY_RECORD = Schema("record of the standby")
STANDBY_PARTIAL = Schema("record of the incomplete copy", cache=True)

VM_OWNER = Schema("record of who may run a VM")
#: The numbers of metadata in libvirt's documents are the last part of their namespaces.
DOMAIN_METADATA = Schema("metadata of the VM")
LIVE_METADATA = Schema("metadata of the running VM")
SEED_METADATA = Schema("mark of a changed seed")
POOL_MOUNTS = Schema("record of the pools' mount points")
VOLUME_UNFINISHED = Schema("mark of an unfinished volume")
VOLUME_GROWN = Schema("size of a grown volume")
VOLUME_ORIGIN = Schema("record of a volume's image")
KVM_PROOF = Schema("proof of KVM", cache=True)

HOST_FACTS = Schema("record of the host", key="format")
HUGE_PAGES = Schema("record of requested huge pages", cache=True)
NETWORK_TRIAL = Schema("plan of the network change")
ALLOW_LIST = Schema("allow-list")
BACKUP = Schema("metadata of the backup", key="format")
ROLLING_RESTART = Schema("journal of the rolling restart")
CONTROLPLANE_RUN = Schema("record of the run that restarts members")
STATE_METRICS = Schema("request for metrics")
MAINTENANCE = Schema("journal of the maintenance")
REPLACEMENT = Schema("record of a replaced VM")
SERVER_IDENTITY = Schema("record of a server")
WRITE_PROBE = Schema("target of the write probe")
