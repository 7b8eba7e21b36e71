# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slips that only a whole run shows: playbooks on a small inventory of servers that do not exist and are never contacted."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import typing as t

import pytest
import yaml

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
#: Parts of Ansible's own wording around a message, and internal names, which an error of the collection must not contain.
NOISE = ("Finalization of task args", "_Ansible", "Traceback", "object has no attribute")

NODES = """
plugin: reduced.footprint.nodes
cluster: blue
servers:
  metal1: {ansible_host: 127.0.0.9, roles: [virt], vms: [{id: c1, ram: 1, roles: [controller]}], node_capacity: {memory: 8, cpus: 4}}
  metal2: {ansible_host: 127.0.0.10, roles: [virt], node_capacity: {memory: 8, cpus: 4}}
"""
FILES = {
    "nodes.yml": NODES,
    "group_vars/all.yml": "expert_mode: true\n",
    "misspelt/nodes.yml": NODES.replace("roles: [controller]", "roles: [contoller]"),
    "syntax/nodes.yml": NODES + "  metal3: [\n",
    "empty/hosts.ini": "[virt]\n",
    "variables/nodes.yml": NODES,
    "variables/group_vars/all.yml": "expert_mode: true\nvirt_guests_strct: true\ngalera_exporter_port: 1\n"
    "footprint_other_variables: [galera_mine_*]\ngalera_mine_port: 1\n",
    "variables/host_vars/c1.yml": "galera_setings: {}\n",
    "ports/nodes.yml": NODES,
    # what is known later is not refused
    "ports/group_vars/all.yml": "expert_mode: true\nload_balancer_frontends: [{name: a, port: 80, check_port: 0}]\nnova_port: '{{ ansible_facts.later }}'\n"
    "glance_port: \"{{ lookup('ansible.builtin.file', '/missing') }}\"\n",
    "values/nodes.yml": NODES.replace("ram: 1,", "memory: 4,") + "vm_defaults: {nics: [{bridge: br0, vlna: 4}]}\n",
    "values/group_vars/all.yml": "expert_mode: true\nload_balancer_virtual_address: 192.0.2.300\ngalera_databases: app\nvirt_guests_parallel: many\n"
    "virt_host_bridges: [{name: br0, address: 192.0.2.1/33}]\nvirt_guests_images: [{name: debian-12, uri: x}]\n"
    "keystone_rotate: fernet\ngalera_allowed: 192.0.2.0/24\n"
    "virt_guests_authorized_keys: \"{{ lookup('ansible.builtin.file', 'none') }}\"\nmaster_migrate_services: all\nmaster_migrate_ram: '{{ undefined }}'\n"
    "master_migrate_source: metl2\n",
    "images/nodes.yml": NODES
    + "vm_defaults: {disks: [{image: debain-13}, {image: router}, {image: debian-12}, {image: debian-12-own.qcow2}, {image: mien}]}\n",
    "images/group_vars/all.yml": "expert_mode: true\nvirt_guests_images: [{name: debian-99}, {name: mine, url: 'http://192.0.2.1/m.raw', checksum: 'md5:1'}]\n"
    # values may be known only in the run
    "cinder_volume_backends: {local: {type: lvm, volume_groups: a}, ceph: {type: rbd, key: '{{ later }}', pol: a}, '{{ later }}': {type: '{{ later }}'}}\n",
    "images/host_vars/metal2.yml": "virt_guests_images: []\n",
    "emulated/nodes.yml": NODES.replace("roles: [controller]", "roles: [controller], hypervisor: qemu"),
    "metal/nodes.yml": NODES + "  metal3: {ansible_host: 127.0.0.11, roles: [virt], bmc: {address: 127.0.0.12, user: operator, secret: bmc/metal3}}\n",
    "caller/.keep": "",
    "ansible.cfg": "",
}

