# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a member start only after those that served last, and restart it when it does not return by itself.

``rabbitmq_guard.py serve``, a service on every member, keeps the groups of members that served, and answers the other members. It restarts a paused
member, which would start with old queues and users as soon as it sees the others; a member that continues to run in a minority after a partition has
ended: one that was suspended for longer than ``net_ticktime`` sees the others again at once and is not paused; and one whose start waits for others that
wait for it: those which let it start have stopped since, or it starts first, and Mnesia asks them for the outcome of a transaction that was in progress.

``rabbitmq_guard.py wait`` runs before the broker starts, and ends when it may start: a member is running, or this member served last and a
majority gave it their votes. The decision is in ``rabbitmq_return``. With Khepri, the Raft metadata store, the broker decides itself.

Members prove with the Erlang cookie that they are members.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import secrets
import socket
import socketserver
import subprocess
import sys
import threading
import time
import typing as t

from rabbitmq_return import First, Saved, add_group, first_member, has_majority

SETTINGS = pathlib.Path("/usr/local/lib/reduced.footprint/rabbitmq_guard.json")
#: Seconds between two looks; between two looks with the tool of RabbitMQ, and those without a majority; before a partitioned member is restarted; for
#: which a vote counts.
PAUSE, TOOL, SOON, HOLD, VOTE = 1.0, 60.0, 5.0, 20.0, 300.0
#: Seconds for an answer, and its maximum size.
ANSWER, SIZE = 3.0, 65536
#: Content of the file that lets the broker start without the others, if this guard wrote it; that of an operator is empty.
OWN = b"guard"
# not the wrapper in /usr/sbin, which logs a session of su each time
CTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
#: Whether the broker is running, and whether it waits for the others after a pause: one that an operator, or the role, has stopped does not.
STATE = "{rabbit:is_running(), is_pid(whereis(rabbit_outside_app_process))}."
RUNNING, PAUSED = "{true,false}", "{false,true}"
#: In a reason that only a person removes: it is logged as an error, which the status reports.
PERSON = re.compile("deploy_controllers|rabbitmq_force_boot")
_NODE = re.compile(r"'?([A-Za-z0-9_-]+@[A-Za-z0-9_.:-]+)'?")


def is_stuck(status: t.Mapping[str, t.Any]) -> bool:
    """Return whether a member is partitioned and runs without a majority.

    :arg status: the output of ``rabbitmqctl cluster_status``. A paused member, and one that is stopped or starts, has no partitions in it.
    """
    members = {*(status.get("disk_nodes") or ()), *(status.get("ram_nodes") or ())}
    running = set(status.get("running_nodes") or ())
    return bool(status.get("partitions")) and 2 * len(running & members) <= len(members)


