# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of every role, with a canary in every secret option and several in free settings.

Each role is a copy with its own variables, templates and files, whose only task writes its configuration.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import yaml

from tests.support.canary import Canaries

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPECS = {path.parts[-3]: yaml.safe_load(path.read_text("utf-8"))["argument_specs"] for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))}
OPTIONS = {role: {name: option for entry in spec.values() for name, option in (entry.get("options") or {}).items()} for role, spec in SPECS.items()}
CLOUD = ("cinder", "cinder_volume", "glance", "horizon", "neutron", "nova", "placement")
#: Role → its files.
FILES = {
    "compute": "__compute_files",
    "galera": "__galera_config_files + __galera_tls_contents",
    "keystone": "__keystone_cache_files + __keystone_config_files",
    "load_balancer": "[{'path': '/etc/haproxy/edge.pem', 'content': load_balancer_private_key, 'secret': true}]",
    "openstack_service": "__openstack_service_files",
    "ovn_chassis": "__ovn_chassis_metadata_files",
    "rabbitmq": "__rabbitmq_files + __rabbitmq_tls_contents[:1]",
}
#: What the roles determine on real servers before they write files.
FOUND = {
    **dict.fromkeys(("__compute_rabbitmq_tls", "__compute_broker_tls", "__keystone_database_tls", "__openstack_service_database_tls"), False),
    **dict.fromkeys(("__galera_tls_made", "__neutron_ovn_made"), {"key": "k", "certificate": "c", "ca": "a"}),
    **dict.fromkeys(("__rabbitmq_tls", "__rabbitmq_internode", "__galera_tls", "__rabbitmq_votes_only"), False),
    "__compute_base_settings": {"DEFAULT": {"host": "c1"}},
    "load_balancer_virtual_address": "192.0.2.9",
    "openstack_service_ca": "",
}
#: An action plugin: it writes the files of a role below a folder.
_WRITE_BELOW = """
import pathlib
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        for file in self._task.args['files']:
            path = pathlib.Path(self._task.args['folder'] + file['path'])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(file.get('content') or ''), 'utf-8')
        return {'changed': False}
"""


def is_secret(option: t.Mapping[str, t.Any]) -> bool:
    return bool(option.get("no_log")) or any(map(is_secret, (option.get("options") or {}).values()))


def free(canaries: Canaries, name: str, sections: bool) -> dict[str, t.Any]:
    """Return free settings: a secret for its name, two for their formats, one for its repetition, one for its variable, and one that is none."""
    taken = canaries(f"{name} password")
    settings = {"password": taken, "s3_store_secret_key": canaries(f"{name} S3"), "bindpw": canaries(f"{name} pw")}
    settings |= {"url": f"ldap://cn:{canaries(f'{name} URL')}@192.0.2.1", "remark": f"not {taken}", "note": "{{ shop_db_pwd }}"}
    settings["workers_remark"] = f"shown-{name}"
    return {"extra": settings} if sections else settings


def configure(
    tmp_path: pathlib.Path, canaries: Canaries, tool: str, write: t.Callable[[str], dict[str, t.Any]], *arguments: str
) -> tuple[dict[str, t.Any], str]:
    """Run the roles; returns the variables and the output.

    :arg tool: ``ansible-playbook``.
    :arg write: an expression for files → the task that writes them, for example with ``write_below``.
    """
    given: dict[str, t.Any] = dict(FOUND)
    roles = tmp_path / "roles"
    for role, options in OPTIONS.items():
        for name, option in options.items():
            if name.endswith("settings") and option.get("type") == "dict":
                given[name] = free(canaries, name, role not in ("galera", "rabbitmq"))
            elif is_secret(option) and option.get("type", "str") == "str":
                given[name] = canaries(name)
    given["shop_db_pwd"] = canaries("variable")
    ceph = {"type": "rbd", "monitors": ["192.0.2.31"], "pool": "volumes", "user": "cinder", "key": canaries("Ceph")}
    given["cinder_volume_backends"] = {"ceph": ceph}
    missing = {role for role, options in OPTIONS.items() if any(name in given for name in options)} - {*FILES, *CLOUD}
    assert not missing, "these roles have secrets that are not swept"
    tasks = {role: write(files) for role, files in FILES.items()}
    called = {"ansible.builtin.include_role": {"name": "openstack_service"}}
    tasks |= {role: {**called, "vars": {"openstack_service_definition": f"{{{{ __{role}_service }}}}"}} for role in CLOUD}
    for role, task in tasks.items():
        (roles / role / "tasks").mkdir(parents=True)
        loads = [{"name": "Load", "ansible.builtin.include_vars": str(file)} for file in ROOT.glob(f"roles/{role}/vars/Debian*.yml")]
        (roles / role / "tasks" / "main.yml").write_text(json.dumps([*loads, {"name": f"Configure {role}", **task}]), encoding="utf-8")
        for folder in ("defaults", "files", "templates", "vars"):
            if (ROOT / "roles" / role / folder).exists():
                (roles / role / folder).symlink_to(ROOT / "roles" / role / folder)
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins" / "write_below.py").write_text(_WRITE_BELOW, encoding="utf-8")
    calls = [{"name": f"Sweep {role}", "ansible.builtin.include_role": {"name": role}} for role in tasks if role != "openstack_service"]
    play = [{"hosts": "localhost", "gather_facts": True, "gather_subset": ["min", "network"], "ignore_errors": True, "tasks": calls}]
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "play.yml").write_text(json.dumps(play), encoding="utf-8")
    (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
    local = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3", "ansible_host": "192.0.2.1"}
    groups = {name: {"hosts": {"localhost": None}} for name in ("controller", "compute", "galera", "rabbitmq", "keystone", "virt")}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"localhost": local}, "children": groups}}), encoding="utf-8")
    env = {**os.environ, "HOME": str(tmp_path), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_NOCOLOR": "1"}
    # otherwise newer versions do not show the parameters
    env |= {"ANSIBLE_INJECT_INVOCATION": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_PIPELINING": "1", "ANSIBLE_ROLES_PATH": str(roles)}
    env |= {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local")}
    argv = [tool, "-i", "hosts.yml", "play.yml", *arguments, "-e", "@given.json"]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    output = done.stdout + done.stderr
    (tmp_path / "output").write_text(output)
    assert "ignored=0" in output and done.returncode == 0, output[-3000:]
    return given, output
