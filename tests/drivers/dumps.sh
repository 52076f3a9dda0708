#!/usr/bin/env bash
# Dumps go in through Rowstamp, and the rows are byte for byte those of a native import. The schemas are the servers' own samples
# and those that installers of applications make (dumps/schemas.sh). All programs run with their defaults.
#
#   tests/drivers/dumps.sh             each schema on MariaDB and on MySQL
#   tests/drivers/dumps.sh --control   one row of the import through the proxy is changed: PASS is said where that is noticed
#   --only NAMES    these schemas, with commas between them
#   --keep DIR      keep the dumps, what was compared, and the logs in DIR
#
# For each schema: made natively, dumped, loaded natively and through the proxy into databases without tables, both dumped and
# compared. Then each AUTO_INCREMENT table gets a row without an id in both databases, and the application writes more in both:
# the ids that are told are the same, and in the end all ids of all tables are.
#
# ROWSTAMP_BIN: a built rowstamp; else `cargo build --release` makes one. ROWSTAMP_SID_ROOT: where MySQL 9 lives.
# The last line is "N passed, N failed, N skipped"; 0 if none failed, 1 if one did, 2 for usage.
set -uo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../servers.sh"
. "$HERE/lib/install.sh"
. "$HERE/dumps/schemas.sh"

CONTROL="" ONLY="" KEEP=""
while [ $# -gt 0 ]; do
  case $1 in
    --control) CONTROL=1 ;;
    --only) ONLY=${2:?--only needs names} && shift ;;
    --keep) KEEP=$(mkdir -p "${2:?--keep needs a folder}" && cd "$2" && pwd) && shift ;;
    *) sed -n '2,/^set/p' "$0" | grep '^#' >&2; exit 2 ;;
  esac
  shift
done

# Daemons live in sbin, which an ordinary user's PATH lacks.
PATH=$PATH:/usr/sbin
clean_up_at_end
WORK=$RUN_FOLDER
[ -z "$KEEP" ] || trap 'status=$?; cp -r "$WORK"/*.* "$WORK"/proxy-* "$KEEP"; (exit "$status"); clean_up' EXIT
declare -A SOCKET
PASSED=0 FAILED=0 SKIPPED=0

# sql SERVER ARGUMENT...: the client, as the server's root.
sql() { DB_SOCKET=${SOCKET[$1]} db "${@:2}"; }

# program MARIADB MYSQL ARGUMENT...: the server's own client program, as the application's user at ROWSTAMP_PORT.
program() {
  local command=("$1")
  [ "$SERVER" = mariadb ] || { sid_command "usr/bin/$2" && command=("${SID_COMMAND[@]}"); }
  shift 2
  "${command[@]}" --no-defaults --host="$ROWSTAMP_HOST" --port="$ROWSTAMP_PORT" --user="$ROWSTAMP_USER" --password="$ROWSTAMP_PASSWORD" "$@" \
    2> >(grep -v -e 'password on the command line' -e '^Warning: A .*GTIDs' -e '^In order to ensure a consistent backup' >&2)
}

client() { program mariadb mysql "$@" "$ROWSTAMP_DATABASE"; }
dump() { program mariadb-dump mysqldump "$@" "$ROWSTAMP_DATABASE"; }

# natively NAME COMMAND..., proxied NAME COMMAND...: the command in the database with that beginning.
natively() { ROWSTAMP_PORT=$DB_PORT ROWSTAMP_DATABASE=native_$1 "${@:2}"; }
proxied() { ROWSTAMP_PORT=$PROXY_PORT ROWSTAMP_DATABASE=proxied_$1 "${@:2}"; }

# auto_columns DATABASE: table and column, for each table with AUTO_INCREMENT.
auto_columns() {
  sql "$SERVER" -e "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '$1' AND extra LIKE '%auto_increment%'
    ORDER BY 1"
}

# ids DATABASE: all ids of each such table.
ids() {
  auto_columns "$1" | while IFS=$'\t' read -r table column; do
    echo "SET group_concat_max_len = 1 << 26; SELECT '$table', GROUP_CONCAT(\`$column\` ORDER BY \`$column\`) FROM \`$table\`;"
  done | sql "$SERVER" "$1"
}

# insert_each: a row without an id for each such table, and its id, or the error. Hardly a default is missing in this sql_mode.
insert_each() {
  auto_columns "$ROWSTAMP_DATABASE" | while IFS=$'\t' read -r table _; do
    printf '%s ' "$table"
    client --batch --skip-column-names -e "SET sql_mode = '', foreign_key_checks = 0; INSERT INTO \`$table\` () VALUES (); SELECT LAST_INSERT_ID()" \
      </dev/null 2>&1 | sed "s/${ROWSTAMP_DATABASE%%_*}_//g"
  done
}

