# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page that is made from the evidence, docs/evidence.md."""

from __future__ import annotations

import typing as t

import evidence
import module_tests
import workspace
from engine import Gate

#: Part, systems, gates that show it, and what else there is to say.
SYSTEMS = (
    ("control node", "ansible-core 2.19 on Python 3.11 (Debian 12)", ("units", "e2e"), ""),
    ("control node", "ansible-core 2.19, 2.20 and 2.21, on Python 3.11 to 3.13", ("cores", "torture-cores"), "plugins, every playbook, a run of the artifact"),
    ("targets", "Python 3.9 to 3.13", ("sanity", "sanity-all"), "compiled and imported; everything else with Python 3.11"),
    ("virt hosts, controllers, guests and masters", "Debian 12, with BIOS boot (GRUB)", ("e2e", "molecule"), ""),
    ("masters", "Debian 12, with UEFI, NVMe, LVM and xfs", ("torture-migrate-migrate",), ""),
    ("virt hosts, controllers, guests and masters", "Debian 13", ("torture-e2e-trixie",), ""),
    ("the cloud (`footprint_cloud: true`)", "Debian 13", ("torture-cloud-instance",), "for evaluation only; [what was tried](cloud.md#what-was-tried)"),
    ("virt hosts", "Ubuntu 22.04 and 24.04, the RHEL 9 family", (), "untested; the `vars/` of each role support them"),
    ("VMs of a cloud image", "Debian 12, under `qemu`", ("torture-guide",), ""),
    ("execution environment", "Debian 13, ansible-core 2.21, built by `scripts/execution-environment`", ("ee-build", "torture-awx-flow"), ""),
    ("hypervisors", "`qemu` and `lxc`", ("integration", "e2e"), ""),
    ("hypervisors", "`kvm`", (), "not shown by a gate: for two servers that have it, [one command](../tests/kvm/README.md) proves it; please send its report"),
)


def _shown(entry: evidence.Entry | None) -> str:
    """How fresh an entry is, in a few words."""
    if not entry:
        return "not recorded yet"
    since = entry.get("commits_since")
    commits = "1 commit" if since == 1 else f"{since} commits"
    later = "stale: its commit is unknown here" if since is None else f"stale since: {commits} touched its inputs" if since else "current"
    return f"{entry['date']}, `{entry['commit'][:8]}`: {entry['passed']} passed; {later}"


def systems(entries: t.Mapping[str, evidence.Entry]) -> str:
    """Return the table of supported systems."""
    lines = ["| part | systems | shown by |", "|---|---|---|"]
    for part, names, gates, remark in SYSTEMS:
        cells = [f"`{name}`: {_shown(entries.get(name))}" for name in gates]
        lines.append(f"| {part} | {names} | {'<br>'.join([*cells, *([remark] if remark else [])])} |")
    return "\n".join(lines) + "\n"


def page(entries: t.Mapping[str, evidence.Entry], gates: t.Sequence[Gate]) -> str:
    """Return docs/evidence.md."""
    lines = [
        "# Evidence",
        "",
        "What each gate of [the tests](../CONTRIBUTING.md#tests) has shown, on which commit. `make evidence` records it in `tests/evidence.json`, from a",
        "checkout without changes, and makes this page from it. A gate is *stale* if a commit has touched one of its inputs since: plugins, roles,",
        "playbooks, the lab, or its tests.",
        "Nothing is recorded of a gate that failed.",
    ]
    for title, routine in (("Routine gates", True), ("Long gates", False)):
        lines += ["", f"## {title}", "", "| gate | what it shows | shown on | minutes | on |", "|---|---|---|---|---|"]
        for gate in gates:
            if ("test" in gate.suites) == routine:
                entry = entries.get(gate.name)
                minutes, where = (f"{entry['seconds'] / 60:.1f}", entry["environment"]) if entry else ("", "")
                lines.append(f"| `{gate.name}` | {gate.title} | {_shown(entry)} | {minutes} | {where} |")
    lines += ["", "## Supported systems", "", systems(entries).rstrip()]
    return "\n".join([*lines, "", "## Modules", "", "The folders of tests that name a module, or a playbook or role that uses it:", "", module_tests.table()])


def write(gates: t.Sequence[Gate]) -> None:
    """Update the page, and how many commits are newer than the evidence."""
    (workspace.ROOT / "docs" / "evidence.md").write_text(page(evidence.measure(gates), gates), "utf-8")
