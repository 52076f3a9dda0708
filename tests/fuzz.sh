#!/usr/bin/env bash
# The fuzz targets of fuzz/ (docs/design/tests.md), each for some seconds, from the inputs in fuzz/seeds.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"
PATH=$PATH:$HOME/.cargo/bin

usage() {
    cat <<'TEXT'
Usage: tests/fuzz.sh [SECONDS [TARGET...]]
       tests/fuzz.sh --pack TARGET [FOLDER...]

Builds the fuzz targets and runs each for SECONDS (60): lexer, insert_shape, splice, prepared, packets, frames, handshake,
responses, commands, console, resp, api, digest, query_log, or those that are named (draws by its name alone).
Installs cargo-fuzz where it is missing. An input that fails is printed as a line for fuzz/seeds, and kept in
fuzz/target/artifacts. What a run finds of new ways through the code stays in fuzz/target/corpus, for the next one.
Ends with "N passed, N failed, N skipped", a target each, and with 1 if anything failed.

  --pack   writes fuzz/seeds/TARGET.txt again: the fewest and shortest of the seeds, and of the inputs in the folders, that
           go all their ways through the code
TEXT
}

CARGO_FUZZ_VERSION=0.13.2
ALL=(lexer insert_shape splice prepared packets frames handshake responses commands console resp api digest query_log)
# It still finds texts that are no statements and become some: by name alone.
BY_NAME=(draws)
# A statement of a few lines, or a few packets; longer inputs go no other ways.
INPUT_BYTES_MAX=600

is_target() {
    local target
    for target in "${ALL[@]}" "${BY_NAME[@]}"; do [[ $1 != "$target" ]] || return 0; done
    return 1
}

# An input as a line: bytes that are no ASCII signs, and backslashes, as `printf %b` reads them.
line_of() { # FILE
    od -An -v -tu1 -w1 "$1" | LC_ALL=C awk '
        { if ($1 == 92) printf "\\\\"; else if ($1 >= 32 && $1 < 127) printf "%c", $1; else printf "\\x%02x", $1 }
        END { print "" }'
}

# A folder with the target's seeds, an input a file.
unpack_seeds() { # TARGET FOLDER
    local nr=0 line
    mkdir -p "$2"
    while IFS= read -r line; do
        nr=$((nr + 1))
        printf '%b' "$line" >"$2/$nr"
    done <"seeds/$1.txt"
}

build() {
    if [[ $(cargo fuzz --version 2>/dev/null || true) != "cargo-fuzz $CARGO_FUZZ_VERSION" ]]; then
        cargo install --locked --quiet cargo-fuzz --version "$CARGO_FUZZ_VERSION"
    fi
    # No sanitizer: nothing of the proxy is unsafe, runs are slower with one, and stable Rust has none.
    cargo fuzz build --sanitizer none
    binaries=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    binaries=$binaries/$(rustc -vV | sed -n 's/^host: //p')/release
}

# Words of what the target's inputs hold.
dictionary() { # TARGET
    case $1 in
        packets | frames | handshake | responses) echo dictionaries/wire.dict ;;
        console) echo dictionaries/console.dict ;;
        api) echo dictionaries/api.dict ;;
        resp) echo dictionaries/resp.dict ;;
        query_log) echo dictionaries/log.dict ;;
        *) echo dictionaries/sql.dict ;;
    esac
}

run() { # TARGET FLAG... FOLDER...
    "$binaries/$1" -dict="$(dictionary "$1")" -max_len=$INPUT_BYTES_MAX -timeout=30 -rss_limit_mb=2048 \
        -artifact_prefix="target/artifacts/$1-" "${@:2}"
}

fuzz() { # TARGET
    local log=$scratch/$1.log artifact
    unpack_seeds "$1" "$scratch/$1"
    mkdir -p "target/corpus/$1"
    rm -f "target/artifacts/$1-"*
    echo "== $1: $SECONDS_EACH s from $(wc -l <"seeds/$1.txt") seeds"
    if run "$1" -max_total_time="$SECONDS_EACH" "target/corpus/$1" "$scratch/$1" >"$log" 2>&1; then
        PASSED=$((PASSED + 1))
        sed -n "s/^Done/== $1: done/p" "$log"
        return
    fi
    FAILED=$((FAILED + 1))
    echo "FAILED: $1"
    sed -n -e '/panicked at/,/^stack backtrace/p' -e '/^==.*ERROR/p' "$log" | head -n 20
    for artifact in "target/artifacts/$1-"*; do
        [[ -e $artifact ]] || { tail -n 20 "$log"; break; }
        echo "fuzz/$artifact, as a line of fuzz/seeds/$1.txt:"
        line_of "$artifact"
    done
}

pack() { # TARGET FOLDER...
    local file
    unpack_seeds "$1" "$scratch/$1"
    mkdir "$scratch/packed"
    run "$1" -merge=1 "$scratch/packed" "$scratch/$1" "${@:2}" >"$scratch/log" 2>&1 \
        || { tail -n 20 "$scratch/log"; exit 1; }
    for file in "$scratch/packed"/*; do line_of "$file"; done | LC_ALL=C sort -u >"seeds/$1.txt"
    echo "fuzz/seeds/$1.txt: $(wc -l <"seeds/$1.txt") inputs, $(wc -c <"seeds/$1.txt") bytes"
}

main() {
    local target folder folders=()
    PASSED=0 FAILED=0 SECONDS_EACH=60
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir -p target/artifacts
    case ${1:-} in
        --help | -h) usage; exit 0 ;;
        --pack)
            is_target "${2:-}" || { usage >&2; exit 2; }
            for folder in "${@:3}"; do folders+=("$(cd "$called_from" && realpath "$folder")"); done
            build
            pack "$2" ${folders[@]+"${folders[@]}"}
            exit
            ;;
        '') ;;
        *[!0-9]*) usage >&2; exit 2 ;;
        *) SECONDS_EACH=$1; shift ;;
    esac
    for target in "$@"; do is_target "$target" || { usage >&2; exit 2; }; done
    build
    for target in "${@:-${ALL[@]}}"; do fuzz "$target"; done
    echo "$PASSED passed, $FAILED failed, 0 skipped"
    [[ $FAILED == 0 && $PASSED -gt 0 ]]
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
