# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several environments on the same hosts: nothing that needs a host for itself is there twice. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError


def check_environments(environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]]) -> None:
    """Refuse two environments whose host-exclusive services stand on one host.

    Such a service takes ports, files and variables of the host, so that even two different ones would get each other's settings.

    :arg environments: environment → host → its exclusive services there.
    :raises RefusedError: naming host, services and environments.
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
                    f"{theirs} of {there} and {mine} of {environment} would share the host {host}, which each needs for itself.",
                    f"nodes of {environment}",
                    "Give them different hosts, or VMs of their own; a service that can stand beside itself says exclusive: false below services.",
                )
