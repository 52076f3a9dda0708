#!/usr/bin/env bash
# Stands where mysql-test-run looks for mysqltest and for the clients. It puts the proxy between the program and the server
# that mysql-test-run has started. Linked under each program's name; SUITES_* are set by mtr.py.
set -u

name=$(basename "$0")
real=$SUITES_REAL/$name
here=(--protocol=tcp)

# Options that a program reads only in first place.
first=()
while [[ ${1:-} == --defaults-* || ${1:-} == --no-defaults ]]; do
    first+=("$1")
    shift
done

case $name in
    mysqltest | mariadb-test) ;;
    *)
        # Outside of a test there is no proxy.
        [[ -n ${SUITES_PORT:-} ]] || exec "$real" "${first[@]}" "$@"
        [[ $name != *client*test ]] || here=(--host=127.0.0.1)
        exec "$real" "${first[@]}" "${here[@]}" --port="$SUITES_PORT" "$@"
        ;;
esac

# mysql-test-run looks at the server between tests, and tests call mysqltest themselves: only the test's own one has a proxy.
if [[ " $* " != *" --test-file="* || -z ${MASTER_MYPORT:-} || " ${first[*]} " == *group-suffix* ]]; then
    exec "$real" "${first[@]}" "$@"
fi
if [[ -n ${SUITES_PORT:-} ]]; then
    exec "$real" "${first[@]}" --host=127.0.0.1 --protocol=tcp --port="$SUITES_PORT" "$@"
fi

# The last byte of an address in 127.0.0.0/24, and a port.
listens() { grep -q " $(printf '%02X00007F:%04X' "$1" "$2") 00000000:0000 0A" /proc/net/tcp; }

for word in "$@"; do [[ $word != --test-file=* ]] || test=${word#*=}; done
folder=$(mktemp -d "$SUITES_FOLDER/proxy.XXXXXX")
pids=()
SUITES_PORT=$MASTER_MYPORT
# The server listens on 127.0.0.2 then, and the proxy has its port on 127.0.0.1: what a test says of ports stays true.
if [[ $SUITES_WAY != straight ]]; then
    host=1
    if [[ $SUITES_WAY == haproxy ]]; then
        sed "s/@PORT@/$MASTER_MYPORT/" "$SUITES_FOLDER/haproxy.cfg" >"$folder/haproxy.cfg"
        "$SUITES_HAPROXY" -db -f "$folder/haproxy.cfg" >"$folder/log" 2>&1 </dev/null &
    else
        if [[ $SUITES_WAY == wire ]]; then
            python3 "$SUITES_FOLDER/wire.py" "$MASTER_MYPORT" "$test" "$SUITES_FOLDER/wire.json" >"$folder/log" 2>&1 </dev/null &
            pids+=($!)
            host=4
        fi
        cp -r "$SUITES_FOLDER/rules" "$folder/"
        [[ ! -e $SUITES_FOLDER/ruled.py ]] || python3 "$SUITES_FOLDER/ruled.py" "$test" >"$folder/rules/test.toml"
        sed "s/@PORT@/$MASTER_MYPORT/" "$SUITES_FOLDER/rowstamp.toml" >"$folder/rowstamp.toml"
        chmod 600 "$folder/rowstamp.toml"
        # Tests start the server with certificates of their own: the proxy shows the server's.
        client=$SUITES_REAL/mysql
        [[ -x $client ]] || client=$SUITES_REAL/mariadb
        read -r cert key < <("$client" --no-defaults --host=127.0.0.2 --protocol=tcp --port="$MASTER_MYPORT" --user=root \
            --skip-column-names --batch --execute="SELECT @@ssl_cert, @@ssl_key" 2>>"$folder/log")
        if [[ $SUITES_WAY == rowstamp && ${cert:-} == /* && ${key:-} == /* ]]; then
            sed -i "s|^cert = .*|cert = \"$cert\"|; s|^key = .*|key = \"$key\"|" "$folder/rowstamp.toml"
        fi
        for ((tenths = 0; host == 4 && tenths < 300; tenths++)); do
            listens 3 "$SUITES_PORT" && break
            sleep 0.1
        done
        "$SUITES_ROWSTAMP" serve --config "$folder/rowstamp.toml" >>"$folder/log" 2>&1 </dev/null &
    fi
    pids=($! "${pids[@]}")
    for ((tenths = 0; tenths < 300; tenths++)); do
        listens "$host" "$SUITES_PORT" && listens 1 "$SUITES_PORT" && break
        kill -0 "${pids[0]}" 2>/dev/null || break
        sleep 0.1
    done
fi
export SUITES_PORT
"$real" "${first[@]}" "$@" --host=127.0.0.1 --protocol=tcp --port="$SUITES_PORT"
status=$?
if [[ ${#pids[@]} != 0 ]]; then
    kill -0 "${pids[0]}" 2>/dev/null || { echo "the proxy has ended:"; tail -n 20 "$folder/log"; } >&2
    # What it keeps is for this test alone.
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        # The sessions that end with the proxy are written down.
        [[ $SUITES_WAY != wire ]] || sleep 0.3
    done
    [[ $status == 0 || $status == 62 ]] || grep -v ' INFO ' "$folder/log" | tail -n 5 >&2
fi
rm -rf "$folder"
exit "$status"
