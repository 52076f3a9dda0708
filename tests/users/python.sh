# shellcheck shell=bash
# For tests/users.sh and tests/doors.sh, which run a program of this folder: three proxies on three members of etcd, in front of a MariaDB.
# TESTS and HERE are set.

# shellcheck source=tests/servers.sh
. "$TESTS/servers.sh"
# shellcheck source=tests/drivers/lib/install.sh
. "$TESTS/drivers/lib/install.sh"

venv() {
    apt_packages python3-venv
    python3 -m venv --clear "$HERE/target/venv" &&
        "$HERE/target/venv/bin/pip" install -q --disable-pip-version-check -r "$HERE/requirements.txt"
}

skip() {
    echo "SKIPPED: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

# campaign PROGRAM [FLAG...]: runs it in a folder of its own, with what it needs.
campaign() {
    local program name=$1
    shift
    clean_up_at_end
    for program in etcd etcdctl mariadbd setpriv; do
        command -v "$program" >/dev/null || skip "$name: there is no $program on this machine (tests/install.sh installs it)"
    done
    needs python3 python3 || skip "$name: there is no python3 on this machine"
    mkdir -p "$HERE/target"
    once target/venv "$HERE/requirements.txt" -- venv >"$RUN_FOLDER/install.log" 2>&1 || {
        tail -n 20 "$RUN_FOLDER/install.log"
        die "redis-py and PyMySQL cannot be installed"
    }
    rowstamp_binary "$(dirname "$TESTS")"
    # shellcheck disable=SC2119 # what is left of the flags is for the program
    start_mariadb
    # In the background: the shell then obeys a signal at once, and ends the program by its id.
    PYTHONDONTWRITEBYTECODE=1 "$HERE/target/venv/bin/python" "$HERE/$name.py" --folder "$RUN_FOLDER" --binary "$ROWSTAMP_BIN" \
        --db-port "$DB_PORT" --db-socket "$DB_SOCKET" --control "$CONTROL_USER" "$CONTROL_PASSWORD" "$@" &
    SPAWNED+=("$!")
    wait "$!"
}
