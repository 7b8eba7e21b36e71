#!/usr/bin/env bash
# Topologies as a user meets them: three environments on nine nodes, settings in layers, secrets that stay hidden.
set -eux

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
export ANSIBLE_INVENTORY_ENABLED=reduced.footprint.nodes,ini,yaml ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true
export PLANTED=PLANTED-env

refused() {
    expected="$1"
    shift
    if "$@" > "${work}/out" 2>&1; then
        echo "$* was accepted"
        exit 1
    fi
    tr -s '\n ' '  ' < "${work}/out" | grep -qF -- "${expected}"
}

# three environments on nine nodes, each in groups of its own
cp files/three/* "${work}"
ansible-inventory -i "${work}/hosts.ini" -i "${work}/ccp-1.footprint.yml" -i "${work}/ccp-2.footprint.yml" -i "${work}/ccp-3.footprint.yml" \
    --list > "${work}/three.json"
python - "${work}/three.json" <<'PYTHON'
import json, sys
found = json.load(open(sys.argv[1]))
for number, first in ((1, 1), (2, 4), (3, 7)):
    mine = [f"node{node}" for node in range(first, first + 3)]
    assert found[f"ccp_{number}_neutron_l3_agent"]["hosts"] == mine[:1]
    assert found[f"ccp_{number}_nova_libvirt"]["hosts"] == mine[1:]
    assert sorted(found[f"ccp_{number}_openvswitch"]["hosts"]) == mine
    assert len(found[f"ccp_{number}_horizon"]["hosts"]) == len(found[f"ccp_{number}"]["hosts"]) == 9
    assert found["_meta"]["hostvars"][mine[0]]["footprint_environment"] == f"ccp-{number}"
PYTHON

# a service that needs a host for itself, twice on one
sed 's/node4:/node[14]$:/' "${work}/ccp-2.footprint.yml" > "${work}/twice.footprint.yml"
refused "neutron-l3-agent of ccp-1 and neutron-l3-agent of ccp-2 cannot share the host node1" \
    ansible-inventory -i "${work}/hosts.ini" -i "${work}/ccp-1.footprint.yml" -i "${work}/twice.footprint.yml" --list

# groups that would mix
sed 's/^own_groups: true/own_groups: false/' "${work}/ccp-2.footprint.yml" > "${work}/mixed.footprint.yml"
refused "ccp-1 already has services in this inventory" \
    ansible-inventory -i "${work}/hosts.ini" -i "${work}/ccp-1.footprint.yml" -i "${work}/mixed.footprint.yml" --list

# settings in layers, as YAML and as JSON; secrets never show, not with -vvv either
cp -r files/dump "${work}/dump"
echo something > "${work}/password"
mkdir -p "${work}/dump/host_vars"
cp files/sealed.yml "${work}/dump/host_vars/node2.yml"
ansible-vault encrypt --vault-password-file "${work}/password" "${work}/dump/host_vars/node2.yml"
run=(ansible-playbook -vvv --vault-password-file "${work}/password" -i "${work}/dump/hosts.yml" -i "${work}/dump/net.footprint.yml")
for form in yaml json; do
    "${run[@]}" reduced.footprint.config_dump -e config_dump_origins=true -e "config_dump_format=${form}" \
        -e "config_dump_file=${work}/dumped.${form}" > "${work}/dump-${form}.log"
    grep -q "changed=0" "${work}/dump-${form}.log"
done
"${run[@]}" reduced.footprint.config_dump > "${work}/shown.log"
grep -q "ens10" "${work}/shown.log"
grep -q 'wsrep_sst_auth.*\*\*\*\*' "${work}/shown.log"
test "$(stat -c %a "${work}/dumped.yaml")" = 600
for file in "${work}"/dumped* "${work}"/dump-*.log "${work}/shown.log"; do
    if grep -n PLANTED "${file}"; then
        echo "a secret shows in ${file}"
        exit 1
    fi
done
# no secret was made on the way
test ! -e "${work}/dump/.secrets"
ansible-playbook --vault-password-file "${work}/password" -i "${work}/dump/hosts.yml" -i "${work}/dump/net.footprint.yml" \
    files/look.yml -e "dump_file=${work}/dumped"
refused "galera has no external address: no frontend of the load balancer serves it with TLS" \
    ansible -i "${work}/dump/hosts.yml" -i "${work}/dump/net.footprint.yml" --vault-password-file "${work}/password" db1 \
    -m ansible.builtin.debug -a "msg={{ lookup('reduced.footprint.address', 'database', external=true) }}"
refused "value of config_dump_format must be one of: yaml, json, got: xml" \
    ansible-playbook --vault-password-file "${work}/password" -i "${work}/dump/hosts.yml" -i "${work}/dump/net.footprint.yml" \
    reduced.footprint.config_dump -e config_dump_format=xml
refused "Did you mean config_dump_format?" \
    ansible-playbook --vault-password-file "${work}/password" -i "${work}/dump/hosts.yml" -i "${work}/dump/net.footprint.yml" \
    reduced.footprint.config_dump -e config_dump_fromat=json

# what is asked of a deployment is understood before any host is touched
for asked in "manila|unknown service 'manila'" "keystone|keystone has no host"; do
    refused "${asked#*|}" ansible-playbook -i "${work}/hosts.ini" reduced.footprint.deploy_controllers -e expert_mode=true -e "deploy_controllers_components=${asked%%|*}"
done
refused "dependency cycle between services: a → b → a" ansible-playbook -i "${work}/hosts.ini" reduced.footprint.deploy_controllers \
    -e '{"expert_mode": true, "footprint_services": {"a": {"role": "x.y.z", "depends": ["b"]}, "b": {"role": "x.y.z", "depends": ["a"]}}}'
refused "No host has a service" ansible-playbook -i "${work}/hosts.ini" reduced.footprint.deploy_controllers -e expert_mode=true
