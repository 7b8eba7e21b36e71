# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/first-footprint.md as files and commands, for the tests.

A YAML block whose first line is ``# inventory/…`` is that file, other YAML blocks are alternatives to parts of it. In console blocks each line
after ``$`` is a command of the control node; lines after another prompt are for other machines and are not run.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-footprint.md"
README = ROOT / "README.md"

#: The mapping: what a run in the lab has instead of the values of the page. ``{net}`` are the first three octets of the lab.
MAPPING = (
    ("debian-12-genericcloud-amd64-20250316-2053.qcow2", "debian-12-genericcloud-amd64.qcow2"),
    ("https://cloud.debian.org/images/cloud/bookworm/20250316-2053/", "http://{net}.1:8099/images/"),
    ("http://10.0.0.2:8099/", "http://{net}.1:8099/images/"),
    ("10.0.0.", "{net}."),
    ("hypervisors: [kvm]", "hypervisors: [qemu]"),
    ("file:///path/to/your/clone", f"file://{ROOT}"),
)
#: Commands with a person at the keyboard; the tests place the operator's key with the key of the lab.
BY_HAND = ("ssh-keygen ", "ssh-copy-id ")
#: What simulated servers need in addition, passed with ``-e @lab.yml``: no control groups for QEMU, and no KVM.
LAB_SETTINGS: t.Mapping[str, t.Any] = {
    # the image of the catalogue, with the URL of the mapping
    "virt_guests_images": [
        {
            "name": "debian-12",
            "url": "https://cloud.debian.org/images/cloud/bookworm/20250316-2053/debian-12-genericcloud-amd64-20250316-2053.qcow2",
            "checksum": "sha512:https://cloud.debian.org/images/cloud/bookworm/20250316-2053/SHA512SUMS",
        }
    ],
    "virt_host_qemu_conf": {"cgroup_controllers": []},
    "virt_guests_allow_emulation": True,
    "master_migrate_hypervisor": "qemu",
    "master_migrate_boot_timeout": 900,
    "spawn_vms_address_timeout": 1800,
    "spawn_vms_ready_timeout": 1800,
    # the defaults declare a machine dead that takes longer than 5 seconds for the banner of ssh
    "footprint_ssh_args": "-o ControlMaster=no -o ConnectTimeout=120",
    "status_timeout": 900,
    # the checks of each second would take a whole emulated processor, which may also pause for seconds
    "load_balancer_advert_interval": 3,
    "load_balancer_wait_timeout": 600,
    "galera_provider_options": {"evs.suspect_timeout": "PT30S", "evs.inactive_timeout": "PT1M", "evs.install_timeout": "PT1M"},
}


class Block(t.NamedTuple):
    """A block of code: its language, its text, and the heading above it."""

    language: str
    text: str
    heading: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of code of a Markdown page, in their order."""
    found = []
    heading, language, lines = "", None, []
    for line in text.splitlines():
        if language is None and line.startswith("#"):
            heading = line.lstrip("# ")
        fence = re.match(r"```(\w*)$", line)
        if not fence:
            lines.append(line)
        elif language is None:
            language, lines = fence.group(1), []
        else:
            found.append(Block(language, "\n".join(lines) + "\n", heading))
            language = None
    return found


def mapped(text: str, net: str) -> str:
    """Return a text of the page with the addresses and URLs of a lab."""
    for here, there in MAPPING:
        text = text.replace(here, there.format(net=net))
    return text


def files(found: t.Sequence[Block]) -> dict[str, str]:
    """Return the files by their path."""
    named = {}
    for block in found:
        name = re.match(r"# (inventory/\S+)\n", block.text)
        if block.language == "yaml" and name:
            named[name.group(1)] = block.text
    return named


def alternatives(found: t.Sequence[Block], heading: str) -> list[str]:
    """Return the YAML blocks below a heading that are not files."""
    return [block.text for block in found if block.language == "yaml" and block.heading == heading and not block.text.startswith("# inventory/")]


def commands(found: t.Sequence[Block]) -> list[str]:
    """Return the commands of the control node."""
    return [line[2:] for block in found if block.language == "console" for line in block.text.splitlines() if line.startswith("$ ")]


def write(folder: pathlib.Path, net: str = "", page: pathlib.Path = PAGE) -> list[Block]:
    """Write the files of a page into a folder, with the addresses of a lab if one is given; return the blocks."""
    known = blocks(page.read_text(encoding="utf-8"))
    if net:
        known = [block._replace(text=mapped(block.text, net)) for block in known]
    for name, text in files(known).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return known
