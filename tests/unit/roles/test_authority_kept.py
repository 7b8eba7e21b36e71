# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another certificate authority is refused while members are running that would not accept its certificates."""

from __future__ import annotations

import pathlib
import time
import typing as t

import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from tests.support.control_node import HERE, ROOT, ControlNode

NOW = time.time()
PAIRS = [io_certificates.make_authority("galera/ca", NOW, 100) for _number in range(2)]
#: Names for the test; random texts in the names of tests would differ between processes.
OLD, NEW, RENEWED = "old ", "new ", "renewed "
TEXTS = {OLD: PAIRS[0].certificate, NEW: PAIRS[1].certificate, RENEWED: io_certificates.renew_authority(PAIRS[0], NOW, 3650).certificate}


def text(names: str) -> str:
    return "".join(TEXTS[f"{name} "] for name in names.split())


def check(tasks: list[t.Any], folder: pathlib.Path, secret: str, directory: str, cases: t.Mapping[str, tuple[str, bool, dict[str, t.Any]]]) -> None:
    """Run tasks once, with a host for each case.

    :arg directory: name of the variable with the directory of the authority.
    :arg cases: name of the host → the authority that it has, whether the tasks accept the one that is wanted, variables.
    """
    control = ControlNode(folder)
    for name, (present, _good, variables) in cases.items():
        (folder / name).mkdir()
        if present:
            (folder / name / "ca.pem").write_text(text(present), "utf-8")
        control.more[name] = {**HERE, **variables}
    _code, output = control.play(tasks, ",".join(cases), **{directory: f"{folder}/{{{{ inventory_hostname }}}}"})
    output = " ".join(output.split())
    assert [name for name in cases if f"fatal: [{name}]: FAILED!" in output] == [name for name, case in cases.items() if not case[1]], output
    for name, (_present, good, _variables) in cases.items():
        assert (f"{secret}: the certificate of {name} is signed by another authority" in output) != good, name
        assert not good or f"{name} : ok=" in output, name


def test_the_authority_of_running_members_is_kept(tmp_path: pathlib.Path) -> None:
    cases = {
        "same": ("on", OLD, OLD, True),
        "same-with-plain-text": ("both", OLD, OLD, True),
        "another": ("on", OLD, NEW, False),
        # both of them for a while, then the new one only
        "both": ("on", OLD, OLD + NEW, True),
        "new-after-both": ("on", OLD + NEW, NEW, True),
        # renewed, and both again
        "renewed": ("on", OLD, RENEWED, True),
        "before-it-was-renewed": ("on", RENEWED, OLD, True),
        "old-after-renewed-and-new": ("on", RENEWED + NEW, OLD, True),
        "renewed-after-both": ("on", OLD + NEW, RENEWED + RENEWED, True),
        "stopped": (None, OLD, NEW, True),
        "plain-text": ("off", OLD, NEW, True),
        "plain-text-without-authority": ("off", "", NEW, True),
        # in check mode, one that would be generated
        "generated": ("on", OLD, "", True),
    }
    given = {
        name: (present, good, {"__galera_here": {"galera": {"tls": tls}}, "__galera_tls_made": {"ca": text(wanted)}})
        for name, (tls, present, wanted, good) in cases.items()
    }
    tasks = yaml.safe_load((ROOT / "roles/galera/tasks/certificate.yml").read_text("utf-8"))[:2]
    check(tasks, tmp_path, "galera/ca", "__galera_tls_directory", given)


def test_ovn_keeps_the_authority_of_running_members(tmp_path: pathlib.Path) -> None:
    cases = {
        "same": (OLD, "active", True),
        "renewed": (RENEWED, "active", True),
        "another": (NEW, "active", False),
        "stopped": (NEW, "inactive", True),
        "generated": ("", "active", True),
    }
    tasks = yaml.safe_load((ROOT / "roles/ovn_database/tasks/authority.yml").read_text("utf-8"))
    tasks[1]["ansible.builtin.command"] = {"argv": ["echo", "{{ units }}"]}
    given = {name: (OLD, good, {"__ovn_database_made": {"ca": text(wanted)}, "units": units}) for name, (wanted, units, good) in cases.items()}
    check(tasks, tmp_path, "ovn/ca", "__ovn_database_directory", given)


def test_rabbitmq_keeps_the_authority_if_members_verify_each_other(tmp_path: pathlib.Path) -> None:
    cases = {
        "another": (True, True, NEW, False),
        "stopped": (True, False, NEW, True),
        "plain-text": (False, True, NEW, True),
        "renewed": (True, True, RENEWED, True),
    }
    given = {
        name: (OLD, good, {"__rabbitmq_made": {"ca": text(wanted)}, "__rabbitmq_internode": internode, "__rabbitmq_look": {"rabbitmq": {"alive": alive}}})
        for name, (internode, alive, wanted, good) in cases.items()
    }
    tasks = [task for task in yaml.safe_load((ROOT / "roles/rabbitmq/tasks/encryption.yml").read_text("utf-8")) if "authority" in task["name"]]
    assert len(tasks) == 2
    check(tasks, tmp_path, "amqp/ca", "__rabbitmq_tls_directory", given)
