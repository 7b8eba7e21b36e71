# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems that prevent quiescing a source, and files the copy needs because it was made of a quiesced source."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import ALL, MAINTENANCE_BOOT, Container
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import IN_A_SCOPE, holds_everything
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import Problem

# Files of the migration itself on the source; they must not be active on the copy.
SOURCE_OWN = (
    "/var/lib/reduced.footprint/source",
    "/etc/systemd/system/reduced-footprint-*",
    "/etc/systemd/system/multi-user.target.wants/reduced-footprint-*",
)
_CONTAINERS_UNIT = "reduced-footprint-containers.service"
_CONTAINERS_DROP_IN = "/etc/systemd/system/multi-user.target.d/reduced-footprint-containers.conf"


def container_files(containers: t.Sequence[t.Mapping[str, str]]) -> dict[str, str]:
    """Files for the copy, so that its first boot starts the containers that ran on the source: path → text.

    They were stopped for the last copy, and an engine restarts only some stopped containers at boot.
    """
    if not containers:
        return {}
    engines = sorted({each["engine"] for each in containers})
    starts = "".join(f"ExecStart=-{' '.join(IN_A_SCOPE)} {each['engine']} start {each['name']}\n" for each in containers)
    return {
        f"/etc/systemd/system/{_CONTAINERS_UNIT}": (
            "[Unit]\nDescription=Start the containers that ran before the master moved (reduced.footprint)\n"
            f"Wants=network-online.target\nAfter=network-online.target {' '.join(f'{each}.service' for each in engines)}\n\n"
            # only at the first boot; later the engine's restart policies apply
            f"[Service]\nType=oneshot\n{starts}ExecStartPost=/bin/rm -f {_CONTAINERS_DROP_IN}\n"
        ),
        _CONTAINERS_DROP_IN: f"[Unit]\nWants={_CONTAINERS_UNIT}\n",
    }


def containers_of(source: t.Mapping[str, t.Any], *, everything: bool) -> list[dict[str, str]]:
    """The containers to stop, from the source's facts: the named ones that run, or all that run."""
    named = [{"engine": each["engine"], "name": each["name"]} for each in source.get("containers", []) if each.get("state") == "running"]
    return named + [dict(each) for each in (source.get("running_containers", []) if everything else []) if dict(each) not in named]


def source_problems(services: t.Sequence[str], containers: t.Sequence[Container], quiesce: str, source: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Problems that prevent quiescing the source as requested."""
    for user, units in (source.get("user_services", {}) if holds_everything(services, quiesce) else {}).items():
        # systemd-logind starts them at every boot, and again as soon as they are held: they would also run on a source that is set aside
        message = f"The user {user} of the source has services that run without a login, which would not be stopped: {', '.join(units)}."
        hint = f"On the source, run loginctl disable-linger {user} and log the user out; after the migration, enable lingering in the VM."
        yield Problem(message, hint, "services")
    for unit, state in source.get("services", {}).items():
        if state.get("load") != "loaded":
            # a single unknown name may be a misspelt all
            everything = "" if len(source["services"]) > 1 else f" To stop everything, write {ALL}."
            hint = f"Correct the name; systemctl list-units on the source shows all.{everything}"
            yield Problem(f"The source has no unit {unit}.", hint, "services")
    known = {(each["engine"], each["name"]): each["state"] for each in source.get("containers", [])}
    for index, each in enumerate(containers):
        state = known.get((each.engine, each.name), "unknown")
        if state == "missing":
            hint = f"Correct the name; {each.engine} ps --all on the source lists all."
            yield Problem(f"The source has no {each.engine} container {each.name}.", hint, f"containers[{index}]")
        elif state == "no engine":
            yield Problem(f"{each.engine} is not installed on the source.", "Correct the engine, or remove the container.", f"containers[{index}].engine")
    if quiesce == MAINTENANCE_BOOT and source.get("asks_passphrase"):
        message = f"maintenance_boot is not supported: the source requires the passphrase of {source['asks_passphrase']} at boot."
        yield Problem(message, "Use quiesce: stop_services.", "quiesce")
