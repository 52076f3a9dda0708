#!/usr/bin/env bash
# The alert rules in examples/: checked and run by promtool on series that are made up, and in a real Prometheus that reads
# a real proxy. A healthy proxy fires none, and each of some troubles fires its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
    --help | -h) echo "tests/alerts.sh: installs Prometheus where it is missing"; exit 0 ;;
    "") ;;
    *) echo "Usage: tests/alerts.sh" >&2; exit 2 ;;
esac
tests/install.sh promtool
promtool check rules examples/prometheus-alerts.yml
promtool test rules tests/alerts/rules.test.yml
exec cargo test --locked --test campaigns alerts:: -- --nocapture
