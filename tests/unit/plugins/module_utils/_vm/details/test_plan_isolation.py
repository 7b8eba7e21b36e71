# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said about guests that share the kernel of their host."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_isolation import container_warnings


def test_machines_get_no_warning() -> None:
    assert container_warnings([("a", "kvm", False), ("b", "qemu", False), ("c", None, False)]) == []


def test_containers_get_one_warning() -> None:
    said = container_warnings([("a", "lxc", False), ("m", "qemu", False), ("b", "lxc", False)])
    assert len(said) == 1
    assert said[0].startswith("a, b: containers share the kernel")
    assert "Root in them is root on the host (privileged)" in said[0]


def test_mapped_root_is_not_privileged() -> None:
    assert "privileged" not in container_warnings([("a", "lxc", True)])[0]
    assert "Root in b is root on the host" in container_warnings([("a", "lxc", True), ("b", "lxc", False)])[0]
