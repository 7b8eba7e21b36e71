# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of Pacemaker and its report: the settings whose defaults start old disks, what is kept of others, and the words for people."""

from __future__ import annotations

import typing as t
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_resource, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Vm, parse_cluster

BMC = {"address": "192.0.2.101:8443", "user": "fence", "password": "secret"}
MEMBERS = [{"name": f"metal{n}", "addresses": [f"192.0.2.1{n}"], "bmc": BMC, "watchdog": True} for n in (1, 2)]
SYSTEMS = {"metal1": "/redfish/v1/Systems/1", "metal2": "/redfish/v1/Systems/2"}
VM = Vm("master", "lab", "6a1f3c6e-0000-4000-8000-000000000001", "master")
EMPTY = '<cib epoch="7" num_updates="3"><configuration><crm_config/><nodes/><resources>{0}</resources><constraints/></configuration><status/></cib>'
REPORT = """<pacemaker-result><summary><current_dc present="true" with_quorum="{quorum}"/></summary>
<nodes><node name="metal1" online="true" unclean="false"/><node name="metal2" online="{online}" unclean="{unclean}"/></nodes>
<resources>
<resource id="footprint-fence-metal1" active="{fences}" managed="true" failed="false"/>
<resource id="vm-master" active="{runs}" managed="{managed}" failed="false">{node}</resource>
</resources>
<failures><failure op_key="{failure}" node="metal2" exitstatus="not installed" exitreason="{why}"/></failures></pacemaker-result>"""
WHOLE = {"quorum": "true", "online": "true", "unclean": "false", "fences": "true", "runs": "true", "managed": "true", "node": '<node name="metal1"/>',
         "failure": "vm-web_start_0", "why": "no copy"}  # fmt: skip


def parts(**more: t.Any) -> dict[str, list[ET.Element]]:
    cluster = parse_cluster({"cluster": "lab", "members": MEMBERS, "witness": "192.0.2.20", **more})
    return xml_cib.cluster_parts(cluster, SYSTEMS, lambda name: f"/password-{name}")


def values(elements: t.Iterable[ET.Element], name: str) -> dict[str, str]:
    """Return the pairs in the element with an ID."""
    (found,) = [each for one in elements for each in one.iter() if each.get("id") == name]
    return {str(each.get("name")): str(each.get("value")) for each in found.iter("nvpair")}


def test_the_defaults_that_start_old_disks_are_changed() -> None:
    options = values(parts()["crm_config"], xml_cib.OPTIONS)
    assert options["no-quorum-policy"] == "freeze" and options["stonith-enabled"] == options["shutdown-lock"] == "true"
    assert options["stonith-max-attempts"] == "INFINITY" and options["start-failure-is-fatal"] == options["stop-orphan-resources"] == "false"
    assert "stonith-watchdog-timeout" not in options
    fence = values(parts()["resources"], "footprint-fence-metal1-params")
    assert fence["disable_timeout"] == "0" and fence["power_timeout"] == "15" and fence["pcmk_host_list"] == "metal1"
    assert fence["systems_uri"] == "/redfish/v1/Systems/1" and fence["ip"] == "192.0.2.101" and fence["ipport"] == "8443" and "ssl_insecure" not in fence
    assert fence["password_script"] == "/password-metal1" and not any("secret" in xml_cib.text(each) for each in parts()["resources"])
    assert values(parts()["resources"], "footprint-fence-metal2-meta") == {"migration-threshold": "1", "failure-timeout": "5min"}
    # a server does not fence itself
    assert {(each.get("rsc"), each.get("node"), each.get("score")) for each in parts()["constraints"]} == {
        ("footprint-fence-metal1", "metal1", "-INFINITY"), ("footprint-fence-metal2", "metal2", "-INFINITY"),
    }  # fmt: skip
    vm = xml_cib.vm_parts(VM, "metal1", True)["resources"]
    assert values(vm, "vm-master-meta") == {"resource-stickiness": "INFINITY", "migration-threshold": "3", "failure-timeout": "10min"}
    stop = next(each for each in vm[0].iter("op") if each.get("name") == "stop")
    # a stop that fails ends in the fencing of a server that is only shut down
    assert stop.get("on-fail") == "block" and int(str(stop.get("timeout"))[:-1]) >= 5 * run_resource._SHUTDOWN


