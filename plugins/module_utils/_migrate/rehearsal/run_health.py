# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health checks of rehearsal and cutover, and the migration's ssh access to the VM."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import drop_key
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_health import Ways
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_inside import RemoteClone
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_isolated import own_address
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.plan_rehearsal import neighbour
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import INSIDE, HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import ensure_key

AUTHORIZED_KEYS = "/root/.ssh/authorized_keys"


def questions(context: Context, *, rehearsal: bool = False) -> list[HealthCheck]:
    """Return the health checks: ssh with the source's host key first, then the user's checks in their order."""
    wanted = [each for each in context.spec.health_checks if each.rehearse or not rehearsal]
    return [HealthCheck("ssh", context.spec.source.port), *wanted]


def asks_inside(context: Context) -> bool:
    """Whether a check runs inside the VM."""
    return any(each.type in INSIDE for each in context.spec.health_checks)


def ways(context: Context) -> Ways:
    """Return how the VM is reached at the admin address."""
    spec = context.spec
    return Ways(spec.admin.address, spec.source.host_keys, _clone(context) if asks_inside(context) else None)


def _clone(context: Context) -> RemoteClone:
    spec = context.spec
    return RemoteClone(spec.name, context.store.directory, [spec.admin.address], spec.source.port, spec.source.host_keys, context.code)


def own_way_in(context: Context, tree: t.Mapping[str, str]) -> dict[str, str]:
    """Return the fix-up that adds the migration's key, for this host only, when a check runs inside the VM.

    A key in the copied file belongs to an earlier run, because the source's key is withdrawn after every run.
    :func:`withdraw_key` removes it after the commit.

    :arg tree: path → text of the copy's files.
    """
    if not asks_inside(context) or AUTHORIZED_KEYS not in tree:
        return {}
    # one more day, because the VM's time zone is unknown here; no forced command, because health checks run arbitrary commands
    expires = time.strftime("%Y%m%d%H%M", time.gmtime(time.time() + model_one_time_key.LIFETIME + 86400))
    line = f'from="{",".join(_askers(context))}",restrict,expiry-time="{expires}" {ensure_key(context.store.directory, context.spec.name)}'
    before = drop_key(tree[AUTHORIZED_KEYS], context.key_marker).rstrip("\n")
    return {AUTHORIZED_KEYS: f"{before}\n{line}\n".lstrip("\n")}


def asker(context: Context) -> str:
    """Return the source address of the rehearsal's checks."""
    admin = context.spec.admin
    return neighbour(own_address(admin.address), admin.temporary_address, admin.address)


def _askers(context: Context) -> list[str]:
    # a host without an address on the admin network uses another one at the cutover
    shown = own_address(context.spec.admin.address, routed=True)
    return sorted({asker(context), *([shown] if shown else [])})


def withdraw_key(context: Context) -> None:
    """Remove the one-time key from the VM if it was added; must be called before the key is deleted here."""
    if not asks_inside(context):
        return
    try:
        _clone(context).ask("forget_key", {"marker": context.key_marker})
    except FootprintError as error:
        context.journal.warnings.append(
            f"The one-time key may still be in /root/.ssh/authorized_keys of the VM, in the line that ends in {context.key_marker}: {error.message}"
        )
