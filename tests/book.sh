#!/usr/bin/env bash
# The book as readers get it: mdBook builds docs/ with its diagrams, and warns of nothing. Links, anchors and sizes are tests of
# `cargo test --test library docs::`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin

MDBOOK_VERSION=0.5.4
# Of mdBook 0.5 too.
MERMAID_VERSION=0.17.1

case ${1:-} in
    --help | -h) echo "tests/book.sh: installs mdBook $MDBOOK_VERSION and mdbook-mermaid $MERMAID_VERSION where they are missing, and builds target/book"; exit 0 ;;
    '') ;;
    *) echo "Usage: tests/book.sh" >&2; exit 2 ;;
esac

# install_crate CRATE VERSION [FLAG...]
install_crate() {
    [[ $("$1" --version 2>/dev/null || true) == *"$2"* ]] || cargo install --locked --quiet "$1" --version "$2" "${@:3}"
}

# mdbook-mermaid writes its scripts beside a book.toml, which it changes: so not beside ours. mdBook is told of them by its
# environment, and builds without them where they are not.
add_diagrams() {
    mkdir -p target/mermaid
    : >target/mermaid/book.toml
    rm -f target/mermaid/*.js
    mdbook-mermaid install target/mermaid
    export MDBOOK_PREPROCESSOR__MERMAID__COMMAND=mdbook-mermaid
    export MDBOOK_OUTPUT__HTML__ADDITIONAL_JS='["target/mermaid/mermaid.min.js", "target/mermaid/mermaid-init.js"]'
}

main() {
    local log
    log=$(mktemp)
    # shellcheck disable=SC2064 # the name is known now
    trap "rm -f '$log'" EXIT
    # Without its server.
    install_crate mdbook "$MDBOOK_VERSION" --no-default-features --features search
    install_crate mdbook-mermaid "$MERMAID_VERSION"
    add_diagrams
    rm -rf target/book
    mdbook build 2>&1 | tee "$log"
    if grep -E '^ *(WARN|ERROR) ' "$log"; then
        echo "FAILED: mdBook warns"
        echo "0 passed, 1 failed, 0 skipped"
        return 1
    fi
    [[ -s target/book/introduction.html ]]
    echo "1 passed, 0 failed, 0 skipped"
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
