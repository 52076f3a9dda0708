//! Rowstamp: a MySQL-protocol proxy that fills id columns of INSERTs from an embedded id generator.
//!
//! The modules in reading order; each imports only from those above it (ARCHITECTURE.md draws the
//! table and `tests/tidy.rs` holds the code to it).
//!
//! * [`address`]: where a socket is, TCP or Unix; and listening there.
//! * [`meter`]: how often, and how long.
//! * [`role`]: whether a server is the primary.
//! * [`table_name`]: the name of a table, as written and as the server compares it.
//! * [`table_use`]: the ids that were taken for a table, and the looks at it.
//! * [`text_query`]: values in the texts of our own queries.
//! * [`book`]: the pages of docs/, which the program prints and its texts name.
//! * [`log_span`]: whose a line of the log is.
//! * [`audit`]: `log.audit`, a file of JSON lines that nobody waits for.
//! * [`toml_file`]: TOML that people write, every error of a file by line and key.
//! * [`mysql`]: the wire's words: packets, handshakes, commands, responses, prepared statements.
//! * [`sql`]: bytes to tokens with spans, tokens to the shape of an INSERT.
//! * [`store`]: where bounds live; one compare-and-set.
//! * [`users`]: who may do what.
//! * [`ids`]: ranges of ids and the generators that own them.
//! * [`rules`]: which table's column is filled by which generator.
//! * [`rewrite`]: shape + rule -> plan; plan + block -> bytes or parameters. Pure.
//! * [`schema`]: the columns of live tables, read through the control account.
//! * [`sessions`]: who is connected, what they did, and how they are ended.
//! * [`lint`]: the rules against the live server, finding by finding. Pure.
//! * [`migrate`]: tables off AUTO_INCREMENT and back: rules, SQL, what a step proves. Pure.
//! * [`tables`]: the rules that are active: columns, generators and locks of each ruled table.
//! * [`doors`]: ids for applications without an INSERT.
//! * [`proxy`]: one client's session: connected, decided, served, relayed.
//! * [`admin`]: what operators see and do while a proxy runs.
//! * [`takeover`]: one process in the place of another.
//! * [`config`]: what was written in rowstamp.toml -> what can act.
//! * [`opened`]: what a configuration names, opened.
//! * [`querylog`]: the query logs of MySQL and MariaDB.
//! * [`explain`]: what would be sent for a statement, or for those of a log.
//! * [`daemon`]: the running process.
//! * [`cli`]: one file a command.

pub mod address;
pub mod admin;
pub mod audit;
pub mod book;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod doors;
pub mod explain;
pub mod ids;
pub mod lint;
pub mod log_span;
pub mod meter;
pub mod migrate;
pub mod mysql;
pub mod opened;
pub mod proxy;
pub mod querylog;
pub mod rewrite;
pub mod role;
pub mod rules;
pub mod schema;
pub mod sessions;
pub mod sql;
pub mod store;
pub mod table_name;
pub mod table_use;
pub mod tables;
pub mod takeover;
pub mod text_query;
pub mod toml_file;
pub mod users;
