"""What a turn of a suite says: tests by name, each "pass", "fail" or "skip", with what it said when it failed."""

import json
import re
import xml.etree.ElementTree as ElementTree


def junit(path, name=None):
    """JUnit's XML, which pytest and mysql-test-run write. `name(case)` makes a test's name."""
    results = {}
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return results
    for case in root.iter("testcase"):
        test = name(case) if name else f"{case.get('classname')}.{case.get('name')}"
        outcome, text = "pass", ""
        for kind in ("failure", "error", "skipped"):
            child = case.find(kind)
            if child is not None:
                outcome = "skip" if kind == "skipped" else "fail"
                text = f"{child.get('message') or ''}\n{child.text or ''}".strip()
                break
        # The set-up, the test and what follows it are cases of one name: the worst of them counts.
        if results.get(test, ("pass",))[0] != "fail":
            results[test] = (outcome, text)
    return results


def go(path):
    """The lines of `go test -json`."""
    results, output = {}, {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        test = event.get("Test") if isinstance(event, dict) else None
        if not test:
            continue
        if event["Action"] == "output":
            output.setdefault(test, []).append(event["Output"])
        elif event["Action"] in ("pass", "fail", "skip"):
            results[test] = (event["Action"], "".join(output.get(test, [])))
        elif event["Action"] == "run":
            # A test that never ends has no other line.
            results.setdefault(test, ("fail", "did not end"))
    return results


_UNITTEST = r"(?:(\w+) \(([\w.]+)\)|((?:\w+\.)+\w+))(?: \(using \w+\))?"
_BEGUN = re.compile(rf"^{_UNITTEST}(?:\n.*?)? \.\.\. ", re.M)
_ENDED = re.compile(r"^(ok|expected failure|FAIL|ERROR|unexpected success|skipped.*)$", re.M)
_REPORTED = re.compile(rf"^={{70}}\n(?:FAIL|ERROR): {_UNITTEST}", re.M)


def unittest(path):
    """What Python's unittest prints with --verbosity 2: "test_name (module.Class...) ... ok", or "module.Class.test_name ... ok"."""
    results, text = {}, path.read_text(errors="replace")

    def each(pattern):
        parts = pattern.split(text)
        for test, place, whole, said in zip(parts[1::4], parts[2::4], parts[3::4], parts[4::4]):
            yield whole or (place if place.endswith(f".{test}") else f"{place}.{test}"), said

    for name, said in each(_BEGUN):
        # What the test itself printed stands in front of the word.
        match = _ENDED.search(said)
        word = match[1] if match else "did not end"
        outcome = "pass" if word in ("ok", "expected failure") else "skip" if word.startswith("skipped") else "fail"
        results[name] = (outcome, word)
    for name, said in each(_REPORTED):
        results[name] = ("fail", re.split(r"\n={70}|\n-{70}\nRan ", said)[0].lstrip("\n-").strip())
    return results


def tap(path, name=""):
    """The lines of the Test Anything Protocol: "ok 1 - text", "not ok 2"."""
    results, seen = {}, {}
    for line in path.read_text(errors="replace").splitlines():
        match = re.match(r"(not )?ok \d+(?: - | )?(.*?)(\s*# (?i:skip|todo).*)?$", line)
        if not match:
            continue
        text = match[2].strip()
        seen[text] = seen.get(text, 0) + 1
        test = f"{name}{text}" + (f" ({seen[text]})" if seen[text] > 1 else "")
        outcome = "skip" if match[3] else "fail" if match[1] else "pass"
        results[test] = (outcome, line)
    return results


def one_line(text, length=240):
    """The line of a failure that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (r"rowstamp: ", r"^E  ", r"query '.*' failed|failed: ", r"\bError\b|error|Exception", r"^[-+]"):
        for line in lines:
            if re.search(pattern, line):
                return line[:length]
    return (lines[-1] if lines else "said nothing")[:length]
