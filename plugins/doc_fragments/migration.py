# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for the migration of the master."""

from __future__ import annotations


class ModuleDocFragment:
    """Options to quiesce the source, to copy it, to check the VM, and to control the phases."""

    SOURCE_AT_REST = r"""
options:
  quiesce:
    description:
      - How the source is quiesced before the final copy. V(stop_services) stops O(services).
      - With V(maintenance_boot) the source reboots once into a mode with only network and SSH, in which nothing else runs, regardless of
        O(services). If the source takes over again, it starts its usual units without another reboot; any other reboot, such as after a
        power loss, is a normal one. The pause includes the reboot. A source that asks for a passphrase at boot is refused.
    type: str
    choices: [stop_services, maintenance_boot]
    default: stop_services
  services:
    description:
      - Units of the source to stop before the final copy, in this order. They are started in reverse order if the source takes over again.
      - V(all), as the only entry, stops every running service, and every socket, timer and path that could start one, in systemd's order,
        and all running containers. SSH, the network and its firewall, disks, D-Bus, the journal, logins and the services of systemd continue.
    type: list
    elements: str
    default: []
  containers:
    description:
      - Containers of the source to stop before the final copy, in this order and before O(services), and to start again in reverse
        order after them. Stopped containers stay stopped.
      - The first boot of the VM starts the containers that were running, regardless of their restart policy.
    type: list
    elements: dict
    default: []
    suboptions:
      engine:
        description: Container engine.
        type: str
        choices: [docker, podman]
        required: true
      name:
        description: Name of the container.
        type: str
        required: true
"""

    COPYING = r"""
options:
  boot:
    description:
      - How the new disks are written. With V(image) this host writes them as image files.
      - With V(pxe) the VM boots a bootstrap system over a network that only this host reaches, before the source is changed. The bootstrap
        system consists of the packages and kernel of this host and exports its disks over SSH, with a key and a host key that are generated
        for each boot. The disks are partitioned, filled and verified over this connection. It is off during the rehearsal and when the VM
        boots as the master.
      - V(pxe) requires an x86_64 VM of QEMU or KVM.
    type: str
    choices: [image, pxe]
    default: image
  pxe_from_source:
    description:
      - With O(boot=pxe), first boot the bootstrap system over the admin network from the source, or from another boot server of that network.
        This shows that the VM reaches its network and that the boot server answers it.
      - A system that is booted from a network that others reach cannot prove what it is. Therefore this machine has neither disks nor keys,
        and is powered off when its boot is complete. The disks are exported by a second boot over a network that only this host reaches.
      - The boot server must serve the files in C(/var/cache/reduced.footprint/bootstrap-NAME) of this host, which exist after the phase
        V(prepare), see O(stop_after). The first NIC of the VM must be on a bridge of this host.
    type: bool
    default: false
  sync:
    description:
      - How the content is copied. V(rsync) copies files.
      - V(rsync_dd) also copies devices without a file system, block by block and only the blocks that changed since the previous copy.
        Without O(disk_schema) these are partitions, volumes and opened disks whose content the source does not recognise, otherwise those
        of O(disk_schema[].raw). They never shrink, keep their names and owners, and are verified by hashes during the pause.
    type: str
    choices: [rsync, rsync_dd]
    default: rsync
  disk_schema:
    description:
      - Partitions of the new disks. An empty list creates the layout of the source, without LVM, md and encryption. Each partition has
        its original size, except for the largest of a disk, which gets the remaining space; partitions that do not fit are shrunk as far
        as their files allow.
      - File systems of the source without their own partition are copied into the parent file system.
    type: list
    elements: dict
    default: []
    suboptions:
      mount:
        description: Mount point; none for swap.
        type: str
      fs:
        description: File system. The default is V(vfat) for the EFI system partition, else V(ext4).
        type: str
        choices: [ext4, xfs, btrfs, vfat, swap]
      size:
        description:
          - A size (a number without a unit is in GiB), a part of the disk such as V(30%), or V(rest) for the remaining space. The default
            is V(rest), or the original size of O(disk_schema[].raw).
        type: str
      disk:
        description: Number of the VM's disk, counted from 0.
        type: int
        default: 0
      raw:
        description:
          - Any name below C(/dev) of a block device of the source that is copied block by block, with O(sync=rsync_dd). Excludes
            O(disk_schema[].mount) and O(disk_schema[].fs).
        type: str
  bandwidth_limit:
    description: Bandwidth limit of the copies before the pause, for example V(100 MiB/s). No limit by default.
    type: str
  excludes:
    description:
      - Absolute paths or rsync patterns to exclude from the copy.
      - A file system that is excluded as a whole has no partition, unless O(disk_schema) names its mount point; then it is created empty.
    type: list
    elements: str
    default: []
"""

    CHECKS = r"""
options:
  rehearse:
    description:
      - Boot the copy on an isolated network before the pause, run O(health_checks), and discard all changes of that boot. If it
        fails, the migration ends without an effect on the source.
    type: bool
    default: true
  rehearse_timeout:
    description: Seconds to wait for the rehearsal to boot and pass the checks. Default is the value of O(boot_timeout).
    type: int
  health_checks:
    description:
      - Checks that must pass in the rehearsal, and through the admin address before the migration is committed. A check that SSH presents
        the host key of the source always runs first.
    type: list
    elements: dict
    default: []
    suboptions:
      type:
        description:
          - Type of the check. V(command) and V(unit) run inside the VM, over SSH with the one-time key.
        type: str
        choices: [tcp, http, ssh, command, unit]
        default: tcp
      port:
        description: Port for V(tcp) and V(ssh).
        type: int
      url:
        description: URL for V(http).
        type: str
      status:
        description: Expected status code for V(http).
        type: int
        default: 200
      command:
        description: Program and arguments for V(command), run without a shell. Exit code 0 is healthy.
        type: list
        elements: str
      unit:
        description: The systemd unit that must be active, for V(unit).
        type: str
      rehearse:
        description: Also run the check in the rehearsal; set V(false) for checks that require systems outside of the VM.
        type: bool
        default: true
"""

    COURSE = r"""
options:
  hooks:
    description:
      - Commands to run before or after phases, in this order. If a command fails, its phase fails; during the pause the migration is
        then rolled back to the source. A repeated phase runs its hooks again.
      - Hooks from V(quiesce) to V(cutover) extend the pause. After V(commit) the source accepts no commands.
      - Other hooks than those of a migration that is running, or that was prepared within the last two minutes, are refused. Without any, a run waits for it.
    type: list
    elements: dict
    default: []
    suboptions:
      phase:
        description: The phase of the hook.
        type: str
        choices: [preflight, define, prepare, partition, precopy, rehearse, quiesce, final, fixup, verify, cutover, commit]
        required: true
      when:
        description: Before or after the phase.
        type: str
        choices: [before, after]
        default: before
      "on":
        description: The host on which the command runs, as root.
        type: str
        choices: [source, destination]
        default: destination
      command:
        description: Program and arguments, run without a shell. They are stored in a file that only root can read, but are visible in process lists.
        type: list
        elements: str
        required: true
      command_timeout:
        description: Seconds after which the command fails.
        type: int
        default: 600
  preparation_timeout:
    description:
      - Seconds for all phases before the pause in one run; V(0) means no limit. A run that reaches the limit ends without an
        effect on the source, and the next run continues from the existing copy.
    type: int
    default: 0
  cutover_at:
    description:
      - Time at which the pause begins, with time zone, for example V(2026-12-24T02:00:00+01:00). Until then the source serves, the copy is updated every
        15 minutes and rehearsed again once a day. The module returns when the copy is ready; the rest needs no control node.
      - Another time, or other options with a time, replace those of a migration before its pause. A run without a time does not change them. At most 13 days
        ahead.
      - Without it, the pause begins as soon as the copy is ready.
    type: str
  cutover_window:
    description:
      - Seconds after O(cutover_at) in which the pause may begin, also if the source does not answer at first. Afterwards it does not begin, and the copy is
        kept for the next run.
    type: int
    default: 3600
  max_pause:
    description: Do not begin the pause if it is predicted to take longer than this number of seconds; V(0) accepts any. The copy is kept for the next run.
    type: int
    default: 0
  max_passes:
    description: Maximum number of live copy passes before the pause.
    type: int
    default: 6
  max_downtime:
    description: Repeat the live copy until a pass takes at most this number of seconds.
    type: int
    default: 5
  boot_timeout:
    description: Seconds to wait for the VM to boot and pass all checks before the migration is rolled back to the source.
    type: int
    default: 300
  lease_timeout:
    description:
      - Seconds without contact to this host after which the source takes over again by itself.
      - Must be longer than stopping all services and containers takes; otherwise the source starts them again, and the migration is rolled back.
    type: int
    default: 120
  source_after:
    description: After a successful migration the source keeps running at its temporary address with its services stopped, or is shut down.
    type: str
    choices: [temp_address, shutdown]
    default: temp_address
  stop_after:
    description:
      - Stop after this phase, one of V(preflight), V(define), V(prepare), V(partition), V(precopy) and V(rehearse). Each further
        run with this option updates the copy; a run without it completes the migration.
    type: str
  discard_vm_data:
    description:
      - After the rollback of a VM that has served clients, the data that was written to it exists on its disk only, and the next migration copies over
        it. Such a migration is refused without this option.
    type: bool
    default: false
"""
