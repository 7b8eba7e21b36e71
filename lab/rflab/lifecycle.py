# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Up, down and status of a lab."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import typing as t

from . import cloud_image, images, limits, loops, machines, network, procs, registry, teardown
from .say import LabError, run, say, step
from .settings import LAB_DIR, Lab


def up(lab: Lab, servers: int, fresh: bool, laptops: int = 1) -> None:
    """Start the lab: servers, and the laptop that is the master unless only servers are wanted; a second one serves apart from it.

    A complete lab is left unchanged, except that missing machines are added; a broken one is removed first.
    """
    other = teardown.elsewhere(lab)
    if other:
        raise LabError(f"a lab named {lab.title!r} is running from {other}",
                       "remove it there, or set LAB_NAME and LAB_NETWORK for another one")
    teardown.sweep(lab)
    old = ["laptop", "laptop2"][:laptops]
    wanted = [*old, *(f"metal{n}" for n in range(1, servers + 1))]
    cache = images.Cache(lab.release)
    if not fresh and _whole(lab):
        running = (lab.state / "release").read_text().strip()
        if running != lab.release:
            raise LabError(f"the lab {lab.title!r} runs Debian {running}, not {lab.release}", "use lab/lab up --fresh, or another LAB_NAME")
        _write_access(lab)
        _extend(lab, wanted, cache)
        return
    left = teardown.remains(lab)
    if left:
        with step(f"removing an earlier lab ({'; '.join(left)})"):
            teardown.clear(lab)
    images.check_space(lab.state.parent)
    images.public_key()
    with registry.locked():
        network.check_free(lab)
        if not registry.entries():
            cache.clean(lab, cloud_image.places(cache, lab))
        # First the directory: an entry without one is treated as a lab whose checkout no longer exists.
        lab.state.mkdir(mode=0o755)
        (lab.state / "release").write_text(f"{lab.release}\n")
        registry.register(lab)
    _kernel()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        images.build_pool(cache)
        images.build_base(cache)
        tar = pool.submit(images.build_guest, cache, lab)
        disks = pool.submit(images.build_laptop, cache) if old else None
        with step("creating the network"):
            registry.register(lab, loops_made=loops.provide(), limits_before=limits.widen())
            network.make_bridge(lab)
            _write_access(lab)
        with step("booting the servers"):
            for name in (name for name in wanted if name not in old):
                machines.create(lab, lab.machine(name), cache)
                machines.start(lab, lab.machine(name))
        if disks:
            disks.result()
            with step("booting the laptop"):
                for name in old:
                    _boot_laptop(lab, cache, name)
        _fill_mirror(lab, cache, tar.result())
        procs.launch(lab, "mirror", ["rflab.mirror"])
        procs.wait_alive(lab, "mirror")
        with step("waiting until all machines answer"):
            list(pool.map(lambda name: machines.wait_ready(lab, lab.machine(name)), wanted))
        machines.check_reach(lab, lab.machine("metal1"), master=bool(old))
    say(f"the lab is up: {', '.join(wanted)} on {lab.bridge} {lab.cidr}")


def _boot_laptop(lab: Lab, cache: images.Cache, name: str) -> None:
    shutil.copy(cache.laptop / "writer-password", lab.state / "writer-password")
    machines.create(lab, lab.machine(name), cache)
    machines.start(lab, lab.machine(name))


def _kernel() -> None:
    """Load the drivers that the machines need; they have no modules."""
    for module in ("loop", "overlay", "tun", "fuse", "bridge", "veth"):
        if not os.path.exists(f"/sys/module/{module}") and shutil.which("modprobe"):
            run(["modprobe", "--quiet", module], check=False)


def _whole(lab: Lab) -> bool:
    """Return whether the lab is up and complete; machines may be off."""
    if not lab.state.exists() or not registry.registered(lab) or not procs.alive(lab, "mirror"):
        return False
    if lab.bridge not in network.interfaces():
        return False
    made = _made(lab)
    # the mirror is started after the laptop, which is not part of every lab
    if "metal1" not in made:
        return False
    for name in made:
        machine = lab.machine(name)
        if not os.path.ismount(machines.root(lab, machine)):
            return False
        # A record without a process: the supervisor was killed.
        if procs.known(lab, name) and not machines.is_on(lab, machine):
            return False
    return True


def _made(lab: Lab) -> list[str]:
    return [name for name in teardown.names(lab) if (lab.state / name).is_dir()]


