# shellcheck shell=bash
# Private servers in temporary folders, known by their process ids; sourced by run.sh.
# Every start_* leaves the port in PORT_<server> and a root client in sql_<server>.

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# listening PORT PID: true once something accepts there; false when the process has ended, or after 60 seconds.
listening() {
  local tries=600
  while [ "$tries" -gt 0 ] && [ -d "/proc/$2" ]; do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
    sleep 0.1
    tries=$((tries - 1))
  done
  return 1
}

# end_pid PID: TERM, and KILL after 20 seconds. The process may belong to root.
end_pid() {
  local tries=200
  as_root kill "$1" 2>/dev/null || return 0
  while as_root kill -0 "$1" 2>/dev/null; do
    tries=$((tries - 1))
    [ "$tries" = 0 ] && as_root kill -9 "$1" 2>/dev/null
    sleep 0.1
  done
}

# Small pools: these servers see a few hundred rows.
SERVER_OPTIONS="--bind-address=127.0.0.1 --skip-log-bin --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0"

start_mariadb() {
  local dir=$WORK/mariadb
  mkdir -p "$dir"
  PORT_mariadb=$(free_port)
  local user=()
  [ "$(id -u)" = 0 ] && user=(--user=root)
  mariadb-install-db --no-defaults "${user[@]}" --datadir="$dir/data" --skip-test-db \
    --auth-root-authentication-method=normal >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; return 1; }
  # shellcheck disable=SC2086 # a list of words
  mariadbd --no-defaults "${user[@]}" $SERVER_OPTIONS --datadir="$dir/data" --port="$PORT_mariadb" --socket="$dir/sock" \
    --pid-file="$dir/pid" >"$dir/log" 2>&1 &
  PIDS+=($!)
  listening "$PORT_mariadb" $! || { cat "$dir/log" >&2; return 1; }
}

sql_mariadb() { mariadb --no-defaults --socket="$WORK/mariadb/sock" --user=root --default-character-set=utf8mb4 "$@"; }

# MySQL 9 is not in bookworm: it runs in a Debian sid root, which tests/install.sh makes.
SID_ROOT=${ROWSTAMP_SID_ROOT:-/var/tmp/rowstamp-sid}

have_mysql() { [ -x "$SID_ROOT/usr/sbin/mysqld" ] && as_root true; }

start_mysql() {
  MYSQL_IN=/tmp/rowstamp-drivers.$$ # as seen inside the root
  local dir=$SID_ROOT$MYSQL_IN
  as_root mkdir -p "$dir"
  PORT_mysql=$(free_port)
  # shellcheck disable=SC2086 # a list of words
  as_root chroot "$SID_ROOT" mysqld --no-defaults --user=root --initialize-insecure --secure-file-priv=NULL --datadir="$MYSQL_IN/data" \
    --innodb-redo-log-capacity=16M >"$WORK/mysql-install.log" 2>&1 || { cat "$WORK/mysql-install.log" >&2; return 1; }
  # shellcheck disable=SC2086 # a list of words
  as_root chroot "$SID_ROOT" mysqld --no-defaults --user=root $SERVER_OPTIONS --datadir="$MYSQL_IN/data" --port="$PORT_mysql" \
    --socket="$MYSQL_IN/sock" --pid-file="$MYSQL_IN/pid" --mysqlx=OFF --secure-file-priv=NULL --innodb-redo-log-capacity=16M \
    >"$WORK/mysql.log" 2>&1 &
  listening "$PORT_mysql" $! || { cat "$WORK/mysql.log" >&2; return 1; }
  # The server's own pid: $! may be sudo's.
  PIDS+=("$(as_root cat "$dir/pid")")
}

sql_mysql() {
  as_root chroot "$SID_ROOT" mysql --no-defaults --socket="$MYSQL_IN/sock" --user=root --default-character-set=utf8mb4 "$@"
}

remove_mysql() { [ -z "${MYSQL_IN:-}" ] || as_root rm -rf "${SID_ROOT:?}$MYSQL_IN"; }

# start_proxy SERVER: a Rowstamp of its own in front of it, its port in PORT_proxy and its pid in PROXY_PID.
start_proxy() {
  local dir=$WORK/proxy-$1 backend=PORT_$1
  mkdir -p "$dir/rules"
  PORT_proxy=$(free_port)
  cat >"$dir/rowstamp.toml" <<EOF
[listen]
address = "127.0.0.1:$PORT_proxy"
[backend]
address = "127.0.0.1:${!backend}"
[backend.control]
user = "rowstamp"
password = "Control-Pass_1"
[store]
path = "rowstamp.redb"
[rules]
path = "rules"
[http]
address = "off"
EOF
  cat >"$dir/rules/app.toml" <<EOF
schema = "app"
[generators.orders]
kind = "sequence"
start = 5000
[generators.kept]
kind = "sequence"
start = 7000
[tables.orders]
column = "id"
generator = "orders"
[tables.kept]
column = "id"
generator = "kept"
EOF
  "$ROWSTAMP_BIN" serve --config "$dir/rowstamp.toml" >"$dir/log" 2>&1 &
  PROXY_PID=$!
  PIDS+=("$PROXY_PID")
  listening "$PORT_proxy" "$PROXY_PID" || { echo "rowstamp serve did not listen:" >&2; cat "$dir/log" >&2; return 1; }
}
