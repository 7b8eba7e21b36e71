# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The migration of the tables: which exit codes are not errors, and when it is recorded as done."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

MIGRATE = yaml.safe_load((ROOT / "roles/openstack_service/tasks/schema.yml").read_text("utf-8"))
KEYSTONE = yaml.safe_load((ROOT / "roles/keystone/tasks/schema.yml").read_text("utf-8"))
NO_DATABASE = {
    name: yaml.safe_load((ROOT / "roles" / role / "vars/main.yml").read_text("utf-8"))[name]
    for role, name in (("openstack_service", "__openstack_service_no_database"), ("keystone", "__keystone_no_database"))
}
LOST = "(pymysql.err.OperationalError) (2013, 'Lost connection to MySQL server during query')"
NOVA = yaml.safe_load((ROOT / "roles/nova/vars/main.yml").read_text("utf-8"))["__nova_service"]["schema"]


def migrated(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, codes: dict[str, int], **given: t.Any) -> tuple[int, str, list[str]]:
    """Run the tasks with nova's commands; returns the exit code and output, and the commands that were run.

    :arg codes: command, such as create_cell → its exit code.
    """
    cases = "".join(f"*{name}*) exit {code};; " for name, code in codes.items())
    control = ControlNode(folder)
    control.program(monkeypatch, "runuser", f'echo "$*" >> {folder}/ran\ncase "$*" in {cases} esac')
    commands = [["nova-manage", "api_db", "sync"], ["nova-manage", "cell_v2", "create_cell"]]
    schema = {**NOVA, "commands": commands}
    host = given.pop("host", "metal2")
    variables = {
        "openstack_service_definition": {"name": "nova", "user": "nova", "group": "virt", "units": [], "files": [], "accounts_of": "none", "schema": schema},
        "openstack_service_ca": "", "openstack_service_database_group": "virt", "__packages_there": {"nova-api": "1.0"}, **HERE,
    }  # fmt: skip
    # not the role's own values
    fixed = {"__openstack_service_marker": str(folder / "once/nova.schema"), "__openstack_service_pause": 0, "__openstack_service_files": [], **given}
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.openstack_service", "tasks_from": "deploy"}}
    code, output = control.play([role], host, "-e", json.dumps(fixed), **variables)
    ran = (folder / "ran").read_text("utf-8").splitlines() if (folder / "ran").exists() else []
    return code, output, ran


@pytest.mark.parametrize(
    "codes, good",
    [({}, True), ({"create_cell": 2}, True), ({"create_cell": 1}, False), ({"api_db": 2}, False), ({"api_db": 1}, False)],
    ids=["new", "the cell exists", "create_cell fails", "2 of another command", "api_db fails"],
)
def test_exit_codes(codes: dict[str, int], good: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = migrated(tmp_path, monkeypatch, codes)
    assert (code == 0) == good and len(ran) == 2, output
    # a failed one is repeated by the next run
    assert (tmp_path / "once/nova.schema").exists() == good, output


@pytest.mark.parametrize(("text", "ends", "tries"), [(LOST, True, 3), (LOST, False, 7), ("(pymysql.err.OperationalError) (1050, 'Table exists')", True, 1)])
@pytest.mark.parametrize("service", ["nova", "keystone"])
def test_a_migration_that_lost_the_database_is_repeated(
    service: str, text: str, ends: bool, tries: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = f"$(wc -l < {tmp_path}/ran)"
    script = f'''echo "$*" >> {tmp_path}/ran
[ {int(ends)} = 1 ] && [ {number} -ge 3 ] && exit 0
echo "{text}" >&2
exit 1'''
    control = ControlNode(tmp_path)
    control.program(monkeypatch, "runuser", script)
    tasks = [task for task in (MIGRATE if service == "nova" else KEYSTONE) if task["name"] in ("Migrate the tables", "Migrate the database schema")]
    code, output = control.play(
        tasks, "metal2", openstack_service_definition={"schema": {"commands": [["nova-manage", "api_db", "sync"]]}}, __openstack_service_user="nova",
        __openstack_service_first="metal2", __openstack_service_schema={"changed": True}, __keystone_first="metal2",
        __openstack_service_pause=0, __keystone_pause=0, **NO_DATABASE, **HERE,
    )  # fmt: skip
    assert (code == 0) == (ends and tries > 1), output
    assert len((tmp_path / "ran").read_text("utf-8").splitlines()) == tries, output


def test_a_failed_migration_is_not_recorded_by_the_other_members(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"__openstack_service_marker": str(tmp_path / "{{ inventory_hostname }}/nova.schema")}
    code, output, ran = migrated(tmp_path, monkeypatch, {"api_db": 1}, host="virt", **given)
    assert code != 0 and ran and not (tmp_path / "metal2").exists(), output


@pytest.mark.parametrize("answers", [True, False])
def test_the_tables_of_a_restored_backup_are_migrated_again(answers: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records, folders = tmp_path / "once", [tmp_path / name for name in ("deployment", "second", "restore", "third")]
    for folder in (*folders, records):
        folder.mkdir()
    given = {"__openstack_service_marker": str(records / "lab.nova.schema")}
    assert [len(migrated(folder, monkeypatch, {}, **given)[2]) for folder in folders[:2]] == [2, 0]
    # a one-time step, and another environment
    for name in ("lab.shop.setup", "other.nova.schema"):
        (records / name).write_text("", "utf-8")
    control = ControlNode(folders[2])
    # nothing listens there
    control.more = {"metal1": HERE if answers else {"ansible_host": "127.0.0.1", "ansible_port": 1}, "metal2": HERE}
    variables = {"__galera_once": str(records), "__galera_environment": "lab", "__galera_recorders": ["metal2", "metal1"], "__galera_first": "metal2"}
    tasks = yaml.safe_load((ROOT / "roles/galera/tasks/forget.yml").read_text("utf-8"))
    code, output = control.play(tasks, "metal2", "--check", **variables)
    assert len(list(records.iterdir())) == 3, "check mode"
    code, output = control.play(tasks, "metal2", **variables)
    assert (code == 0) == answers and (answers or "No data was replaced: metal1 does not answer, and may have recorded" in " ".join(output.split())), output
    assert {path.name for path in records.iterdir()} == {"lab.shop.setup", "other.nova.schema", *([] if answers else ["lab.nova.schema"])}
    assert len(migrated(folders[3], monkeypatch, {}, **given)[2]) == (2 if answers else 0)


@pytest.mark.parametrize(("asides", "forgotten"), [((False, False), True), ((True, False), True), ((True, True), False)])
def test_the_records_are_removed_before_the_data_and_not_again_afterwards(asides: tuple[bool, bool], forgotten: bool, tmp_path: pathlib.Path) -> None:
    restore = yaml.safe_load((ROOT / "roles/galera/tasks/restore.yml").read_text("utf-8"))
    names = [task["name"] for task in restore]
    number = names.index("Forget which tables were migrated")
    # after a kill in between, the tables are migrated although they are new, which changes nothing
    assert names[number + 1].startswith("Replace the data on one member")
    (tmp_path / "forget.yml").write_text("[{debug: {msg: records are removed}}]", "utf-8")
    control = ControlNode(tmp_path)
    found = [{"results": [{"stat": {"exists": aside}}, {"stat": {"exists": True}}]} for aside in asides]
    before = {"ansible.builtin.set_fact": {"__galera_found_aside": "{{ found[['metal1', 'metal2'].index(inventory_hostname)] }}"}}
    code, output = control.play([before, restore[number]], "virt", found=found)
    assert code == 0 and ("records are removed" in output) == forgotten, output
