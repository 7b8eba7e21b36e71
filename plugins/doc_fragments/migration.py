# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of a master's migration, part by part."""

from __future__ import annotations


class ModuleDocFragment:
    """How the source is brought to rest, what is copied where, what is asked of the VM, how the migration runs its course."""

    SOURCE_AT_REST = r"""
options:
  quiesce:
    description:
      - How the source is brought to rest before the last copy. V(stop_services) stops O(services).
      - With V(maintenance_boot) the source restarts once into a level with nothing but network and ssh. Everything rests then,
        whatever O(services) names. On a return it starts what it usually does without another restart; any other restart, such as
        after a power loss, is a usual one. The pause contains that restart. A source that asks for a passphrase at its boot is refused.
    type: str
    choices: [stop_services, maintenance_boot]
    default: stop_services
  services:
    description:
      - Units of the source to stop before the last copy, in this order. They are started in the reverse order on a return.
      - V(all) alone stops every service that runs, and every socket, timer and path that could start one, in systemd's own order,
        and all containers that run. What stays is ssh, the network and its firewall, disks, D-Bus, the journal, logins and systemd's own.
    type: list
    elements: str
    default: []
  containers:
    description:
      - Containers of the source to stop before the last copy, in this order, before O(services), and to start again in the reverse
        order, after them. One that does not run stays as it is.
      - The first boot of the VM starts those that ran, whatever their restart policy.
    type: list
    elements: dict
    default: []
    suboptions:
      engine:
        description: What runs it.
        type: str
        choices: [docker, podman]
        required: true
      name:
        description: Its name.
        type: str
        required: true
"""

    COPYING = r"""
options:
  boot:
    description:
      - Who makes the new disks. With V(image) this host does, and fills them as files.
      - With V(pxe) the VM boots a bootstrap system over the network before the source is touched, made of this host's own packages
        and kernel. It hands its disks out over ssh, by a key and a host key that are made anew for every boot; they are partitioned,
        filled and proven through that. It is off while the copy is rehearsed, and when the VM boots as the master.
      - V(pxe) needs an x86_64 VM of QEMU or KVM whose first card is on a bridge of this host.
    type: str
    choices: [image, pxe]
    default: image
  pxe_serve:
    description:
      - Serve the bootstrap system from this host with O(boot=pxe). DHCP and TFTP are asked on the bridge then, answer the VM's card
        alone, use link-local addresses, and come before a DHCP server of that network.
      - With V(false) the source does, or whoever serves its network. What it has to serve lies in
        C(/var/cache/reduced.footprint/bootstrap-NAME) of this host once V(prepare) was gone through, see O(stop_after).
    type: bool
    default: true
  sync:
    description:
      - How its content comes over. With V(rsync) files do.
      - With V(rsync_dd) what holds no file system comes too, block by block and only what changed since the copy before; partitions,
        volumes and opened disks whose content nothing on the source knows with O(disk_schema=same), else those it names as C(raw).
        They are never made smaller, keep their names and owners, and are proven by hashes in the pause.
    type: str
    choices: [rsync, rsync_dd]
    default: rsync
  disk_schema:
    description:
      - The new disks' partitions. V(same) makes them as the source has them, LVM, md and encryption flattened. Each is as large as
        there but the largest of a disk, which takes the rest; what does not fit so is made smaller as far as its files allow.
      - Otherwise a list of mappings with C(mount) (none for swap), C(fs) (ext4, xfs, btrfs, vfat, swap), C(size) and C(disk), the
        number of the VM's disk, counted from 0. C(size) is a size with a unit (a bare number counts in GiB), a part of the disk
        such as C(30%), or C(rest), the default, which takes what the others leave.
      - In place of C(mount) and C(fs) an entry may have C(raw), any name below C(/dev) of a block device of the source that is
        copied block by block, with O(sync=rsync_dd). Without a C(size) it is as large as there.
      - File systems of the source that get no partition of their own are copied into the one above them.
    type: raw
    default: same
  bandwidth_limit:
    description: The copies before the pause take at most so much per second, a bare number counts in KiB. No limit when left out.
    type: str
  excludes:
    description: Absolute paths or rsync patterns that are not copied.
    type: list
    elements: str
    default: []
"""

    CHECKS = r"""
options:
  rehearse:
    description:
      - Boot the copy on a network of its own before the pause, put O(health_checks) to it, and throw that boot away. When it
        fails, the migration ends there and the source never noticed.
    type: bool
    default: true
  rehearse_timeout:
    description: Seconds the rehearsal gets to boot and answer. Default is what O(boot_timeout) says.
    type: int
  health_checks:
    description:
      - What must answer in the rehearsal, and through the admin address before the VM is taken for good. That ssh shows the
        source's host key is always asked first.
    type: list
    elements: dict
    default: []
    suboptions:
      type:
        description:
          - Kind of question. V(command) and V(unit) are asked inside the VM, over ssh with the one-time key.
        type: str
        choices: [tcp, http, ssh, command, unit]
        default: tcp
      port:
        description: Port for V(tcp) and V(ssh).
        type: int
      url:
        description: Address for V(http).
        type: str
      status:
        description: The status that V(http) must answer with.
        type: int
        default: 200
      command:
        description: Program and arguments for V(command); no shell reads them. Exit code 0 is healthy.
        type: list
        elements: str
      unit:
        description: The systemd unit that must be active, for V(unit).
        type: str
      rehearse:
        description: Ask it in the rehearsal too; V(false) for what needs the world outside of the VM.
        type: bool
        default: true
"""

    COURSE = r"""
options:
  hooks:
    description:
      - Commands of your own around the phases, in their order. One that fails makes its phase fail, in the pause everything returns
        to the source. A phase that is gone through again runs its hooks again.
      - Hooks from V(quiesce) to V(cutover) make the pause longer. After V(commit) the source accepts no command any more.
    type: list
    elements: dict
    default: []
    suboptions:
      phase:
        description: The phase it belongs to.
        type: str
        choices: [preflight, define, prepare, partition, precopy, rehearse, quiesce, final, fixup, verify, cutover, commit]
        required: true
      when:
        description: Before or after the phase.
        type: str
        choices: [before, after]
        default: before
      "on":
        description: Where it runs, as root.
        type: str
        choices: [source, destination]
        default: destination
      command:
        description: Program and arguments; no shell reads them. They are kept in a file that only root can read, but processes show them.
        type: list
        elements: str
        required: true
      timeout:
        description: Seconds it may take.
        type: int
        default: 600
  max_worktime:
    description:
      - Seconds that everything before the pause may take in one run; V(0) sets no limit. A run that is not done by then ends without
        having been felt, the next one goes on with what was copied.
    type: int
    default: 0
  max_passes:
    description: At most so many live copies before the pause.
    type: int
    default: 6
  max_downtime:
    description: Copy live again until a pass takes no longer than so many seconds.
    type: int
    default: 5
  boot_timeout:
    description: Seconds the VM gets to boot and answer all checks before everything returns to the source.
    type: int
    default: 300
  return_after:
    description: Seconds without word from this host after which the source returns by itself.
    type: int
    default: 120
  source_after:
    description: After a good migration the source stays up at its temporary address with its services held, or is shut down.
    type: str
    choices: [temp_address, shutdown]
    default: temp_address
  stop_after:
    description:
      - Stop after this phase, one of V(preflight), V(define), V(prepare), V(partition), V(precopy) and V(rehearse). Every further
        run with it brings the copy up to date, for days if that suits; a run without it goes through to the end.
    type: str
"""
