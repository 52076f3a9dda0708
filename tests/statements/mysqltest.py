"""The statements of a .test file of mysqltest, in their order. Conditions and loops are not acted on: what stands in them is taken once.

What is left out: statements with variables whose values are not plain in the file, and what only mysqltest itself does."""

import re
from functools import lru_cache

COMMANDS = set(
    """append_file assert cat_file change_user character_set chmod connect connection copy_file copy_files_wildcard dec delimiter die diff_files
    dirty_close disable_abort_on_error disable_async_client disable_connect_log disable_info disable_metadata disable_parsing disable_ps_protocol
    disable_ps2_protocol disable_query_log disable_reconnect disable_result_log disable_session_track_info disable_testcase disable_view_protocol
    disable_cursor_protocol disable_service_connection disable_prepare_warnings disable_warnings disconnect echo enable_abort_on_error
    enable_async_client enable_connect_log enable_info enable_metadata enable_parsing enable_ps_protocol enable_ps2_protocol enable_query_log
    enable_reconnect enable_result_log enable_session_track_info enable_testcase enable_view_protocol enable_cursor_protocol
    enable_service_connection enable_prepare_warnings enable_warnings end end_timer error evalp exec exec_in_background execw exit
    expr file_exists force-cpdir force-rmdir horizontal_results if inc let list_files list_files_append_file list_files_write_file
    lowercase_result mkdir move_file optimizer_trace output partially_sorted_result perl ping query_attributes query_get_value
    query_horizontal query_vertical real_sleep reap remove_file remove_files_wildcard replace_column replace_numeric_round replace_regex
    replace_result require reset_connection result_format rmdir rpl_sync save_master_pos send send_eval send_quit send_shutdown
    shutdown_server skip skip_if_hypergraph sleep sorted_result source start_timer sync_slave_with_master sync_with_master system
    vertical_results wait_for_slave_to_stop while write_file write_line""".split()
)
BLOCK = re.compile(r"^\s*(?:(?:--)?\s*(?:while|if)\s*\(.*\)?\s*\{?|[{}])\s*$")
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
# The server reads what stands in quotes and comments otherwise.
TOKENS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|/\*.*?\*/|(?:\#|--[ \t])[^\n]*|.""", re.S
)


def statements(home, path, depth=0):
    """A list of texts. Bytes are read as latin1 and so stay as they are."""
    text = path.read_bytes().decode("latin1")
    return list(_Reader(home, path, depth).read(text))


class _Reader:
    def __init__(self, home, path, depth):
        self.home, self.path, self.depth = home, path, depth
        self.delimiter = ";"
        self.variables = {}

    def read(self, text):
        lines = iter(text.split("\n"))
        held = ""
        for line in lines:
            if not held.strip():
                held = ""
                stripped = line.strip()
                if not stripped or stripped.startswith("#") or BLOCK.match(line):
                    continue
                if stripped.startswith("--"):
                    yield from self.command(stripped[2:].strip().rstrip(";"), lines)
                    continue
            held += line + "\n"
            while True:
                cut = self.cut(held)
                if cut is None:
                    break
                statement, held = cut
                word = re.match(r"\s*(\w[\w-]*)", statement)
                if word and word[1].lower() in (*COMMANDS, "eval"):
                    yield from self.command(statement.strip(), lines)
                elif statement.strip() and "$" not in statement:
                    yield statement.strip()
                elif statement.strip():
                    yield from self.evaluated(statement.strip())
            if len(held) > 400_000:
                held = ""

    def cut(self, held):
        """The statement up to the delimiter, and what is behind it."""
        if self.delimiter not in held:
            return None
        for token in TOKENS.finditer(held):
            if len(token[0]) == 1 and held.startswith(self.delimiter, token.start()):
                return held[: token.start()], held[token.start() + len(self.delimiter) :]
        return None

    def command(self, text, lines):
        word = (re.match(r"[\w-]+", text) or [""])[0].lower()
        rest = text[len(word) :].strip()
        if word == "delimiter":
            self.delimiter = rest.split()[0] if rest.split() else ";"
        elif word == "let":
            match = re.match(r"\$?(\w+)\s*=\s*(.*)", rest, re.S)
            if match:
                self.variables[match[1]] = match[2]
        elif word == "source" and self.depth < 4:
            yield from self.sourced(rest)
        elif word in ("perl", "write_file", "append_file"):
            end = (re.match(r"\S+\s+(\w+)$", rest) or [None, "EOF"])[1] if word != "perl" else rest or "EOF"
            for line in lines:
                if line.strip() == end:
                    break
        elif word in ("eval", "evalp"):
            yield from self.evaluated(rest)
        elif word == "exit":
            for _ in lines:
                pass
        elif word and word not in COMMANDS and "$" not in text:
            yield text

    def evaluated(self, text):
        for _ in range(3):
            text = VARIABLE.sub(lambda match: self.variables.get(match[1], match[0]), text)
        if "$" not in text and not text.startswith("`"):
            yield text

    def sourced(self, name):
        name = VARIABLE.sub(lambda match: self.variables.get(match[1], match[0]), name)
        for base in (self.home, self.path.parent):
            path = base / name
            if "$" not in name and path.is_file():
                yield from _included(self.home, path, self.depth + 1)
                return


@lru_cache(maxsize=500)
def _included(home, path, depth):
    return tuple(statements(home, path, depth))
