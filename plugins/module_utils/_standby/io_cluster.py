# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Corosync and Pacemaker on this server: their configuration and state, by their own programs."""

from __future__ import annotations

import pathlib
import re
import tempfile
import time
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import xml_cib

_PROGRAM = pathlib.Path("/usr/sbin/cibadmin")
_STORED = pathlib.Path("/var/lib/pacemaker/cib/cib.xml")
_TIME = 30.0
_TRIES = 5
_SHOWN = ("  * Start", "  * Stop", "  * Move", "  * Restart", "  * Recover", "  * Fence", " * Fence")


def is_formed() -> bool:
    """Whether this server has a configuration of Pacemaker, whether that runs or not."""
    return _PROGRAM.exists() and _STORED.exists()


def answers() -> bool:
    """Whether Pacemaker runs on this server and answers."""
    try:
        cib()
        return True
    except BackendError:
        return False


def cib() -> ET.Element:
    """Return the configuration."""
    return _parsed(run(["cibadmin", "--query"], timeout=_TIME, hint="See systemctl status pacemaker corosync.").stdout)


def stored() -> ET.Element:
    """Return the configuration, or while Pacemaker does not run, the last one on the disk."""
    try:
        return cib()
    except CommandError:
        return _parsed(_STORED.read_text("utf-8"))


def _parsed(text: str) -> ET.Element:
    try:
        return ET.fromstring(text)
    except ET.ParseError as error:
        raise BackendError(f"the configuration of Pacemaker cannot be read: {error}.") from error


def here() -> str:
    """Return the name of this server in the cluster."""
    return run(["crm_node", "--name"], timeout=_TIME).stdout.strip()


def partition() -> frozenset[str]:
    """Return the names of the servers that this one is connected with, itself included."""
    return frozenset(run(["crm_node", "--partition"], timeout=_TIME).stdout.split())


def has_quorum() -> bool:
    """Whether this server is in the majority; ``False`` also if the cluster does not answer."""
    try:
        return run(["crm_node", "--quorum"], timeout=_TIME).stdout.strip() == "1"
    except CommandError:
        return False


def has_vote() -> bool:
    """Whether the witness votes with both servers. One that was restarted, and has not seen it since, would start nothing."""
    done = run(["corosync-quorumtool", "-s"], timeout=_TIME, ok=range(256))
    flags = re.findall(r"(?m)^\s+[1-9]\d*\s+\d+\s+(\S+)\s", done.stdout)
    # alive, votes
    return re.search(r"(?m)^\s+0\s+1\s+Qdevice", done.stdout) is not None and all(each.startswith("A,V,") for each in flags)


def seen() -> xml_cib.Seen:
    """Return what Pacemaker reports."""
    return xml_cib.seen(run(["crm_mon", "--one-shot", "--inactive", "--output-as=xml"], timeout=_TIME).stdout)


def owner(vm_id: str) -> str | None:
    """Return the server with the valid disks of a VM."""
    return xml_cib.owner_of(cib(), vm_id)


def set_owner(vm_id: str, name: str) -> None:
    """Record which server has the valid disks, on a majority.

    :raises BackendError: this server is not in the majority, before or after.
    """
    if not has_quorum():
        raise BackendError("this server has no majority, so it cannot be recorded that it has the disks.")
    attribute = ["crm_attribute", "--type", "crm_config", "--set-name", xml_cib.STATE, "--name", xml_cib.owner_name(vm_id)]
    run([*attribute, "--update", name], timeout=_TIME)
    if not has_quorum() or owner(vm_id) != name:
        raise BackendError("it could not be recorded that this server has the disks.")


def forget_owner(vm_id: str) -> None:
    """Remove that record."""
    run(["crm_attribute", "--type", "crm_config", "--name", xml_cib.owner_name(vm_id), "--delete"], timeout=_TIME, ok=range(256))


def apply(parts: xml_cib.Parts, is_ours: t.Callable[[str], bool], *, check_mode: bool) -> tuple[str, list[str]]:
    """Replace our elements of the configuration; returns the difference, and what Pacemaker would do or does."""
    for left in reversed(range(_TRIES)):
        before = cib()
        after = xml_cib.changed(before, parts, is_ours)
        if after is None:
            return "", []
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{name}.xml" for name in ("before", "after", "patch")]
            for path, document in zip(files, (before, after)):
                ET.ElementTree(document).write(path, encoding="utf-8")
            _verify(files[1])
            actions = [line.strip("* ") for line in run(["crm_simulate", "--xml-file", files[1], "--simulate"], timeout=_TIME).stdout.splitlines()
                       if line.startswith(_SHOWN)]  # fmt: skip
            if check_mode:
                return xml_cib.difference(before, after), actions
            # exit code 1: they differ
            patch = run(["crm_diff", "--original", files[0], "--new", files[1]], timeout=_TIME, ok=(0, 1)).stdout
            pathlib.Path(files[2]).write_text(patch, "utf-8")
            try:
                run(["cibadmin", "--patch", "--xml-file", files[2]], timeout=_TIME)
                return xml_cib.difference(before, after), actions
            except CommandError:
                # another change came between
                if not left:
                    raise
        time.sleep(0.5)
    return "", []


def _verify(path: str) -> None:
    """Check a configuration; warnings, which are about what Pacemaker would do, are accepted."""
    done = run(["crm_verify", "--xml-file", path], timeout=_TIME, ok=(0, 78))
    if done.rc and "Warnings found" not in done.stdout + done.stderr:
        raise BackendError(f"Pacemaker refuses its new configuration: {(done.stderr or done.stdout).strip()}")


def refresh(vm_id: str) -> None:
    """Let Pacemaker look where a VM runs, and forget its failures and what it knew."""
    if not xml_cib.has_history(cib(), vm_id):
        # it would ask about all resources again, and count that as failures
        return
    run(["crm_resource", "--refresh", "--resource", xml_cib.resource_id(vm_id)], timeout=60, ok=range(256))


def confirm_off(name: str) -> None:
    """State that a server is off, which a person has made sure of: what it ran is started elsewhere.

    :raises BackendError: it is in the cluster.
    """
    if name in partition():
        raise BackendError(f"{name} answers in the cluster, so it is not off.")
    run(["stonith_admin", f"--confirm={name}"], timeout=60)


def reload_corosync() -> None:
    """Let Corosync read its configuration on both servers, without an interruption."""
    run(["corosync-cfgtool", "-R"], timeout=_TIME)


def wait_formed(names: t.Collection[str], seconds: float) -> None:
    """Wait until both servers are online, with a majority and a coordinator."""
    until = time.monotonic() + seconds
    while True:
        try:
            found = seen()
            missing = sorted(set(names) - found.online)
            if found.quorum and not missing:
                return
            why = f"{', '.join(missing)} not in the cluster" if missing else "no majority"
        except BackendError as error:
            why = error.message
        if time.monotonic() > until:
            hint = "See journalctl -u corosync -u pacemaker -u corosync-qdevice; UDP 5405 between the servers and TCP 5403 to the witness must be open."
            raise BackendError(f"the cluster of {' and '.join(sorted(names))} is not complete after {seconds:.0f} s: {why}.", hint=hint)
        time.sleep(1)
