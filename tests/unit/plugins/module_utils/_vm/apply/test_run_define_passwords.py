# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords of displays over libvirt's test driver: applied, noticed when they change, and kept nowhere but in libvirt."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_hidden, xml_metadata
from tests.support.driver_host import driver_host

LIVE, INACTIVE, SECURE = 0, 2, 1
DISPLAY = "<devices><graphics type='vnc' port='-1' autoport='yes' passwd='{{ secret }}'/></devices>"
FIRST, SECOND, THIRD = "Canary1!", 'Ca"<&>2', "Canary3!"


def template(inside=DISPLAY):
    return (
        "<domain type='test'><name>{{ name }}</name><uuid>{{ uuid }}</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>"
        f"<os><type>hvm</type></os>{inside}</domain>"
    )


class Farm:
    def __init__(self, host):
        self.host = host

    def run(self, secret=FIRST, inside=DISPLAY, check=False, **options):
        vms = [{"id": "a", "cpu": 1, "memory_mb": 32, "secret": secret}]
        asked = {"cluster": "lab", "vms": vms, "uri": "test:///default", "template": template(inside), **options}
        result = define_vms(DefineRequest(**asked), check_mode=check)
        (vm,) = result.vms
        assert vm.error is None, vm.error
        output = json.dumps(result.as_result(), default=str) + repr(result.warnings)
        assert FIRST not in output and SECOND not in output and THIRD not in output
        return vm

    @property
    def domain(self):
        return self.host.connection.lookupByName("a")

    def passwords(self):
        """What libvirt has, in the definition and in what runs."""
        texts = [self.domain.XMLDesc(flags | SECURE) for flags in (INACTIVE, LIVE)]
        return [xml_metadata.etree.fromstring(text).find("devices/graphics").get("passwd") for text in texts]

    def readable(self):
        """What any user of libvirt can read."""
        return self.domain.XMLDesc(INACTIVE) + self.domain.XMLDesc(LIVE)


@pytest.fixture(name="farm")
def fixture_farm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Farm]:
    """An empty host."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with driver_host() as host:
        yield Farm(host)


def test_a_password_is_applied_and_stands_in_no_metadata(farm: Farm) -> None:
    assert farm.run().actions == ["define", "autostart_on", "start"]
    assert farm.passwords() == [FIRST, FIRST]
    assert FIRST not in farm.readable() and xml_hidden.HIDDEN in farm.readable()
    assert farm.run().actions == []
    assert farm.run(check=True).actions == []


def test_another_password_is_noticed_and_the_old_one_is_forgotten(farm: Farm) -> None:
    farm.run()
    rehearsed, done = farm.run(SECOND, check=True), farm.run(SECOND)
    assert rehearsed.actions == done.actions and "redefine" in done.actions
    assert [change["path"] for change in done.changes] == ["devices/graphics[vnc]/@passwd"]
    assert farm.passwords()[0] == SECOND
    assert FIRST not in farm.readable() and SECOND not in farm.readable() and "Ca&quot;&lt;&amp;&gt;2" not in farm.readable()
    again = farm.run(SECOND)
    assert again.actions == [] and again.restart_required == done.restart_required


def test_password_set_outside_is_drift(farm: Farm) -> None:
    farm.run()
    farm.host.connection.defineXML(farm.domain.XMLDesc(INACTIVE | SECURE).replace(FIRST, THIRD))
    assert farm.passwords()[0] == THIRD
    assert farm.run().actions == ["redefine"]
    assert farm.passwords()[0] == FIRST


def test_a_password_the_template_drops_is_gone(farm: Farm) -> None:
    farm.run(state="shutdown")
    bare = DISPLAY.replace(" passwd='{{ secret }}'", "")
    assert farm.run(inside=bare, state="shutdown").actions == ["redefine"]
    assert farm.passwords()[0] is None
    assert farm.run(inside=bare, state="shutdown").actions == []


def test_the_previous_definition_keeps_the_present_password(farm: Farm) -> None:
    farm.run(state="shutdown")
    farm.run(SECOND, inside=f"<title>x</title>{DISPLAY}", state="shutdown")
    assert farm.run(state="rolled_back").actions == ["redefine"]
    assert farm.passwords()[0] == SECOND and "<title>" not in farm.domain.XMLDesc(INACTIVE)
    assert farm.run(state="rolled_back").actions == []


def test_rollback_with_an_unknown_password_is_refused(farm: Farm) -> None:
    farm.run(state="shutdown")
    farm.run(inside="<title>x</title>", state="shutdown")
    vms = [{"id": "a"}]
    (vm,) = define_vms(DefineRequest(cluster="lab", vms=vms, uri="test:///default", state="rolled_back"), check_mode=False).vms
    assert "has a password for vnc" in vm.error and vm.actions == []


def test_a_domain_taken_over_keeps_no_password_of_its_maker(farm: Farm) -> None:
    farm.run()
    plain = xml_metadata.etree.fromstring(farm.domain.XMLDesc(INACTIVE | SECURE))
    xml_metadata.strip(plain)
    farm.domain.destroy()
    farm.domain.undefine()
    farm.host.connection.defineXML(xml_metadata.etree.tostring(plain, encoding="unicode"))
    assert farm.run(SECOND, adopt=True, state="shutdown").actions[0] == "adopt"
    assert FIRST not in farm.readable() and SECOND not in farm.readable() and farm.passwords()[0] == SECOND


def test_info_shows_no_password(farm: Farm) -> None:
    farm.run()
    farm.host.connection.defineXML(farm.domain.XMLDesc(INACTIVE | SECURE).replace(FIRST, THIRD))
    output = read_vms(InfoRequest(uri="test:///default", drift=True, xml=True))
    text = json.dumps(output, default=str)
    assert "devices/graphics[vnc]/@passwd" in text
    assert FIRST not in text and THIRD not in text
