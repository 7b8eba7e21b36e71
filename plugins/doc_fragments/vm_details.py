# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for the VM details of a host, their storage and template."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of vm_define: VM details, storage and template; timeouts and parallelism of a run."""

    DOCUMENTATION = r"""
options:
  vms:
    description:
      - VM details, a list of mappings or the same list as JSON text. An empty list is valid.
      - C(id) is required and unique in the cluster; V(0) is valid. C(name) defaults to it.
      - C(cpu) (or C(vcpus)) is the number of virtual CPUs; C(ram) (or C(mem)) is in GiB, C(memory_mb) in MiB, each with an optional
        unit. The default is 2 CPUs and 2 GiB, with a warning.
      - C(hypervisor) is V(kvm), V(qemu), V(lxc) or V(auto) (the default). V(auto) is C(kvm), and C(qemu) only with O(allow_emulation=true)
        on a host where KVM is not usable. An explicit V(qemu) emulates in any case.
      - Whether KVM is usable is read from the facts of M(reduced.footprint.virt_node). Without such facts the module proves it with a
        test guest, once per boot of the host, also in check mode. Over a remote connection libvirt's capabilities are used. A VM that
        is new on the host is refused without that proof.
      - C(nics) is a list of mappings with C(bridge) or C(network), and C(name), C(vlan), C(mac), C(model), C(virtualport). The
        MAC is derived from C(name), or from the position in the list if C(name) is not set. C(vlan) is refused where libvirt does not
        support it - on a Linux bridge before libvirt 11.0, and on libvirt networks that are neither bridges nor SR-IOV cards.
      - C(disks) is a list of mappings with C(size) (GiB or a unit), C(image) (base image in the folder C(images) of the
        pool), C(backing) (a qcow2 overlay on the image instead of a copy), C(format) (V(raw) or V(qcow2)), C(pool), C(name),
        C(target), C(bus), C(serial), C(protected), C(shareable), C(mount) (containers). C(vda_size) is the size of the first disk. A
        container's disk is a folder in the pool, its size is not enforced.
      - C(name) of a disk is the name of its volume in the pool, by default derived from the position in the list. A disk or NIC keeps
        its volume, target and MAC while the VM has it. An ambiguous edit (for example, removing an entry without a name from the
        middle of the list) is refused, and the error contains the names or MACs to add.
      - The volume name V(images) is reserved in pools of files for the folder of the base images.
      - C(pool) is any active libvirt pool. A pool of block devices (type C(logical), C(disk)) contains raw volumes; their base
        images are read from the folder C(images) of O(pool).
      - A volume, a container's root or a seed that is a symbolic link in its pool is refused. A base image may be a symbolic link.
      - A duplicate key in a mapping of JSON text is an error.
      - A larger C(size) grows an existing volume, also while the VM is running; a smaller size or a different C(format) is refused.
        C(image) and C(backing) are used only when a volume is created. A warning reports later differences, and a missing or changed
        image of an overlay.
      - A disk that another domain of the host uses, also as a backing file, is refused. A raw disk can be shared with C(shareable) in
        the details and C(<shareable/>) in the definition of both VMs; the packaged templates render it.
      - A disk with C(protected) is never deleted, even if C(protected) is later removed from the details of a VM that is removed.
      - C(user_data), C(network_config) and C(meta_data) are for cloud-init, each as text or a mapping (a C(user_data) mapping is
        prefixed with C(#cloud-config)). A machine gets them as a read-only drive labelled C(cidata) if the
        template attaches C(seed), a container as files in its root. The instance id is the VM's UUID, the host name is the VM's
        name. Changed content is written immediately and takes effect at the next boot. Only root and the hypervisor can read it
        on the host. The module does not include it in results, diffs or logs; a loop over VMs does display its item.
      - C(address), C(autostart), C(machine), C(protected), C(roles), C(uuid), and C(boot) (order of V(hd), V(network),
        V(cdrom); by default the disk, then the network) are also supported. C(host), C(anti_affinity), C(nested) and C(standby) are read by
        placement and M(reduced.footprint.vm_standby). Any other key is a variable for the template.
      - C(boot_firmware) is V(bios) or V(efi), with C(secure_boot) for V(efi). They take effect if the template uses them, as the
        packaged templates do; V(efi) requires the package C(ovmf) or C(edk2-ovmf) on the host.
      - The bridge or network of a new NIC must exist and be active, and no other domain of the host may have its MAC.
    type: raw
    default: []
  pool:
    description:
      - The libvirt storage pool of disks without C(pool). It must exist and be active.
      - A pool whose recorded mount point is not mounted is refused, and so is each VM with a disk in it.
    type: str
    default: default
  remove_disks:
    description:
      - With O(state=absent), also delete the volumes of the VM and its cloud-init seed - those defined by its template
        and those in O(vms). An interrupted removal is completed by the next run.
      - Protected disks, base images and volumes that another domain or volume uses are kept, with a warning. Disks attached
        outside of this collection are kept, too, and so are those that the VM could only read, except for its seed.
    type: bool
    default: false
  wipe:
    description:
      - With O(remove_disks), overwrite the volumes with zeros before they are deleted. A copy-on-write file system or a disk that
        remaps its blocks can keep the old data.
    type: bool
    default: false
  recreate_disks:
    description:
      - Names of disks (as in RV(vms[].disks[].name), or V(POOL/NAME)) whose missing volumes may be created again.
      - By default a missing volume of an existing VM is an error, and that VM is not changed or started, because a new volume would be
        empty. The usual fix is to restore the volume, to mount its file system or to start its pool.
      - Existing volumes are left unchanged. A disk or VM with C(protected) and a disk that a running VM still has open are refused in
        any case. A name that no disk in O(vms) has is an error.
    type: list
    elements: str
    default: []
  adopt_disks:
    description:
      - Names of disks with an image (as in RV(vms[].disks[].name), or V(POOL/NAME)) that use an existing volume with its content.
      - By default a volume that exists, but that the VM did not have, is an error, because the content would not be that of the image - the
        disk of a removed VM, for example. A name whose volume does not exist is an error as well. Not needed for disks without an image.
    type: list
    elements: str
    default: []
  only:
    description:
      - Limit the call to VMs with these ids; default all of O(vms). The other VMs are read and checked, and left unchanged.
      - Useful with O(state=absent) and to process one VM at a time. An id that is not in O(vms) is refused.
    type: list
    elements: str
    default: []
  template:
    description:
      - The libvirt XML template, or the name of a packaged template - V(bios), V(uefi), V(lxc), or V(default), which selects the one
        that fits each VM. P(reduced.footprint.vm_template#lookup) returns them.
      - The error of an invalid template or refused document contains the VM, the line of the template and the message of libvirt.
      - A template with C({{), C({%) or C({#) is sandboxed Jinja2; otherwise variables are written in single braces, such as C({id}). Values
        are escaped for XML in both formats.
      - Variables without a value are rendered empty and listed in RV(vms[].missing_variables); unused values are listed in
        RV(vms[].unused_attributes). An unused key without another meaning is an error if it is similar to a known key, for
        example C(memory) for C(ram), and a warning otherwise.
      - Use P(ansible.builtin.file#lookup) to pass the content of a file; Jinja2 written in a play requires C(!unsafe).
    type: str
    default: default
  strict:
    description:
      - Refuse unused values, missing variables, and every element and attribute that libvirt's schema does not allow. libvirt itself
        silently drops the latter.
    type: bool
    default: false
  node_roles:
    description: Roles of this host. If set, VM details on a host without the role V(virt) are refused.
    type: list
    elements: str
  host_keys:
    description:
      - Private SSH host keys of VMs by VM id, each an ed25519 key in OpenSSH format without a passphrase.
      - A VM gets its key when its first disk is created and keeps it; existing VMs are not changed. A container gets it in
        C(/etc/ssh) of its root, a machine in the C(vendor-data) of its seed, from which cloud-init installs it at the first
        boot. A machine without a seed, or with host keys in C(user_data), gets no key.
      - RV(vms[].host_key) is the expected public key of the guest. P(reduced.footprint.ssh_host_key#lookup) generates and
        stores the keys.
    type: dict
    default: {}
  authorized_keys:
    description:
      - Public SSH keys of the operator, each the content of a C(.pub) file.
      - A new VM accepts them for root when its first disk is created; existing VMs are not changed. A container gets them in
        C(/root/.ssh/authorized_keys) of its root. A machine gets them in the C(vendor-data) of its seed, from which cloud-init installs
        them at the first boot, for root and for the user of the image.
      - A machine whose first disk is created from an image gets a seed for them also without C(user_data), if the template attaches C(seed).
      - C(ssh_authorized_keys) and C(disable_root) in C(user_data) take precedence.
    type: list
    elements: str
    default: []
  pending_images:
    description:
      - File names of base images that an earlier task downloads. In check mode they count as existing.
    type: list
    elements: str
    default: []
"""

    RUN = r"""
options:
  adopt:
    description:
      - Take over an unmanaged domain with the name or the UUID of a VM. It keeps its UUID, its MACs and the location of its
        disks, now and in later runs; NICs and disks of the details are matched by position, or by C(target).
      - With a packaged template, everything that O(vms) does not name stays as it is, for example the clock, the CPU model and the model of
        a NIC. A template of your own applies as it is written. Additional elements of the domain are kept. O(state=rolled_back) restores the
        original definition.
      - By default such a domain is refused.
    type: bool
    default: false
  allow_emulation:
    description:
      - Allow C(hypervisor=auto) to emulate new VMs where KVM is not usable, which is many times slower.
      - By default such a VM is refused with the reason.
    type: bool
    default: false
  allow_power_cycling:
    description:
      - Restart running VMs with changes that require it (RV(vms[].restart_required)). They are shut down and started again, one VM after
        the other. If a restart fails, the other VMs are not restarted.
      - By default no running VM is ever restarted, and a crashed VM is not cleared.
    type: bool
    default: false
  force:
    description: Power off a VM that does not shut down within O(shutdown_timeout). Removing a VM does so in any case.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds to wait for a VM to shut down, 0 or more.
    type: int
    default: 120
  live_timeout:
    description: Seconds to wait for a guest to release a device or to change its CPUs; for memory, seconds without progress.
    type: int
    default: 10
  lock_timeout:
    description: Seconds to wait for another run on the same host.
    type: int
    default: 300
  parallel:
    description: Maximum number of VMs that are started, stopped or changed in parallel, 1 or more.
    type: int
    default: 4
  wait:
    description:
      - Also wait until each running VM has an address that is known (V(address)), or until a server for ssh answers there (V(ssh)). Then
        RV(vms[].addresses) has them. Only with O(state=running); in check mode the addresses of the moment are returned.
      - libvirt knows the leases of its own networks, the answer of the guest agent and the ARP table of the host. C(address) in the VM details counts
        as known. A lease can be older than the guest's start, V(ssh) cannot.
      - V(ssh) connects to port 22 from the host that runs this module.
      - A VM that is late has RV(vms[].error) and keeps running; the next run waits again. Other runs on the host do not wait for this one meanwhile.
    type: str
    choices: [address, ssh]
  wait_timeout:
    description: Maximum number of seconds to wait with O(wait), for all VMs together.
    type: int
    default: 300
"""
