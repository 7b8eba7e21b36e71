# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a cluster of two servers. No input and output."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Cluster

#: Of a server, and of a witness, which may be a server of another cluster.
HOME, WITNESS_HOME = "/etc/reduced.footprint/failover", "/etc/reduced.footprint/failover-witness"
COROSYNC, AUTHKEY, SBD = "/etc/corosync/corosync.conf", "/etc/corosync/authkey", "/etc/default/sbd"
AGENT = "/usr/lib/ocf/resource.d/footprint/vm"
RUNS = f"{HOME}/runs-vm"
BUNDLE = f"{HOME}/bmc-ca.pem"
#: On a witness, the environment whose clusters it has votes in.
ENVIRONMENT = f"{WITNESS_HOME}/environment"
VOTES = "/etc/corosync/qnetd/nssdb"
#: Seconds after which a watchdog resets a server that lost its majority; the other one relies on that after twice that time.
WATCHDOG = 15
_PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils._standby"

_DATABASE = """#!/bin/sh
# nssdb FOLDER NAME OWNER: makes the certificate database of Corosync's vote from the PEM files beside this script (reduced.footprint).
set -eu
home=$(dirname "$0") new=$1.new
rm -rf "$new"
mkdir -p "$new"
chmod 0750 "$new"
: >"$new/pwdfile.txt"
certutil -N -d "$new" -f "$new/pwdfile.txt"
certutil -A -d "$new" -f "$new/pwdfile.txt" -t CT,c,c -n "QNet CA" -i "$home/ca.pem"
openssl pkcs12 -export -in "$home/certificate.pem" -inkey "$home/key.pem" -name "$2" -passout pass: -out "$new/key.p12"
pk12util -i "$new/key.p12" -d "$new" -k "$new/pwdfile.txt" -W "" >/dev/null
rm "$new/key.p12"
chown -R "$3" "$new" && chmod -R u=rwX,g=rX,o= "$new"
rm -rf "$1" && mv "$new" "$1"
"""

_RUNS = """#!/bin/sh
# Passes where a VM of the cluster runs: if the link between the servers is lost, this one keeps the vote of the witness (reduced.footprint).
cd /etc/reduced.footprint/vms || exit 1
records=$(grep -l '"role": "owner"' -- *.json 2>/dev/null | xargs -r grep -l '"start": "cluster"' --) || exit 1
for file in /run/libvirt/qemu/*.pid; do
  pid=$(cat "$file" 2>/dev/null) || continue
  [ -r "/proc/$pid/cmdline" ] || continue
  for record in $records; do
    tr '\\0' '\\n' <"/proc/$pid/cmdline" | grep -qxF -- "${record%.json}" && exit 0
  done
done
exit 1
"""

_AGENT = """#!/bin/sh
# OCF resource agent for a VM with a standby (reduced.footprint). It is checked without libvirt, which may be restarting.
case ${1:-} in
start | stop)
  exec env PYTHONPATH=@CODE@ PYTHONDONTWRITEBYTECODE=1 @PYTHON@ -m @PACKAGE@.run_resource "$1"
  ;;
monitor | status)
  for file in /run/libvirt/qemu/*.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    [ -r "/proc/$pid/cmdline" ] || continue
    tr '\\0' '\\n' <"/proc/$pid/cmdline" | grep -qxF -- "${OCF_RESKEY_uuid:-}" && exit 0
  done
  exit 7
  ;;
validate-all | reload | reload-agent)
  exit 0
  ;;
meta-data)
  cat <<'END'
<?xml version="1.0"?>
<!DOCTYPE resource-agent SYSTEM "ra-api-1.dtd">
<resource-agent name="vm" version="1.0">
<version>1.1</version>
<longdesc lang="en">A VM that is started on its second server from its last copy.</longdesc>
<shortdesc lang="en">VM with a standby</shortdesc>
<parameters>
@PARAMETERS@
</parameters>
<actions>
<action name="start" timeout="600s"/>
<action name="stop" timeout="600s"/>
<action name="monitor" timeout="20s" interval="10s" depth="0"/>
<action name="reload-agent" timeout="5s"/>
<action name="validate-all" timeout="5s"/>
<action name="meta-data" timeout="5s"/>
</actions>
</resource-agent>
END
  ;;
*)
  exit 3
  ;;
esac
"""
_PARAMETERS = {"id": "ID of the VM", "cluster": "Name of the environment", "uuid": "UUID of the domain", "name": "Name of the domain"}


def corosync(cluster: Cluster) -> str:
    """Return the configuration of Corosync, which is the same on both servers.

    ``wait_for_all`` with three expected votes: after a start of everything, nothing runs before both servers and the witness have been seen, because
    a server that was lost has old disks. The heuristics give the vote of the witness to the server that runs the VM, not to the first one in the list.
    """
    nodes = ""
    for number, member in enumerate(cluster.members, 1):
        rings = "".join(f"        ring{index}_addr: {address}\n" for index, address in enumerate(member.addresses))
        nodes += f"    node {{\n        name: {member.name}\n        nodeid: {number}\n{rings}    }}\n"
    # the watchdog's daemon relies on a vote only if that is renewed within its time
    sync = f"        sync_timeout: {WATCHDOG * 1000 - 1000}\n" if cluster.watchdog else ""
    return (
        f"# Written by reduced.footprint.\ntotem {{\n    version: 2\n    cluster_name: {cluster.name}\n    transport: knet\n    crypto_cipher: aes256\n"
        f"    crypto_hash: sha256\n    token: 3000\n}}\nnodelist {{\n{nodes}}}\n"
        "quorum {\n    provider: corosync_votequorum\n    wait_for_all: 1\n    expected_votes: 3\n"
        f"    device {{\n        model: net\n        votes: 1\n{sync}"
        f"        net {{\n            host: {cluster.witness}\n            algorithm: ffsplit\n            tls: required\n        }}\n"
        f"        heuristics {{\n            mode: sync\n            exec_vm: {RUNS}\n        }}\n    }}\n}}\n"
        "logging {\n    to_stderr: no\n    to_logfile: no\n    to_syslog: yes\n}\n"
    )


