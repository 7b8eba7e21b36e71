# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A member is probed and joins its cluster, with a simulated server."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import MemberRequest, ensure, look

A = "aaaaaaaa-0000-11ef-8000-000000000001"
ZERO = "00000000-0000-0000-0000-000000000000"
SYNCED = {
    "wsrep_on": "ON",
    "wsrep_cluster_status": "Primary",
    "wsrep_connected": "ON",
    "wsrep_ready": "ON",
    "wsrep_local_state_comment": "Synced",
    "wsrep_cluster_state_uuid": A,
    "wsrep_local_state_uuid": A,
    "wsrep_last_committed": "17",
    "wsrep_cluster_size": "3",
    "wsrep_cluster_conf_id": "7",
    "wsrep_gcomm_uuid": "n2",
}
ALONE = {**SYNCED, "wsrep_cluster_status": "non-Primary", "wsrep_ready": "OFF", "wsrep_local_state_comment": "Initialized"}


class Server:
    """Remembers what was done to it and gets ready by any of the verbs."""

    def __init__(self, status=None, unit="inactive", note=None, recovered=None, files=0.0, started="@100", heals=True, databases=(), upgrades=0, copying=False):
        self.now, self.unit, self.note, self.recovered, self.files, self.started = status, unit, note, recovered, files, started
        self.asked, self.answers = 0, [{}]
        self.heals, self.there, self.upgrades, self.copying, self.done = heals, databases, upgrades, copying, []

    def installed(self):
        return True

    def status(self):
        return self.now

    def unit_state(self):
        return {"ActiveState": self.unit, "MainPID": "7" if self.unit in ("active", "activating") else "0", "ExecMainStartTimestamp": self.started}

    def clients(self):
        return 4

    def provider(self):
        return "26.4.23(rabc)", "gcache.size = 128M; socket.ssl = YES; socket.dynamic = no", "blue"

    def written_options(self):
        return "socket.ssl=YES"

    def certificate_names(self):
        return "c1", "192.0.2.20"

    def view(self):
        return "n1", "n2", "n3"

    def grastate(self):
        return self.note

    def saved_view(self):
        return ""

    def guard_record(self):
        return ""

    def databases(self):
        return self.there

    def receiving(self):
        return self.copying

    def aside(self):
        return ("/var/lib/mysql.before-x",) if not self.there else ()

    def recover_position(self):
        self.done.append("recover")
        return self.recovered

    def started_at_position(self, pid):
        return self.recovered

    def newest(self, paths):
        return self.files if paths else 0.0

    def upgrading(self):
        self.upgrades -= 1
        return self.upgrades >= 0

    def others(self):
        self.asked += 1
        self.answers = self.answers[-1:] if len(self.answers) == 1 else self.answers[1:]
        return "n2", self.answers[0]

    def last_log_lines(self):
        return "I could not"

    def _verb(self, name):
        self.done.append(name)
        if name == "stop":
            self.unit, self.now = "inactive", None
        elif self.heals:
            self.unit, self.now = "active", SYNCED


for verb in ("start", "restart", "stop", "bootstrap", "reform", "allow_bootstrap"):
    setattr(Server, verb, lambda self, *unused, verb=verb: self._verb(verb))


def run(server, state="present", check_mode=False, **more):
    return ensure(MemberRequest(state=state, wait_timeout=2, **more), server, check_mode=check_mode, sleep=lambda unused: None)


def test_a_ready_member_is_left_alone():
    server = Server(SYNCED, "active", {"uuid": A, "seqno": "-1"})
    assert not run(server, uuid=A, config_files=("x",)).changed
    assert not run(server, "bootstrapped").changed
    assert server.done == []


@pytest.mark.parametrize(
    ("server", "state", "actions", "done"),
    [
        (Server(), "present", ("start",), ["start"]),
        (Server(None, "failed"), "present", ("start",), ["start"]),
        (Server({"wsrep_on": "OFF"}, "active"), "present", ("restart",), ["restart"]),
        (Server(SYNCED, "active", files=101.0), "present", ("restart",), ["restart"]),
        # the last member to leave must start the cluster again
        (Server({**SYNCED, "wsrep_cluster_size": "1"}, "active", files=101.0), "present", ("bootstrap",), ["stop", "allow_bootstrap", "bootstrap"]),
        (Server(), "bootstrapped", ("bootstrap",), ["allow_bootstrap", "bootstrap"]),
        (Server(None, "activating"), "bootstrapped", ("bootstrap",), ["stop", "allow_bootstrap", "bootstrap"]),
        (Server({"wsrep_on": "OFF"}, "active"), "bootstrapped", ("bootstrap",), ["stop", "allow_bootstrap", "bootstrap"]),
        (Server(ALONE, "active"), "bootstrapped", ("reform",), ["reform"]),
    ],
)
def test_verbs(server, state, actions, done):
    wanted = run(server, state, check_mode=True, config_files=("x",))
    assert (wanted.changed, wanted.actions, server.done) == (True, actions, [])
    result = run(server, state, config_files=("x",))
    assert (result.changed, result.actions, server.done) == (True, actions, done)
    assert result.after["ready"]


def test_one_that_waits_for_its_peers_is_not_disturbed():
    server = Server(None, "activating", heals=False)
    with pytest.raises(BackendError, match="not ready after 2 s: its server does not answer yet. Last log lines: I could not"):
        run(server)
    assert server.done == []


def test_a_foreign_member_is_refused():
    server = Server({**SYNCED, "wsrep_local_state_uuid": A}, "active")
    with pytest.raises(RefusedError, match=f"belongs to the cluster {A}, not to other"):
        run(server, uuid="other")


