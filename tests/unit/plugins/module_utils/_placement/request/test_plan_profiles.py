# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The tables of the reference architectures, compared with their lines as they were printed."""

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import ha_grade, quorums
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_profiles import reduced_vms, services, wanted_servers
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import question, servers

# service, instances, dedicated nodes, can share a node, requires a load balancer
PRINTED = {
    "100": """
        keystone-all 3 . yes yes|nova-api 3 . yes yes|nova-scheduler 3 . yes no|nova-conductor 3 . yes no|nova-compute . . yes no
        neutron-server 3 . yes no|neutron-dhcp-agent 3 . yes no|neutron-l2-agent . . yes no|neutron-l3-agent 3 . yes no
        neutron-metadata-agent 3 . yes no|glance-api 3 . yes yes|glance-registry 3 . yes no|cinder-api 3 . yes yes|cinder-scheduler 3 . yes no
        cinder-volume . . yes no|horizon 3 . yes yes|rabbitmq-server 3 3 yes no|mysqld-server 3 3 yes yes|ceph-mon 3 . yes no
        ceph-osd . . no no|radosgw 3 . yes yes|lma-aggregator 1 . yes no|influxdb-grafana 3 . yes no|elasticsearch-kibana 3 . yes no|nagios 1 . yes no
    """,
    "300": """
        keystone-all 3 3 yes yes|nova-api 3 . yes yes|nova-scheduler 3 . yes no|nova-conductor 3 . yes no|nova-compute . . yes no
        neutron-server 3 . yes no|neutron-dhcp-agent 3 . yes no|neutron-l2-agent . . yes no|neutron-l3-agent 3 . yes no
        neutron-metadata-agent 3 . yes no|glance-api 3 . yes yes|glance-registry 3 . yes no|cinder-api 3 . yes yes|cinder-scheduler 3 . yes no
        cinder-volume . . yes no|horizon 3 . yes yes|rabbitmq-server 3 3 yes no|mysqld-server 3 3 yes yes|ceph-mon 3 . yes no
        ceph-osd . . no no|radosgw 3 . yes yes|lma-aggregator 1 . yes no|influxdb-grafana 3 . yes no|elasticsearch-kibana 3 . yes no|nagios 1 . yes no
    """,
    "500": """
        keystone-all 5 5 yes yes|nova-api 3 . yes yes|nova-scheduler 5 . yes no|nova-conductor 3 . yes no|nova-compute . . yes no
        neutron-server 3 . yes no|neutron-dhcp-agent 3 . yes no|neutron-l2-agent . . yes no|neutron-l3-agent 3 . yes no
        neutron-metadata-agent 3 . yes no|glance-api 3 . yes yes|glance-registry 3 . yes no|cinder-api 3 . yes yes|cinder-scheduler 3 . yes no
        cinder-volume . . yes no|horizon 3 . yes yes|rabbitmq-server 3 3 no no|mysqld-server 3 3 yes yes|ceph-mon 3 . yes no
        ceph-osd . . no no|radosgw 3 . yes yes|lma-aggregator 1 . yes no|influxdb-grafana 3 . yes no|elasticsearch-kibana 3 . yes no|nagios 1 . yes no
    """,
    "1000": """
        keystone-all 5 5 no yes|nova-api 3 3 no yes|nova-scheduler 8 . yes no|nova-conductor 3 3 no no|nova-compute . . yes no
        neutron-server 3 . yes no|neutron-dhcp-agent 3 . yes no|neutron-l2-agent . . yes no|neutron-l3-agent 3 . yes no
        neutron-metadata-agent 3 . yes no|glance-api 3 . yes yes|glance-registry 3 . yes no|cinder-api 3 . yes yes|cinder-scheduler 3 . yes no
        cinder-volume . . yes no|horizon 3 3 no yes|rabbitmq-server 3 3 no no|mysqld-server 3 3 no yes|ceph-mon 3 3 no no
        ceph-osd . . no no|radosgw 3 . yes yes|lma-aggregator 1 1 yes no|influxdb-grafana 3 3 no no|elasticsearch-kibana 3 3 no no|nagios 1 . yes no
    """,
}
TOTALS = {"100": 6, "300": 9, "500": 11, "1000": 30}


def printed(profile):
    for line in PRINTED[profile].replace("\n", "|").split("|"):
        if line.strip():
            name, instances, dedicated, shares, balanced = line.split()
            yield (name, None if instances == "." else int(instances), 0 if dedicated == "." else int(dedicated), shares == "yes", balanced == "yes")


@pytest.mark.parametrize("profile", TOTALS)
def test_the_tables_are_those_that_were_printed(profile):
    found = [(one.name, one.instances, one.dedicated, one.shares, one.balanced) for one in services(profile)]
    assert sorted(found) == sorted(printed(profile))


@pytest.mark.parametrize(("profile", "total"), TOTALS.items())
def test_the_planner_needs_exactly_the_printed_total_of_nodes(profile, total):
    assert sum(entry["count"] for entry in wanted_servers(profile)) == total
    enough = plan_placement(question(servers(*[64] * total), wanted=wanted_servers(profile)))
    assert enough.feasible and {match.server for match in enough.matches} == set(range(total))
    short = plan_placement(question(servers(*[64] * (total - 1)), wanted=wanted_servers(profile)))
    assert [match.server for match in short.matches].count(None) == 1


@pytest.mark.parametrize(("number", "grade"), [(1, "none"), (2, "restart"), (3, "quorum")])
def test_the_reduced_footprint_on_one_two_and_three_servers(number, grade):
    placement = plan_placement(question(servers(*[64] * number), reduced_vms()))
    assert placement.feasible and ha_grade(quorums(placement)) == grade


def test_there_are_no_other_profiles():
    with pytest.raises(InputError) as caught:
        services("200")
    assert caught.value.path == "profile"
    assert services("reduced") == () and wanted_servers("reduced") == []
