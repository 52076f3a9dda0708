"""How suites are had: from the package registries, by their ordinary clients, into the cache folder. Never into the repository."""

import fcntl
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

from machine import CACHE, REPO, SID_ROOT, Missing, call, say


@contextmanager
def once(place):
    """Gives a folder to fill, unless `place` exists; it gets its name when it is whole. Two runs do not fill it at once."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            yield None
            return
        building = Path(f"{place}.tmp")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        yield building
        building.rename(place)


def as_root(command):
    return command if os.getuid() == 0 else ["sudo", *command]


def programs(*names):
    """Programs of Debian's, by tests/install.sh."""
    missing = [name for name in names if not shutil.which(name)]
    if missing:
        call([REPO / "tests" / "install.sh", *missing], quiet=True)
    for name in missing:
        if not shutil.which(name):
            raise Missing(f"there is no {name} on this machine")


def debian(*packages):
    """Debian packages for this machine. No service is started: tests/install.sh forbids it."""
    missing = [name for name in packages if not _installed(name)]
    if not missing:
        return
    say(f"installing {' '.join(missing)}")
    # It takes a package's name where it takes a program's, and ends badly since there is no program of that name.
    call([REPO / "tests" / "install.sh", *missing], quiet=True)
    for name in missing:
        if not _installed(name):
            raise Missing(f"the Debian package {name} cannot be installed")


def _installed(package):
    return "install ok installed" in call(["dpkg-query", "-W", "-f", "${Status}", package], quiet=True)


def sid(*packages):
    """Debian sid's packages, in the root that holds MySQL 9."""
    if not (SID_ROOT / "usr/sbin/mysqld").exists():
        raise Missing(f"no MySQL 9 in {SID_ROOT}: tests/install.sh puts it there")
    if os.getuid() != 0:
        raise Missing("MySQL's own tests need root, for chroot")
    wanted = [name for name in packages if not (SID_ROOT / f"var/lib/dpkg/info/{name}.list").exists()]
    if not wanted:
        return
    say(f"installing {' '.join(wanted)} in {SID_ROOT}")
    policy = SID_ROOT / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    # Sid moves on: what its lists named a month ago is gone.
    call(["chroot", SID_ROOT, "apt-get", "update", "-q", "-o", "Acquire::Check-Valid-Until=false"], env=env, quiet=True)
    call(["chroot", SID_ROOT, "apt-get", "install", "-q", "-y", "--no-install-recommends", *wanted], env=env)


def venv(name, *requirements, debian_packages=()):
    """A virtual environment with these packages of PyPI; returns its python."""
    debian("python3-venv", *debian_packages)
    place = CACHE / "venv" / name
    mark = place / "requirements"
    text = "\n".join(requirements)
    if not mark.exists() or mark.read_text() != text:
        shutil.rmtree(place, ignore_errors=True)
        call(["/usr/bin/python3", "-m", "venv", place])
        call([place / "bin/pip", "install", "-q", *requirements])
        mark.write_text(text)
    return place / "bin/python"


def sdist(requirement, needs=()):
    """The source of a package of PyPI, which holds its tests; returns the unpacked folder."""
    name = re.split("[=<>]", requirement)[0].lower()
    place = CACHE / "sdist" / name
    with once(place) as building:
        if building:
            debian("python3-venv", *needs)
            pip = venv("pip", "pip").parent / "pip"
            command = [pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", building, requirement]
            call(command)
            archive = next(building.glob("*.tar.gz"))
            call(["tar", "xzf", archive, "-C", building])
            archive.unlink()
    return next(path for path in place.iterdir() if path.is_dir())


def debian_source(package):
    """What upstream wrote of a Debian source package, unpacked: the newest release that can be fetched whole."""
    place = CACHE / "debian" / package
    with once(place) as building:
        if building:
            debian("dpkg-dev", "xz-utils")
            said = ""
            for release in ("bookworm", "trixie", "sid", "bullseye"):
                options = _source_options(release)
                call(["apt-get", *options, "update", "-q"], quiet=True)
                said = call(["apt-get", *options, "source", "-q", "--download-only", "--tar-only", package], cwd=building, quiet=True)
                archives = [path for path in building.iterdir() if ".orig.tar." in path.name and path.suffix != ".asc"]
                if archives:
                    break
            else:
                raise Missing(f"no archive of Debian's source package {package}: " + "\n".join(said.splitlines()[-3:]))
            call(["tar", "xf", archives[0], "-C", building])
            for path in building.glob("*.orig.tar.*"):
                path.unlink()
    return next(path for path in place.iterdir() if path.is_dir())


def _source_options(release):
    """For an apt that reads its source lists from the cache folder: the machine's own settings stay as they are."""
    mirror = call(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"], quiet=True)
    uris = [line.split()[1] for line in mirror.splitlines() if line.startswith("Debian ")]
    apt = CACHE / "apt" / release
    (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    uri = uris[0] if uris else "http://deb.debian.org/debian"
    (apt / "sources.list").write_text(f"deb-src [signed-by={keys}] {uri} {release} main\n")
    settings = (
        f"Dir::Etc::SourceList={apt}/sources.list",
        "Dir::Etc::SourceParts=/dev/null",
        f"Dir::State::Lists={apt}/lists",
        f"Dir::Cache={apt}",
        "Acquire::Check-Valid-Until=false",
        "APT::Sandbox::User=root",
    )
    return [word for setting in settings for word in ("-o", setting)]


def copy(place, folder):
    """A suite writes beside its tests: each turn gets a copy of its own."""
    target = folder / place.name
    shutil.copytree(place, target, symlinks=True)
    return target
