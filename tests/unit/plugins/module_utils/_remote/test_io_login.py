# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real login shells with start files as they are found, and a program that stands in for sshd."""

from __future__ import annotations

import pwd

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_login


@pytest.fixture(name="machine")
def fixture_machine(tmp_path, monkeypatch):
    """A machine with the given login shell and start file of root, and output of sshd -T."""

    def make(shell="/bin/bash", bashrc="", said="permitrootlogin without-password\n", code=0):
        (tmp_path / ".bashrc").write_text(bashrc)
        root = pwd.struct_passwd(("root", "x", 0, 0, "", str(tmp_path), shell))
        monkeypatch.setattr(io_login.pwd, "getpwuid", lambda _number: root)
        sshd = tmp_path / "sshd"
        sshd.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/asked\ncat <<'END'\n{said}END\nexit {code}\n")
        sshd.chmod(0o755)
        monkeypatch.setattr(io_login.shutil, "which", lambda _name, path: str(sshd))
        monkeypatch.setattr(io_login.glob, "glob", lambda _pattern: [])
        return tmp_path

    return make


def test_a_usual_machine_is_accepted(machine):
    place = machine(bashrc='case $- in *i*) ;; *) return;; esac\necho Welcome\n')
    assert io_login.check(["127.0.0.2"]) == []
    # with the address to which the sessions come: root may be permitted in a network of its own only
    assert (place / "asked").read_text() == "-T -C user=root,host=127.0.0.2,addr=127.0.0.2,laddr=127.0.0.1\n"
    # not reached from here, or not known
    for addresses, address in ((["255.255.255.255"], "255.255.255.255"), ([], "127.0.0.1")):
        assert io_login.check(addresses) == []
        assert (place / "asked").read_text() == f"-T -C user=root,host={address},addr={address}\n"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"bashrc": "echo Welcome to laptop\n"}, "prints text before the output of a command: 'Welcome to laptop'"),
        ({"bashrc": "echo open terminal failed: not a terminal >&2; exit 1\n"}, "login shell /bin/bash does not run commands: open terminal failed"),
        ({"shell": "/usr/sbin/nologin"}, "login shell /usr/sbin/nologin does not run commands: This account is currently not available"),
        ({"shell": "/usr/bin/no-such-shell"}, "/usr/bin/no-such-shell is not installed"),
        ({"said": "authorizedkeysfile /etc/ssh/keys/%u\n"}, "AuthorizedKeysFile /etc/ssh/keys/%u"),
        ({"said": "allowusers admin\n"}, "AllowUsers admin"),
    ],
)
def test_each_cause_is_named_with_its_hint(machine, given, named):
    machine(**given)
    with pytest.raises(RefusedError) as caught:
        io_login.check(["192.0.2.11"])
    assert named in caught.value.message and caught.value.hint


def test_all_causes_are_named_at_once(machine):
    machine(bashrc="echo Welcome\n", said="allowusers admin\npermitrootlogin no\n")
    with pytest.raises(RefusedError, match="Welcome.*AllowUsers.*PermitRootLogin"):
        io_login.check([])


def test_unknown_settings_are_a_warning(machine, monkeypatch, tmp_path):
    machine(said="", code=255)
    (warning,) = io_login.check([])
    assert "was not checked: " in warning
    other = tmp_path / "cmdline"
    other.write_bytes(b"sshd: /usr/sbin/sshd -D -f /etc/ssh/sshd_admin [listener] 0 of 10-100 startups\0")
    monkeypatch.setattr(io_login.glob, "glob", lambda _pattern: [str(other), str(tmp_path / "gone")])
    (warning,) = io_login.check([])
    assert "another configuration file" in warning
