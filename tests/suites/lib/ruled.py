"""Rules for the tables of a suite. As a program, `ruled.py TEST_FILE`, it prints those for one test of mysql-test."""

import json
import re
import sys

_ENTRY = re.compile(r"^(?:\S+(?: +[\d:]+)?)?\t+ *\d+ \w+(?: \w+)?\t", re.M)
_NAME = r"(?:`[^`]+`|[\w$]+)"
_CREATE = re.compile(rf"create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?((?:{_NAME}\.)?{_NAME})", re.I)


def rules(schema, tables):
    """Each table has a generator of its own, so that its ids begin at 1."""
    text = [f'schema = "{schema}"']
    for number, table in enumerate(tables):
        text += [
            f"[generators.table{number}]",
            'kind = "sequence"',
            f"[tables.{json.dumps(table)}]",
            'column = "auto"',
            f'generator = "table{number}"',
        ]
    return "\n".join(text) + "\n"


AUTO, PLAIN, KEYED = "auto_increment", "plain", "a key"


def _made(statements):
    """{name: [what each statement that makes a table of this name makes]}. A key without AUTO_INCREMENT is the application's."""
    found = {}
    for statement in statements:
        if match := _CREATE.match(statement.strip()):
            name = match[1].split(".")[-1].strip("`")
            text = statement.lower()
            kind = AUTO if "auto_increment" in text else KEYED if re.search(r"primary\s+key", text) else PLAIN
            if name.isascii():
                found.setdefault(name, []).append(kind)
    return found


def auto_increment_tables(general_log, only_once=False):
    """What the log of statements makes: "ruled", names of tables that are AUTO_INCREMENT each time; "patterns" for names that are so at times, and
    have no key at others (a name would be refused then, and a pattern passes); and the "mixed", which get no rules. With `only_once` a table that
    is made several times is mixed, too: its ids go on, which is declared, and a suite that does it in each test would show nothing else."""
    found = _made(_ENTRY.split(general_log))
    made = {name: set(kinds) for name, kinds in found.items()}
    ruled = sorted(name for name, kinds in made.items() if kinds == {AUTO} and not (only_once and len(found[name]) > 1))
    if only_once:
        return {"ruled": ruled, "patterns": [], "mixed": sorted(name for name, kinds in made.items() if AUTO in kinds and name not in ruled)}
    mixed = sorted(name for name, kinds in made.items() if AUTO in kinds and name not in ruled)
    patterns = set()
    for name in mixed:
        meant = [other for other in made if len(other) == len(name) and other[:-1] == name[:-1] and other not in ruled]
        if not any(KEYED in made[other] for other in meant):
            patterns.add(f"{name[:-1]}?")
    left = [name for name in mixed if f"{name[:-1]}?" not in patterns]
    return {"ruled": ruled, "patterns": sorted(patterns), "mixed": left}


def made_once(test_file):
    """The AUTO_INCREMENT tables that a test makes once: of one that it makes again, the ids go on, which is declared. Names in variables
    are left out, and what `--source` brings is not looked at."""
    text = re.sub(r"^\s*(?:#|--).*$", "", test_file, flags=re.M)
    statements = [re.sub(r"^\s*eval\s+", "", statement, flags=re.I) for statement in text.split(";")]
    return sorted(name for name, kinds in _made(statements).items() if kinds == [AUTO] and "$" not in name)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        print(rules("test", made_once(file.read())), end="")
