#!/usr/bin/env bash
# Takes away each guard of tests/mutants in turn, and looks whether a test notices.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

usage() {
    cat <<'TEXT'
Usage: tests/mutants.sh [--list | --check | NAME...]

Each file tests/mutants/NAME.patch takes one guard out of the code: what it guards, and the tests that are to notice, stand at its
top. Every patch is put into a copy of the tree (target/mutants/tree) and built, and its tests are run: they must fail. A
patch that no longer fits, or does not build, tests that still pass, and tests that fail without the patch too, are failures. Ends with "N passed, N failed, N
skipped", and with 1 if anything failed. All of them take about an hour on 2 cores; servers are as for tests/run.sh.

  --list    the names, and what each guards
  --check   only whether each patch fits
  NAME...   these only

  CARGO_TARGET_DIR   what is built goes to mutants/build in it (default target)
TEXT
}

PATCHES=$PWD/tests/mutants
# A test that hangs has noticed something, too.
TEST_SECONDS_MAX=300

finish() {
    echo "$PASSED passed, $FAILED failed, 0 skipped"
    [[ $FAILED == 0 ]]
    exit
}

# header FIELD FILE
header() { sed -n "s/^$1: //p;/^---/q" "$2"; }

# The tree as it stands, what is not committed included. Its files are new, so that cargo takes nothing that was built from an
# earlier copy, with a guard taken away, for up to date.
copy_tree() {
    rm -rf "$TREE"
    mkdir -p "$TREE"
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --touch --directory="$TREE"
}

# A change of the copy, which git is not to take for a part of the repository around it.
change() { (cd "$TREE" && GIT_CEILING_DIRECTORIES=$(dirname "$TREE") git apply "$@"); }

fits() { # NAME
    change --check "$PATCHES/$1.patch" || { echo "FAILED: $1: the patch no longer fits"; return 1; }
}

# Whether the tests pass as the tree stands: asked once of each set of them. What fails anyway notices nothing.
passes() { # CARGO_TEST_ARGUMENT...
    if [[ -z ${CONTROLS["$*"]:-} ]]; then
        CONTROLS["$*"]=fail
        if (cd "$TREE" && cargo test --locked --quiet --no-run "$@" >"$log" 2>&1 &&
            timeout "$TEST_SECONDS_MAX" cargo test --locked "$@" >"$log" 2>&1); then
            CONTROLS["$*"]=pass
        else
            echo "without a mutant: cargo test $*"
            tail -n 30 "$log"
        fi
    fi
    [[ ${CONTROLS["$*"]} == pass ]]
}

# Asks `passes` for all of them, while nothing is changed that is to be built again.
control() { # NAME...
    local name args
    for name in "$@"; do
        read -ra args < <(header Tests "$PATCHES/$name.patch")
        passes "${args[@]}" || true
    done
}

noticed() { # NAME
    local file=$PATCHES/$1.patch args status=0
    read -ra args < <(header Tests "$file")
    passes "${args[@]}" || { echo "FAILED: $1: its tests fail with the guard too (cargo test ${args[*]})"; return 1; }
    change "$file" >"$log" 2>&1 || { cat "$log"; echo "FAILED: $1: the patch no longer fits"; return 1; }
    if ! (cd "$TREE" && cargo test --locked --quiet --no-run "${args[@]}" >"$log" 2>&1); then
        tail -n 30 "$log"
        echo "FAILED: $1: it does not build"
        status=1
    elif (cd "$TREE" && timeout "$TEST_SECONDS_MAX" cargo test --locked --no-fail-fast "${args[@]}" >"$log" 2>&1); then
        echo "FAILED: $1: no test noticed (cargo test ${args[*]})"
        status=1
    else
        echo "$1: noticed by $(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | awk '
            { names = names (NR == 1 ? "" : ", ") $0 } END { print names == "" ? "a hang or an end of the test program" : names }')"
    fi
    change --reverse "$file" >"$log" 2>&1 || { cat "$log"; exit 1; }
    return "$status"
}

main() {
    local name names=()
    PASSED=0 FAILED=0
    declare -gA CONTROLS=()
    case ${1:-} in
        --help | -h) usage; exit 0 ;;
        --list) for name in "$PATCHES"/*.patch; do
                    printf '%s: %s\n' "$(basename "$name" .patch)" "$(header Guard "$name")"
                done
                exit 0 ;;
        --check | '') for name in "$PATCHES"/*.patch; do names+=("$(basename "$name" .patch)"); done ;;
        -*) usage >&2; exit 2 ;;
        *) names=("$@") ;;
    esac
    for name in "${names[@]}"; do
        [[ -e $PATCHES/$name.patch ]] || { echo "no patch $name: tests/mutants.sh --list" >&2; exit 2; }
    done
    # Apart from what is built of the tree itself: cargo would take the one for the other.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/mutants/build
    export CARGO_TARGET_DIR
    TREE=$(dirname "$CARGO_TARGET_DIR")/tree
    # A look beside a run leaves the run's tree alone.
    if [[ ${1:-} == --check ]]; then TREE+=.check; fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    copy_tree
    if [[ ${1:-} != --check ]]; then control "${names[@]}"; fi
    for name in "${names[@]}"; do
        if if [[ ${1:-} == --check ]]; then fits "$name"; else noticed "$name"; fi; then
            PASSED=$((PASSED + 1))
        else
            FAILED=$((FAILED + 1))
        fi
    done
    finish
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
