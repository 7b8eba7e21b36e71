#!/usr/bin/env bash
# The first inventory, with the facts of this machine for each server: written once, read by the inventory plugin, planned, and never changed again.
set -eux -o pipefail

# in a network of its own: this machine's may have another size, or no default route
[ -n "${INIT_NETWORK:-}" ] || exec env INIT_NETWORK=own unshare --net --mount "$0" "$@"
mount -t sysfs sysfs /sys
ip link set lo up
ip link add nic0 type veth peer name nic1
ip address add 192.0.2.11/24 dev nic0
ip link set nic0 up
ip link set nic1 up
ip route add default via 192.0.2.1

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
mkdir -p "${work}/home/.ssh"
echo "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs me" > "${work}/home/.ssh/id_ed25519.pub"
server=192.0.2.11 first=192.0.2.20 last=192.0.2.30

write() {
    HOME="${work}/home" ansible-playbook reduced.footprint.init -e ansible_connection=local -e ansible_python_interpreter="$(command -v python3)" \
        -e init_servers="metal1=${server}" -e init_user=root -e init_wanted=vms -e init_source= -e init_addresses="${first}-${last}" \
        -e init_directory="${work}/footprint" -e expert_mode=true "$@" < /dev/null 2>&1 | tee "${work}/out"
}
write --check --diff
grep -q "+plugin: reduced.footprint.nodes" "${work}/out"
[ ! -e "${work}/footprint" ]
write
grep -q "changed=1" "${work}/out"
grep -q "all 1 VMs have a server" "${work}/out"
write
grep -q "changed=0" "${work}/out"
if write -e init_addresses="${server}-${server}"; then exit 1; fi
grep -q "init_addresses: contains ${server}, which is in use by metal1" "${work}/out"

cd "${work}/footprint"
export ANSIBLE_CONFIG="${work}/footprint/ansible.cfg"
# ansible-test sets them, and they come before the file
unset "${!ANSIBLE_INVENTORY@}"
HOME="${work}/home" ansible-playbook reduced.footprint.plan_placement -e ansible_connection=local -e ansible_python_interpreter="$(command -v python3)" \
    2>&1 | tee "${work}/out"
grep -q "all 1 VMs have a server" "${work}/out"
grep -q "port: nic0}" inventory/nodes.yml
