#!/usr/bin/env bash
# Three proxies, three members of etcd and one MariaDB under kills, freezes, leader kills, clock jumps and partitions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

usage() {
    cat <<'TEXT'
tests/chaos.sh [--full] [--ids N] [--kills N] [--freezes N] [--leader-kills N] [--clock-jumps N] [--partitions N] [--seed N]

Runs tests/chaos in a network namespace of its own (as root, or where users may make one); proxies are a release build.
Ends with "N passed, N failed, N skipped", and with 1 if anything failed.

  --ids N            at least so many ids (default 200000)
  --kills N          kill -9 of a proxy, which is restarted (default 9)
  --freezes N        SIGSTOP of a proxy for 1 to 10 s (default 3)
  --leader-kills N   kill -9 of etcd's leader, which is restarted (default 3)
  --clock-jumps N    a proxy's clock goes wrong by 1 s to 10 years (default 4)
  --partitions N     a proxy is cut off from one member of etcd, or from all (default 3)
  --seed N           repeats the faults of an earlier run, which it printed
  --full             10000000 ids, 500 kills, 100 freezes, 100 leader kills, 100 clock jumps, 50 partitions

  ROWSTAMP_BIN       a proxy that is built already
  CI=true            lack of MariaDB, etcd, nft or libfaketime is a failure and not a SKIPPED
TEXT
}

# settings IDS KILLS FREEZES LEADER_KILLS CLOCK_JUMPS PARTITIONS
settings() {
    export ROWSTAMP_CHAOS_IDS=$1 ROWSTAMP_CHAOS_KILLS=$2 ROWSTAMP_CHAOS_FREEZES=$3
    export ROWSTAMP_CHAOS_LEADER_KILLS=$4 ROWSTAMP_CHAOS_CLOCK_JUMPS=$5 ROWSTAMP_CHAOS_PARTITIONS=$6
}

# finish PASSED FAILED SKIPPED
finish() {
    echo "$1 passed, $2 failed, $3 skipped"
    [[ $2 == 0 ]]
    exit
}

settings 200000 9 3 3 4 3
export ROWSTAMP_CHAOS_SEED=$((RANDOM << 15 | RANDOM))
while [[ $# -gt 0 ]]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --full) settings 10000000 500 100 100 100 50; shift; continue ;;
        --ids | --kills | --freezes | --leader-kills | --clock-jumps | --partitions | --seed)
            name=${1#--} name=${name//-/_}
            export "ROWSTAMP_CHAOS_${name^^}=${2:?"$1 wants a number"}"
            shift 2
            ;;
        *) usage >&2; exit 2 ;;
    esac
done

tests/install.sh ip nft faketime
namespace=(unshare --net)
[[ $(id -u) == 0 ]] || namespace+=(--map-root-user)
if ! "${namespace[@]}" sh -c 'ip link set lo up && nft add table inet probe'; then
    echo 'SKIPPED: no network namespace, or no nft in it: this needs root' >&2
    [[ ${CI:-} != true ]] || finish 0 1 0
    finish 0 0 1
fi

# All that may need the network, before there is none.
if [[ -z ${ROWSTAMP_BIN:-} ]]; then
    cargo build --release --locked --bin rowstamp
    export ROWSTAMP_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/rowstamp
fi
cargo test --locked --no-run --test campaigns
ROWSTAMP_CHAOS_OUTSIDE=$(readlink /proc/self/ns/net)
export ROWSTAMP_CHAOS_OUTSIDE

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# shellcheck disable=SC2016 # the inner shell expands it
"${namespace[@]}" sh -c 'ip link set lo up && exec "$@"' sh \
    cargo test --locked --offline --test campaigns chaos:: 2>&1 | tee "$log" || status=$?
read -r passed failed skipped < <(awk '
    /^test result: / { passed += $4; failed += $6 }
    /^SKIPPED: / { skipped++ }
    END { print passed + 0, failed + 0, skipped + 0 }' "$log")
if [[ $status != 0 && $failed == 0 ]]; then failed=1; fi
finish "$passed" "$failed" "$skipped"
