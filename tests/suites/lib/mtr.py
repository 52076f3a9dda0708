"""mysql-test-run, which starts and sets up the servers of its tests itself. The proxy is put in front of them by
through_proxy.sh, which stands where mysql-test-run looks for its client programs."""

import re
import shutil
from pathlib import Path

from ruled import made_once
from ways import UNRULED, haproxy_command, rowstamp_binary, rowstamp_config

# Programs that talk to the server.
CLIENTS = "test client-test admin dump import show check slap"
LINE = re.compile(r"^(?:\[\s*\d+%\]\s+)?([\w-]+\.\S+)((?: '[^']*')*)\s+(?:w\d+\s+)?\[ (\S+) \]\s*(.*)$")
OUTCOMES = {"pass": "pass", "retry-pass": "pass", "fail": "fail", "retry-fail": "fail", "timeout": "fail"}


def bindir(folder, real, names, seen_as=None):
    """A folder like `real`, in which the programs of these names go through the proxy. `seen_as`: its name inside a chroot."""
    place = folder / "bin"
    place.mkdir()
    wrapper = folder / "through_proxy.sh"
    shutil.copy(Path(__file__).with_name("through_proxy.sh"), wrapper)
    for path in real.iterdir():
        (place / path.name).symlink_to(wrapper if path.name in names else (seen_as or real) / path.name)
    return place


def set_up(folder, way, is_ruled, std_data, rsa_key=None):
    """What through_proxy.sh reads: configurations with the port to fill in. The server is on 127.0.0.2 and the proxy on
    127.0.0.1, both at the port that mysql-test-run has chosen."""
    if rsa_key:
        copy = folder / "rsa_key.pem"
        shutil.copy(rsa_key, copy)
        copy.chmod(0o600)
        rsa_key = copy
    config = rowstamp_config(
        folder, "@PORT@", "@PORT@", {} if is_ruled else {"unruled.toml": UNRULED},
        f"{std_data}/server-cert.pem", f"{std_data}/server-key.pem", "root", "", rsa_key,
    )  # fmt: skip
    text = config.read_text().replace('[backend]\naddress = "127.0.0.1', '[backend]\naddress = "127.0.0.2')
    if is_ruled:
        # Each test has rules of its own.
        shutil.copy(Path(__file__).with_name("ruled.py"), folder)
    if way == "wire":
        # In the clear, and with wire.py on either side.
        shutil.copy(Path(__file__).with_name("wire.py"), folder)
        text = text.replace('address = "127.0.0.1', 'address = "127.0.0.4', 1).replace("127.0.0.2", "127.0.0.3")
        text = text.replace("[listen.tls]", '[listen.tls]\nmode = "disabled"')
        text = text.replace('"as_client"', '"disabled"').replace('compression = "disabled"', 'compression = "off"')
        text = text.replace('compression = "any"', 'compression = "off"')
    config.write_text(text)
    haproxy_command(folder, "@PORT@", "@PORT@")
    config = folder / "haproxy.cfg"
    config.write_text(config.read_text().replace("server one 127.0.0.1", "server one 127.0.0.2"))
    binary = folder / "rowstamp"
    shutil.copy(rowstamp_binary(), binary)
    return {"SUITES_WAY": way, "SUITES_FOLDER": folder, "SUITES_ROWSTAMP": binary}


def server_options(way):
    return [] if way == "straight" else ["--mysqld=--bind-address=127.0.0.2"]


def keep_wire(folder, log):
    """What wire.py has written stays beside the log."""
    report = folder / "wire.json"
    if report.exists():
        shutil.copy(report, log.with_suffix(".json"))


def parse(log):
    results, test = {}, None
    for line in log.read_text(errors="replace").splitlines():
        match = LINE.match(line)
        if match:
            test = match[1] + match[2]
            outcome = OUTCOMES.get(match[3], "skip")
            if results.get(test, ("",))[0] != "fail":
                results[test] = [outcome, match[4] if outcome == "skip" else ""]
        elif test and results[test][0] == "fail" and len(results[test][1]) < 4000:
            results[test][1] += line + "\n"
    return {test: tuple(result) for test, result in results.items()}


def chosen(only):
    """Names of tests without their combinations, as mysql-test-run takes them."""
    return sorted({name.split(" ")[0] for name in only})


def ruled_tests(home, pattern, suite):
    """The tests that --ruled is about, as mysql-test-run takes them: those that make an AUTO_INCREMENT table once."""
    files = sorted(home.glob(pattern))
    return [f"{suite}.{file.stem}" for file in files if made_once(file.read_text(errors="replace"))]
