# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the VMs of a host are to be, their storage, and the template they are made from."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of vm_define about the VMs, and how long and how wide a run is; the others stand there."""

    DOCUMENTATION = r"""
options:
  vms:
    description:
      - VM details, a list of mappings or the same list as JSON text. No details are no error and nothing to do.
      - C(id) is required and unique in the cluster; V(0) is legal. C(name) defaults to it.
      - C(cpu) (or C(vcpus)) counts virtual CPUs; C(ram) (or C(mem)) counts in GiB, C(memory_mb) in MiB, and each takes a
        unit. Without them a VM gets 2 CPUs and 2 GiB, and a warning says so.
      - C(hypervisor) is V(kvm), V(qemu), V(lxc) or V(auto) (the default, C(kvm) where the facts of
        M(reduced.footprint.virt_node) prove it usable, else C(qemu) with a warning).
      - An explicit V(kvm) needs that proof for a VM that is new on the host, and is refused without it, in check mode too. Over a remote
        connection libvirt's capabilities count instead.
      - C(nics) is a list of mappings with C(bridge) or C(network), and C(name), C(vlan), C(mac), C(model), C(virtualport). The
        MAC derives from C(name), without it from the position in the list.
      - C(disks) is a list of mappings with C(size) (GiB or a unit), C(image) (base image in the folder C(images) of the
        pool), C(backing) (a qcow2 layer over the image rather than a copy), C(format) (V(raw) or V(qcow2)), C(pool), C(name),
        C(target), C(bus), C(serial), C(protected), C(shareable), C(mount) (containers). C(vda_size) is the size of the first. A container's
        disk is a folder in the pool, its size is not enforced.
      - C(name) of a disk is its volume in the pool; without it that derives from the position in the list. A disk or NIC keeps
        its volume, target and MAC for as long as the VM has it. An edit that leaves open which entry is which (one without a
        name removed from the middle, for example) is refused, and the error says which names or MACs to write.
      - A volume cannot be named V(images) in a pool of files, where this is the folder of the base images.
      - C(pool) is any active pool of libvirt. One of block devices (type C(logical), C(disk)) holds raw volumes; their base
        images come from the folder C(images) of O(pool).
      - A volume, a container's root or a seed that is a symbolic link in its pool is refused, with its target. A base image may be one.
      - A key that JSON text has twice in one mapping is an error.
      - A larger C(size) grows a volume that exists, in the running VM too; a smaller one and another C(format) are refused.
        C(image) and C(backing) count only when a volume is made; a warning says so where they differ later, and also when
        the image behind a layer is gone or is not the same any more.
      - A disk another domain of the host has, or whose backing file it is, is refused. A raw disk can be shared with C(shareable) in
        the details and C(<shareable/>) in the definition of both VMs; the packaged templates write it.
      - A disk with C(protected) is never deleted, also where later details no longer say so for a VM that is removed.
      - C(user_data), C(network_config) and C(meta_data) are for cloud-init, each text or a mapping (C(#cloud-config) is put
        before a C(user_data) that is a mapping). A machine gets them as a read-only drive labelled C(cidata) where the
        template attaches C(seed), a container as files in its root. The instance id is the VM's UUID, the host name its
        name. Changed content is written at once and takes effect at the next boot. Only root and the hypervisor can read it
        on the host, and it appears in no result, difference or log of the module. A loop over VMs shows its item, though.
      - C(address), C(autostart), C(machine), C(protected), C(roles), C(uuid), and C(boot) (order of V(network), V(hd),
        V(cdrom)) are understood too. Any other key is a variable for the template.
      - C(boot_firmware) is V(bios) or V(efi), with C(secure_boot) for V(efi). They count where the template asks for them, as the
        packaged ones do; the host needs the package C(ovmf) or C(edk2-ovmf).
      - A bridge or network that a new NIC names must be there and active, and no other domain of the host may have its MAC.
    type: raw
    default: []
  pool:
    description:
      - The storage pool of libvirt for disks that name none. It must exist and be active.
      - A pool that was seen on a mount point is refused when nothing is mounted there, and so is each VM with a disk in it.
    type: str
    default: default
  remove_disks:
    description:
      - With O(state=absent), also delete the volumes of the VM and its seed of cloud-init. They are those its template gave it
        and those O(vms) names; run it again to finish what was interrupted.
      - Protected disks, base images and whatever another domain or volume needs stay, and a warning says why. So do disks
        somebody else attached.
    type: bool
    default: false
  wipe:
    description:
      - With O(remove_disks), overwrite the volumes before they are deleted. Every block a file occupies is written over with
        zeros; a copy-on-write file system or a disk that remaps its blocks can keep the old ones.
    type: bool
    default: false
  recreate_disks:
    description:
      - Names of disks (as in RV(vms[].disks[].name), or V(POOL/NAME)) whose volumes may be created again when they are missing.
      - A volume that a VM was created with and that is not there any more is otherwise an error of that VM, and nothing of it
        is changed or started, because a new volume would be empty. Usually the way out is to restore the volume, or to mount the
        file system or start the pool that holds it.
      - A volume that exists is left as it is. A disk or VM with C(protected) and a disk that a running VM still has open are refused all
        the same. A name that no disk in O(vms) has is an error.
    type: list
    elements: str
    default: []
  only:
    description:
      - Ids of the VMs this call is about; empty means all of O(vms). The others are read and checked, and left alone.
      - Of use with O(state=absent) and for one machine at a time. An id that O(vms) does not have is refused.
    type: list
    elements: str
    default: []
  template:
    description:
      - The libvirt XML template, or the name of a packaged one - V(bios), V(uefi), V(lxc), or V(default), which takes the one
        that fits each VM. P(reduced.footprint.vm_template#lookup) prints them.
      - A template that is broken, and a document libvirt refuses, is told with the VM, the line of the template and libvirt's own
        words.
      - C({id}) in single braces is replaced as it stands; a text with double braces or C({%) is Jinja2, sandboxed. Values
        are escaped for XML in both.
      - A variable without a value is rendered empty, a value that is not used does no harm; RV(vms[].missing_variables)
        and RV(vms[].unused_attributes) name them.
      - Give the content of a file with P(ansible.builtin.file#lookup); Jinja2 written in a play itself needs C(!unsafe).
    type: str
    default: default
  strict:
    description:
      - Refuse unused values and missing variables instead of naming them, and every element and attribute that libvirt's schema does
        not know. libvirt itself drops those without a word.
    type: bool
    default: false
  node_roles:
    description: Roles of this host. When given, VM details on a host without the role V(virt) are refused.
    type: list
    elements: str
  host_keys:
    description:
      - The private ssh host keys of VMs by their ids, each an ed25519 key in the format of OpenSSH without a passphrase.
      - A VM gets its key when its first disk is made and keeps it; a VM that exists is not touched. A container finds it in
        C(/etc/ssh) of its root, a machine in the C(vendor-data) of its seed, from which cloud-init installs it at the first
        boot. A machine without a seed, or with host keys of its own in C(user_data), gets none.
      - RV(vms[].host_key) is the public key to be expected of the guest. P(reduced.footprint.ssh_host_key#lookup) makes and
        keeps the keys.
    type: dict
    default: {}
  pending_images:
    description:
      - File names of base images that an earlier task is going to fetch. In check mode they count as there.
    type: list
    elements: str
    default: []
"""

    RUN = r"""
options:
  adopt:
    description:
      - Take over a domain that is not ours and has the name or the UUID of a VM. It keeps its UUID, its MACs and its disks
        where they are, now and in later runs; NICs and disks of the details go by their number, or by C(target).
      - The rest becomes as the template says. What the domain has beyond that stays. O(state=rolled_back) goes back to it as it
        was found.
      - Without this such a domain is refused.
    type: bool
    default: false
  allow_power_cycling:
    description:
      - A running VM keeps what cannot be changed while it runs, and RV(vms[].restart_required) says so. With this it is asked
        to shut down and then started, one VM after the other. When one does not come through that, the others are not
        restarted.
      - Without this no running VM is ever restarted, nor are the remains of a crashed one cleared.
    type: bool
    default: false
  force:
    description: Cut the power of a VM that did not shut down within O(shutdown_timeout). Removing a VM does that in any case.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds a VM gets to shut down, 0 or more.
    type: float
    default: 120.0
  live_timeout:
    description: Seconds a guest gets to let go of a device or to change its CPUs; with memory, seconds without progress.
    type: float
    default: 10.0
  lock_timeout:
    description: Seconds to wait for another run on the same host.
    type: float
    default: 300.0
  parallel:
    description: How many VMs start, stop or are changed at once, 1 or more.
    type: int
    default: 4
"""
