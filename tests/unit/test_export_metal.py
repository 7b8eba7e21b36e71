# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that export_metal writes, as their readers parse them: the playbook on an inventory whose servers are never contacted."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import typing as t

import pytest
import yaml

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODES = """
plugin: reduced.footprint.nodes
cluster: blue
servers:
  metal1:
    ansible_host: 127.0.0.9
    roles: [virt]
    vms:
      - {id: c1, ram: 4, cpu: 2, roles: [controller], disks: [{size: 40GiB}], nics: [{bridge: br-admin}]}
      - {id: box, ram: 1, hypervisor: lxc}
  metal2:
    ansible_host: 127.0.0.10
    roles: [virt]
    node_capacity: {memory: 8, cpus: 4}
    bmc: {address: 127.0.0.20, user: admin, secret: bmc/metal2, boot_mac: "52:54:00:AA:00:01"}
"""
#: Characters that a careless writer of YAML or JSON breaks.
SECRETS = {"bmc/metal2": "1: {\"#'%", "redfish/operator": "yes"}
FORMATS = {"ironic": "ironic.yaml", "metal3": "metal3.yaml", "maas": "maas.json", "foreman": "foreman.yaml"}
EXPORTED = {"metal2": "bmc/metal2", "c1": "redfish/operator"}


class Export(t.NamedTuple):
    """The output of each run, and the text of each file."""

    outputs: dict[str, str]
    files: dict[str, str]
    folder: pathlib.Path


def run(made: pathlib.Path, *more: str, code: int = 0) -> str:
    """Return the output of the playbook in a folder with an inventory."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
        "ANSIBLE_HOME": str(made / "home"),
        "ANSIBLE_CONFIG": str(made / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    done = ansible_playbook("reduced.footprint.export_metal", "-i", "nodes.yml", *more, cwd=made, env=env, merged=True)
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture(scope="module", name="export")
def fixture_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The playbook in check mode, for real, and once more."""
    made = tmp_path_factory.mktemp("export")
    (made / "nodes.yml").write_text(NODES, "utf-8")
    (made / "ansible.cfg").touch()
    for name, password in SECRETS.items():
        path = made / ".secrets" / "blue" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{password}\n", "utf-8")
        path.chmod(0o600)
    outputs = {}
    for name, more in (("check", ["--check"]), ("first", []), ("second", ["--diff"])):
        outputs[name] = run(made, *more, "-e", "export_metal_domain=example.org")
        assert name != "check" or not (made / ".export").exists()
    return Export(outputs, {form: (made / ".export" / file).read_text("utf-8") for form, file in FORMATS.items()}, made / ".export")


def test_check_mode_reports_the_files_and_a_second_run_changes_nothing(export: Export) -> None:
    recaps = {name: next(line for line in text.splitlines() if "ok=" in line) for name, text in export.outputs.items()}
    assert "changed=2" in recaps["check"] and "changed=2" in recaps["first"] and "changed=0" in recaps["second"], recaps


def test_passwords_are_in_private_files_only(export: Export) -> None:
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in export.folder.iterdir()} == dict.fromkeys(FORMATS.values(), 0o600)
    assert stat.S_IMODE(export.folder.stat().st_mode) == 0o700
    assert not [name for name, text in export.outputs.items() if SECRETS["bmc/metal2"] in text]


def test_what_is_not_exported_is_shown_with_the_reason(export: Export) -> None:
    text = export.outputs["second"]
    assert "no bmc is set" in text and "a container cannot boot what a deployer provides" in text, text


def test_formats_as_text_and_an_empty_account_are_those_of_a_survey(export: Export, tmp_path: pathlib.Path) -> None:
    run(export.folder.parent, "-e", "export_metal_formats=maas,metal3", "-e", "export_metal_account=", "-e", f"export_metal_directory={tmp_path}/files")
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "files").iterdir()} == {FORMATS[form]: export.files[form] for form in ("maas", "metal3")}


def test_metal3_is_a_document_for_each_object(export: Export) -> None:
    text = export.files["metal3"]
    documents = list(yaml.safe_load_all(text))
    assert [one["kind"] for one in documents] == ["Secret", "BareMetalHost"] * 2
    # every document starts with its marker on a line of its own
    assert text.splitlines().count("---") == len(documents) and "\\n" not in text
    secrets = {one["metadata"]["name"]: one["stringData"]["password"] for one in documents if one["kind"] == "Secret"}
    assert secrets == {f"{name}-bmc": SECRETS[secret] for name, secret in EXPORTED.items()}
    assert {one["spec"]["bmc"]["credentialsName"] for one in documents if one["kind"] == "BareMetalHost"} == set(secrets)


def test_the_other_formats_parse_and_name_the_same_machines(export: Export) -> None:
    nodes = yaml.safe_load(export.files["ironic"])["nodes"]
    assert {one["name"]: one["driver_info"]["redfish_password"] for one in nodes} == {name: SECRETS[secret] for name, secret in EXPORTED.items()}
    machines = json.loads(export.files["maas"])
    assert {one["hostname"]: one["power_parameters"]["power_pass"] for one in machines} == {name: SECRETS[secret] for name, secret in EXPORTED.items()}
    hosts = yaml.safe_load(export.files["foreman"])
    assert {one["name"] for one in hosts} == {f"{name}.example.org" for name in EXPORTED} and isinstance(hosts, list)


def test_foreman_is_left_out_without_a_domain_and_refused_if_it_is_asked_for(export: Export, tmp_path: pathlib.Path) -> None:
    for folder, more, code in (("all", [], 0), ("asked", ["-e", "export_metal_formats=maas,foreman"], 2)):
        output = run(export.folder.parent, "-e", f"export_metal_directory={tmp_path}/{folder}", *more, code=code)
        written = {path.name for path in (tmp_path / folder).glob("*")}
        assert written == (set() if code else set(FORMATS.values()) - {"foreman.yaml"})
        assert ("export_metal_domain: Foreman requires a domain for metal2" in " ".join(output.split())) == bool(code), output
