#!/usr/bin/env bash
# Ordinary drivers and ORMs insert through Rowstamp, and the ids that they report must be those in the table.
#
#   tests/drivers/run.sh             through `rowstamp serve`: orders has no AUTO_INCREMENT, kept still has
#   tests/drivers/run.sh --native    straight to the servers, both tables with AUTO_INCREMENT: proves the programs
#   tests/drivers/run.sh --control   straight to the servers, orders gets its ids from a trigger, so that rows are right and no
#                                    insert id is reported: PASS is said of a program that notices
#   --only NAMES    these programs, by their names in lib/programs.sh (or all those of a language), with commas between them
#   --verbose       print all that the programs print
#   --trace DIR     keep each program's output and what the server was asked (its general log) in DIR
#
# ROWSTAMP_BIN: a built rowstamp; else `cargo build --release` makes one. ROWSTAMP_SID_ROOT: where MySQL 9 lives.
# The last line is "N passed, N failed, N skipped"; 0 if none failed, 1 if one did, 2 for usage.
set -uo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../servers.sh"
. "$HERE/lib/install.sh"
. "$HERE/lib/programs.sh"

MODE=proxy ONLY="" VERBOSE="" TRACE=""
while [ $# -gt 0 ]; do
  case $1 in
    --native) MODE=native ;;
    --control) MODE=control ;;
    --only) ONLY=${2:?--only needs names} && shift ;;
    --verbose) VERBOSE=1 ;;
    --trace) TRACE=$(mkdir -p "${2:?--trace needs a folder}" && cd "$2" && pwd) && shift ;;
    *) sed -n '2,/^set/p' "$0" | grep '^#' >&2; exit 2 ;;
  esac
  shift
done

# Daemons live in sbin, which an ordinary user's PATH lacks.
PATH=$PATH:/usr/sbin
clean_up_at_end
WORK=$RUN_FOLDER
declare -A PORT SOCKET STATE

# up SERVER: starts it, with small pools: it will see a few thousand rows.
up() {
  "start_$1" --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0
  PORT[$1]=$DB_PORT SOCKET[$1]=$DB_SOCKET
  prepare "$1" && STATE[$1]=up
}

# sql SERVER ARGUMENT...: the client, as the server's root.
sql() { DB_SOCKET=${SOCKET[$1]} db "${@:2}"; }

chosen() { # chosen NAME LANGUAGE
  [[ -z $ONLY || ,$ONLY, == *",$1,"* || ,$ONLY, == *",$2,"* ]]
}

LANGUAGES=$(for row in "${PROGRAMS[@]}"; do IFS='|' read -r name language _ <<<"$row"; chosen "$name" "$language" && echo "$language"; done | uniq)
[ -n "$LANGUAGES" ] || { echo "no program is called $ONLY; see lib/programs.sh" >&2; exit 2; }

# install LANGUAGE: its exit code and output stay in $WORK/LANGUAGE.{rc,log}.
install() {
  (install_"$1") >"$WORK/$1.log" 2>&1
  echo $? >"$WORK/$1.rc"
}

# Two lanes: the two languages that compile for a minute, and all the others.
install_all() {
  local language lane=()
  for language in $LANGUAGES; do
    case $language in
      java | rust) lane+=("$language") ;;
    esac
  done
  (for language in "${lane[@]}"; do install "$language"; done) &
  local slow=$!
  for language in $LANGUAGES; do
    case $language in
      java | rust) ;;
      *) install "$language" ;;
    esac
  done
  wait "$slow"
}

# prepare SERVER: the users and tables of setup.sql.
prepare() {
  local auto="" start=""
  case $MODE in
    native) auto=AUTO_INCREMENT start="AUTO_INCREMENT = 5000" ;;
    control) auto="DEFAULT 0" ;;
  esac
  sed "s/@AUTO@/$auto/; s/@START@/$start/" "$HERE/setup.sql" | sql "$1" || return
  [ "$MODE" != control ] || sql "$1" app -e "CREATE TRIGGER fill BEFORE INSERT ON orders FOR EACH ROW
    SET NEW.id = (SELECT COALESCE(MAX(id), 4999) + 1 FROM orders)"
  [ -z "$TRACE" ] || sql "$1" -e "SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON"
}

