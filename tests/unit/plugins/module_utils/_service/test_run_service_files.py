# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files are real; systemd is not, since these tests run without it."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import UnitFound
from ansible_collections.reduced.footprint.plugins.module_utils._service.run_service_files import configure, secrets_of, shown_params

ME = {"owner": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}


class Host(ServiceHost):
    """Real files, a made-up systemd; :ivar done: what was asked of it, in order."""

    def __init__(self, **unit):
        self.unit = UnitFound(**{"known": True, "active": True, "enabled": True, "started": 1.0, "settled": 1.0, **unit})
        self.done = []

    def units(self, names):
        return {name: self.unit for name in names}

    def read_units(self):
        self.done.append("read")

    def order(self, verb, names):
        self.done += [f"{verb} {name}" for name in names]

    def make_folder(self, folder):
        os.makedirs(folder.path, exist_ok=True)


def wish(path, content="new\n", **more):
    unit = {"name": "x.service", "enabled": True, "started": True, "restart_after": [str(path)], "reload_after": [], "act": True}
    return {"files": [{"path": str(path), "content": content, **ME, **more}], "units": [unit]}


def test_written_used_and_then_left_alone(tmp_path):
    path, host = tmp_path / "deep" / "x.cfg", Host()
    first = configure(wish(path), check_mode=False, host=host)
    assert path.read_text(encoding="utf-8") == "new\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert first["changed"] and first["actions"][-1] == "restart x.service" and first["needs"] == {"x.service": "restart"}
    assert host.done == ["restart x.service"]
    again = configure(wish(path), check_mode=False, host=Host(started=9e9, settled=9e9))
    assert (again["changed"], again["actions"], again["needs"]) == (False, [], {"x.service": ""})


def test_check_mode_reports_the_same_and_changes_nothing(tmp_path):
    path, host = tmp_path / "x.cfg", Host()
    predicted = configure(wish(path), check_mode=True, host=host)
    assert not path.exists() and host.done == []
    assert predicted["actions"] == configure(wish(path), check_mode=False, host=host)["actions"]


def test_killed_before_the_restart_it_is_done_by_the_next(tmp_path):
    path = tmp_path / "x.cfg"

    class Killed(Host):
        def order(self, verb, names):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        configure(wish(path), check_mode=False, host=Killed())
    host = Host()
    assert configure(wish(path), check_mode=False, host=host)["actions"] == ["restart x.service"]
    assert host.done == ["restart x.service"]


def test_what_its_program_refuses_is_not_used(tmp_path):
    path = tmp_path / "x.cfg"
    path.write_text("old\n", encoding="utf-8")
    with pytest.raises(BackendError, match="x.cfg: validation of the new content failed: grep ended with exit code 1: no output. Correct") as raised:
        configure(wish(path, validate=["grep", "-q", "old", "%s"]), check_mode=False, host=Host())
    assert raised.value.path == str(path) and path.read_text(encoding="utf-8") == "old\n"
    assert configure(wish(path, validate=["grep", "-q", "new", "%s"]), check_mode=False, host=Host())["changed"]


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old\n", encoding="utf-8")
    link.symlink_to(real)
    configure(wish(link), check_mode=False, host=Host())
    assert link.is_symlink() and real.read_text(encoding="utf-8") == "new\n"


def test_secrets_are_hidden(tmp_path):
    path = tmp_path / "x.cfg"
    path.write_text("old password\n", encoding="utf-8")
    asked = wish(path, content="new password\n", secret=True)
    assert "password" not in str(configure(asked, check_mode=True, host=Host()))
    assert "password" not in str(shown_params(asked, secrets_of(asked)))


FREE = "[DEFAULT]\nworkers = 3\nnote = dc=x,pw=c4n4ry9\n[s3]\ns3_store_secret_key = c4n4ry1\n[ldap]\nurl = ldap://cn:c4n4ry2@h\npassword = c4n4ry3\n"


def test_secrets_in_free_settings_are_masked_and_the_rest_is_shown(tmp_path):
    path = tmp_path / "x.conf"
    path.write_text("[DEFAULT]\nworkers = 2\nbackend_note = c4n4ry7\n[ldap]\npassword = c4n4ry7\n", encoding="utf-8")
    asked = wish(path, content=FREE + "suffix = c4n4ry3 and c4n4ry5\n")
    asked["files"].append({**asked["files"][0], "path": str(tmp_path / "y.conf"), "content": "[a]\npassword = c4n4ry5\n", "secret": True})
    result = configure(asked, check_mode=True, host=Host())
    shown = shown_params(asked, secrets_of(asked))
    assert "c4n4ry" not in str(result) + str(shown)
    [difference, *unused] = result["diff"]
    assert "workers = 2" in difference["before"] and "workers = 3" in difference["after"] and "s3_store_secret_key = ********" in difference["after"]
    assert shown["files"][0]["content"] == difference["after"] and shown["files"][1]["content"] == "********"
    assert (shown["units"], shown["files"][0]["path"]) == (asked["units"], str(path))
    assert "c4n4ry3" in asked["files"][0]["content"]


def test_a_changed_secret_is_a_difference(tmp_path):
    path = tmp_path / "x.conf"
    path.write_text("[ldap]\npassword = c4n4ry7\n", encoding="utf-8")
    [difference, *unused] = configure(wish(path, content="[ldap]\npassword = c4n4ry3\n"), check_mode=True, host=Host())["diff"]
    assert difference["before"] != difference["after"] and "c4n4ry" not in str(difference)


def test_a_refusal_shows_no_secret(tmp_path):
    asked = wish(tmp_path / "x.conf", content=FREE, validate=["sh", "-c", "cat $0; exit 1", "%s"])
    with pytest.raises(BackendError) as caught:
        configure(asked, check_mode=False, host=Host())
    assert "c4n4ry" not in str(caught.value.as_result()) and "url = ldap://cn:" in str(caught.value)


def test_unknown_group_is_refused(tmp_path):
    with pytest.raises(BackendError, match="x.cfg: the group no-such-group does not exist on this host. Install"):
        configure(wish(tmp_path / "x.cfg", group="no-such-group"), check_mode=False, host=Host())
    assert not (tmp_path / "x.cfg").exists()


@pytest.mark.parametrize(("section", "key", "value"), [("units", "name", "x.service\n"), ("files", "owner", "root\n"), ("files", "group", "root\n")])
def test_a_name_with_a_newline_at_its_end_is_refused(tmp_path, section, key, value):
    given = wish(tmp_path / "x.cfg")
    given[section][0][key] = value
    with pytest.raises(InputError) as caught:
        configure(given, check_mode=True, host=Host())
    assert caught.value.path == f"{section}[0].{key}"
