# shellcheck shell=bash
# The schemas of dumps.sh. For each: install_NAME brings the files, as lib/install.sh does; make_NAME fills the database natively;
# use_NAME, of an application, writes more and prints TABLE COLUMN ID for each id that it was told. The database is in ROWSTAMP_*.
# Sourced by dumps.sh.

# shellcheck disable=SC2034 # read by dumps.sh
SCHEMAS=(django wordpress mediawiki sakila world dbt3)
FILES=$HERE/dumps/target
declare -A RANDOM_IDS # the table of a schema whose ids say nothing

# unpacked NAME RELEASE PATTERN PACKAGE...: files of packages of a Debian release in dumps/target/NAME, not installed: WordPress and
# MediaWiki depend on a web server, whose service starts. RELEASE is `-` for the machine's own.
unpacked() {
  local place=$FILES/$1 building=$FILES/$1.tmp release=$2 pattern=$3 package
  shift 3
  [ ! -e "$place" ] || return 0
  command -v apt-get dpkg >/dev/null || { echo "this is no Debian"; return "$ABSENT"; }
  rm -rf "$building" && mkdir -p "$building" || return
  (cd "$building" && downloaded "$release" "$@") || return "$ABSENT"
  for package in "$building"/*.deb; do
    dpkg --fsys-tarfile "$package" | tar -x --no-same-owner -C "$building" --wildcards "$pattern" || return
  done
  rm "$building"/*.deb && mv "$building" "$place"
}

# downloaded RELEASE PACKAGE...: into this folder.
downloaded() {
  local get=(apt-get -qq) update=(as_root apt-get -qq) apt=$FILES/apt mirror
  if [ "$1" != - ]; then
    # Lists of its own: the machine's settings stay as they are.
    # shellcheck disable=SC2016 # apt expands these, not the shell
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | awk '$1 == "Debian" { print $2; exit }')
    mkdir -p "$apt/lists/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $1 main" >"$apt/sources.list"
    get+=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt"
      -o APT::Sandbox::User=root)
    update=("${get[@]}")
  fi
  shift
  "${get[@]}" download "$@" 2>/dev/null || { "${update[@]}" update && "${get[@]}" download "$@"; }
}

# php_has EXTENSION...: PHP with all of them, which Debian calls php-EXTENSION.
php_has() {
  # shellcheck disable=SC2016 # PHP's variables
  local has='exit(array_filter(array_slice($argv, 1), fn ($name) => !extension_loaded($name)) ? 1 : 0);'
  needs php php-cli || return
  php -r "$has" "${@/mysql/mysqli}" || apt_packages "${@/#/php-}" && php -r "$has" "${@/mysql/mysqli}" || return "$ABSENT"
}

install_django() { install_python; }
make_django() { "$HERE/python/.venv/bin/python" "$HERE/dumps/django/main.py" install; }
use_django() { "$HERE/python/.venv/bin/python" "$HERE/dumps/django/main.py" use; }

install_wordpress() { php_has mysql && unpacked wordpress - ./usr/share/wordpress wordpress; }
make_wordpress() { php "$HERE/dumps/wordpress/main.php" "$FILES/wordpress/usr/share/wordpress" install; }
use_wordpress() { php "$HERE/dumps/wordpress/main.php" "$FILES/wordpress/usr/share/wordpress" use; }

install_mediawiki() {
  php_has mysql mbstring xml intl && unpacked mediawiki - ./usr/share/mediawiki mediawiki mediawiki-classes
}

mediawiki() { # SCRIPT ARGUMENT...
  local script=$FILES/mediawiki/usr/share/mediawiki/maintenance/$1
  shift
  php "$script" "$@"
}

make_mediawiki() {
  local settings=$WORK/$SERVER.mediawiki
  mkdir "$settings" &&
    mediawiki install.php --dbtype mysql --dbserver "$ROWSTAMP_HOST:$ROWSTAMP_PORT" --dbname "$ROWSTAMP_DATABASE" --dbuser "$ROWSTAMP_USER" \
      --dbpass "$ROWSTAMP_PASSWORD" --server http://localhost --scriptpath "" --pass "a-long-secret" --confpath "$settings" Rowstamp Admin || return
  # The same wiki in another database.
  cat >>"$settings/LocalSettings.php" <<'PHP'
$wgDBserver = getenv('ROWSTAMP_HOST') . ':' . getenv('ROWSTAMP_PORT');
$wgDBname = getenv('ROWSTAMP_DATABASE');
PHP
  edit_mediawiki First && mediawiki runJobs.php --conf "$settings/LocalSettings.php"
}

edit_mediawiki() { # TITLE
  local settings=$WORK/$SERVER.mediawiki/LocalSettings.php name number=0
  for name in "it's \"one\"" "back\\slash" "é ☃ 😀" "[[Category:Names]] [[Missing]] {{Main Page}} https://example.com/"; do
    number=$((number + 1))
    printf '%s\n' "$name" "== $name ==" | mediawiki edit.php --conf "$settings" --user Admin --summary "$name" "$1 $number" || return
  done
}

# It adds some jobs at random.
RANDOM_IDS[mediawiki]=job

# The page tells the id that was told for its revision.
use_mediawiki() {
  edit_mediawiki Second >&2 &&
    sql "$SERVER" "$ROWSTAMP_DATABASE" -e "SELECT 'page page_id', page_id FROM page WHERE page_title LIKE 'Second\_%';
      SELECT 'revision rev_id', page_latest FROM page WHERE page_title LIKE 'Second\_%'" | tr '\t' ' '
}

# MySQL's own sample schema, in the package of its tests; written for mysqltest.
SAKILA=usr/lib/mysql-test/suite/router/include/schema
install_sakila() { unpacked sakila sid "./$SAKILA/sakila-*" mysql-testsuite; }
make_sakila() {
  cat "$FILES/sakila/$SAKILA/"sakila-{schema,data}.sql |
    sed -E '/^--[a-z]/d; s/^DELIMITER (\S+)(;|\$\$)$/DELIMITER \1/; /^(DROP SCHEMA|CREATE SCHEMA|USE) .*;/d' | client
}

# The sample schemas of MariaDB's package of tests: one that MySQL has as well, and TPC-H on a small scale.
SAMPLES=usr/share/mysql/mysql-test/include
install_world() { unpacked world - "./$SAMPLES/world*" mariadb-test-data; }
make_world() { cat "$FILES/world/$SAMPLES/"world{_schema,}.inc | client; }
install_dbt3() { unpacked dbt3 - "./$SAMPLES/dbt3*" mariadb-test-data; }
# A default of it is a date of zeros.
make_dbt3() { { echo "SET sql_mode = '';" && cat "$FILES/dbt3/$SAMPLES/dbt3_s001.inc"; } | client; }