NO_PLAN = ("-e", "plan_placement_measure=false")
#: Arguments of ansible-playbook (playbook first) → parts of the one message.
RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "misspelt host in the limit": (
        ("status", "-i", "nodes.yml", "--limit", "metal1,metl2"),
        ("--limit: no host or group of the inventory is named metl2. Did you mean metal2?",),
    ),
    "misspelt variables": (
        ("status", "-i", "variables/nodes.yml"),
        (
            "virt_guests_strct: is not a variable of this collection (set for metal1 and 2 more). Did you mean virt_guests_strict?",
            "galera_setings: is not a variable of this collection (set for c1). Did you mean galera_settings?",
        ),
    ),
    "ports out of range": (
        ("deploy_controllers", "-i", "ports/nodes.yml", "-e", "cinder_port=99999"),
        (
            "cinder_port: '99999' is not a port. Use a number from 1 to 65535.",
            "load_balancer_frontends[0].check_port: 0 is not a port. Use a number from 1 to 65535.",
        ),
    ),
    "values of roles and VMs": (
        ("site", "-i", "values/nodes.yml"),
        (
            "\n".join(
                (
                    "servers.metal1.vms[0].memory: is neither a known key nor used by the template. Did you mean ram?",
                    "vm_defaults.nics[0].vlna: is neither a known key nor used by the template. Did you mean vlan?",
                    "load_balancer_virtual_address (set for metal1 and 2 more): '192.0.2.300' is not an IP address. "
                    "Write four numbers from 0 to 255, e.g. 192.0.2.10.",
                    "galera_databases (set for metal1 and 2 more): must be a list, not the text 'app'. Write [app].",
                    "virt_guests_parallel (set for metal1 and 2 more): argument 'virt_guests_parallel' is of type str and we were unable to convert to int: "
                    "\"'many'\" cannot be converted to an int.",
                    "virt_host_bridges[0].address (set for metal1 and 2 more): '192.0.2.1/33' is not an IP address. "
                    "Write four numbers from 0 to 255, e.g. 192.0.2.10.",
                    "virt_guests_images (set for metal1 and 2 more): virt_guests_images.uri: is not a known key. Use checksum, format, name, timeout, url.",
                    "master_migrate_source (set for metal1 and 2 more): the inventory has no host metl2. Did you mean metal2?",
                    "Origin: ",
                )
            ),
        ),
    ),
    "images and backends of volumes": (
        ("site", "-i", "images/nodes.yml"),
        (
            "\n".join(
                (
                    "virt_guests_images[0].name: 'debian-99' is not an image of the catalogue. Did you mean debian-13?",
                    "vm_defaults.disks[0].image: no image is named 'debain-13'. Did you mean debian-13? Otherwise list it in virt_guests_images.",
                    "vm_defaults.disks[4].image: no image is named 'mien'. Did you mean mine? Otherwise list it in virt_guests_images.",
                    "cinder_volume_backends.local.volume_groups: is not a known key. Did you mean volume_group?",
                    "cinder_volume_backends.ceph.pol: is not a known key. Did you mean pool?",
                    "Origin: ",
                )
            ),
        ),
    ),
    "misspelt variable with -e": (
        ("spawn_vms", "-i", "nodes.yml", "-e", "virt_guests_stat=present"),
        ("virt_guests_stat: is not a variable of this collection", "Did you mean virt_guests_state?"),
    ),
    "text for a number with a fraction": (
        ("deploy_controllers", "-i", "nodes.yml", "-e", "deploy_controllers_clock_limit=x"),
        ("argument 'deploy_controllers_clock_limit' is of type str and we were unable to convert to float: 'x' cannot be converted to a float.",),
    ),
    "file with an error beside a good one": (
        ("spawn_vms", "-i", "nodes.yml", "-i", "misspelt/nodes.yml"),
        ("misspelt/nodes.yml: servers.metal1.vms[0].roles[0]: unknown role 'contoller'. Did you mean controller?",),
    ),
    "invalid YAML beside a good file": (
        ("spawn_vms", "-i", "nodes.yml", "-i", "syntax/nodes.yml"),
        ("syntax/nodes.yml: could not be read as an inventory.",),
    ),
    "destination of the master": (
        ("migrate_master", "-i", "nodes.yml", "-e", "master_migrate_destination=metl2"),
        ("master_migrate_destination: no host or group of the inventory is named metl2. Did you mean metal2?",),
    ),
    "limit without the server of the master": (
        ("rollback_master", "-i", "nodes.yml", "--limit", "metal2"),
        ("master_migrate_destination: virt[0] is excluded by --limit metal2. Run it without --limit (in AWX: Limit), or with one that contains it.",),
    ),
    "limit without a virt host": (("spawn_vms", "-i", "nodes.yml", "--limit", "c1"), ("virt is excluded by --limit c1.",)),
    "text for a mapping": (
        (
            *("move_vm", "-i", "nodes.yml", "-e", "move_vm_id=c1", "-e", "move_vm_source=metal1", "-e", "move_vm_destination=metal2"),
            *("-e", "move_vm_options=keep_disks=true"),
        ),
        ("move_vm_options: must be a mapping, not the text 'keep_disks=true'. Use -e '{\"move_vm_options\": {...}}'.",),
    ),
    "source of a move": (
        ("move_vm", "-i", "nodes.yml", "-e", "move_vm_id=c1"),
        ("move_vm_source: is required. Set it with -e move_vm_source=HOST.",),
    ),
    "destination of a move": (
        ("move_vm", "-i", "nodes.yml", "-e", "move_vm_id=c1", "-e", "move_vm_source=metal1", "-e", "move_vm_destination=metl2"),
        ("move_vm_destination: 'metl2' is not a server of the inventory. Use one of metal1, metal2.",),
    ),
    "node to remove": (
        ("remove_virt_node", "-i", "nodes.yml", "-e", "remove_virt_node_name=metl2"),
        ("remove_virt_node_name: no host or group of the inventory is named metl2. Did you mean metal2?",),
    ),
    "server to replace": (
        ("replace_server", "-i", "nodes.yml", "-e", "replace_server_name=metl2"),
        ("replace_server_name: metl2 is not a virt host. Did you mean metal2?",),
    ),
    "VM to create with empty disks": (
        ("replace_server", "-i", "nodes.yml", "-e", "replace_server_name=metal1", "-e", "replace_server_recreate=x"),
        ("replace_server_recreate: 'x' is not a VM of metal1. Use some of c1.",),
    ),
    "controller to remove": (
        ("remove_controller", "-i", "nodes.yml", "-e", "remove_controller_name=metl2"),
        ("remove_controller_name: no host or group of the inventory is named metl2. Did you mean metal2?",),
    ),
    "host without a service": (
        ("remove_controller", "-i", "nodes.yml", "-e", "remove_controller_name=metal2"),
        ("remove_controller_name: metal2 is neither a controller nor a witness. Use one of c1, before it is removed from the inventory.",),
    ),
    "removal of a controller without the others": (
        ("remove_controller", "-i", "nodes.yml", "--limit", "metal1", "-e", "remove_controller_name=c1"),
        ("--limit: c1 is excluded, but the removal configures all members. Run it without --limit (in AWX: Limit).",),
    ),
    "component to deploy": (
        ("deploy_controllers", "-i", "nodes.yml", "-e", "deploy_controllers_components=galra"),
        ("components[0]: unknown service 'galra'. Did you mean galera?",),
    ),
    "component to restart": (
        ("rolling_restart", "-i", "nodes.yml", "-e", "rolling_restart_components=galra"),
        ("components[0]: unknown component 'galra'. Did you mean galera?",),
    ),
    "profile": (("plan_placement", "-i", "nodes.yml", *NO_PLAN, "-e", "plan_placement_profile=redced"), ("got: redced",)),
    "VMs to plan": (
        ("plan_placement", "-i", "nodes.yml", *NO_PLAN, "-e", '{"plan_placement_vms": {"id": "x"}}'),
        ("vms: is a mapping, not a list. Use a list of VM details, also for a single VM.",),
    ),
    "host of a VM": (
        ("plan_placement", "-i", "nodes.yml", *NO_PLAN, "-e", '{"plan_placement_vms": [{"id": "x", "host": "metl2"}]}'),
        ("vms[0].host: 'metl2' is not a server of this plan. Did you mean metal2?",),
    ),
    "format of the settings": (
        ("config_dump", "-i", "nodes.yml", "-e", "config_dump_format=yml"),
        ("value of config_dump_format must be one of: yaml, json, got: yml.",),
    ),
    "host to export": (
        ("export_metal", "-i", "nodes.yml", "-e", "export_metal_hosts=metl2"),
        ("export_metal_hosts[0]: the inventory has no host metl2. Did you mean metal2?",),
    ),
    "export without a host that can be exported": (
        ("export_metal", "-i", "nodes.yml", "-e", '{"export_metal_hosts": ["metal1", "metal2"]}'),
        ("export_metal_hosts: no host can be exported (metal1, metal2: no bmc is set). Add bmc to servers",),
    ),
    "account of an export": (
        ("export_metal", "-i", "emulated/nodes.yml", "-e", "export_metal_account=oprator"),
        ("export_metal_account: metal1 has no account oprator. Use one of operator.",),
    ),
    "secret of a management controller": (
        ("export_metal", "-i", "metal/nodes.yml"),
        ("/.secrets/blue/bmc/metal3.txt: does not exist. Write the password of the BMC of metal3 into it; only its owner may read it.",),
    ),
    **{
        f"{name} before the deployment": (
            (name, "-i", "nodes.yml", "-e", "load_balancer_virtual_address=127.0.0.13"),
            ("keystone_ca: ", "/.secrets/blue/tls/ca.txt does not exist on the control node. The playbook deploy_controllers creates it: run it first."),
        )
        for name in ("cloud_bootstrap", "verify_cloud")
    },
    **{
        f"{name} without hosts": (
            (name, "-i", "empty/hosts.ini"),
            ("the inventory has no host (sources: ", "empty/hosts.ini). Give the path of the inventory with -i"),
        )
        for name in ("status", "site", "remove_virt_node")
    },
}
#: Runs that succeed → parts of the output.
GOOD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "plan": (
        ("plan_placement", "-i", "../nodes.yml", *NO_PLAN, "-e", "plan_placement_svg=plan.svg", "-e", "master_migrate_temporary_address=192.0.2.9"),
        ("caller/plan.svg", "all 2 VMs have a server", "listed on this server", "+ master"),
    ),
    "settings": (("config_dump", "-i", "../nodes.yml", "-e", "config_dump_file=settings.yml"), ("The settings are in ", "caller/settings.yml")),
}