class Member:
    """The member on this host.

    :arg settings: ``node``, ``unit``, ``home``, ``port``, ``members`` (node to address) and ``witnesses`` (nodes).
    """

    def __init__(self, settings: t.Mapping[str, t.Any]) -> None:
        self.node, self.unit, self.port = str(settings["node"]), str(settings["unit"]), int(settings["port"])
        self.members: dict[str, str] = dict(settings["members"])
        self.witnesses = tuple(settings["witnesses"])
        self.home = pathlib.Path(settings["home"])
        self.data = self.home / "mnesia" / self.node
        # not in the data directory: the broker takes itself for a new one only if that is empty
        self.record, self.force = self.data.with_name(f"{self.node}-served.json"), self.data / "force_load"
        # it was started as the first one, and others have not joined it yet
        self.first = self.data.with_name(f"{self.node}-first")
        # it could not start as the first one, because it does not know the outcome of a transaction; another one that served last may know it
        self.undecided = self.data.with_name(f"{self.node}-undecided")

    def saved(self) -> Saved:
        """Read what is saved on disk; empty without data."""
        known, seen = (tuple(dict.fromkeys(_NODE.findall(text(self.data / name)))) for name in ("cluster_nodes.config", "nodes_running_at_shutdown"))
        try:
            served = tuple(tuple(map(str, group)) for group in json.loads(text(self.record) or "[]"))
        except (TypeError, ValueError):
            served = ()
        return add_group(Saved(known, seen, served))

    def decides(self) -> bool:
        """Return whether the broker decides itself who starts first."""
        return "khepri_db" in text(self.home / "mnesia" / f"{self.node}-feature_flags")

    def keep(self, groups: t.Sequence[t.Sequence[str]] | None = None) -> None:
        """Write the groups durably if they changed."""
        saved = self.saved()
        content = json.dumps(groups or saved.served)
        if (groups or saved.known) and content != text(self.record):
            replace(self.record, content.encode())

    def proof(self, *words: str) -> str:
        """Return a proof that only members can make."""
        return hmac.new((self.home / ".erlang.cookie").read_bytes().strip(), "\0".join(words).encode(), hashlib.sha256).hexdigest()

    def ask(self, node: str, candidate: str = "") -> dict[str, t.Any] | None:
        """Ask the guard of a member for its state; ``None`` if it does not answer.

        :arg candidate: node that requests its vote, or returns it, with a ``-`` before it; empty for neither.
        """
        nonce = secrets.token_hex(16)
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            with socket.create_connection((self.members[node], self.port), ANSWER) as link:
                link.settimeout(ANSWER)
                link.sendall(json.dumps([nonce, candidate, self.proof("ask", nonce, candidate)]).encode() + b"\n")
                body, proof = json.loads(link.makefile("rb").readline(SIZE))
            if hmac.compare_digest(proof, self.proof("answer", nonce, node, body)):
                return dict(json.loads(body))
        return None


def text(path: pathlib.Path) -> str:
    """Return the text of a file, empty if it is missing. Any other error means that nothing is known, and is raised."""
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def replace(path: pathlib.Path, content: bytes) -> None:
    """Replace a file atomically and durably."""
    new = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def saved_of(answer: t.Mapping[str, t.Any] | None) -> Saved | None:
    """Return what a member has saved from its answer; ``None`` if it is invalid."""
    try:
        known, seen, served = (answer or {})["saved"]
        return Saved(tuple(map(str, known)), tuple(map(str, seen)), tuple(tuple(map(str, group)) for group in served))
    except (KeyError, TypeError, ValueError):
        return None