# same FILE FILE: false, and the first differences, where they differ. An INSERT of a dump is one line of many rows.
same() {
  cmp -s "$1" "$2" && return
  diff --text <(sed 's/),(/),\n(/g' "$1") <(sed 's/),(/),\n(/g' "$2") | cut -c1-300 | head -10
  return 1
}

# ids_taken FILE: each table that got a row has its id from the proxy. The server alone would have told the same one.
ids_taken() {
  local table id
  exec {http}<>"/dev/tcp/${HTTP_ADDRESS/:/\/}" && printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&"$http" &&
    cat <&"$http" >"$WORK/metrics.txt"; exec {http}>&-
  while read -r table id; do
    [[ ! $id =~ ^[0-9]+$ ]] || grep -q "^rowstamp_table_ids_total{table=\"$TO.$table\"} [1-9]" "$WORK/metrics.txt" ||
      { echo "the proxy gave no id to $table"; return 1; }
  done <"$1"
}

# rows_told FILE: each line TABLE COLUMN ID is a row of the import through the proxy.
rows_told() {
  local table column id
  [ -s "$1" ] || { echo "no id was told"; return 1; }
  while read -r table column id; do
    [ "$(sql "$SERVER" "$TO" -e "SELECT COUNT(*) FROM \`$table\` WHERE \`$column\` = '$id'" </dev/null)" = 1 ] ||
      { echo "there is no $table.$column = $id"; return 1; }
  done <"$1"
}

# spoil: another value in one row of the import through the proxy, its id where there is a table with AUTO_INCREMENT.
spoil() {
  local table column
  read -r table column < <(auto_columns "$TO" | while IFS=$'\t' read -r table column; do
    [ "$(sql "$SERVER" "$TO" -e "SELECT COUNT(*) FROM \`$table\`" </dev/null)" = 0 ] || echo "$table $column"
  done; echo "nation n_regionkey")
  sql "$SERVER" "$TO" -e "SET foreign_key_checks = 0; UPDATE \`$table\` SET \`$column\` = \`$column\` + 1 ORDER BY \`$column\` DESC LIMIT 1"
}

# try_schema NAME: all steps, on SERVER. Prints what is wrong.
try_schema() {
  local name=$1 from=$WORK/$SERVER.$1 begun
  local TO=proxied_$name
  sql "$SERVER" -e "CREATE DATABASE $name CHARACTER SET utf8mb4; CREATE DATABASE native_$name CHARACTER SET utf8mb4;
    CREATE DATABASE proxied_$name CHARACTER SET utf8mb4" || return
  export ROWSTAMP_PORT=$DB_PORT ROWSTAMP_DATABASE=$name
  "make_$name" >"$from.made" 2>&1 || { echo "make_$name ended with $?"; tail -5 "$from.made"; return 1; }
  dump >"$from.sql" || { echo "it cannot be dumped"; return 1; }
  begun=$EPOCHREALTIME
  natively "$name" client <"$from.sql" || { echo "it cannot be loaded natively"; return 1; }
  echo "$begun $EPOCHREALTIME" >"$from.loaded"
  proxied "$name" client <"$from.sql" || { echo "it cannot be loaded through the proxy"; return 1; }
  echo "$EPOCHREALTIME" >>"$from.loaded"
  [ -z "$CONTROL" ] || spoil
  natively "$name" dump --skip-comments >"$from.native.sql"
  ROWSTAMP_DATABASE=$TO dump --skip-comments >"$from.proxied.sql"
  [ -s "$from.native.sql" ] || { echo "the native import cannot be dumped"; return 1; }
  same "$from.native.sql" "$from.proxied.sql" || { echo "the rows differ"; return 1; }
  natively "$name" insert_each >"$from.native.inserts"
  proxied "$name" insert_each >"$from.proxied.inserts"
  same "$from.native.inserts" "$from.proxied.inserts" || { echo "the ids of INSERTs differ"; return 1; }
  ids_taken "$from.proxied.inserts" || return
  if [ "$(type -t "use_$name")" = function ]; then
    natively "$name" "use_$name" >"$from.native.used" || { echo "use_$name ended with $? natively"; return 1; }
    proxied "$name" "use_$name" >"$from.proxied.used" || { echo "use_$name ended with $? through the proxy"; return 1; }
    same "$from.native.used" "$from.proxied.used" || { echo "the ids that it was told differ"; return 1; }
    rows_told "$from.proxied.used" || return
  fi
  ids "native_$name" | grep -v "^${RANDOM_IDS[$name]:--}"$'\t' >"$from.native.ids"
  ids "proxied_$name" | grep -v "^${RANDOM_IDS[$name]:--}"$'\t' >"$from.proxied.ids"
  same "$from.native.ids" "$from.proxied.ids" || { echo "the ids in the tables differ"; return 1; }
}

# counts NAME: what the schema has.
counts() {
  local tables table rows=0
  tables=$(sql "$SERVER" -e "SELECT table_name FROM information_schema.tables WHERE table_schema = '$1' AND table_type = 'BASE TABLE'")
  for table in $tables; do rows=$((rows + $(sql "$SERVER" "$1" -e "SELECT COUNT(*) FROM \`$table\`"))); done
  echo "$(wc -w <<<"$tables") tables, $(auto_columns "$1" | wc -l) with AUTO_INCREMENT, $rows rows," \
    "$(xargs <"$WORK/$SERVER.$1.loaded" | awk '{ printf "loaded in %.1f s natively, %.1f s through the proxy", $2 - $1, $3 - $2 }')"
}

# record NAME PASS|FAIL|SKIPPED
record() {
  case $2 in
    PASS) PASSED=$((PASSED + 1)) ;;
    FAIL) FAILED=$((FAILED + 1)) ;;
    SKIPPED) SKIPPED=$((SKIPPED + 1)) ;;
  esac
  printf '%-8s %-8s %-10s %s\n' "$2" "$SERVER" "$1" "${3:-}"
}

# run_schema NAME
run_schema() {
  local begun=$SECONDS rc=0 said=$WORK/$SERVER.$1.said
  try_schema "$1" >"$said" 2>&1 || rc=1
  if [ -n "$CONTROL" ]; then
    # Noticed by the comparison, and by nothing before it.
    grep -q '^the rows differ$' "$said" && rc=0 || rc=1
  fi
  if [ "$rc" = 0 ]; then
    record "$1" PASS "$(counts "$1"); $((SECONDS - begun)) s"
  else
    record "$1" FAIL
    tail -20 "$said"
  fi
}

chosen() { [[ -z $ONLY || ,$ONLY, == *",$1,"* ]]; }

[ -n "$(for name in "${SCHEMAS[@]}"; do chosen "$name" && echo "$name"; done)" ] || { echo "no schema is called $ONLY" >&2; exit 2; }
rowstamp_binary "$(dirname "$(dirname "$HERE")")"
export ROWSTAMP_HOST=127.0.0.1 ROWSTAMP_USER=$APP_USER ROWSTAMP_PASSWORD=$APP_PASSWORD PYTHONDONTWRITEBYTECODE=1

declare -A INSTALLED
for name in "${SCHEMAS[@]}"; do
  chosen "$name" || continue
  (install_"$name") >"$WORK/$name.log" 2>&1
  INSTALLED[$name]=$?
  case ${INSTALLED[$name]} in
    0) ;;
    "$ABSENT") echo "SKIPPED: $name is not on this machine and cannot be installed:"; tail -5 "$WORK/$name.log" ;;
    *) echo "FAIL: $name cannot be installed:"; tail -20 "$WORK/$name.log" ;;
  esac
done

for SERVER in mariadb mysql; do
  if [ "$SERVER" = mysql ] && [ ! -x "$SID_ROOT/usr/sbin/mysqld" ]; then
    echo "SKIPPED: MySQL 9: there is no mysqld in $SID_ROOT (tests/install.sh makes that root)"
    for name in "${SCHEMAS[@]}"; do ! chosen "$name" || record "$name" SKIPPED; done
    continue
  fi
  "start_$SERVER" --innodb-flush-log-at-trx-commit=0
  SOCKET[$SERVER]=$DB_SOCKET
  mkdir -p "$WORK/proxy-$SERVER/rules"
  # Each table has a generator of its own.
  cat >"$WORK/proxy-$SERVER/rules/proxied.toml" <<'TOML'
schema = "proxied_*"
[generators."{table}"]
kind = "sequence"
[tables."*"]
column = "auto"
generator = "{table}"
TOML
  PROXY_PORT="" HTTP_ADDRESS=127.0.0.1:$(free_port)
  start_rowstamp "$WORK/proxy-$SERVER"
  for name in "${SCHEMAS[@]}"; do
    chosen "$name" || continue
    case ${INSTALLED[$name]} in
      0) run_schema "$name" ;;
      "$ABSENT") record "$name" SKIPPED ;;
      *) record "$name" FAIL ;;
    esac
  done
done
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
