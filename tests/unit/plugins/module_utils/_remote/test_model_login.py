# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each reason for which root's ssh sessions fail is named, from what ssh, shells and ``sshd -T`` of OpenSSH 9.2 say."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_login import hint, shell_causes, sshd_causes

# the settings of a Debian without changes
DEFAULTS = """port 22
permitrootlogin without-password
pubkeyauthentication yes
authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2
authenticationmethods any
forcecommand none
"""


def causes(text="", addresses=("192.0.2.11",), groups=("root",), links=None):
    changed = {line.split(" ")[0] for line in text.splitlines()}
    kept = "".join(line for line in DEFAULTS.splitlines(keepends=True) if line.split(" ")[0] not in changed)
    return sshd_causes(kept + text, addresses, groups, lambda path: (links or {}).get(path, path))


def test_default_settings_permit_a_key():
    assert causes() == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("authorizedkeysfile /etc/ssh/keys/%u\n", "AuthorizedKeysFile /etc/ssh/keys/%u"),
        ("authorizedkeysfile none\n", "AuthorizedKeysFile none"),
        ("allowusers admin\n", "AllowUsers admin"),
        ("allowusers admin\nallowusers root@198.51.100.0/24\n", "AllowUsers admin root@198.51.100.0/24"),
        ("allowusers !root\nallowusers *\n", "AllowUsers !root *"),
        ("denyusers ro*\n", "DenyUsers ro*"),
        ("denyusers root@192.0.2.*\n", "DenyUsers root@192.0.2.*"),
        ("allowgroups ssh wheel\n", "AllowGroups ssh wheel"),
        ("denygroups root\n", "DenyGroups root"),
        ("permitrootlogin no\n", "PermitRootLogin no"),
        ("pubkeyauthentication no\n", "PubkeyAuthentication no"),
        ("authenticationmethods publickey,keyboard-interactive\n", "AuthenticationMethods publickey,keyboard-interactive"),
        ("forcecommand internal-sftp\n", "ForceCommand internal-sftp"),
    ],
)
def test_each_setting_that_refuses_the_key_is_named_alone(text, named):
    ((message, fix),) = causes(text)
    assert message == f"sshd on this machine has {named} for root." and "sshd_config" in fix


@pytest.mark.parametrize(
    "text",
    [
        "authorizedkeysfile /etc/ssh/keys/%u .ssh/authorized_keys\n",
        "authorizedkeysfile %h/.ssh/authorized_keys\n",
        "authorizedkeysfile /%u/.ssh/authorized_keys\n",
        "authorizedkeysfile /etc/ssh/keys/%u\n",
        "allowusers admin\nallowusers root@192.0.2.0/24\n",
        "allowusers root@192.0.2.1?\n",
        "allowusers root@*.example.org\n",
        "denyusers admin root@198.51.100.7\n",
        "allowgroups admin root\n",
        "permitrootlogin forced-commands-only\n",
        "authenticationmethods password publickey\n",
    ],
)
def test_settings_that_permit_it_are_not(text):
    assert causes(text, links={"/etc/ssh/keys/root": "/root/.ssh/authorized_keys"}) == []


def test_all_causes_are_named_together():
    assert len(causes("authorizedkeysfile /etc/ssh/keys/%u\nallowusers admin\npermitrootlogin no\n")) == 3


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("root@192.0.2.2: Permission denied (publickey).", "AllowUsers"),
        ("root@192.0.2.2: Permission denied (publickey,password).", "AuthorizedKeysFile"),
        ("Host key verification failed.", "Another machine answers at 192.0.2.2"),
        ("protocol version mismatch -- is your shell clean?\n(see the rsync manpage for an explanation)", "prints text"),
        ("open terminal failed: not a terminal", "tmux"),
        ("This account is currently not available.", "chsh"),
        ("fish: command substitutions not allowed here\ntest -s", "chsh"),
        ("PYTHONPATH=/var/lib/x.zip: Command not found.", "chsh"),
    ],
)
def test_an_error_of_a_session_has_its_own_hint(text, named):
    assert named in hint(text, "192.0.2.2")


@pytest.mark.parametrize("text", ["", "No route to host", "rsync: opendir /x failed: Permission denied (13)", "No module named x"])
def test_other_errors_have_none(text):
    assert hint(text, "192.0.2.2") is None


def test_a_login_shell_must_print_the_output_of_a_command_only():
    assert shell_causes("/bin/bash", "mark", "mark\n", "mesg: ttyname failed") == []
    ((message, fix),) = shell_causes("/bin/bash", "mark", "Welcome to laptop!\n\nmark\n", "")
    assert message == "Root's login prints text before the output of a command: 'Welcome to laptop!'." and ".bashrc" in fix
    ((message, fix),) = shell_causes("/usr/bin/tmux", "mark", "", "open terminal failed: not a terminal\n")
    assert message == "Root's login shell /usr/bin/tmux does not run commands: open terminal failed: not a terminal." and "chsh" in fix
    assert "no output" in shell_causes("/bin/false", "mark", "", "")[0][0]
