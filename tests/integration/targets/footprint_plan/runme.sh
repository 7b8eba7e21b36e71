#!/usr/bin/env bash
# The planner as a module, and as a playbook with an inventory of unreachable servers.
set -eux -o pipefail

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
export ANSIBLE_INVENTORY_ENABLED=reduced.footprint.nodes,yaml,ini

ansible-playbook -i localhost, files/module.yml
ansible-playbook -i localhost, files/module.yml --check --diff

# two servers: the plan is shown and drawn, and nothing counts as changed
plan() { ansible-playbook -i files/cluster.nodes.yml reduced.footprint.plan_placement -e plan_placement_measure=false "$@" 2>&1 | tee "${work}/out"; }
plan -e plan_placement_svg="${work}/plan.svg"
grep -q "High availability: restart" "${work}/out"
grep -q "the loss of metal1 alone stops the control plane" "${work}/out"
grep -Eq "changed=[1-9]" "${work}/out" && exit 1
python -c 'import sys, xml.etree.ElementTree as tree; assert tree.parse(sys.argv[1]).getroot().tag.endswith("svg")' "${work}/plan.svg"
plan -e plan_placement_svg="${work}/checked.svg" --check
cmp "${work}/plan.svg" "${work}/checked.svg"
# secrets of the VM details are not shown at the highest verbosity
plan -vvv
grep -q not-to-be-seen "${work}/out" && exit 1

# VMs that have no server yet, and a third server: one controller moves
plan -e @files/third_server.json -e plan_placement_ha_required=true -l all
grep -q "High availability: quorum" "${work}/out"
grep -q "c2: metal1 to metal3" "${work}/out" || grep -q "c1: metal1 to metal3" "${work}/out"

# ha_required fails on two servers; a VM that does not fit is reported with a hint; the plan is shown in both cases
if plan -e plan_placement_ha_required=true; then exit 1; fi
grep -q "Plan for cluster blue" "${work}/out"
grep -q "quorum is required" "${work}/out"
if plan -e '{"plan_placement_vms": [{"id": "large", "ram": 500}]}'; then exit 1; fi
grep -q "A change that is sufficient: add 453 GiB of memory to metal2\. Or: add a server with at least 501 GiB of memory and 1 CPU\." "${work}/out"
if plan -e '{"plan_placement_vms": [{"id": "bad", "ram": -1}]}'; then exit 1; fi
grep -q "vms\[0\].ram" "${work}/out"

# a request for 16 GiB gets the server with 16 GiB, not one with 128 GiB, and the reason is shown
pool() { ansible-playbook -i files/pool.nodes.yml reduced.footprint.plan_placement -e plan_placement_measure=false -e "${wish}" "$@" 2>&1 | tee "${work}/out"; }
wish='{"plan_placement_wanted": [{"name": "compute1", "ram": 16, "roles": ["compute"]}]}'
pool
grep -q "compute1: small; matches the request exactly" "${work}/out"
if pool -l large; then exit 1; fi
grep -q "compute1: none; large has 128 GiB memory, not exactly 16 GiB. large would match with match: at_least" "${work}/out"
wish='{"plan_placement_wanted": [{"name": "compute1", "ram": 16, "match": "at_least"}]}'
pool -l large
grep -q "compute1: large" "${work}/out"
