# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host of libvirt's test driver that outlives the calls, as a real one does, and is as before afterwards."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost


@contextlib.contextmanager
def driver_host() -> t.Iterator[DomainHost]:
    """Connect; in the end remove all domains but that of the driver itself, and the pool ``p`` if it exists."""
    with DomainHost("test:///default") as host:
        yield host
        for record in host.domains():
            domain = host.connection.lookupByUUIDString(record.uuid)
            if record.name != "test":
                if domain.isActive():
                    domain.destroy()
                if record.persistent:
                    domain.undefine()
        for pool in host.connection.listAllStoragePools():
            if pool.name() == "p":
                pool.destroy()
