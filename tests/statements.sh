#!/usr/bin/env bash
# INSERT, REPLACE and LOAD statements of the servers' own test suites, natively and through the proxy: what is stored and answered
# must be the same. `tests/statements.sh --help` tells the flags, tests/statements/campaign.py the rest.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

[[ -x /usr/bin/python3 ]] || "$HERE/install.sh" python3 >&2
PYTHONPATH=$HERE/suites/lib:$HERE/statements exec nice -n 5 /usr/bin/python3 "$HERE/statements/campaign.py" "$@"
