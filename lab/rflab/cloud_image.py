# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cloud image as distributions build theirs, by the role cloud_image, from the packages of the lab and for its mirror."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import types
import uuid

from . import files, images
from .say import run
from .settings import Lab

NAME = "debian-12-genericcloud-amd64.qcow2"
SUMS = "SHA512SUMS"
SIZE = 2048 * 1024 * 1024
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "roles/cloud_image/files/build_cloud_image.py"


def _recipe() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("build_cloud_image", SOURCE)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def places(cache: images.Cache, lab: Lab) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the paths of the image of this lab and of its root in the cache."""
    key = images.fingerprint(cache.base_key, "cloud-2", lab.mirror_url, pathlib.Path(__file__).read_text(), SOURCE.read_text())
    return images.CACHE / f"cloud-{key}", images.CACHE / f"cloudroot-{images.fingerprint(cache.base_key, 'cloudroot-2', SOURCE.read_text())}"


def build(cache: images.Cache, lab: Lab) -> pathlib.Path:
    """Return the image of this lab from the cache; it is built if it is missing. Its packages come from the mirror of the lab."""
    target = places(cache, lab)[0]
    images._once("cloud", target, "building the cloud image", lambda: _image(cache, lab, target))
    return target / NAME


def place(lab: Lab, image: pathlib.Path) -> str:
    """Offer the image on the mirror of a running lab, with its checksums; return its URL."""
    folder = lab.state / "www/images"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (image, image.with_name(SUMS)):
        target = folder / source.name
        files.remove(target)
        os.symlink(source, target)
    return f"{lab.mirror_url}/images/{NAME}"


def _root(cache: images.Cache, lab: Lab) -> pathlib.Path:
    target = places(cache, lab)[1]
    images._once("cloudroot", target, "installing the root of the cloud image", lambda: _install(cache, target))
    return target


def _install(cache: images.Cache, target: pathlib.Path) -> None:
    work = images.CACHE / "part-cloudroot"
    files.remove(work)
    argv = [*images.APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
            "--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
            "--include=" + ",".join(cache.listed["cloud"])]
    argv += [f"--dpkgopt={option}" for option in images.DPKG_OPTIONS]
    argv += [cache.release, str(work), f"deb [trusted=yes] copy://{cache.pool} ./"]
    run(argv, env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"))
    _recipe().clean(work)
    work.rename(target)


def _image(cache: images.Cache, lab: Lab, target: pathlib.Path) -> None:
    work = images.CACHE / "part-cloud"
    files.remove(work)
    work.mkdir()
    root, disk = work / "root", work / "disk.raw"
    run(["cp", "-al", str(_root(cache, lab)), str(root)])
    files.put(root, "etc/apt/sources.list", f"deb [trusted=yes] {lab.mirror_url}/debs ./\n")
    recipe = _recipe()
    recipe.write_disk(root, work, disk, SIZE, uuid.uuid5(uuid.NAMESPACE_URL, str(target)))
    files.remove(root)
    made = work / "made"
    made.mkdir()
    recipe.compress(disk, made / NAME)
    files.put(made, SUMS, f"{recipe.digest(made / NAME)}  {NAME}\n")
    made.rename(target)
    files.remove(work)
