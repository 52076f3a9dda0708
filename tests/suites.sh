#!/usr/bin/env bash
# Other people's test suites, run straight, through HAProxy and through Rowstamp: what passes without Rowstamp has to pass
# through it. `tests/suites.sh --help` tells the flags, tests/suites/README.md the rest.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

[[ -x /usr/bin/python3 ]] || "$HERE/install.sh" python3 >&2
PYTHONPATH=$HERE/suites/lib exec nice -n 5 /usr/bin/python3 "$HERE/suites/lib/run.py" "$@"