def _extend(lab: Lab, wanted: list[str], cache: images.Cache) -> None:
    for name in wanted:
        machine = lab.machine(name)
        if not (lab.state / name).is_dir():
            with step(f"adding {name}"):
                if machine.kind == "laptop":
                    images.build_laptop(cache)
                    _boot_laptop(lab, cache, name)
                else:
                    machines.create(lab, machine, cache)
                    machines.start(lab, machine)
                machines.wait_ready(lab, machine)
        elif not machines.is_on(lab, machine):
            say(f"{name} is off; to power it on: lab/lab start {name}")
    say(f"the lab is up: {', '.join(_made(lab))} on {lab.bridge} {lab.cidr}")


def _write_access(lab: Lab) -> None:
    """Write the key and the inventory of this lab to its state directory."""
    shutil.copy(images.CACHE / "id_ed25519", lab.key)
    os.chmod(lab.key, 0o600)
    shutil.copy(images.CACHE / "id_ed25519.pub", lab.state / "id_ed25519.pub")
    for source in sorted((LAB_DIR / "inventory").rglob("*.yml")):
        target = lab.state / "inventory" / source.relative_to(LAB_DIR / "inventory")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text().replace("10.213.0.", f"{lab.net}.").replace("../../.lab/", "../")
        if lab.name:
            # MAC addresses derive from the name of the cluster, and all labs share the neighbour table of this host.
            text = text.replace("cluster: lab\n", f"cluster: lab-{lab.name}\n")
        target.write_text(text)


def _fill_mirror(lab: Lab, cache: images.Cache, tar: os.PathLike) -> None:
    """Link the content of the mirror: packages and the guests' root."""
    www = lab.state / "www"
    (www / "images").mkdir(parents=True)
    os.symlink(cache.pool, www / "debs")
    os.symlink(tar, www / "images" / images.ROOT_IMAGE)
    os.symlink(f"{tar}.sha256", www / f"images/{images.ROOT_IMAGE}.sha256")


def image(lab: Lab) -> str:
    """Offer the cloud image on the mirror of the running lab; return its URL."""
    if not _whole(lab):
        raise LabError("the lab is not up", "run: lab/lab up")
    return cloud_image.place(lab, cloud_image.build(images.Cache(lab.release), lab))


def down(lab: Lab, force: bool = False) -> None:
    """Remove the lab; with ``force`` also a running one whose checkout no longer exists."""
    other = teardown.elsewhere(lab)
    if other:
        raise LabError(f"the lab named {lab.title!r} is running from {other}", "remove it there")
    teardown.sweep(lab, force)
    if not teardown.remains(lab):
        say("nothing to remove")
        return
    teardown.clear(lab)


def status(lab: Lab) -> dict[str, t.Any]:
    """Return the state: ``machines[]`` with name, address, power on/off, ssh."""
    found = []
    for name in _made(lab):
        machine = lab.machine(name)
        power = machines.is_on(lab, machine)
        found.append({"name": name, "address": machine.address, "power": "on" if power else "off",
                      "ssh": power and machines.answers(machine)})
    return {"lab": lab.title, "up": _whole(lab), "bridge": lab.bridge, "network": lab.cidr, "state": str(lab.state),
            "mirror": lab.mirror_url if procs.alive(lab, "mirror") else None,
            "writer": procs.alive(lab, "writer") is not None, "machines": found}


def show(lab: Lab, facts: dict[str, t.Any]) -> None:
    if not facts["up"]:
        left = teardown.remains(lab)
        print(f"lab {facts['lab']}: " + (f"broken ({'; '.join(left)}); lab/lab up or down removes it" if left else "not up"))
        if not left:
            return
    print(f"lab {facts['lab']} on {facts['bridge']} {facts['network']}, mirror {facts['mirror'] or 'not running'}, "
          f"writer {'running' if facts['writer'] else 'stopped'}")
    for one in facts["machines"]:
        print(f"  {one['name']:<8} {one['address']:<15} power {one['power']:<4} {'ssh answers' if one['ssh'] else ''}".rstrip())


def ssh_argv(lab: Lab, where: str) -> list[str]:
    """Return the ssh command for a machine of the lab, or for any address in its network."""
    address = where if where.startswith(f"{lab.net}.") else lab.machine(where).address
    if not lab.key.exists():
        raise LabError("the lab is not up", "run: lab/lab up")
    return ["ssh", "-q", "-i", str(lab.key), "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={lab.state}/known_hosts",
            "-o", "StrictHostKeyChecking=no", "-o", "ConnectTimeout=10", f"root@{address}"]
