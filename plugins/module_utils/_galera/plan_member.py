# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide without I/O whether a Galera member is ready.

Uses the standard library only, nothing of this collection: the role installs this file on the members, where the health check and
the guard decide with the same code.
"""

from __future__ import annotations

import typing as t


def problems(status: t.Mapping[str, str], uuid: str | None = None, serves: bool = False) -> tuple[str, ...]:
    """Return why a member is not ready; empty if it is ready.

    :arg status: ``SHOW GLOBAL STATUS`` as a mapping.
    :arg uuid: cluster it must belong to, ``None`` for any.
    :arg serves: accept a member that can serve clients. A donor can, because mariabackup does not block it; otherwise a cluster with one
        remaining member would not serve while the second one joins.
    """
    if serves and status.get("wsrep_local_state_comment") == "Donor/Desynced":
        status = {**status, "wsrep_local_state_comment": "Synced"}
    wanted = {"wsrep_cluster_status": "Primary", "wsrep_connected": "ON", "wsrep_ready": "ON", "wsrep_local_state_comment": "Synced"}
    found = [f"{name} is {status.get(name) or 'unknown'}, not {value}" for name, value in wanted.items() if status.get(name) != value]
    if uuid and status.get("wsrep_cluster_state_uuid") != uuid:
        found.append(f"wsrep_cluster_state_uuid is {status.get('wsrep_cluster_state_uuid') or 'unknown'}, not {uuid}")
    return tuple(found)


def lags(status: t.Mapping[str, str]) -> bool:
    """Return whether a member that serves may lack transactions that were acknowledged seconds ago.

    Flow control limits what a synchronised member has received and not applied. A donor is exempt from it: at the end of a state transfer it may apply
    nothing for seconds. An unknown length of its queue counts as one that is not empty.
    """
    return status.get("wsrep_local_state_comment") == "Donor/Desynced" and status.get("wsrep_local_recv_queue") != "0"