# run_program SERVER PORT NAME LANGUAGE COMMAND: 0 if it passed.
run_program() {
  local log=$WORK/$1.$3.out rc
  # A login that the server remembers is answered without the full exchange, whoever made it: forget them all.
  sql "$1" -e "FLUSH PRIVILEGES$([ -z "$TRACE" ] || echo '; TRUNCATE mysql.general_log')"
  (
    cd "$HERE/$4" || exit 1
    export ROWSTAMP_HOST=127.0.0.1 ROWSTAMP_PORT=$2 ROWSTAMP_USER=$APP_USER ROWSTAMP_PASSWORD=$APP_PASSWORD ROWSTAMP_DATABASE=app
    export PYTHONPATH=$HERE/python/common PYTHONDONTWRITEBYTECODE=1
    # shellcheck disable=SC2086 # a command line
    exec timeout 120 $5
  ) >"$log" 2>&1
  rc=$?
  if [ -n "$TRACE" ]; then
    cp "$log" "$TRACE/$3.$1.out"
    sql "$1" --raw -e "SELECT thread_id, command_type, argument FROM mysql.general_log WHERE user_host NOT LIKE 'root%'" \
      >"$TRACE/$3.$1.log"
  fi
  if [ -n "$VERBOSE" ] || [ "$rc" != 0 ] && [ "$MODE" != control ]; then
    echo "--- $3 on $1 (exit $rc)"
    if [ -n "$VERBOSE" ]; then cat "$log"; else grep -v '^  [^ W]' "$log" | cut -c1-400 | tail -40; fi
  fi
  # Most count the wrong ids; an ORM may throw at the first.
  [ "$MODE" = control ] && return "$((rc != 0 && rc < 124 ? 0 : 1))"
  # A program that ended early but well has checked nothing.
  [ "$rc" = 0 ] && grep -q '^ok .*: [1-9][0-9]* checks$' "$log"
}

declare -A RESULT
PASSED=0 FAILED=0 SKIPPED=0

# record NAME SERVER PASS|FAIL|SKIPPED
record() {
  RESULT[$1/$2]=$3
  case $3 in
    PASS) PASSED=$((PASSED + 1)) ;;
    FAIL) FAILED=$((FAILED + 1)) ;;
    SKIPPED) SKIPPED=$((SKIPPED + 1)) ;;
  esac
}

# run_server SERVER up|down|absent: all chosen programs against it.
run_server() {
  local row name language command port=${PORT[$1]:-} rc
  if [ "$2" = up ] && [ "$MODE" = proxy ]; then
    mkdir -p "$WORK/proxy-$1"
    cp -r "$HERE/rules" "$WORK/proxy-$1/rules"
    DB_PORT=$port PROXY_PORT=""
    start_rowstamp "$WORK/proxy-$1"
    port=$PROXY_PORT
  fi
  for row in "${PROGRAMS[@]}"; do
    IFS='|' read -r name language command <<<"$row"
    chosen "$name" "$language" || continue
    rc=$(cat "$WORK/$language.rc")
    if [ "$2" = absent ] || [ "$rc" = "$ABSENT" ]; then
      record "$name" "$1" SKIPPED
    elif [ "$2" = down ] || [ "$rc" != 0 ]; then
      record "$name" "$1" FAIL
    elif run_program "$1" "$port" "$name" "$language" "$command"; then
      record "$name" "$1" PASS
    else
      record "$name" "$1" FAIL
    fi
  done
}

[ "$MODE" != proxy ] || rowstamp_binary "$(dirname "$(dirname "$HERE")")"

STATE=([mariadb]=down [mysql]=down)
up mariadb
if [ -x "$SID_ROOT/usr/sbin/mysqld" ]; then
  up mysql
else
  STATE[mysql]=absent
  echo "SKIPPED: MySQL 9: there is no mysqld in $SID_ROOT (tests/install.sh makes that root)"
fi

install_all
for language in $LANGUAGES; do
  case $(cat "$WORK/$language.rc") in
    0) ;;
    "$ABSENT") echo "SKIPPED: $language is not on this machine and cannot be installed:"; tail -5 "$WORK/$language.log" ;;
    *) echo "FAIL: the $language programs cannot be built:"; tail -30 "$WORK/$language.log" ;;
  esac
done
for server in mariadb mysql; do run_server "$server" "${STATE[$server]}"; done

printf '\n%-22s %-10s %-10s\n' "driver ($MODE)" mariadb mysql
for row in "${PROGRAMS[@]}"; do
  IFS='|' read -r name language _ <<<"$row"
  chosen "$name" "$language" && printf '%-22s %-10s %-10s\n' "$name" "${RESULT[$name/mariadb]}" "${RESULT[$name/mysql]}"
done
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
