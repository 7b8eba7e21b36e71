#!/usr/bin/env bash
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes an empty server with Debian 13 a cloud of one node, as a quick start describes it: the packages' own units and uWSGI files, one MariaDB,
# RabbitMQ and memcached, standalone databases of OVN, no TLS, no proxy, no cluster. benchmarks/single.py runs it with bash -s -- ADDRESS NIC; the
# password is that of a test.
set -Eeuo pipefail

PACKAGES=(mariadb-server rabbitmq-server memcached python3-pymysql python3-pymemcache keystone glance-api placement-api
    nova-api nova-conductor nova-scheduler nova-consoleproxy nova-compute nova-compute-kvm python3-libvirt polkitd
    neutron-api neutron-ovn-maintenance-worker neutron-periodic-workers neutron-ovn-metadata-agent haproxy sudo curl ovn-central ovn-host openvswitch-switch)
PASSWORD=single-node
LOG=/var/log/single-node.log

step() { echo "$SECONDS s: $*" | tee /dev/fd/3; }

await() {
    local try
    for ((try = 0; try < 150; try++)); do
        if "$@"; then return; fi
        sleep 2
    done
    echo "not within 300 s: $*"
    return 1
}

has_address() { ip -4 address show dev "$1" | grep -q "inet $address/"; }

answers() { curl --fail --silent --output /dev/null --max-time 20 "http://$address:$1/"; }

# options of a client of the other services
login() {
    cat <<END
auth_type = password
auth_url = http://$address:5000/v3
project_domain_name = Default
user_domain_name = Default
project_name = service
username = $1
password = $PASSWORD
region_name = RegionOne
END
}

# options of a service that checks tokens
tokens() {
    login "$1"
    cat <<END
www_authenticate_uri = http://$address:5000/v3
memcached_servers = 127.0.0.1:11211
service_token_roles = service
service_token_roles_required = true
END
}

database() { echo "connection = mysql+pymysql://$1:$PASSWORD@$address/$2?charset=utf8"; }

# the package's file with another number of processes and threads; a container has no AppArmor, and neutron's connections to OVN need threads
workers() {
    sed -i -e 's/,apparmor$//' -e '/^apparmor/d' -e '/^processes/d' -e '/^threads/d' -e 's/^enable-threads = false/enable-threads = true/' "$1"
    printf 'processes = %s\nthreads = %s\n' "$2" "$3" >>"$1"
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    # nothing starts before it is configured
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 0755 /usr/sbin/policy-rc.d
    apt-get --quiet update
    apt-get --quiet --yes install --no-install-recommends "${PACKAGES[@]}"
    rm /usr/sbin/policy-rc.d
    # a start on a busy server is slow
    mkdir -p /etc/systemd/system.conf.d
    printf '[Manager]\nDefaultTimeoutStartSec=300s\n' >/etc/systemd/system.conf.d/single-node.conf
    # which the packages could not do
    systemctl daemon-reload
    systemctl reload dbus
    systemctl disable --quiet haproxy nova-serialproxy nova-spicehtml5proxy open-iscsi || true
}

# the provider network is that of the server: a bridge with its NIC, and a pair of interfaces to the bridge of Open vSwitch
connect_networks() {
    local folder=/etc/systemd/network
    printf '[NetDev]\nName=br-admin\nKind=bridge\nMACAddress=%s\n' "$(cat "/sys/class/net/$nic/address")" >"$folder/10-br-admin.netdev"
    printf '[Match]\nName=br-admin\n\n[Network]\nAddress=%s/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' "$address" >"$folder/10-br-admin.network"
    printf '[Match]\nName=%s\n\n[Network]\nBridge=br-admin\nLinkLocalAddressing=no\n' "$nic" >"$folder/10-$nic.network"
    networkctl reload
    await has_address br-admin
    ip link add ov-br-ex type veth peer name up-br-ex
    ip link set ov-br-ex up
    ip link set up-br-ex master br-admin up
    echo single >/etc/openvswitch/system-id.conf
    systemctl start openvswitch-switch ovn-central
    await test -S /run/ovn/ovnnb_db.sock
    await test -S /run/ovn/ovnsb_db.sock
    ovn-nbctl set-connection "ptcp:6641:$address"
    ovn-sbctl set-connection "ptcp:6642:$address"
    # no kernel module in the lab: the switch is a process, which must handle large segments itself
    ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true
    systemctl restart ovs-vswitchd
    ovs-vsctl --may-exist add-br br-ex -- set Bridge br-ex datapath_type=netdev -- --may-exist add-port br-ex ov-br-ex
    ovs-vsctl set-manager ptcp:6640:127.0.0.1
    ovs-vsctl set Open_vSwitch . "external_ids:hostname=$HOSTNAME" "external_ids:ovn-remote=tcp:$address:6642" external_ids:ovn-encap-type=geneve \
        "external_ids:ovn-encap-ip=$address" external_ids:ovn-bridge-datapath-type=netdev external_ids:ovn-bridge-mappings=provider:br-ex \
        external_ids:ovn-cms-options=enable-chassis-as-gw external_ids:ovn-remote-probe-interval=30000
    systemctl start ovn-host
}