def test_a_watchdog_is_behind_the_controller() -> None:
    found = parts(watchdog="always")
    options = values(found["crm_config"], xml_cib.OPTIONS)
    assert options["no-quorum-policy"] == "stop" and options["stonith-watchdog-timeout"] == "30s"
    assert [(each.get("target"), each.get("index"), each.get("devices")) for each in found["fencing-topology"]] == [
        ("metal1", "1", "footprint-fence-metal1"), ("metal1", "2", "watchdog"), ("metal2", "1", "footprint-fence-metal2"), ("metal2", "2", "watchdog"),
    ]  # fmt: skip
    assert values(found["resources"], "footprint-fence-metal1-params")["pcmk_reboot_timeout"] == "20s"
    bare = parts(members=[{**each, "bmc": None} for each in MEMBERS])
    assert [each.get("id") for each in bare["resources"]] == ["watchdog"] and not bare["constraints"]


def test_a_second_change_is_none_and_others_are_kept() -> None:
    other = '<primitive id="ip" class="ocf" provider="heartbeat" type="IPaddr2"/>'
    other += '<primitive id="fence-other" class="stonith" type="fence_ipmilan"/><primitive id="footprint-fence-gone" class="stonith" type="fence_redfish"/>'
    before = ET.fromstring(EMPTY.format(other))
    after = xml_cib.changed(before, parts(), xml_cib.is_of_cluster)
    assert after is not None and after.get("epoch") == "8" and after.get("num_updates") == "0"
    assert [each.get("id") for each in after.iter("primitive")] == ["ip", "fence-other", "footprint-fence-metal1", "footprint-fence-metal2"]
    assert xml_cib.changed(after, parts(), xml_cib.is_of_cluster) is None and before.get("epoch") == "7"
    assert "footprint-fence-metal1" in xml_cib.difference(before, after)
    # the VMs are not those of the cluster, and the other way round
    whole = xml_cib.changed(after, xml_cib.vm_parts(VM, "metal1", True), xml_cib.is_of_vm("master"))
    assert whole is not None and xml_cib.vms_of(whole) == {"master": {**VM._asdict(), "resource-stickiness": "INFINITY", "migration-threshold": "3",
                                                                      "failure-timeout": "10min"}}  # fmt: skip
    assert xml_cib.changed(whole, parts(), xml_cib.is_of_cluster) is None
    moving = xml_cib.changed(whole, xml_cib.vm_parts(VM, "metal1", False), xml_cib.is_of_vm("master"))
    assert moving is not None and not xml_cib.is_managed(xml_cib.vms_of(moving)["master"])
    gone = xml_cib.changed(whole, {}, xml_cib.is_of_vm("master"))
    assert gone is not None and xml_cib.vms_of(gone) == {} and len(list(gone.iter("rsc_location"))) == 2


@pytest.mark.parametrize(("change", "vote", "text"), [
    ({}, True, None),
    ({"quorum": "false"}, True, "no majority"),
    ({"online": "false"}, True, "metal2 is not in the cluster"),
    ({}, False, "the witness does not vote"),
    ({"fences": "false", "failure": "footprint-fence-metal1_monitor_60000", "why": "timed out"}, True, "metal1 cannot be fenced by metal2: timed out"),
    ({"managed": "false"}, True, "being moved"),
    ({"runs": "false", "node": "", "failure": "vm-master_start_0", "why": "the copy is damaged"}, True, "it does not run: metal2: the copy is damaged"),
])  # fmt: skip
def test_status_speaks_of_servers_votes_and_fencing(change: dict[str, str], vote: bool, text: str | None) -> None:
    found = xml_cib.problem(xml_cib.seen(REPORT.format(**{**WHOLE, **change})), "master", "metal1", "metal2", vote)
    assert found == text if text is None else found is not None and text in found


def test_a_report_that_cannot_be_read_is_an_error() -> None:
    seen = xml_cib.seen(REPORT.format(**{**WHOLE, "online": "false", "unclean": "true"}))
    assert seen.unclean == {"metal2"} and seen.online == {"metal1"} and seen.running == {"master": "metal1"}
    with pytest.raises(BackendError):
        xml_cib.seen("<pacemaker")
    with pytest.raises(BackendError):
        xml_cib.changed(ET.fromstring("<cib/>"), parts(), xml_cib.is_of_cluster)