class Guard:
    """The service on a member."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.lock = threading.Lock()
        self.vote, self.voted = "", 0.0
        self.alone = False
        self.looked = self.suspected = self.asked = self.stuck = 0.0

    def active(self) -> bool:
        """Return whether the unit is active: the broker has started, and may be paused since.

        :raises OSError: it is unknown; the others must not take it for stopped.
        """
        done = subprocess.run(["systemctl", "is-active", self.member.unit], capture_output=True, check=False, timeout=30)
        state = done.stdout.strip()
        if not state:
            raise OSError(f"systemctl reports no state of {self.member.unit}: {done.stderr.decode(errors='replace').strip()}")
        return state == b"active"

    def tool(self, *arguments: str) -> str:
        """Return the output of the tool, empty if it fails."""
        done = subprocess.run([CTL, "--quiet", *arguments], capture_output=True, encoding="utf-8", check=False, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def answer(self, candidate: str) -> dict[str, t.Any]:
        """Return the state of this member, and give it a vote if no other member has it."""
        saved = self.member.saved()
        running = self.active() and (self.member.decides() or has_majority(saved) or self.alone)
        with self.lock:
            if time.monotonic() - self.voted > VOTE or candidate == f"-{self.vote}":
                self.vote = ""
            if candidate in self.member.members and self.vote in ("", candidate):
                self.vote, self.voted = candidate, time.monotonic()
            return {"saved": saved, "running": running, "vote": self.vote, "undecided": self.member.undecided.exists()}

    def look(self) -> None:
        """Keep what is known, and restart a member that does not return by itself."""
        self.member.keep()
        saved, now = self.member.saved(), time.monotonic()
        minority = len(saved.known) > 1 and not has_majority(saved)
        self.alone &= minority
        # until the broker has started, its files may show the majority of before
        if not minority and (self.vote or self.member.first.exists() or self.member.undecided.exists()) and self.active():
            self.member.first.unlink(missing_ok=True)
            self.member.undecided.unlink(missing_ok=True)
            with self.lock:
                self.vote = ""
        if now - self.asked > SOON:
            self.asked = now
            self.look_at_start(saved, now)
        if now - self.looked <= (HOLD if self.suspected else SOON if minority else TOOL) or not self.active():
            return
        self.looked, status = now, {} if minority else self.status()
        if not status and not self.member.decides():
            state = self.tool("eval", STATE).strip()
            # one that is partitioned runs alone, too, but others must not start because of it
            self.alone = minority and state == RUNNING and self.member.first.exists()
            if state == PAUSED:
                self.restart("paused: it starts again after a member that served last")
                return
            status = self.status()
        if self.member.decides() and status.get("disk_nodes"):
            # the broker has no file with its members then
            self.member.keep([sorted(status["disk_nodes"])])
        stuck = is_stuck(status)
        if stuck and self.suspected:
            self.restart(f"partitioned in a minority for {HOLD:.0f} s although the others are connected")
        self.suspected = now if stuck and not self.suspected else 0.0

    def look_at_start(self, saved: Saved, now: float) -> None:
        """Restart a broker whose start waits for others that wait for it."""
        why = ""
        if len(saved.known) > 1 and self.starting() and not self.member.decides():
            why = self.unclear() if self.member.first.exists() else self.deserted(saved)
        if why and self.stuck and now - self.stuck > HOLD:
            if self.member.first.exists():
                replace(self.member.undecided, b"")
            self.restart(why)
            why = ""
        self.stuck = (self.stuck or now) if why else 0.0

    def deserted(self, saved: Saved) -> str:
        """Return why this member, which starts after others, waits in vain; empty if it does not."""
        answers = [answer for answer in (self.member.ask(node) for node in saved.known if node != self.member.node) if answer]
        # a majority that answers: the silent ones do not serve without it
        alone = 2 * (len(answers) + 1) > len(saved.known) and not any(answer.get("running") for answer in answers)
        return "it waits for the others, and none of them is running" if alone else ""

    def unclear(self) -> str:
        """Return why this member, which starts first, waits in vain; empty if it does not. The second time it waits for ``max_wait_for_decision``."""
        waits = not self.member.undecided.exists() and self.tool("eval", "mnesia:system_info(is_running).").strip() == "starting"
        return "it starts first, and does not know the outcome of a transaction, which the others may know" if waits else ""

    def starting(self) -> bool:
        """Return whether the broker itself is starting: what runs before it has let it."""
        words = ["systemctl", "show", "--property=ActiveState,SubState", "--value", self.member.unit]
        return subprocess.run(words, capture_output=True, check=False, timeout=30).stdout.split() == [b"activating", b"start"]

    def status(self) -> dict[str, t.Any]:
        """Ask the local member; one that does not answer is not stuck, systemd handles it."""
        try:
            return dict(json.loads(self.tool("--formatter=json", "cluster_status")))
        except (TypeError, ValueError):
            return {}

    def restart(self, why: str) -> None:
        """Restart the member, unless someone is stopping it.

        It is killed: an orderly stop can take half a minute, in which a paused one serves clients again as soon as it sees the others. It does not know
        queues that were declared meanwhile, and confirms messages to them, which are lost.
        """
        print(f"<4>{why}: restarting {self.member.unit}", flush=True)
        if subprocess.run(["systemctl", "restart", "--no-block", "--job-mode=fail", self.member.unit], check=False, timeout=60).returncode == 0:
            subprocess.run(["systemctl", "kill", "--signal=KILL", self.member.unit], check=False, timeout=60)


class Handler(socketserver.StreamRequestHandler):
    """Answers one question of another member."""

    timeout = ANSWER

    def handle(self) -> None:
        guard: Guard = self.server.guard  # type: ignore[attr-defined]
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, subprocess.TimeoutExpired):
            nonce, candidate, proof = json.loads(self.rfile.readline(SIZE))
            if hmac.compare_digest(proof, guard.member.proof("ask", nonce, candidate)):
                body = json.dumps(guard.answer(candidate))
                self.wfile.write(json.dumps([body, guard.member.proof("answer", nonce, guard.member.node, body)]).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """Listens on the address of this member."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        super().__init__((guard.member.members[guard.member.node], guard.member.port), Handler)

    def server_bind(self) -> None:
        """At boot the address may not be there yet."""
        self.socket.setsockopt(0, 15, 1)  # IPPROTO_IP, IP_FREEBIND
        super().server_bind()


