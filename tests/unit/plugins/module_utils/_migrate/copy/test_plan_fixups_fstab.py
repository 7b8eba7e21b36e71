# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fstab as getmntent(3) reads it: spaces in mount points, odd lines, and a second fix-up that changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_fstab import (
    MARK,
    decode,
    encode,
    fields_of,
    fix_fstab,
    fix_mount_unit,
    is_disk,
    option_warnings,
)
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedPartition


def partition(number, mount, fs="ext4", subvolumes=()):
    return PlannedPartition(number, mount, fs, 0, 0, f"aaaa-{number}", f"p{number}", None, subvolumes=tuple(subvolumes))


SPACES = DiskLayout((), (partition(1, "/"), partition(2, "/srv/my data"), partition(3, "/a\tb\\c\nd", "xfs"), partition(4, None, "swap")))


def test_a_mount_point_with_a_space_keeps_its_line_and_its_options():
    before = "/dev/sda1 / ext4 defaults 0 1\n/dev/sda2\t/srv/my\\040data  ext4  noatime,nofail,x-systemd.requires=/my\\040key 0 2\n"
    after = fix_fstab(before, SPACES)
    assert "UUID=aaaa-2 /srv/my\\040data ext4 noatime,nofail,x-systemd.requires=/my\\040key 0 2\n" in after
    assert MARK not in after
    assert "UUID=aaaa-3 /a\\011b\\134c\\012d xfs defaults 0 0\n" in after
    assert fix_fstab(after, SPACES) == after


def test_a_subvolume_with_a_space_is_escaped_as_well():
    layout = DiskLayout((), (partition(1, None, "btrfs", [("/", "@"), ("/home/a b", "@my home")]),))
    after = fix_fstab("/dev/sda1 /home/a\\040b btrfs compress=zstd,subvol=/@my\\040home 0 0\n", layout)
    assert after.splitlines()[0] == "UUID=aaaa-1 /home/a\\040b btrfs compress=zstd,subvol=/@my\\040home 0 0"
    assert fix_fstab(after, layout) == after


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\xa0", "\r"])
def test_only_a_line_feed_ends_a_line_and_only_blanks_end_a_field(odd):
    line = f"nas:/x{odd}y /mnt/a{odd}b nfs defaults 0 0\n"
    assert fix_fstab(line, SPACES).startswith(line)


def test_a_mount_point_of_other_letters_is_found_however_it_is_written():
    layout = DiskLayout((), (partition(1, "/"), partition(2, "/größe")))
    assert decode("/gr\\303\\266\\303\\237e") == "/größe"
    assert "UUID=aaaa-2 /größe ext4 noatime 0 2\n" in fix_fstab("/dev/sda2 /gr\\303\\266\\303\\237e ext4 noatime 0 2\n", layout)


def test_a_mount_unit_whose_folder_has_a_space_speaks_of_the_new_disk():
    text = "[Mount]\nWhat=/dev/sda2\nWhere=/srv/my data\nType=ext3\nOptions=noatime\n"
    assert fix_mount_unit(text, SPACES) == "[Mount]\nWhat=/dev/disk/by-uuid/aaaa-2\nWhere=/srv/my data\nType=ext4\nOptions=noatime\n"
    percent = DiskLayout((), (partition(1, "/"), partition(2, "/50%")))
    assert "by-uuid/aaaa-2" in fix_mount_unit("What=LABEL=x\nWhere=/50%%\n", percent)


def test_a_mount_unit_of_a_disk_that_stays_behind_is_not_waited_for():
    # a file system that excludes covers has no partition
    text = "[Unit]\nBefore=x\n[Mount]\n What = /dev/disk/by-uuid/old\nWhere=/srv/backup\nType=ext4\n"
    after = fix_mount_unit(text, SPACES)
    assert after == f"[Unit]\nBefore=x\n[Mount]\n{MARK} the old disk stayed behind:  What = /dev/disk/by-uuid/old\nWhere=/srv/backup\nType=ext4\n"
    assert fix_mount_unit(after, SPACES) == after
    other = "[Mount]\nWhat=nas:/backup\nWhere=/srv/backup\nType=nfs\n"
    assert fix_mount_unit(other, SPACES) == other


