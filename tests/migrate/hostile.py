# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hostile update-initramfs of a copied system: reports which of its attempts to reach the host succeed.

What it could change on the host it only opens, or writes as it was, so that a host without protection is not damaged.
"""

import ctypes
import glob
import json
import os
import signal
import socket
import stat

HOST = json.load(open("/etc/host.json"))
LIBC = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWNS, NEWPID = 0x10000000, 0x00020000, 0x20000000
MACHINE = os.uname().machine
# add_key, keyctl, init_module, finit_module, kexec_load, ptrace, bpf, perf_event_open
NUMBERS = (248, 250, 175, 313, 246, 101, 321, 298) if MACHINE == "x86_64" else (217, 219, 105, 273, 104, 117, 280, 241)
NAMES = ("add_key", "keyctl", "init_module", "finit_module", "kexec_load", "ptrace", "bpf", "perf_event_open")
SYSCALL = dict(zip(NAMES, NUMBERS))
attempts = {}


def attempt(name, work, *arguments):
    """Try in a process of its own; "refused" with the reason, or what was reached."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            how = f"done: {work(*arguments)}"
        except OSError as error:
            how = f"refused: {error.strerror}"
        os.write(writing, how.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        text = stream.read().decode()
    _pid, status = os.waitpid(child, 0)
    attempts[name] = text or f"refused: killed with {status}"


def call(name, *arguments):
    """A C function, or a system call by its number."""
    result = LIBC.syscall(SYSCALL[name], *arguments) if name in SYSCALL else getattr(LIBC, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def exists(path):
    return os.stat(path).st_size


def break_out():
    os.makedirs("/var/prison", exist_ok=True)
    handle = os.open("/", os.O_RDONLY)
    os.chroot("/var/prison")
    os.fchdir(handle)
    for _level in range(64):
        os.chdir("..")
    os.chroot(".")
    return exists(HOST["marker"])


def device(numbers):
    path = f"/var/tmp/{numbers[0]}-{numbers[1]}"
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(*numbers))
    return os.read(os.open(path, os.O_RDWR), 1)


def overwrite(path):
    """Write the first block as it is."""
    handle = os.open(path, os.O_RDWR)
    os.pwrite(handle, os.pread(handle, 512, 0), 0)
    os.fsync(handle)
    return 512


def mount(kind, flags=0, source=b"none"):
    os.makedirs("/var/mnt", exist_ok=True)
    return call("mount", source, b"/var/mnt", kind, flags, None)


def remount(path):
    return call("mount", None, path, None, 32 | 4096, None)


def own_namespaces():
    """With capabilities in namespaces of its own: a new /proc or /sys with what the container must not have."""
    call("unshare", NEWUSER | NEWNS | NEWPID)
    if os.fork():
        os.wait()
        raise PermissionError(1, "no mount in the child")
    for kind in (b"sysfs", b"proc"):
        mount(kind)
    return os.open("/var/mnt/sys/kernel/core_pattern", os.O_WRONLY)


def rewrite(path):
    text = open(path).read()
    with open(path, "w") as stream:
        stream.write(text)


def connect(family, address):
    with socket.socket(family) as connection:
        connection.settimeout(5)
        connection.connect(address)


def others():
    """A process that is not in this container."""
    found = [each for each in glob.glob("/proc/[0-9]*/root") if os.path.exists(each + HOST["marker"])]
    if not found:
        raise FileNotFoundError(2, "nothing found")
    return found


attempt("chroot", break_out)
attempt("marker", exists, HOST["marker"])
for number, each in enumerate(HOST["devices"]):
    attempt(f"mknod {number}", device, each)
attempt("copied device node", overwrite, "/etc/disk")
for kind in (b"sysfs", b"proc", b"tmpfs", b"devtmpfs", b"cgroup2", b"cgroup"):
    attempt(f"mount {kind.decode()}", mount, kind)
for path in (b"/sys", b"/proc/sys", b"/"):
    attempt(f"remount {path.decode()}", remount, path)
attempt("namespaces", own_namespaces)
attempt("setns", lambda: call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
    attempt(path, rewrite, path)
for path in (
    "/sys/kernel/uevent_helper", "/proc/sysrq-trigger", "/proc/kcore", "/proc/1/exe", "/proc/1/mem", "/dev/mem", "/dev/kmsg", "/dev/loop-control",
):  # fmt: skip
    attempt(f"write {path}", lambda path=path: os.open(path, os.O_WRONLY))
attempt("/proc/*/root", others)
attempt("kill", os.kill, HOST["pid"], signal.SIGKILL)
attempt("ptrace", call, "ptrace", 16, HOST["pid"], 0, 0)
attempt("tcp", connect, socket.AF_INET, ("127.0.0.1", HOST["port"]))
attempt("abstract socket", connect, socket.AF_UNIX, "\0" + HOST["socket"])
attempt("raw socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).bind(("eth0", 0)))
attempt("kernel log", call, "klogctl", 3, ctypes.create_string_buffer(64), 64)
attempt("add_key", call, "add_key", b"user", b"footprint-test", b"x", 1, -4)
attempt("keyctl", call, "keyctl", 0, -4, 0)
attempt("init_module", call, "init_module", b"x" * 64, 64, b"")
attempt("finit_module", call, "finit_module", os.open("/etc/host.json", os.O_RDONLY), b"", 0)
attempt("kexec_load", call, "kexec_load", 0, 0, None, 0)
attempt("bpf", call, "bpf", 0, ctypes.create_string_buffer(128), 128)
attempt("perf_event_open", call, "perf_event_open", ctypes.create_string_buffer(128), -1, 0, -1, 0)
devices = [each for each in glob.glob("/dev/*") if stat.S_ISBLK(os.stat(each).st_mode)]
for each in [each for each in devices if each.startswith(HOST["disk"])]:
    attempt(f"write {os.path.basename(each)}", overwrite, each)

own = []
with open("/var/tmp/own", "w") as stream:
    os.fchown(stream.fileno(), 33, 1000)
    own.append("chown")
if all(os.read(os.open(each, os.O_RDONLY), 512) for each in devices):
    own.append("read disk")
if all(os.path.exists(each) for each in glob.glob("/dev/disk/by-uuid/*")) and os.listdir("/dev/disk/by-uuid"):
    own.append("find disk")
report = {"attempts": attempts, "users": open("/proc/self/uid_map").read().split(), "own": own, "devices": sorted(os.path.basename(each) for each in devices)}
with open("/boot/initrd.img-1", "w") as stream:
    json.dump(report, stream)
