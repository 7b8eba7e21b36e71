#!/usr/bin/env bash
# The planner as a user meets it: as a module, and as a playbook over an inventory of servers nobody can reach.
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
# not even the most talkative run shows a secret of the VM details
plan -vvv
grep -q not-to-be-seen "${work}/out" && exit 1

# VMs that have no server yet, and a third server: one controller moves
plan -e @files/third_server.json -e plan_placement_ha_required=true -l all
grep -q "High availability: quorum" "${work}/out"
grep -q "c2: metal1 to metal3" "${work}/out" || grep -q "c1: metal1 to metal3" "${work}/out"

# full availability is refused on two servers, what does not fit is named with the hint; the plan is shown all the same
if plan -e plan_placement_ha_required=true; then exit 1; fi
grep -q "Plan for cluster blue" "${work}/out"
grep -q "quorum is required" "${work}/out"
if plan -e '{"plan_placement_vms": [{"id": "large", "ram": 500}]}'; then exit 1; fi
grep -q "The smallest change that would do: add a server with at least 501 GiB of memory and 1 CPU\." "${work}/out"
if plan -e '{"plan_placement_vms": [{"id": "bad", "ram": -1}]}'; then exit 1; fi
grep -q "vms\[0\].ram" "${work}/out"

# a wish for 16 GiB gets the server that has 16; one that has only 128 GiB is not given away for it, and the reason is told
pool() { ansible-playbook -i files/pool.nodes.yml reduced.footprint.plan_placement -e plan_placement_measure=false -e "${wish}" "$@" 2>&1 | tee "${work}/out"; }
wish='{"plan_placement_wanted": [{"name": "compute1", "ram": 16, "roles": ["compute"]}]}'
pool
grep -q "compute1: small; it is what was asked for" "${work}/out"
if pool -l large; then exit 1; fi
grep -q "compute1: none; large has 128 GiB memory, not exactly 16 GiB. With match: at_least large would do" "${work}/out"
wish='{"plan_placement_wanted": [{"name": "compute1", "ram": 16, "match": "at_least"}]}'
pool -l large
grep -q "compute1: large" "${work}/out"