LAYOUT = DiskLayout(
    (), (partition(1, "/"), partition(2, "/srv"), partition(3, "/x", "xfs"), partition(4, None, "btrfs", [("/b", "@b")]), partition(5, "/v", "vfat"))
)


@pytest.mark.parametrize(
    ("mount", "kind", "options", "kept"),
    [
        ("/srv", "ext4", "defaults,prjquota", "defaults"),
        ("/srv", "ext3", "noatime,journal_path=/dev/sdc1,nofail", "noatime,nofail"),
        ("/srv", "ext4", "journal_dev=0x801", "defaults"),
        ("/srv", "ext4", "sb=131072,dax=always,usrquota", "usrquota"),
        ("/srv", "ext4", "x-systemd.requires=/dev/mapper/key,x-systemd.after=dev-sdb1.device,x-systemd.automount", "x-systemd.automount"),
        ("/srv", "ext4", "x-systemd.requires=/my\\040key,x-systemd.requires-mounts-for=/v", "x-systemd.requires=/my\\040key,x-systemd.requires-mounts-for=/v"),
        ("/x", "xfs", "logdev=/dev/sdb1,rtdev=/dev/sdc1,sunit=128,swidth=512,prjquota", "prjquota"),
        ("/b", "btrfs", "device=/dev/sda,device=/dev/sdb,space_cache=v1,compress=zstd,subvol=@old,subvolid=7", "compress=zstd,subvol=/@b"),
        ("/b", "btrfs", "space_cache=v2,nospace_cache", "space_cache=v2,subvol=/@b"),
        ("/v", "vfat", "umask=0077,x-systemd.wants=dev-sda1.device", "umask=0077"),
    ],
)
def test_options_that_a_new_file_system_lacks_are_dropped_and_named(mount, kind, options, kept):
    fs = "ext4" if kind == "ext3" else kind
    line = f"/dev/sda1 {mount} {kind} {options} 0 2\n"
    after = fix_fstab(line, LAYOUT)
    assert after.splitlines()[0].split(" ")[2:4] == [fs, kept] and fix_fstab(after, LAYOUT) == after
    text = f"[Mount]\nWhat=/dev/sda1\nWhere={mount}\nType={kind}\nOptions={options}\n[Install]\nWantedBy=x\n"
    unit = fix_mount_unit(text, LAYOUT)
    assert f"\nType={fs}\nOptions={kept}\n[Install]\n" in unit and fix_mount_unit(unit, LAYOUT) == unit
    lost = [each for each in options.split(",") if each not in kept.split(",") and not each.startswith("subvol")]
    expected = [f"{mount}: the VM mounts it without {', '.join(lost)}, because its new file system does not have what this requires."] if lost else []
    for tree in ({"/etc/fstab": line}, {"/etc/systemd/system/x.mount": text}):
        assert [each for each in option_warnings(tree) if "quotas" not in each] == expected


def test_options_of_another_file_system_are_not_kept_by_a_mount_unit():
    text = "What=/dev/sda1\nWhere=/srv\nType=f2fs\nOptions=inline_xattr,noatime\n"
    assert fix_mount_unit(text, LAYOUT) == "What=/dev/disk/by-uuid/aaaa-2\nWhere=/srv\nType=ext4\nOptions=defaults\n"


@pytest.mark.parametrize("option", ["usrquota", "prjquota", "quota", "uquota", "gqnoenforce", "grpquota"])
def test_quotas_are_named(option):
    assert any("limits of quotas" in each for each in option_warnings({"/etc/fstab": f"UUID=1 /srv xfs defaults,{option} 0 0\n"}))
    assert option_warnings({"/etc/fstab": "nas:/x /srv nfs quota 0 0\nUUID=1 /srv xfs noquota 0 0\n"}) == []


