"""PHP's run-tests.php, from Debian's source package php8.2, with Debian's PHP."""

import shutil
from pathlib import Path

import get
import results
from machine import run

SOURCE = "php8.2"


def install():
    get.debian("php8.2-cli", "php8.2-mysql")
    return get.debian_source(SOURCE)


def run_phpt(place, target, folders, env, only, seconds):
    """`folders`: what the tests need of the source; those of the first one are run."""
    home = target.folder / "php"
    home.mkdir()
    shutil.copy(place / "run-tests.php", home)
    for folder in folders:
        shutil.copytree(place / folder, home / folder)
    report = target.folder / "report.xml"
    tests = [home / folders[0]]
    if only:
        files = [tests[0] / f"{name}.phpt" for name in only]
        # PDO's tests for every driver are run by common.phpt, and have the names of files beside it that do not exist.
        tests = sorted({file if file.exists() else tests[0] / "common.phpt" for file in files})
    environment = {"TEST_PHP_JUNIT": report, "NO_INTERACTION": "1", "REPORT_EXIT_STATUS": "1", "SKIP_ONLINE_TESTS": "1", **env}
    # A php.ini of the machine's that takes the two extensions in: -n would leave them out.
    run(["php8.2", "run-tests.php", "-p", "/usr/bin/php8.2", "-q", "--set-timeout", "60", "--show-diff", *tests],
        target.log, seconds, cwd=home, env=environment)  # fmt: skip
    return results.junit(report, lambda case: Path(case.get("name").split(".phpt")[0]).name)
