#!/usr/bin/env bash
# The inventory plugin as a user meets it: one file, beside another source, from the cache, with bad input.
set -eux

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
export ANSIBLE_INVENTORY_ENABLED=reduced.footprint.nodes,ini,yaml

# a lease file as dnsmasq writes it, for the MAC that derives from the cluster "blue" and the id "c1"
ansible-inventory -i files/alone.nodes.yml --host c1 > "${work}/c1.json"
mac="$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["vm_macs"][0])' "${work}/c1.json")"
echo "0 ${mac} 192.0.2.101 c1 *" > "${work}/leases"

cp files/alone.nodes.yml "${work}/leased.nodes.yml"
# an option may be a template
export LEASES="${work}/leases"
echo "dhcp_leases: [${work}/missing, \"{{ lookup('ansible.builtin.env', 'LEASES') }}\"]" >> "${work}/leased.nodes.yml"
ansible-playbook -i "${work}/leased.nodes.yml" files/alone.yml

# kept in the cache the address survives the lease
cat >> "${work}/leased.nodes.yml" <<CACHE
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ${work}/cache
CACHE
sed -i 's/^address_sources:.*/address_sources: [fixed, lease]/' "${work}/leased.nodes.yml"
ansible-playbook -i "${work}/leased.nodes.yml" files/alone.yml
: > "${work}/leases"
ansible-playbook -i "${work}/leased.nodes.yml" files/alone.yml
# but not a change of what is asked
cp "${work}/leased.nodes.yml" "${work}/leased"
echo "exclude_addresses: [192.0.2.101]" >> "${work}/leased.nodes.yml"
ansible-inventory -i "${work}/leased.nodes.yml" --host c1 > "${work}/excluded.json"
grep -q ansible_host "${work}/excluded.json" && exit 1
cp "${work}/leased" "${work}/leased.nodes.yml"
ansible-inventory -i "${work}/leased.nodes.yml" --flush-cache --host c1 > "${work}/flushed.json"
grep -q ansible_host "${work}/flushed.json" && exit 1

# servers of another source, their VM details in host_vars
ansible-playbook -i files/beside files/beside.yml

# they have no defaults
cp -r files/beside "${work}/beside"
echo "vm_defaults: {ram: 4}" >> "${work}/beside/b.nodes.yml"
if ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true ansible-inventory -i "${work}/beside" --list > "${work}/out" 2>&1; then
    exit 1
fi
grep -qF "vm_defaults: does not apply to the VMs of " "${work}/out"

# bad input is refused with its path
for name in files/bad/*.nodes.yml; do
    expected="$(sed -n 's/^# expect: //p' "${name}")"
    if ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true ansible-inventory -i "${name}" --list > "${work}/out" 2>&1; then
        echo "${name} was accepted"
        exit 1
    fi
    tr -s '\n ' '  ' < "${work}/out" | grep -qF -- "${expected}"
done
