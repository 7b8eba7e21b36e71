# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check several environments on the same hosts: a host may have exclusive services of one environment only. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError


def check_environments(environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]]) -> None:
    """Reject two environments with exclusive services on the same host.

    Such a service uses ports, files and variables of the host, so even two different ones would get each other's settings.

    :arg environments: environment → host → its exclusive services on this host.
    """
    owners: dict[str, tuple[str, str]] = {}
    for environment, hosts in environments.items():
        for host, services in hosts.items():
            if not services:
                continue
            there, service = owners.setdefault(host, (environment, services[0]))
            if there != environment:
                both = [one for one in environments[there][host] if one in services]
                mine, theirs = (both[0], both[0]) if both else (services[0], service)
                raise RefusedError(
                    f"{theirs} of {there} and {mine} of {environment} cannot share the host {host}.",
                    f"nodes of {environment}",
                    "Assign them to different hosts or VMs, or set exclusive: false below services if the service can run twice on a host.",
                )
