# shellcheck shell=bash
# Private servers for scripts: a temp folder, free ports of 127.0.0.1, and everything stopped by its pid, whatever
# ends the script. Sourced by benches/relay.sh and tests/sysbench.sh; as root or as any user.

SID_ROOT=${ROWSTAMP_SID_ROOT:-/var/tmp/rowstamp-sid}
APP_USER=app APP_PASSWORD=app-secret
CONTROL_USER=rowstamp CONTROL_PASSWORD=control-secret

SPAWNED=() # pids, in the order of their start

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

need() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || die "no \`$command\` here: apt-get install ${command/mariadbd/mariadb-server}"
    done
}

# The folder of this run's private things, made on the first call of `clean_up_at_end`. Temporary files go there too: a
# MariaDB that starts deletes the temporary tables of all others whose tmpdir it shares.
clean_up_at_end() {
    RUN_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/rowstamp.XXXXXX")
    export TMPDIR=$RUN_FOLDER
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    local status=$? i
    trap - EXIT INT TERM HUP
    for ((i = ${#SPAWNED[@]} - 1; i >= 0; i--)); do stop "${SPAWNED[i]}"; done
    rm -rf "$RUN_FOLDER"
    exit "$status"
}

# stop PID: TERM, and KILL after ten seconds.
stop() {
    local pid=$1 tenths
    kill -TERM "$pid" 2>/dev/null || return 0
    for ((tenths = 0; tenths < 100; tenths++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    return 0
}

# spawn LOG COMMAND...: starts it in the background, to be stopped at the end; its pid is in SPAWNED_PID.
spawn() {
    local log=$1
    shift
    "$@" >>"$log" 2>&1 </dev/null &
    SPAWNED_PID=$!
    SPAWNED+=("$SPAWNED_PID")
}

# A port below the ephemeral range that nobody listens on. Somebody may take it before we do: then the start fails loudly.
free_port() {
    local port
    while :; do
        port=$((RANDOM % 12000 + 20000))
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

# wait_for WHAT PID LOG COMMAND...: until the command succeeds; dies with the log if the process does, or after a minute.
wait_for() {
    local what=$1 pid=$2 log=$3 tenths
    shift 3
    for ((tenths = 0; tenths < 600; tenths++)); do
        "$@" >/dev/null 2>&1 && return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    die "$what did not start"
}

accepts() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# start_door FOLDER DOOR: a proxy with a new store and in front of no server, by the rules in FOLDER/rules. The tables of DOOR, which the log calls so, are
# on the input; its user is labels, with the password s3cret. Sets DOOR_PID and DOOR_PORT.
# shellcheck disable=SC2034 # for the scripts that source this
start_door() {
    local log=$1/log
    {
        cat <<'TOML'
[listen]
address = "127.0.0.1:0"
[backend]
address = "unix:nobody.sock"
[state]
path = "state"
[store]
path = "rowstamp.redb"
[rules]
path = "rules"
[http]
address = "off"
[admin]
address = "off"
[[admin.users]]
name = "labels"
password = "s3cret"
role = "write"
TOML
        cat
    } >"$1/rowstamp.toml"
    chmod 600 "$1/rowstamp.toml"
    spawn "$log" "$ROWSTAMP_BIN" serve --config "$1/rowstamp.toml"
    DOOR_PID=$SPAWNED_PID
    (wait_for "the proxy" "$DOOR_PID" "$log" grep -q "$2 is at" "$log") || return
    DOOR_PORT=$(sed -n "s/.*$2 is at 127\.0\.0\.1:\([0-9]*\).*/\1/p" "$log")
}

# ticks PID: what the process has had of the processors, in clock ticks.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

# The middle one of the numbers on the input.
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# start_mariadb [OPTION...]: sets DB_PORT, DB_SOCKET, DB_PID.
start_mariadb() {
    need mariadbd mariadb-install-db mariadb
    local data=$RUN_FOLDER/mariadb
    mkdir -p "$data"
    mariadb-install-db --no-defaults --datadir="$data" --user="$(id -un)" --skip-test-db \
        --auth-root-authentication-method=normal --force --skip-name-resolve >"$RUN_FOLDER/install.log" 2>&1 \
        || { tail -n 20 "$RUN_FOLDER/install.log" >&2; die "mariadb-install-db failed"; }
    DB_PORT=$(free_port) DB_SOCKET=$data/s.sock
    spawn "$RUN_FOLDER/mariadb.log" mariadbd --no-defaults --datadir="$data" --user="$(id -un)" --port="$DB_PORT" \
        --bind-address=127.0.0.1 --socket="$DB_SOCKET" --pid-file="$data/pid" --max-connections=500 "$@"
    DB_PID=$SPAWNED_PID
    wait_for MariaDB "$DB_PID" "$RUN_FOLDER/mariadb.log" db -e 'SELECT 1'
    make_accounts
}

# start_mysql [OPTION...]: MySQL 9 from the Debian sid root, run by the root's own loader, so that it needs neither
# chroot nor root. As start_mariadb.
start_mysql() {
    need mariadb
    local data=$RUN_FOLDER/mysql command
    sid_command usr/sbin/mysqld
    command=("${SID_COMMAND[@]}" --no-defaults "--basedir=$SID_ROOT/usr" "--plugin-dir=$SID_ROOT/usr/lib/mysql/plugin"
        --secure-file-priv=NULL "--user=$(id -un)" "--datadir=$data")
    "${command[@]}" --initialize-insecure >"$RUN_FOLDER/install.log" 2>&1 \
        || { tail -n 20 "$RUN_FOLDER/install.log" >&2; die "mysqld --initialize-insecure failed"; }
    DB_PORT=$(free_port) DB_SOCKET=$data/s.sock
    spawn "$RUN_FOLDER/mysql.log" "${command[@]}" --port="$DB_PORT" --bind-address=127.0.0.1 --mysqlx=OFF \
        --socket="$DB_SOCKET" --pid-file="$data/pid" --max-connections=500 --disable-log-bin "$@"
    DB_PID=$SPAWNED_PID
    wait_for "MySQL 9" "$DB_PID" "$RUN_FOLDER/mysql.log" db -e 'SELECT 1'
    make_accounts
}

# sid_command PROGRAM: SID_COMMAND is the start of its command line.
sid_command() {
    [ -x "$SID_ROOT/$1" ] || die "no $1 in $SID_ROOT (tests/install.sh makes it; ROWSTAMP_SID_ROOT says where)"
    SID_COMMAND=("$SID_ROOT/lib64/ld-linux-x86-64.so.2" --library-path
        "$SID_ROOT/usr/lib/x86_64-linux-gnu:$SID_ROOT/usr/lib/mysql/private:$SID_ROOT/usr/lib/mysql-router" "$SID_ROOT/$1")
}

# db ARGUMENT...: the client, as the server's root, by its socket.
# shellcheck disable=SC2120  # the arguments come from the scripts that source this
db() { mariadb --no-defaults --user=root --socket="$DB_SOCKET" --batch --skip-column-names "$@"; }

# A login by socket puts caching_sha2_password's verifier into the server's cache: later ones need no secure transport.
make_accounts() {
    db <<SQL
CREATE USER '$APP_USER'@'%' IDENTIFIED BY '$APP_PASSWORD';
CREATE USER '$CONTROL_USER'@'%' IDENTIFIED BY '$CONTROL_PASSWORD';
GRANT ALL ON *.* TO '$APP_USER'@'%';
GRANT SELECT, PROCESS ON *.* TO '$CONTROL_USER'@'%';
SQL
    local warm
    for warm in "$APP_USER $APP_PASSWORD" "$CONTROL_USER $CONTROL_PASSWORD"; do
        mariadb --no-defaults --user="${warm% *}" --password="${warm#* }" --socket="$DB_SOCKET" -e 'DO 1' \
            || die "the account ${warm% *} cannot log in"
    done
}

# rowstamp_binary: the release build, or what ROWSTAMP_BIN names.
rowstamp_binary() {
    if [ -z "${ROWSTAMP_BIN:-}" ]; then
        (cd "$1" && cargo build --release --quiet --bin rowstamp) || die "cargo build failed"
        ROWSTAMP_BIN=${CARGO_TARGET_DIR:-$1/target}/release/rowstamp
    fi
    [ -x "$ROWSTAMP_BIN" ] || die "no binary at $ROWSTAMP_BIN"
}

listens_behind() { tail -n "+$1" "$2" | grep -q 'listening on'; } # LINE LOG

# start_rowstamp FOLDER [FLAG...]: the proxy before DB_PORT, with the rules of FOLDER/rules; sets PROXY_PORT, PROXY_PID. HTTP_ADDRESS: its http.address.
# PROXY_TABLES: more tables of its rowstamp.toml. With --takeover the process before goes on in the same log.
start_rowstamp() {
    local folder=$1 lines=0
    shift
    if [[ " $* " == *" --takeover "* ]]; then lines=$(wc -l <"$folder/rowstamp.log"); else : >"$folder/rowstamp.log"; fi
    PROXY_PORT=${PROXY_PORT:-$(free_port)}
    cat >"$folder/rowstamp.toml" <<TOML
[listen]
address = "127.0.0.1:$PROXY_PORT"
[backend]
address = "127.0.0.1:$DB_PORT"
[backend.control]
user = "$CONTROL_USER"
password = "$CONTROL_PASSWORD"
[store]
path = "rowstamp.redb"
[rules]
path = "rules"
[http]
address = "${HTTP_ADDRESS:-off}"
${PROXY_TABLES:-}
TOML
    chmod 600 "$folder/rowstamp.toml"
    spawn "$folder/rowstamp.log" "$ROWSTAMP_BIN" serve --config "$folder/rowstamp.toml" "$@"
    PROXY_PID=$SPAWNED_PID
    wait_for "the proxy" "$PROXY_PID" "$folder/rowstamp.log" listens_behind "$((lines + 1))" "$folder/rowstamp.log"
}
