# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the addresses of running VMs, read once or until they can be reached."""

from __future__ import annotations

import concurrent.futures
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_guest_addresses, plan_guest_addresses

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains, run_result, run_work

SSH = "ssh"
_POLL = 1.0
_PROBE_TIMEOUT = 3.0
_PARALLEL = 16
_HINTS = {
    "address": "libvirt knows leases of its own networks, the guest agent's answer and the host's ARP table; where none of them has the address, "
    "set address in the VM details. The guest's console shows whether it has started.",
    SSH: "The guest's console shows whether it has started and has a server for ssh; a firewall between this host and the guest must allow port 22.",
}


def read(host: io_domains.DomainHost, uuid: str, macs: t.Sequence[str], declared: str | None = None) -> list[dict[str, str]] | None:
    """Return the addresses of a running VM, ``None`` if nothing is known."""
    reports = {source: io_guest_addresses.reported(host.connection, uuid, source) for source in io_guest_addresses.SOURCES}
    return plan_guest_addresses.addresses_of(macs, reports, declared)


def wait(works: t.Sequence[run_work.Work], until: str, seconds: float) -> None:
    """Wait until each running VM has an address or answers with ssh, and note the addresses in its result; a VM that does not has the error.

    :arg seconds: 0 only reads the addresses.
    """
    waiting = [work for work in works if work.result.state == "running" and not work.result.error]
    deadline = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(_PARALLEL) as pool:
        while waiting:
            reached = list(pool.map(lambda work: _reached(work, until if seconds else ""), waiting))
            waiting = [work for work, done in zip(waiting, reached) if not done]
            for work in waiting:
                if not work.host.alive():
                    work.result.error = f"the connection to {work.host.uri} was lost while waiting for the guest, which keeps running."
            waiting = [work for work in waiting if not work.result.error]
            if not seconds or time.monotonic() >= deadline:
                break
            time.sleep(_POLL if waiting else 0)
    if seconds:
        for work in waiting:
            work.result.error = _late(work.result, until, seconds)


def _reached(work: run_work.Work, until: str) -> bool:
    """Note the addresses, those that answer with ssh first."""
    found = read(work.host, work.uuid, work.result.macs, work.vm.address)
    work.result.addresses = found
    if until != SSH:
        return bool(found)
    answering = next((row for row in found or () if io_guest_addresses.ssh_answers(row["address"], _PROBE_TIMEOUT)), None)
    if answering is not None:
        work.result.addresses = [answering, *(row for row in found or () if row is not answering)]
    return answering is not None


def _late(result: run_result.VmResult, until: str, seconds: float) -> str:
    known = ", ".join(row["address"] for row in result.addresses or ())
    what = f"no answer with ssh at {known}" if until == SSH and known else "no address known"
    return f"{what} after {seconds:g} s. {_HINTS[SSH if known else 'address']}"