@pytest.mark.parametrize("device", ["/dev/zram0", "/dev/ram1", "/dev/nbd0", "/dev/rbd0", "/dev/rbd/pool/image", "/dev/shm/x"])
def test_what_is_no_disk_of_the_old_machine_is_kept(device):
    line = f"{device} none swap defaults,discard,pri=100 0 0\n"
    assert fix_fstab(line, SPACES).startswith(line)
    unit = f"[Mount]\nWhat={device}\nWhere=/srv/my data\nType=ext2\n"
    assert fix_mount_unit(unit, SPACES) == unit


# any name a folder can have, those with the characters that fstab escapes more often than not
NAMES = st.text(
    st.one_of(st.sampled_from(" \t\n\\#%,'\"0417äX"), st.characters(exclude_characters="/\0", exclude_categories=("Cs",))), min_size=1, max_size=8
).filter(lambda name: name not in (".", ".."))
MOUNTS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
BLANKS = st.text(" \t", min_size=1, max_size=3)
SPECS = st.one_of(
    st.sampled_from(
        ["/dev/sda1", "UUID=1-2", "LABEL=my\\040disk", "/dev/mapper/vg-a", "uuid=AAAA-2", "UUID=aaaa-1", "tmpfs", "nas:/x", "/swapfile", "/dev/shm/x"]
    ),
    NAMES.map(encode),
)
OPTIONS = st.lists(st.sampled_from(["noatime", "defaults", "nofail", "x-a=/my\\040b", "subvol=/@", "subvolid=256"]), min_size=1, max_size=3).map(",".join)
FS = st.sampled_from(["ext4", "ext3", "xfs", "btrfs", "swap", "nfs"])


@st.composite
def tables(draw):
    mounts = draw(st.lists(MOUNTS, max_size=3, unique=True))
    fses = [draw(st.sampled_from(["ext4", "xfs", "btrfs", "vfat"])) for _each in mounts]
    partitions = [partition(1, "/"), *(partition(index + 2, mount, fs) for index, (mount, fs) in enumerate(zip(mounts, fses)))]
    partitions += [partition(99, None, "swap")] if draw(st.booleans()) else []
    lines = []
    for _number in range(draw(st.integers(0, 6))):
        kind = draw(st.integers(0, 3))
        if kind == 0:
            lines.append(draw(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=20)))
        else:
            mount = encode(draw(st.one_of(st.sampled_from(["/", *mounts]), MOUNTS))) + draw(st.sampled_from(["", "/"]))
            fields = [draw(SPECS), mount, draw(FS), draw(OPTIONS), "0", "2"][: draw(st.integers(2, 6))]
            lines.append(draw(st.sampled_from(["", " ", "\t"])) + "".join(field + draw(BLANKS) for field in fields))
    return DiskLayout((), tuple(partitions)), "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(NAMES)
def test_a_field_comes_back_as_it_was(name):
    assert decode(encode(name)) == name
    assert len(fields_of(f"x {encode(name)} y")) == 3


@given(tables())
def test_any_fstab_is_fixed_once_and_for_all(table):
    layout, before = table
    after = fix_fstab(before, layout)
    # a second time changes nothing
    assert fix_fstab(after, layout) == after
    # every line of the source is there in its order: as it was, commented out, or with its first field changed
    old, new = (before.removesuffix("\n").split("\n") if before else []), after.removesuffix("\n").split("\n")
    uuids = {f"uuid={each.uuid}".lower() for each in layout.partitions}
    for was, became in zip(old, new):
        fields = fields_of(was)
        if len(fields) < 3 or not is_disk(fields[0]) or fields[0].lower() in uuids:
            assert became == was
        elif not became.startswith(MARK):
            assert decode(fields_of(became)[1]) == (decode(fields[1]).rstrip("/") or "/") and len(fields_of(became)) == 6
            if len(fields) > 3 and fields[2] == fields_of(became)[2] != "btrfs":
                assert fields_of(became)[3] == fields[3]
    # no mount point of the layout is missing, and each is named as the kernel will name it
    disks = [fields_of(line) for line in new if len(fields_of(line)) >= 3 and fields_of(line)[0].lower() in uuids]
    assert {each.mount for each in layout.mounts} <= {decode(fields[1]).rstrip("/") or "/" for fields in disks}
