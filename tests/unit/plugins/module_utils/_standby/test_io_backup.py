# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest is never left frozen: by a worker that is killed, or by an agent that answers late."""

from __future__ import annotations

import pathlib
import types
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_backup, io_timers


class Failure(libvirt.libvirtError):
    """An error of libvirt with a code."""

    def __init__(self, code: int) -> None:
        super().__init__("failed")
        self.err = (code, 0, "failed", 0, "", "", "", 0, 0)


class Guest:
    """A domain with an agent, as libvirt shows it.

    :arg freeze: why libvirt does not report the freeze, ``None`` if it does.
    :arg late: whether the agent freezes the file systems all the same.
    """

    def __init__(self, freeze: Exception | None = None, late: bool = False) -> None:
        self.frozen, self.reachable, self.running = False, True, True
        self._freeze, self._late = freeze, late
        self.thaws = 0
        self.channel = "<channel><target name='org.qemu.guest_agent.0' state='connected'/></channel>"

    def XMLDesc(self) -> str:  # pylint: disable=invalid-name
        return f"<domain><devices>{self.channel}</devices></domain>"

    def isActive(self) -> bool:  # pylint: disable=invalid-name
        return self.running

    def agentSetResponseTimeout(self, _seconds: int, _flags: int) -> None: ...  # pylint: disable=invalid-name

    def fsFreeze(self) -> None:  # pylint: disable=invalid-name
        self.frozen = self._freeze is None or self._late
        if self._freeze is not None:
            raise self._freeze

    def fsThaw(self) -> None:  # pylint: disable=invalid-name
        self.thaws += 1
        if not self.reachable:
            raise Failure(libvirt.VIR_ERR_AGENT_UNRESPONSIVE)
        self.frozen = False


def backup(guest: Guest) -> t.Any:
    connection = types.SimpleNamespace(lookupByUUIDString=lambda _uuid: guest)
    return io_backup.Backup(t.cast(t.Any, types.SimpleNamespace(connection=connection)), "uuid", "m")


@pytest.fixture(name="mark")
def fixture_mark(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(io_files, "RUN", tmp_path / "run")
    return tmp_path / "run/frozen-m"


def test_the_guest_is_frozen_for_one_moment_only(mark: pathlib.Path) -> None:
    guest = Guest()
    made = backup(guest)
    with made._quiet():  # pylint: disable=protected-access
        assert guest.frozen and mark.exists()
    assert not guest.frozen and made.frozen and not mark.exists()


def test_a_killed_worker_leaves_a_guest_that_the_next_run_thaws(mark: pathlib.Path) -> None:
    guest = Guest()
    # the process ends here
    killed = backup(guest)._quiet()  # pylint: disable=protected-access
    killed.__enter__()
    assert guest.frozen
    backup(guest).thaw()
    assert not guest.frozen and not mark.exists()
    backup(guest).thaw()
    assert guest.thaws == 1
    assert "run_worker m thaw\n" in io_timers.texts("m", 900, pathlib.Path("/code"))["reduced-footprint-standby-m.service"]


def test_an_agent_that_answers_late_does_not_leave_the_guest_frozen(mark: pathlib.Path) -> None:
    guest = Guest(Failure(libvirt.VIR_ERR_AGENT_UNRESPONSIVE), late=True)
    made = backup(guest)
    with made._quiet():  # pylint: disable=protected-access
        assert guest.frozen
    assert not guest.frozen and not made.frozen and not mark.exists()
    # nor one that does not answer the second time either
    guest = Guest(Failure(libvirt.VIR_ERR_AGENT_UNRESPONSIVE), late=True)
    guest.reachable = False
    with backup(guest)._quiet():  # pylint: disable=protected-access
        pass
    with pytest.raises(BackendError, match="cannot thaw the file systems of the guest"):
        backup(guest).thaw()
    guest.reachable = True
    backup(guest).thaw()
    assert not guest.frozen and not mark.exists()


def test_a_vm_without_an_agent_is_not_asked_again(mark: pathlib.Path) -> None:
    guest = Guest(Failure(libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED))
    with backup(guest)._quiet():  # pylint: disable=protected-access
        pass
    assert guest.thaws == 0 and not mark.exists()


@pytest.mark.parametrize("channel", ["", "<channel><target name='org.qemu.guest_agent.0' state='disconnected'/></channel>"])
def test_a_guest_whose_agent_does_not_run_is_not_frozen(channel: str, mark: pathlib.Path) -> None:
    guest = Guest(Failure(libvirt.VIR_ERR_AGENT_UNRESPONSIVE))
    guest.channel, guest.reachable = channel, False
    with backup(guest)._quiet():  # pylint: disable=protected-access
        assert not guest.frozen
    # the unit that ends calls this
    backup(guest).thaw()
    assert guest.thaws == 0 and not mark.exists()
    # one that was frozen before is thawed when its agent is back
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    with backup(guest)._quiet():  # pylint: disable=protected-access
        assert mark.exists()
    assert mark.exists()


def test_a_vm_that_was_shut_down_is_not_frozen(mark: pathlib.Path) -> None:
    guest = Guest()
    killed = backup(guest)._quiet()  # pylint: disable=protected-access
    killed.__enter__()
    guest.running = False
    backup(guest).thaw()
    assert guest.thaws == 0 and not mark.exists()