def agent(code: str, python: str) -> str:
    """Return the OCF agent.

    :arg code: the zip with the code that starts and stops VMs.
    """
    parameters = "\n".join(
        f'<parameter name="{name}" required="1" reloadable="1"><longdesc lang="en">{text}</longdesc><shortdesc lang="en">{text}</shortdesc>'
        '<content type="string"/></parameter>'
        for name, text in _PARAMETERS.items()
    )
    words = {"CODE": code, "PYTHON": python, "PACKAGE": _PACKAGE, "PARAMETERS": parameters}
    text = _AGENT
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text


def password_script(name: str) -> str:
    """Return the path of the program that prints the password of a server's management controller."""
    return f"{HOME}/password-{name}"


def member_files(cluster: Cluster, given: t.Mapping[str, t.Any], code: str, python: str) -> list[dict[str, t.Any]]:
    """Return the files of a server, for ``run_service_files``.

    :arg given: ``authkey``, ``key``, ``certificate``, ``ca``, and ``members`` with the passwords and authorities of their controllers.
    """
    files: list[dict[str, t.Any]] = [
        {"path": COROSYNC, "content": corosync(cluster)},
        {"path": AUTHKEY, "content": given["authkey"], "mode": "0400", "secret": True},
        *vote_files(given, HOME, "corosync-qdevice.service", '/etc/corosync/qdevice/net/nssdb "Cluster Cert" root:root'),
        {"path": RUNS, "content": _RUNS, "mode": "0755"},
        {"path": AGENT, "content": agent(code, python), "mode": "0755"},
        {
            "path": "/etc/systemd/system/resource-agents-deps.target.d/reduced-footprint.conf",
            "content": "[Unit]\nWants=libvirtd.service\nAfter=libvirtd.service virtqemud.service\n",
        },
    ]
    authorities = []
    for entry in sorted(given["members"], key=lambda each: str(each["name"])):
        if entry.get("bmc"):
            secret, script = f"{HOME}/bmc-{entry['name']}", password_script(entry["name"])
            files += [
                {"path": secret, "content": f"{entry['bmc']['password']}\n", "mode": "0600", "secret": True},
                {"path": script, "content": f"#!/bin/sh\nexec cat {secret}\n", "mode": "0700"},
            ]
            authorities += [str(entry["bmc_authority"]).strip()] if entry.get("bmc_authority") else []
    if authorities:
        files += [
            {"path": BUNDLE, "content": "".join(f"{each}\n" for each in dict.fromkeys(authorities))},
            # the fence agents inherit it; they have no option for it
            {
                "path": "/etc/systemd/system/pacemaker.service.d/reduced-footprint.conf",
                "content": f"[Service]\nEnvironment=REQUESTS_CA_BUNDLE={BUNDLE}\n",
            },
        ]
    if cluster.watchdog:
        files.append({"path": SBD, "content": f"SBD_PACEMAKER=yes\nSBD_STARTMODE=always\nSBD_WATCHDOG_DEV=/dev/watchdog0\nSBD_WATCHDOG_TIMEOUT={WATCHDOG}\n"})
    return files


def vote_files(given: t.Mapping[str, t.Any], home: str, unit: str, arguments: str) -> list[dict[str, t.Any]]:
    """Return the certificate of one side of the vote, and what makes its database before the unit starts."""
    return [
        {"path": f"{home}/key.pem", "content": given["key"], "mode": "0600", "secret": True},
        {"path": f"{home}/certificate.pem", "content": given["certificate"]},
        {"path": f"{home}/ca.pem", "content": given["ca"]},
        {"path": f"{home}/nssdb", "content": _DATABASE, "mode": "0755"},
        {
            "path": f"/etc/systemd/system/{unit}.d/reduced-footprint.conf",
            "content": f"[Service]\nExecStartPre=+{home}/nssdb {arguments}\nRestart=always\nRestartSec=2\n",
        },
    ]


def certificate_paths(home: str) -> list[str]:
    """Return the files after whose change the vote is asked for again."""
    return [f"{home}/{name}" for name in ("key.pem", "certificate.pem", "ca.pem", "nssdb")]


def member_units(cluster: Cluster) -> list[dict[str, t.Any]]:
    """Return the units of a server. Corosync and Pacemaker are never restarted by a change: that would stop the VMs."""
    sbd = [{"name": "sbd.service", "enabled": True}] if cluster.watchdog else []
    return [
        *sbd,
        {"name": "corosync.service", "enabled": True, "started": True},
        {"name": "corosync-qdevice.service", "enabled": True, "started": True, "restart_after": certificate_paths(HOME)},
        {"name": "pacemaker.service", "enabled": True, "started": True},
    ]


def witness_files(given: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the files of the witness."""
    votes = vote_files(given, WITNESS_HOME, "corosync-qnetd.service", f'{VOTES} "QNetd Cert" coroqnetd:coroqnetd')
    return [{"path": ENVIRONMENT, "content": f"{given['cluster']}\n"}, *votes]


def witness_units() -> list[dict[str, t.Any]]:
    """Return the units of the witness."""
    return [{"name": "corosync-qnetd.service", "enabled": True, "started": True, "restart_after": certificate_paths(WITNESS_HOME)}]
