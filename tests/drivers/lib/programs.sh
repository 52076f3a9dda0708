# shellcheck shell=bash
# name | language | command, run in the language's folder.
# shellcheck disable=SC2034 # read by run.sh
PROGRAMS=(
  "pymysql|python|.venv/bin/python pymysql/main.py"
  "mysqlclient|python|.venv/bin/python mysqlclient/main.py"
  "mysql-connector-pure|python|.venv/bin/python mysql-connector/main.py pure"
  "mysql-connector-compressed|python|.venv/bin/python mysql-connector/main.py compressed"
  "mysql-connector-ext|python|.venv/bin/python mysql-connector/main.py ext"
  "sqlalchemy|python|.venv/bin/python sqlalchemy/main.py"
  "django|python|.venv/bin/python django/main.py"
  "node-mysql2|node|node mysql2/main.js"
  "node-mariadb|node|node mariadb/main.js"
  "connector-j|java|java -cp target/classes:target/lib/* drivers.ConnectorJ"
  "mariadb-connector-j|java|java -cp target/classes:target/lib/* drivers.MariaDbConnectorJ"
  "hibernate|java|java -cp target/classes:target/lib/* drivers.Hibernate"
  "go-sql-driver|go|target/mysql"
  "gorm|go|target/gorm"
  "pdo-emulated|php|php pdo/main.php emulated"
  "pdo-native|php|php pdo/main.php native"
  "pdo-compressed|php|php pdo/main.php compressed"
  "ruby-mysql2|ruby|ruby mysql2/main.rb"
  "sqlx|rust|target/debug/sqlx"
  "mysql_async|rust|target/debug/mysql_async"
)