start_backends() {
    local name
    # as the roles: without innodb_snapshot_isolation, whose error 1020 OpenStack does not repeat
    printf '[mysqld]\nbind-address = %s\nmax_connections = 4096\ninnodb_snapshot_isolation = OFF\n' "$address" >/etc/mysql/mariadb.conf.d/90-openstack.cnf
    systemctl start mariadb rabbitmq-server memcached
    for name in keystone:keystone glance:glance placement:placement nova:nova_api nova:nova nova:nova_cell0 neutron:neutron; do
        mariadb --execute "CREATE DATABASE ${name#*:} CHARACTER SET utf8mb3;
            GRANT ALL ON ${name#*:}.* TO '${name%:*}'@'%' IDENTIFIED BY '$PASSWORD'"
    done
    rabbitmqctl --quiet add_user openstack "$PASSWORD"
    rabbitmqctl --quiet set_permissions openstack '.*' '.*' '.*'
}

configure() {
    cat >/etc/keystone/keystone.conf <<END
[database]
$(database keystone keystone)
[cache]
enabled = true
backend = oslo_cache.memcache_pool
memcache_servers = 127.0.0.1:11211
[token]
provider = fernet
END
    cat >/etc/glance/glance-api.conf <<END
[DEFAULT]
enabled_backends = file:file
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = /var/lib/glance/images
[database]
$(database glance glance)
[keystone_authtoken]
$(tokens glance)
[paste_deploy]
flavor = keystone
END
    cat >/etc/placement/placement.conf <<END
[placement_database]
$(database placement placement)
[api]
auth_strategy = keystone
[keystone_authtoken]
$(tokens placement)
END
    cat >/etc/nova/nova.conf <<END
[DEFAULT]
my_ip = $address
transport_url = rabbit://openstack:$PASSWORD@$address:5672/
state_path = /var/lib/nova
log_dir = /var/log/nova
[api_database]
$(database nova nova_api)
[database]
$(database nova nova)
[keystone_authtoken]
$(tokens nova)
[service_user]
send_service_user_token = true
$(login nova)
[placement]
$(login placement)
[neutron]
$(login neutron)
service_metadata_proxy = true
metadata_proxy_shared_secret = $PASSWORD
[conductor]
workers = 1
[scheduler]
workers = 1
[vnc]
enabled = true
server_listen = $address
server_proxyclient_address = $address
novncproxy_base_url = http://$address:6080/vnc_lite.html
[oslo_concurrency]
lock_path = /var/lib/nova/tmp
END
    cat >/etc/nova/nova-compute.conf <<END
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
cpu_allocation_ratio = 4.0
[libvirt]
virt_type = qemu
cpu_mode = none
inject_partition = -2
END
    cat >/etc/neutron/neutron.conf <<END
[DEFAULT]
core_plugin = ml2
service_plugins = ovn-router
auth_strategy = keystone
transport_url = rabbit://openstack:$PASSWORD@$address:5672/
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
rpc_workers = 0
rpc_state_report_workers = 0
[agent]
root_helper = sudo neutron-rootwrap /etc/neutron/rootwrap.conf
[database]
$(database neutron neutron)
[keystone_authtoken]
$(tokens neutron)
[nova]
$(login nova)
[placement]
$(login placement)
[oslo_concurrency]
lock_path = /var/lib/neutron/lock
END
    cat >/etc/neutron/plugins/ml2/ml2_conf.ini <<END
[ml2]
type_drivers = flat,geneve
tenant_network_types = geneve
mechanism_drivers = ovn
extension_drivers = port_security
overlay_ip_version = 4
[ml2_type_flat]
flat_networks = provider
[ml2_type_geneve]
vni_ranges = 1:65535
max_header_size = 38
[securitygroup]
enable_security_group = true
[ovn]
ovn_nb_connection = tcp:$address:6641
ovn_sb_connection = tcp:$address:6642
ovn_l3_scheduler = leastloaded
ovn_metadata_enabled = true
END
    cat >/etc/neutron/neutron_ovn_metadata_agent.ini <<END
[DEFAULT]
nova_metadata_host = $address
metadata_proxy_shared_secret = $PASSWORD
metadata_workers = 0
[ovs]
ovsdb_connection = unix:/run/openvswitch/db.sock
[ovn]
ovn_sb_connection = tcp:$address:6642
END
    install -d -o neutron -g neutron /var/lib/neutron/lock
    # as many as the roles start
    workers /etc/keystone/keystone-uwsgi.ini 2 8
    workers /etc/glance/glance-api-uwsgi.ini 2 1
    workers /etc/placement/placement-api-uwsgi.ini 1 8
    workers /etc/nova/nova-api-uwsgi.ini 2 1
    workers /etc/nova/nova-api-metadata-uwsgi.ini 1 1
    workers /etc/neutron/neutron-api-uwsgi.ini 2 1
    echo NOVA_CONSOLE_PROXY_TYPE=novnc >/etc/default/nova-consoleproxy
    # a container has no control groups for QEMU
    echo 'cgroup_controllers = []' >>/etc/libvirt/qemu.conf
}

start_keystone() {
    local url=http://$address:5000/v3
    runuser -u keystone -- keystone-manage db_sync
    keystone-manage fernet_setup --keystone-user keystone --keystone-group keystone
    keystone-manage credential_setup --keystone-user keystone --keystone-group keystone
    runuser -u keystone -- keystone-manage bootstrap --bootstrap-password "$PASSWORD" --bootstrap-region-id RegionOne \
        --bootstrap-admin-url "$url" --bootstrap-internal-url "$url" --bootstrap-public-url "$url"
    systemctl restart keystone
    await answers 5000
    python3 - "$address" "$PASSWORD" <<'END'
import sys

import openstack

address, password = sys.argv[1:]
names = {"user_domain_name": "Default", "project_domain_name": "Default", "region_name": "RegionOne"}
identity = openstack.connect(auth_url=f"http://{address}:5000/v3", username="admin", password=password, project_name="admin", **names).identity
project = identity.create_project(name="service", domain_id="default")
roles = [identity.find_role(name) or identity.create_role(name=name) for name in ("admin", "service")]
urls = {"image": ("glance", "9292"), "placement": ("placement", "8778"), "compute": ("nova", "8774/v2.1"), "network": ("neutron", "9696")}
for kind, (name, rest) in urls.items():
    user = identity.create_user(name=name, password=password, domain_id="default")
    for role in roles:
        identity.assign_project_role_to_user(project, user, role)
    service = identity.create_service(name=name, type=kind)
    for interface in ("public", "internal", "admin"):
        identity.create_endpoint(service_id=service.id, interface=interface, url=f"http://{address}:{rest}", region_id="RegionOne")
END
}

make_tables() {
    runuser -u glance -- glance-manage db_sync
    runuser -u placement -- placement-manage db sync
    runuser -u nova -- nova-manage api_db sync
    runuser -u nova -- nova-manage cell_v2 map_cell0 --database_connection "mysql+pymysql://nova:$PASSWORD@$address/nova_cell0?charset=utf8"
    runuser -u nova -- nova-manage cell_v2 create_cell --name cell1
    runuser -u nova -- nova-manage db sync
    runuser -u neutron -- neutron-db-manage --config-file /etc/neutron/neutron.conf --config-file /etc/neutron/plugins/ml2/ml2_conf.ini upgrade heads
}

mapped() {
    runuser -u nova -- nova-manage cell_v2 discover_hosts
    runuser -u nova -- nova-manage cell_v2 list_hosts | grep -q "$HOSTNAME"
}

start_services() {
    local port
    systemctl restart glance-api placement-api nova-api nova-api-metadata nova-novncproxy neutron-api
    systemctl restart nova-conductor nova-scheduler
    for port in 9292 8778 8774 8775 9696; do await answers "$port"; done
    systemctl restart neutron-ovn-maintenance-worker neutron-periodic-workers neutron-ovn-metadata-agent
    systemctl restart polkit libvirtd
    systemctl restart nova-compute
    await mapped
}

main() {
    address=$1 nic=$2
    exec 3>&1 >>"$LOG" 2>&1
    trap 'tail -n 30 "$LOG" >&3' ERR
    step packages && install_packages
    step network && connect_networks
    step databases and messages && start_backends
    step configuration && configure
    step keystone && start_keystone
    step tables && make_tables
    step services && start_services
    step ready
}

# the rest of the input is the script
main "$@" </dev/null
