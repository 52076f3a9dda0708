"""Processes, ports and folders of one run. Everything that a run starts is known here by its process id, and ended by it."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
SUITES = REPO / "tests" / "suites"
CACHE = Path(os.environ.get("ROWSTAMP_SUITES", "/var/tmp/rowstamp-suites"))
SID_ROOT = Path(os.environ.get("ROWSTAMP_SID_ROOT", "/var/tmp/rowstamp-sid"))
USER = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
# Daemons live in sbin, which an ordinary user's PATH lacks.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"

_spawned = []
_folders = []


class Missing(Exception):
    """A suite, or what it needs, cannot be had on this machine."""


class Broken(Exception):
    """What should have started or run did not."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_folder():
    """A temporary folder, deleted at the end: in memory where there is room for servers, since their tests wait for the disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30
    folder = Path(tempfile.mkdtemp(prefix="rowstamp-suites.", dir=memory if roomy else None))
    _folders.append(folder)
    return folder


def drop_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)
    if folder in _folders:
        _folders.remove(folder)


def free_port():
    """A port below the ephemeral range that nobody listens on."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def spawn(command, log, env=None):
    """Starts the command in the background; it is stopped at the end."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env
        )
    _spawned.append(process)
    return process


def stop(process):
    """TERM, and KILL after fifteen seconds."""
    if process in _spawned:
        _spawned.remove(process)
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(what, process, log, ready, seconds=90):
    """Until `ready()`; raises Broken with the end of the log if the process ends before, or time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if ready():
            return
        time.sleep(0.05)
    tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-15:])
    raise Broken(f"{what} did not start\n{tail}")


def run(command, log, seconds, cwd=None, env=None):
    """Runs a suite's command. Returns its exit code, or None if time was up: then its whole process group is killed."""
    environment = {**os.environ, **{key: str(value) for key, value in (env or {}).items()}}
    with open(log, "ab") as out:
        out.write(f"$ {' '.join(str(word) for word in command)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
        _spawned.append(process)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            out.write(f"\ntime is up after {seconds} s\n".encode())
            return None
        finally:
            # What the command left running belongs to its group.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            if process in _spawned:
                _spawned.remove(process)


def call(command, cwd=None, env=None, seconds=1800, quiet=False):
    """Runs a command of an installation; raises Missing with the end of its output if it fails."""
    environment = {**os.environ, **{key: str(value) for key, value in (env or {}).items()}}
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=cwd,
            env=environment,
            timeout=seconds,
        )
    except FileNotFoundError as error:
        raise Missing(f"there is no program {command[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{command[0]} did not end within {seconds} s") from error
    if done.returncode != 0 and not quiet:
        raise Missing(f"{' '.join(str(word) for word in command)}: " + "\n".join(done.stdout.splitlines()[-8:]))
    return done.stdout


def _clean_up():
    for process in reversed(list(_spawned)):
        try:
            # A suite's command leads a group of its own; a server does not.
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        stop(process)
    for folder in list(_folders):
        drop_folder(folder)


atexit.register(_clean_up)
for _signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(_signal, lambda number, frame: sys.exit(128 + number))