def serve(member: Member) -> None:
    """Answer the other members, and look at this one."""
    guard = Guard(member)
    with Server(guard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while True:
            try:
                guard.look()
            except (OSError, subprocess.TimeoutExpired) as error:
                print(f"<4>{error}", flush=True)
            time.sleep(PAUSE)


def may_start(member: Member) -> str:
    """Return why this member must wait, empty if it may start."""
    saved = member.saved()
    member.first.unlink(missing_ok=True)
    if text(member.force).encode() == OWN:
        # from a start that did not succeed: others may have served since
        member.force.unlink()
    if member.decides():
        return forgotten(member, saved)
    if len(saved.known) < 2:
        return ""
    back = f"-{member.node}" if member.undecided.exists() else ""
    answers = {node: member.ask(node, back) for node in {*member.members, *saved.known}}
    answers.pop(member.node, None)
    running = [node for node, answer in answers.items() if answer and answer.get("running")]
    if running:
        member.force.unlink(missing_ok=True)
        views = {node: (saved_of(answers[node]) or saved).seen for node in running}
        seen = {other: node for node in running for other in views[node] if other in answers}
        cut = sorted(other for other in seen if not answers[other])
        if cut:
            # it would pause again at once
            return f"waiting until {', '.join(cut)} can be reached, which {seen[cut[0]]} sees"
        # one that was cut off seems to serve until it notices the end of the others, for net_ticktime; its queues may be old, and it will pause
        return "" if any(set(views[node]) <= set(running) for node in running) else f"waiting until {', '.join(running)} notices which members have stopped"
    if member.force.exists():
        member.first.touch()
        return ""
    undecided = [member.node] * bool(back) + [node for node, answer in answers.items() if answer and answer.get("undecided")]
    found = first_member({**{node: saved_of(answer) for node, answer in answers.items()}, member.node: saved}, member.witnesses, undecided)
    if found.node != member.node:
        return reason(found)
    if back and found.missing:
        return f"waiting for {', '.join(found.missing)}, which may know the outcome of a transaction"
    votes = [node for node in saved.known if (member.ask(node, member.node) or {}).get("vote") == member.node]
    if 2 * len(votes) <= len(saved.known):
        return f"this member served last, but has the votes of {', '.join(votes) or 'no member'} only"
    member.first.touch()
    replace(member.force, OWN)
    return ""


def forgotten(member: Member, saved: Saved) -> str:
    """Return why a member with Khepri must wait: one that was forced to start alone serves without it, and with others it would form a second cluster."""
    for node in {*member.members, *(saved.served[-1] if saved.served else ())} - {member.node}:
        answer = member.ask(node) or {}
        there = saved_of(answer)
        if answer.get("running") and there and there.served and member.node not in there.served[-1]:
            return f"{node} serves without this member: run deploy_controllers, which lets it join again"
    return ""


def reason(found: First) -> str:
    """Return why another member starts first."""
    if found.node:
        return f"waiting for {found.node}, which served last"
    if found.missing:
        return f"waiting for {', '.join(found.missing)}, which may have served last"
    return "the members do not agree on who served last: an operator must choose with rabbitmq_force_boot"


def wait(member: Member) -> None:
    """End when this member may start."""
    said = None
    while True:
        try:
            why = may_start(member)
        except OSError as error:
            why = str(error)
        if not why:
            return
        if why != said:
            print(f"<{3 if PERSON.search(why) else 4}>{why}", flush=True)
        said = why
        time.sleep(2 * PAUSE)


if __name__ == "__main__":
    {"serve": serve, "wait": wait}[sys.argv[1]](Member(json.loads(SETTINGS.read_text("utf-8"))))
