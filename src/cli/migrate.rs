//! `rowstamp migrate`: tables off AUTO_INCREMENT, and back. docs/migrate.md walks a live table
//! through it.

mod plan;
mod seed;
mod shards;
mod sql;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::block_on;

#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// List the tables with AUTO_INCREMENT, and propose rules for them.
    #[command(after_help = PLAN)]
    Plan(plan::PlanArgs),
    /// Raise the generators above the ids and counters of their tables on every shard. Rules that
    /// are off count too.
    #[command(after_help = SEED)]
    Seed(seed::SeedArgs),
    /// Print the SQL of each step and of its way back. Rowstamp executes nothing.
    #[command(after_help = SQL)]
    Sql(sql::SqlArgs),
    /// Check whether a step is complete, whether other writers made ids, and whether an id is double.
    #[command(after_help = VERIFY)]
    Verify(verify::VerifyArgs),
}

const PLAN: &str = "Examples:
  rowstamp migrate plan                                   all tables with AUTO_INCREMENT
  rowstamp migrate plan --schema shop --interleave --write
                                                          rules/shop.toml, for a move while clients write
  rowstamp migrate plan --table 'order_*' --kind timestamp --layout snowflake --json";

const SEED: &str = "Examples:
  rowstamp migrate seed --dry-run                         print what seed would raise
  rowstamp migrate seed --shard 10.0.0.1:3306 --shard 10.0.0.2:3306";

const SQL: &str = "Examples:
  rowstamp migrate sql                                    every step with its way back, as comments
  rowstamp migrate sql --step interleave | mysql          run one step
  rowstamp migrate sql --step drop --back | mysql         run the way back of a step
  rowstamp migrate sql --step widen | tee widen.sql | mysql
                                                          keep the file: the step drops foreign keys and adds them again";

const VERIFY: &str = "Examples:
  rowstamp migrate verify --step interleaved --sessions-up-to 812
  rowstamp migrate verify --step moved --since-id 70000
  rowstamp migrate verify --shard 10.0.0.1:3306 --shard 10.0.0.2:3306 --up-to-id 5000000";

pub(super) fn run(command: &MigrateCommand) -> anyhow::Result<ExitCode> {
    block_on(async {
        match command {
            MigrateCommand::Plan(args) => plan::run(args).await,
            MigrateCommand::Seed(args) => seed::run(args).await,
            MigrateCommand::Sql(args) => sql::run(args).await,
            MigrateCommand::Verify(args) => verify::run(args).await,
        }
    })
}
