# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster of Ceph on one server of the lab, as an operator has it outside of the footprint: a monitor, a manager and a disk in a file, without copies."""

from __future__ import annotations

import json

from cloud_lab import CloudLab
from support import eventually

POOL, USER = "volumes", "cinder"
PACKAGES = "ceph-mon ceph-mgr ceph-osd ceph-common"
SCRIPT = """
set -e
[ -e /root/ceph-ready ] && exit 0
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends PACKAGES
fsid=$(cat /proc/sys/kernel/random/uuid) osd=$(cat /proc/sys/kernel/random/uuid)
cat > /etc/ceph/ceph.conf <<CONF
[global]
fsid = $fsid
mon_host = ADDRESS
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
mon_data_avail_warn = 1
osd_memory_target = 939524096
auth_allow_insecure_global_id_reclaim = false
CONF
cd "$(mktemp -d)"
admin=/etc/ceph/ceph.client.admin.keyring
ceph-authtool -C mon.keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool -C $admin --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-authtool mon.keyring --import-keyring $admin
monmaptool --create --addv a '[v2:ADDRESS:3300,v1:ADDRESS:6789]' --fsid "$fsid" monmap
mkdir -p /var/lib/ceph/mon/ceph-a /var/lib/ceph/mgr/ceph-a /var/lib/ceph/osd/ceph-0
chown -R ceph: . /var/lib/ceph
chmod 0755 .
ceph-mon --setuser ceph --setgroup ceph --mkfs -i a --monmap monmap --keyring mon.keyring
systemctl enable --now ceph-mon@a
ceph auth get-or-create mgr.a mon 'allow profile mgr' osd 'allow *' -o /var/lib/ceph/mgr/ceph-a/keyring
secret=$(ceph-authtool --gen-print-key)
echo "{\\"cephx_secret\\": \\"$secret\\"}" | ceph osd new "$osd" -i -
truncate -s 8G /var/lib/ceph/osd/ceph-0/block
ceph-authtool -C /var/lib/ceph/osd/ceph-0/keyring -n osd.0 --add-key "$secret"
chown -R ceph: /var/lib/ceph
ceph-osd -i 0 --mkfs --osd-uuid "$osd" --setuser ceph --setgroup ceph
systemctl enable --now ceph-mgr@a ceph-osd@0
ceph osd pool create POOL 8
rbd pool init POOL
ceph auth get-or-create client.USER mon 'profile rbd' osd 'profile rbd pool=POOL' mgr 'profile rbd pool=POOL' > /dev/null
touch /root/ceph-ready
"""


def install(lab: CloudLab, host: str) -> dict[str, object]:
    """Install Ceph; return the backend for ``cinder_volume_backends``."""
    script = SCRIPT
    for word, value in (("PACKAGES", PACKAGES), ("ADDRESS", lab.addresses[host]), ("POOL", POOL), ("USER", USER)):
        script = script.replace(word, value)
    lab.run(host, ["bash", "-s"], stdin=script)
    eventually("the disk of Ceph is up", lambda: json.loads(lab.run(host, ["ceph", "osd", "stat", "--format=json"]))["num_up_osds"] == 1)
    key = lab.run(host, ["ceph", "auth", "get-key", f"client.{USER}"]).strip()
    return {"type": "rbd", "monitors": [lab.addresses[host]], "pool": POOL, "user": USER, "key": key}


def images(lab: CloudLab, host: str) -> list[str]:
    """Return the images in the pool, one for each volume."""
    return list(json.loads(lab.run(host, ["rbd", "ls", "--format=json", POOL])))
