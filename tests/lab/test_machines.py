# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated server runs real guests, and its power behaves like that of a real server.

A lab of its own name and network; the tests run in order and share it.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
import typing as t
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The gate gives a network that is free; by hand it is this one.
NAME = os.environ.get("LAB_NAME", "machines")
NET = os.environ.get("LAB_NETWORK", "10.216.0.0/24").removesuffix(".0/24")
ENVIRONMENT = {**os.environ, "LAB_NAME": NAME, "LAB_NETWORK": f"{NET}.0/24"}

# The least that libvirt needs to run one guest of each kind on a bridge.
PREPARE = f"""
set -e
apt-get -q update
apt-get -q -y install libvirt-daemon-system libvirt-clients libvirt-daemon-driver-lxc qemu-system-x86
printf '[NetDev]\\nName=br-admin\\nKind=bridge\\n' > /etc/systemd/network/10-br-admin.netdev
printf '[Match]\\nName=br-admin\\n[Network]\\nAddress={NET}.11/24\\nLinkLocalAddressing=no\\n' > /etc/systemd/network/10-br-admin.network
printf '[Match]\\nName=eno1\\n[Network]\\nBridge=br-admin\\n' > /etc/systemd/network/10-eno1.network
networkctl reload
echo 'cgroup_controllers = []' >> /etc/libvirt/qemu.conf
systemctl restart libvirtd
mkdir -p /var/lib/libvirt/guest
python3 -c 'import urllib.request as u; u.urlretrieve("http://{NET}.1:8099/images/debian-root.tar", "/tmp/root.tar")'
tar --xattrs --xattrs-include='*' -xpf /tmp/root.tar -C /var/lib/libvirt/guest
cat > /tmp/container.xml <<X
<domain type='lxc'><name>container</name><memory unit='MiB'>512</memory><vcpu>1</vcpu>
<os><type>exe</type><init>/sbin/init</init></os><features><capabilities policy='allow'/></features>
<devices><filesystem type='mount'><source dir='/var/lib/libvirt/guest'/><target dir='/'/></filesystem>
<interface type='bridge'><source bridge='br-admin'/><mac address='52:54:00:00:00:01'/></interface><console type='pty'/></devices></domain>
X
cat > /tmp/machine.xml <<X
<domain type='qemu'><name>machine</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type><boot dev='network'/></os>
<devices><interface type='bridge'><source bridge='br-admin'/><mac address='52:54:00:00:00:02'/><model type='virtio'/></interface></devices></domain>
X
for kind in lxc:///=container qemu:///system=machine; do
  virsh -c "${{kind%=*}}" define "/tmp/${{kind#*=}}.xml"
  virsh -c "${{kind%=*}}" autostart "${{kind#*=}}"
  virsh -c "${{kind%=*}}" start "${{kind#*=}}"
done
"""


def lab(*arguments: str, script: str | None = None, timeout: float = 240, ok: t.Container[int] = (0,)) -> str:
    argv = [str(ROOT / "lab" / "lab"), *arguments]
    done = subprocess.run(argv, env=ENVIRONMENT, input=script or "", capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode in ok, f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def power(name: str) -> str:
    machines = json.loads(lab("status", "--json", ok=(0, 3)))["machines"]
    return next(machine["power"] for machine in machines if machine["name"] == name)


def eventually(what: str, true: t.Callable[[], t.Any], seconds: float = 60) -> t.Any:
    end = time.monotonic() + seconds
    while True:
        answer = true()
        if answer:
            return answer
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(1)


def leases() -> dict[str, str]:
    """Return the addresses by MAC, as reported by the master."""
    with urllib.request.urlopen(f"http://{NET}.2:8080/leases", timeout=5) as answer:
        return {line.split()[1]: line.split()[2] for line in answer.read().decode().splitlines()}


def running() -> set[str]:
    """Return the names of the running guests of the server."""
    names: set[str] = set()
    for uri in ("lxc:///", "qemu:///system"):
        names.update(lab("ssh", "metal1", "virsh", "-c", uri, "list", "--name", ok=(0, 1, 255)).split())
    return names


def boot() -> str:
    """Return a value that changes with every boot of the server; empty while ssh does not answer."""
    return "".join(lab("ssh", "metal1", "cat", "/proc/1/stat", ok=(0, 255)).split()[21:22])


def guest_processes() -> list[str]:
    """Return the processes of this host that belong to guests of the lab."""
    found = []
    for group in pathlib.Path("/sys/fs/cgroup").rglob(f"rflab-{NAME}-metal1"):
        for procs in group.rglob("cgroup.procs"):
            found += procs.read_text().split()
    return found


def modes() -> dict[str, int]:
    """Return the permissions of the device nodes that are also created in servers."""
    return {name: os.stat(name).st_mode for name in ("/dev/loop-control", "/dev/net/tun", "/dev/fuse")}


@pytest.fixture(scope="module")
def modes_before() -> dict[str, int]:
    return modes()


@pytest.fixture(scope="module", autouse=True)
def _one_lab(modes_before: dict[str, int]) -> t.Iterator[None]:
    lab("up", "--fresh", "--servers", "1", timeout=400)
    yield
    lab("down")


def test_server_runs_containers_and_machines_that_get_addresses() -> None:
    lab("ssh", "metal1", "bash", script=PREPARE)
    for mac in ("52:54:00:00:00:01", "52:54:00:00:00:02"):
        eventually(f"a lease for {mac}", lambda mac=mac: leases().get(mac))
    address = leases()["52:54:00:00:00:01"]
    state = eventually("ssh in the container", lambda: lab("ssh", address, "systemctl is-system-running --wait; hostname", ok=(0, 1, 255)))
    assert state.split() == ["running", "container"]


def test_guests_of_one_image_have_different_identities() -> None:
    root = "/var/lib/libvirt/guest"
    assert lab("ssh", "metal1", "tar", "-xOf", "/tmp/root.tar", "./etc/machine-id") == ""
    assert "ssh_host" not in lab("ssh", "metal1", "tar", "-tf", "/tmp/root.tar", timeout=60)
    assert len(lab("ssh", "metal1", "cat", f"{root}/etc/machine-id").strip()) == 32


def test_guests_are_started_after_a_reboot_of_the_server() -> None:
    before = boot()
    lab("ssh", "metal1", "systemctl", "reboot", ok=(0, 255))
    eventually("a new boot", lambda: boot() not in (before, ""), 90)
    eventually("both guests run", lambda: running() == {"container", "machine"}, 90)


def test_guests_are_started_after_a_power_cut() -> None:
    lab("kill", "metal1")
    assert power("metal1") == "off"
    assert not guest_processes()
    lab("start", "metal1")
    eventually("both guests run", lambda: running() == {"container", "machine"}, 90)


def test_clean_stop_leaves_no_process() -> None:
    lab("stop", "metal1")
    assert power("metal1") == "off"
    assert not guest_processes()


def test_powered_off_master_stays_off() -> None:
    lab("ssh", "laptop", "poweroff", ok=(0, 255))
    eventually("the laptop is off", lambda: power("laptop") == "off")
    lab("up", "--servers", "1")
    assert power("laptop") == "off"


def test_device_nodes_of_the_host_keep_their_modes(modes_before: dict[str, int]) -> None:
    assert modes() == modes_before
