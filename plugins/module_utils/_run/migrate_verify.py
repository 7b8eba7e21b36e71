# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the copy is what the source is."""

from __future__ import annotations

import re

from ansible_collections.reduced.footprint.plugins.module_utils._backend import boot, rsync
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_copy import apply_fixups, final

# what a quiet machine still writes: its own logs and the state of its init
_LIVELY = re.compile(r"^/(proc|sys|dev|run|tmp|boot)/$|(^|/)(var/log|var/lib/systemd|var/lib/dbus|var/tmp|tmp|root/\.ansible|var/lib/chrony|var/lib/ntp)(/|$)")


def verify(context: Context) -> None:
    """Compare source and copy; what was written after the services stopped is fetched once more."""
    differing = _differences(context)
    if differing:
        final(context)
        apply_fixups(context)
        differing = _differences(context)
    context.journal.verified = not differing
    if differing:
        context.journal.warnings.append(
            f"{len(differing)} file(s) changed on the source after its services were stopped, among them {', '.join(differing[:5])}; "
            "list what writes them in services."
        )


def _differences(context: Context) -> list[str]:
    """Paths that differ between source and copy, less what a quiet machine still writes."""
    root = context.disk().mount()
    mounts = [each["mount"] for each in context.source_facts["filesystems"]]
    made = set(context.journal.facts.get("fixups", ()))
    made |= {f"{path.rpartition('/')[0]}/" for path in made}
    found = []
    for mount in mounts:
        looked = rsync.pull(
            context.source.ssh_argv(),
            context.source.address,
            mount,
            str(root / mount.lstrip("/")),
            rsync.filters(mount, mounts, [*context.spec.excludes, *boot.MADE_HERE]),
            tolerate_vanished=False,
            dry_run=True,
        )
        for line in looked.changes:
            path = f"{mount.rstrip('/')}/{line.split(' ', 1)[1].strip()}"
            if not _LIVELY.search(path) and path.rstrip("/.") != "" and path not in made:
                found.append(path)
    return found