class Done(t.NamedTuple):
    """The exit code and the output of a run."""

    code: int
    text: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The inventories."""
    made = tmp_path_factory.mktemp("playbooks")
    for name, text in FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text, "utf-8")
    return made


@pytest.fixture(scope="module")
def runs(folder: pathlib.Path) -> dict[str, Done]:
    """All runs, two at a time."""

    def run(arguments: tuple[str, ...], where: pathlib.Path) -> Done:
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "1000",
        }
        done = ansible_playbook(f"reduced.footprint.{arguments[0]}", *arguments[1:], cwd=where, env=env, merged=True)
        return Done(done.returncode, done.stdout)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = {name: pool.submit(run, arguments, folder) for name, (arguments, unused) in RUNS.items()}
        asked.update({name: pool.submit(run, arguments, folder / "caller") for name, (arguments, unused) in GOOD.items()})
        return {name: future.result() for name, future in asked.items()}


@pytest.mark.parametrize("name", RUNS)
def test_slip_ends_the_run_with_one_message(runs: dict[str, Done], name: str) -> None:
    code, text = runs[name]
    assert code != 0, text
    errors = [line for line in text.splitlines() if line.startswith("[ERROR]")]
    assert len(errors) == 1, text
    for words in RUNS[name][1]:
        assert words in text[text.index("[ERROR]") :], text
    assert not [words for words in NOISE if words in text], text
    # nothing was asked of a host
    assert "UNREACHABLE" not in text


@pytest.mark.parametrize("name", GOOD)
def test_relative_paths_are_those_of_the_caller(runs: dict[str, Done], folder: pathlib.Path, name: str) -> None:
    code, text = runs[name]
    assert code == 0, text
    for words in GOOD[name][1]:
        assert words in text
    file = re.search(r"/[^ \"]*/caller/[a-z.]+[a-z]", text)
    assert file and pathlib.Path(file.group()).is_file() and pathlib.Path(file.group()).parent.samefile(folder / "caller")


def checked(path: pathlib.Path) -> bool:
    """Whether the hosts of the first play come from the lookup that fails without hosts."""
    first = yaml.safe_load(path.read_text("utf-8"))[0]
    if "ansible.builtin.import_playbook" in first:
        return checked(path.parent / f"{first['ansible.builtin.import_playbook'].rpartition('.')[2]}.yml")
    return "lookup('reduced.footprint.hosts'" in first["hosts"]


@pytest.mark.parametrize("path", [path for path in PLAYBOOKS if path.stem != "init"], ids=lambda path: path.stem)
def test_every_playbook_checks_the_inventory_first(path: pathlib.Path) -> None:
    assert checked(path)


def test_results_of_tasks_are_known_variables() -> None:
    """A result that is registered under the name of a role must not look like a misspelt variable of the next playbook."""
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names, run_names

    known = run_names.known_variables()
    found = {}
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]:
        text = path.read_text("utf-8")
        names = re.findall(r"register: (\w+)", text) + re.findall(r"set_fact:\n\s+(\w+):", text)
        found.update({name: path.name for name in names if plan_names.unknown_variable(name, known)})
    assert found == {}


def test_known_variables_are_those_of_the_argument_specifications() -> None:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_names

    known = run_names.known_variables()
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        role = path.parts[-3]
        for spec in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            assert role == "packages" or set(spec.get("options", {})) <= set(known[role])
