"""A test file as segments: statements on tables of their own, in schemas of their own. Each segment is run by itself."""

import json
import re
from dataclasses import dataclass, field

# Of one file, so that a file of loops does not fill the run.
TARGETS_MAX = 400
HIDDEN = "rs_id"

_NAME = r"(?:`[^`]+`|[\w$]+)"
_HEAD = re.compile(r"(?:\s+|/\*!?\d*|/\*.*?\*/|\()*", re.S)
_CREATE = re.compile(
    rf"create\s+(or\s+replace\s+)?(temporary\s+)?table\s+(?:if\s+not\s+exists\s+)?((?:{_NAME}\s*\.\s*)?{_NAME})\s*(\(?)(.*)", re.I | re.S
)
_DROP = re.compile(r"drop\s+(temporary\s+)?tables?\s+(?:if\s+exists\s+)?(.*)", re.I | re.S)
_RENAME = re.compile(r"(?:rename\s+table|alter\s+table\s+\S+.*\srename)\b", re.I | re.S)
_INTO = re.compile(
    rf"(?:insert|replace)\s+(?:(?:low_priority|high_priority|delayed|ignore)\s+)*(?:into\s+)?((?:{_NAME}\s*\.\s*)?{_NAME})"
    rf"|load\s+(?:data|xml)\b.*?\binto\s+table\s+((?:{_NAME}\s*\.\s*)?{_NAME})",
    re.I | re.S,
)
# What these do concerns other sessions, the whole server, files, or is of chance. LAST_VALUE(@a:=...), of generated columns: MariaDB
# 10.11 crashes where another session reads the table than the one that opened it.
UNFIT = re.compile(
    r"""sleep\s*\(|benchmark\s*\(|_lock\s*\(|\brand\s*\(\s*\)|uuid|sysdate|connection_id|random_bytes|outfile|dumpfile|load_file|shutdown|sys_guid
    |\bkill\b|\bglobal\b|persist|master_|source_pos|gtid|password|install|debug|dbug|directory|tablespace|information_schema|performance_schema
    |\bmysql\s*\.|\bsys\s*\.|max_statement_time|max_execution_time|sql_log_bin|pseudo_|server_id|federated|\bspider\b|connect\s*=
    |\bflush\b|backup\s|\bxa\b|\bhandler\s|system_time|system\s+versioning|row_start|lock_wait_timeout|\bcsv\b|\barchive\b|blackhole|\bmerge\b|mrg_myisam
    |default_storage_engine|storage_engine|wait_timeout|aria_|\browid\b|secondary|spatial\s+reference|thread_pool|max_allowed|net_buffer|default_tmp|read_only
    |row_count\s*\(\s*\)\s*,|now\s*\(\s*\d?\s*\)\s*-|profiling|in\s+share\s+mode\s+nowait|(?:insert|replace)\s+delayed|(?:work|commit|rollback)\s+release
    |\bas\s*\(\s*last_value\s*\(\s*@""",
    re.I | re.X,
)
_SYSTEM = re.compile(r"\b(?:mysql|sys)\s*\.", re.I)
_RUN = set(
    """create drop alter insert replace load set update delete truncate begin start commit rollback savepoint release prepare execute
    deallocate call do select with rename""".split()
)
_MADE = {"table", "view", "index", "trigger", "procedure", "function", "temporary", "unique", "or", "fulltext", "spatial", "definer", "aggregate",
         "sequence", "algorithm", "sql"}  # fmt: skip


@dataclass
class Statement:
    text: str
    # An INSERT, REPLACE or LOAD, and the table that it names.
    table: str = ""
    # Without the column that is added, where that is not possible.
    plain: str = ""


@dataclass
class Segment:
    file: str
    number: int
    statements: list = field(default_factory=list)
    ruled: list = field(default_factory=list)

    @property
    def targets(self):
        return sum(bool(statement.table) for statement in self.statements)

    def rules(self, schema):
        """Each table has a generator of its own, so that its ids begin at 1 as the counter does."""
        lines = [f'schema = "{schema}"']
        for number, table in enumerate(self.ruled):
            lines += [f"[generators.g{number}]", 'kind = "sequence"', f"[tables.{json.dumps(table)}]", 'column = "auto"', f'generator = "g{number}"']
        return "\n".join(lines) + "\n"


def bare(name):
    return name.split(".")[-1].strip().strip("`")


def segments(file, texts):
    """A segment ends where all its tables are gone, or one is made a second time: ids of a table that is made again go on, which is declared."""
    found, alive, gone, targets = [], set(), set(), 0
    current = Segment(file, 0)
    for text in texts:
        statement, made = _fit(text)
        if statement is None:
            continue
        if statement.table:
            targets += 1
            if targets > TARGETS_MAX:
                break
        if made and made in gone | alive:
            found.append(current)
            current, alive, gone = Segment(file, len(found)), set(), set()
        if made:
            alive.add(made)
            if statement.plain and made not in current.ruled and made.isascii():
                current.ruled.append(made)
        current.statements.append(statement)
        if dropped := _DROP.match(text):
            names = {bare(name).lower() for name in re.split(r"[,\s]+", dropped[2]) if name}
            gone |= names & alive
            alive -= names
            if not alive and current.targets:
                found.append(current)
                current, gone = Segment(file, len(found)), set()
    found.append(current)
    return [segment for segment in found if segment.targets and segment.ruled]


def _fit(text):
    """The statement as it is run, and the name of the table that it makes."""
    start = _HEAD.match(text).end()
    words = re.findall(r"[\w@]+", text[start : start + 40])
    word = words[0].lower() if words else ""
    # Tables of any name go.
    unfit = _SYSTEM if word == "drop" else UNFIT
    if word not in _RUN or len(text) > 60_000 or unfit.search(text):
        return None, ""
    if word in ("create", "drop", "alter") and len(words) > 1 and words[1].lower() not in _MADE | {"tables", "prepare"}:
        return None, ""
    if word == "select" and not re.search(r"@|into\b|last_insert_id", text, re.I):
        return None, ""
    if word == "rename" or _RENAME.match(text):
        return None, ""
    if match := _CREATE.match(text):
        if match[2]:
            return Statement(text), ""
        name = bare(match[3]).lower()
        if re.search(r"auto_increment", text, re.I):
            return Statement(text, plain=text), name
        if match[4] and not re.match(r"\s*(?:select|like|with|values|\()", match[5], re.I):
            head = text[: match.start(5)]
            return Statement(f"{head}{HIDDEN} BIGINT NOT NULL AUTO_INCREMENT INVISIBLE UNIQUE, {match[5]}", plain=text), name
        return Statement(text), name
    if match := _INTO.match(text[start:]):
        return Statement(text, table=bare(match[1] or match[2])), ""
    return Statement(text), ""

