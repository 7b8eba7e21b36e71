# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server: a machine with its own kernel, reached over the NIC that is changed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time
import typing as t

import wire as cables
from seeds import Seed
from server_image import ROOT, Image
from wire import Wire

MACS = ("52:54:00:22:00:00", "52:54:00:22:00:01", "52:54:00:22:00:02")
#: Limit of a boot in seconds; an emulated machine boots in half a minute without other load.
BOOT = 420.0
# the virtual NICs of the host pass on incomplete checksums, which another kernel rejects
PLAIN = "csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"


class Server:
    """A machine with separate disks; ``address`` is its address for the operator."""

    #: MiB
    memory = 640
    cpus = 2
    #: More words of the kernel's command line.
    kernel = ""

    def __init__(self, folder: pathlib.Path, image: Image, wire: Wire, seed: Seed, key: pathlib.Path) -> None:
        self.folder, self.image, self.wire, self.seed, self.key = folder, image, wire, seed, key
        self.disk = folder / "disk.qcow2"
        self.agent = folder / "agent.sock"
        self.console = folder / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._calls = 0
        backing = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.disk), str(self.disk)]
        subprocess.run(backing, check=True)
        seed.write(folder / "seed.tar")

    @property
    def address(self) -> str:
        """Return the address of the server."""
        if self.seed.addressing == "static":
            return cables.SERVER
        return self.wire.leased(MACS[0]) or cables.SERVER

    def on(self) -> None:
        """Power on and wait until the server answers."""
        self.power_on()
        self.wait()

    def power_on(self) -> None:
        """Power on."""
        argv = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", str(self.cpus), "-cpu", "max", "-m", str(self.memory), "-nodefaults", "-no-user-config",
            "-display", "none", "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console",
            "-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd),
            "-append",
            f"root=/dev/vda rw console=ttyS0 net.ifnames=0 init=/usr/local/sbin/first mitigations=off no_timer_check systemd.show_status=1 quiet {self.kernel}",
            "-drive", f"file={self.disk},if=virtio,cache=writeback", "-drive", f"file={self.folder / 'seed.tar'},format=raw,if=virtio,readonly=on",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={self.agent},server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
        ]  # fmt: skip
        for number, (port, mac) in enumerate(self.ports()):
            argv += ["-netdev", f"tap,id=nic{number},ifname={port},script=no,downscript=no"]
            argv += ["-device", f"virtio-net-pci,netdev=nic{number},mac={mac},romfile=,{PLAIN}"]
        for disk in self.more_disks():
            argv += ["-drive", f"file={disk},format=raw,if=virtio,cache=writeback"]
        argv += self.more_options()
        with open(self.folder / "qemu.log", "ab") as log:
            self._process = subprocess.Popen([*cables.WITH_ME, *self.wire.inside(*argv)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ports(self) -> t.Sequence[tuple[str, str]]:
        """Return the tap device and the MAC of each NIC."""
        return [(f"port{number}", mac) for number, mac in enumerate(MACS)]

    def more_disks(self) -> t.Sequence[pathlib.Path]:
        """Return the images of disks other than the system disk."""
        return ()

    def more_options(self) -> t.Sequence[str]:
        """Return QEMU options of other devices."""
        return ()

    def off(self) -> None:
        """Cut the power."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait(self, patience: float = BOOT) -> None:
        """Wait until the server answers at its address."""
        deadline = time.monotonic() + patience
        while not self.answers():
            if self._process is None or self._process.poll() is not None:
                raise AssertionError(f"the machine has ended: {(self.folder / 'qemu.log').read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no answer from {self.address} within {patience:.0f} s\n{self.report()}")
            time.sleep(0.5)

    def answers(self) -> bool:
        """Whether a new connection to the server can be established."""
        return self.ssh("true", check=False).returncode == 0

    def restart(self) -> None:
        """Reboot the server."""
        before = self.boot()
        # the network may stop before the connection is closed
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.ssh("systemctl", "reboot", check=False, timeout=30)
        deadline = time.monotonic() + BOOT
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                if self.boot() != before:
                    return
            time.sleep(1)
        raise AssertionError(f"the server did not come back\n{self.report()}")

    def boot(self) -> str:
        """Return a value that changes with every boot."""
        return self.ssh("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    def ssh_options(self) -> list[str]:
        """Return ssh options for a machine with new host keys, over a network that the tests cut."""
        pairs = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=5", "LogLevel=ERROR",
                 "ServerAliveInterval=5", "ServerAliveCountMax=24")  # fmt: skip
        return [word for pair in pairs for word in ("-o", pair)]

    def ssh(self, *argv: str, check: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command over the network."""
        done = cables.commands(self.wire, ["ssh", "-i", str(self.key), *self.ssh_options(), f"root@{self.address}", *argv], timeout=timeout)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}")
        return done

    def ansible(self, *argv: str, check: bool = True, timeout: float = 400, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Ansible against the server."""
        inventory = self.folder / "inventory"
        inventory.write_text(
            f"server ansible_host={self.address} ansible_user=root ansible_ssh_private_key_file={self.key} "
            f"ansible_python_interpreter=/usr/bin/python3 ansible_ssh_common_args='{' '.join(self.ssh_options())}'\n"
        )
        config = self.folder / "ansible.cfg"
        config.write_text("[defaults]\nhost_key_checking = false\n")
        ansible = [str(ROOT / ".venv" / "bin" / argv[0]), "-i", str(inventory), *argv[1:]]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(config),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            "ANSIBLE_PIPELINING": "1",
            **more,
        }
        done = cables.commands(self.wire, ansible, timeout=timeout, cwd=self.folder, env=environment)
        if check and done.returncode:
            raise AssertionError(f"{argv[0]} ended with {done.returncode}: {done.stdout}")
        return done

    def network(self, check_mode: bool = False, **parameters: t.Any) -> dict[str, t.Any]:
        """Run ``virt_network``."""
        return self.module("virt_network", check_mode, **parameters)

    def module(self, name: str, check_mode: bool = False, **parameters: t.Any) -> dict[str, t.Any]:
        """Run a module of the collection; return its result, also after a failure, and the output as ``shown``."""
        self._calls += 1
        results = self.folder / f"call-{self._calls}"
        argv = ["ansible", "server", "-m", f"reduced.footprint.{name}", "--tree", str(results), "--diff"]
        argv += ["-a", json.dumps(parameters)] if parameters else []
        # a new connection for each call, as required for the confirmation of the network
        done = self.ansible(*argv, *(["--check"] if check_mode else []), check=False, ANSIBLE_SSH_ARGS="-o ControlMaster=no")
        assert (results / "server").exists(), done.stdout
        return {**json.loads((results / "server").read_text()), "shown": done.stdout}

    def state(self) -> dict[str, t.Any]:
        """Return the links by name, as reported by ``ip``, even if the server is unreachable."""
        return {link["ifname"]: link for link in json.loads(self.look("ip", "-j", "-d", "address", "show"))}

    def addresses(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a link."""
        infos = self.state().get(name, {}).get("addr_info", [])
        return [f"{info['local']}/{info['prefixlen']}" for info in infos if info["family"] == "inet"]

    def look(self, *argv: str, patience: float = 60.0) -> str:
        """Run a command through the guest agent, without the network."""
        deadline = time.monotonic() + patience
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(patience)
            agent.connect(str(self.agent))
            lines = agent.makefile("rwb")
            started = _ask(lines, "guest-exec", {"path": argv[0], "arg": list(argv[1:]), "capture-output": True})
            while time.monotonic() < deadline:
                status = _ask(lines, "guest-exec-status", {"pid": started["pid"]})
                if status["exited"]:
                    return base64.b64decode(status.get("out-data", "")).decode("utf-8", "replace")
                time.sleep(0.2)
        raise AssertionError(f"{argv[0]} did not end")

    def report(self) -> str:
        """Return the state of the server for the report of a failure."""
        texts = [f"console:\n{self.console.read_text(errors='replace')[-1500:]}"]
        for argv in (("ip", "address"), ("ip", "route"), ("bridge", "link"), ("journalctl", "--no-pager", "--lines=400", "--output=short-monotonic")):
            try:
                # without log lines of the agent itself
                said = [line for line in self.look(*argv, patience=15).splitlines() if "qemu-ga" not in line]
                texts.append("\n".join([f"{' '.join(argv)}:", *said]))
            except (OSError, ValueError, AssertionError) as error:
                texts.append(f"{' '.join(argv)}: {error}")
        return "\n\n".join(texts)


def _ask(lines: t.Any, command: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    lines.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    lines.flush()
    answer = json.loads(lines.readline() or b"{}")
    if "return" not in answer:
        raise AssertionError(f"{command}: {answer}")
    return answer["return"]
