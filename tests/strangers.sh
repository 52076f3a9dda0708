#!/usr/bin/env bash
# Ids that reach a table by strangers' ways, while clients insert through the proxy: renames, loads, updates, routines, other writers.
# `tests/strangers.sh --help` tells the flags, tests/strangers/README.md the rest.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

[[ -x /usr/bin/python3 ]] || "$HERE/install.sh" python3 >&2
# The client over a bare socket is that of tests/statements.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$HERE/suites/lib:$HERE/statements exec nice -n 5 /usr/bin/python3 "$HERE/strangers/campaign.py" "$@"