def test_look():
    facts = look(Server(SYNCED, "active", {"uuid": A, "seqno": "-1"}))
    assert (facts["ready"], facts["cluster_uuid"], facts["seqno"], facts["size"], facts["clients"]) == (True, A, 17, 3, 4)
    assert (facts["tls"], facts["tls_both"], facts["cluster_name"]) == ("on", True, "blue")
    facts = look(Server(None, "inactive", {"uuid": A, "seqno": "9", "safe_to_bootstrap": "1"}))
    assert (facts["running"], facts["cluster_uuid"], facts["seqno"], facts["safe_to_bootstrap"]) == (False, A, 9, True)
    assert (facts["tls"], facts["tls_both"], facts["clients"]) == (None, None, 0)
    # after a power loss only the database itself knows
    assert look(Server(None, "failed", {"uuid": A, "seqno": "-1"}, recovered=(A, 12)))["seqno"] == 12
    assert look(Server(None, "failed", {"uuid": A, "seqno": "-1"}))["seqno"] == -1
    assert look(Server(None, "activating", {"uuid": A, "seqno": "-1"}, recovered=(A, 13)))["seqno"] == 13
    # a copy that is being received has zeros too, but its server answers only afterwards
    joining = {**SYNCED, "wsrep_local_state_uuid": ZERO, "wsrep_last_committed": "0"}
    facts = look(Server(joining, "active", {"uuid": ZERO, "seqno": "-1"}, databases=("shop",)))
    assert (facts["cluster_uuid"], facts["databases"]) == (None, [])
    facts = look(Server(None, "inactive", {"uuid": ZERO, "seqno": "-1"}, databases=("shop",), copying=True))
    assert (facts["cluster_uuid"], facts["databases"]) == (None, [])
    assert look(Server(None, "inactive", None))["aside"] == ["/var/lib/mysql.before-x"]


@pytest.mark.parametrize("note", [None, {}, {"uuid": ZERO, "seqno": "-1"}, {"uuid": A, "seqno": "9"}])
def test_databases_on_disk_are_listed_whatever_the_saved_position(note):
    facts = look(Server(None, "inactive", note, recovered=(ZERO, -1), databases=("keystone",)))
    assert facts["databases"] == ["keystone"]
    assert facts["cluster_uuid"] == (A if note and note["uuid"] == A else None)


def test_databases_of_a_running_member_are_listed():
    assert look(Server(SYNCED, "active", {"uuid": A, "seqno": "-1"}, databases=("keystone",)))["databases"] == ["keystone"]


def test_a_member_gets_time_to_heal():
    server, slept = Server(ALONE, "active"), []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            server.now = SYNCED

    assert look(server, wait_timeout=10, sleep=sleep)["ready"]
    assert len(slept) == 3


def test_a_member_is_not_ready_while_its_system_tables_are_rebuilt():
    server = Server(upgrades=2)
    assert run(server).after["ready"]
    assert server.upgrades == -1
    with pytest.raises(BackendError, match="the upgrade check of its system tables is still running"):
        run(Server(upgrades=10))


def test_look_reports_the_component_of_a_member():
    facts = look(Server(SYNCED, "active"))
    assert (facts["configuration"], facts["size"], facts["node"], facts["view"]) == (7, 3, "n2", ["n1", "n2", "n3"])
    facts = look(Server(ALONE, "active"))
    assert (facts["configuration"], facts["node"], facts["view"]) == (-1, None, [])


ISOLATED = {
    "name": "n1", "state": "running", "primary": False, "ready": False, "uuid": A, "position": 12, "joined": True, "isolated": True,
    "view": None, "caught_up": None, "node": None, "names": {}, "failed": None,
}  # fmt: skip
AHEAD, FORMED = {**ISOLATED, "position": 13}, {**ISOLATED, "primary": True, "ready": True}


@pytest.mark.parametrize(
    ("answers", "forced", "why"),
    [
        ([{"n1": ISOLATED}], False, None),
        # its guard is restarted
        ([{}, {}, {"n1": None}, {"n1": ISOLATED}], False, None),
        ([{"n1": AHEAD}], False, r"n1 has the newest data \(position 13\) of n1, n2"),
        ([{"n1": AHEAD}], True, None),
        ([{"n1": None}], False, "n1 may have newer data and does not answer"),
        ([{}], True, None),
        ([{"n1": FORMED}], False, "others are in a Primary Component, or may form one: n1"),
        ([{"n1": FORMED}], True, "others are in a Primary Component, or may form one: n1"),
    ],
)
def test_the_others_confirm_a_start(answers, forced, why):
    server = Server(None, "failed", {"uuid": A, "seqno": "-1"}, recovered=(A, 12))
    server.answers = [{}, *answers]
    if why:
        with pytest.raises(RefusedError, match=f"this member does not start the cluster: {why}. It was not so when that was decided"):
            run(server, "bootstrapped", confirm=("n1",), forced=forced)
        assert server.asked == 10 and set(server.done) == {"recover"}
    else:
        assert run(server, "bootstrapped", confirm=("n1",), forced=forced).after["ready"]
        assert "bootstrap" in server.done


def test_a_member_that_was_taken_in_meanwhile_starts_no_cluster():
    server = Server(ALONE, "active")
    # its guard was faster
    server.others = lambda: setattr(server, "now", SYNCED) or ("n2", {"n1": FORMED})
    assert run(server, "bootstrapped", confirm=("n1",)).after["ready"]
    assert server.done == []


def test_only_a_forced_start_needs_no_guard():
    def missing():
        raise CommandError(("python3",), 2, "no such file")

    server = Server(None, "failed", {"uuid": A, "seqno": "-1"}, recovered=(A, 12))
    server.others = missing
    with pytest.raises(CommandError):
        run(server, "bootstrapped", confirm=("n1",))
    assert run(server, "bootstrapped", confirm=("n1",), forced=True).after["ready"]
