# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of bringing a source to rest, and what its copy needs for having been at rest."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import ALL, MAINTENANCE_BOOT, Container

# What the migration itself keeps on the source; the copy must not wake up with it.
SOURCE_OWN = (
    "/var/lib/reduced.footprint/source",
    "/etc/systemd/system/reduced-footprint-*",
    "/etc/systemd/system/multi-user.target.wants/reduced-footprint-*",
)
_CONTAINERS_UNIT = "reduced-footprint-containers.service"
_CONTAINERS_DROP_IN = "/etc/systemd/system/multi-user.target.d/reduced-footprint-containers.conf"


def container_files(containers: t.Sequence[t.Mapping[str, str]]) -> dict[str, str]:
    """Files for the copy, so that its first boot starts the containers that ran on the source: path → text.

    They were stopped for the last copy, and an engine starts by itself only some of what was stopped.

    :arg containers: mappings with engine and name.
    """
    if not containers:
        return {}
    engines = sorted({each["engine"] for each in containers})
    starts = "".join(f"ExecStart=-{each['engine']} start {each['name']}\n" for each in containers)
    return {
        f"/etc/systemd/system/{_CONTAINERS_UNIT}": (
            "[Unit]\nDescription=Start what ran in containers before the master moved (reduced.footprint)\n"
            f"Wants=network-online.target\nAfter=network-online.target {' '.join(f'{each}.service' for each in engines)}\n\n"
            # the first boot only; later ones are the engine's affair again
            f"[Service]\nType=oneshot\n{starts}ExecStartPost=/bin/rm -f {_CONTAINERS_DROP_IN}\n"
        ),
        _CONTAINERS_DROP_IN: f"[Unit]\nWants={_CONTAINERS_UNIT}\n",
    }


def containers_of(source: t.Mapping[str, t.Any], *, everything: bool) -> list[dict[str, str]]:
    """The containers that would rest, as the source's facts tell them: those named that run, or all that run."""
    named = [{"engine": each["engine"], "name": each["name"]} for each in source.get("containers", []) if each.get("state") == "running"]
    return named + [dict(each) for each in (source.get("running_containers", []) if everything else []) if dict(each) not in named]


def source_problems(containers: t.Sequence[Container], quiesce: str, source: t.Mapping[str, t.Any]) -> list[tuple[str, str, str]]:
    """What keeps the source from coming to rest as asked: message, hint, path."""
    problems = []
    for unit, state in source.get("services", {}).items():
        if state.get("load") != "loaded":
            # a slip in the one word that is no unit's name
            everything = "" if len(source["services"]) > 1 else f" To stop everything, write {ALL}."
            problems.append((f"The source knows no unit {unit}.", f"Correct the name; systemctl list-units on the source shows them.{everything}", "services"))
    known = {(each["engine"], each["name"]): each["state"] for each in source.get("containers", [])}
    for index, each in enumerate(containers):
        state = known.get((each.engine, each.name), "unknown")
        if state == "missing":
            problems.append(
                (f"The source has no container {each.name} of {each.engine}.", f"{each.engine} ps --all on the source lists them.", f"containers[{index}]")
            )
        elif state == "no engine":
            problems.append((f"The source has no {each.engine}.", "Correct the engine, or leave the container out.", f"containers[{index}].engine"))
    if quiesce == MAINTENANCE_BOOT and source.get("asks_passphrase"):
        problems.append(
            (f"The source asks for the passphrase of {source['asks_passphrase']} when it boots, so nobody would see it again.", "Use stop_services.", "quiesce")
        )
    return problems
