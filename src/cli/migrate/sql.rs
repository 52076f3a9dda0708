//! `rowstamp migrate sql`: what a DBA runs at each step, printed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::address::Address;
use crate::cli::migrate::shards::{self, Choice, Shard};
use crate::cli::output::stdout;
use crate::cli::{ConfigArg, Usage};
use crate::config::{Loaded, load_file};
use crate::ids::{ID_MAX, issued_below};
use crate::migrate::definition::Definition;
use crate::migrate::family::{Family, Member, TableColumn, is_narrow, related};
use crate::migrate::interleave::{Counting, Increments, Seat, VARIABLES, is_even};
use crate::migrate::steps::{Print, Step, Subject, drop_counter, guard, interleave, left_out, render, widen};
use crate::opened::store::OperatorStore;
use crate::rules::RuleSet;
use crate::rules::model::{ColumnShape, GeneratorKind, Mode, Rule};
use crate::schema::IdColumn;
use crate::sql::name::{quoted, same_column};
use crate::table_name::TableName;

#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    #[command(flatten)]
    pub choice: Choice,
    /// The server that the SQL is for. Default: the backend. Rowstamp logs in as the control
    /// account.
    #[arg(long = "shard", value_name = "ADDRESS")]
    pub shard: Option<Address>,
    /// Print one step, ready for a client. Without --step, all steps are printed as comments,
    /// because no client may run them all at once.
    #[arg(long, value_enum, value_name = "STEP")]
    pub step: Option<StepName>,
    /// The number of servers that take writes to these tables (a ring, or Galera). Each server has
    /// a different offset.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=32767))]
    pub servers: u64,
    /// The place of this server among --servers: its auto_increment_offset before the first step.
    #[arg(long, value_name = "NTH", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=32767))]
    pub server: u64,
    /// Print the way back of the step.
    #[arg(long, requires = "step")]
    pub back: bool,
    /// Without --step: also print step guard, whose triggers refuse INSERTs without an id.
    #[arg(long, conflicts_with = "step")]
    pub guard_triggers: bool,
    /// With --step drop --back: the first id of the server's counter. Default: above the tables'
    /// ids and the generator's bound.
    #[arg(long, value_name = "ID", requires = "back", value_parser = clap::value_parser!(u64).range(1..=ID_MAX))]
    pub counter: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StepName {
    /// The server's counter gives odd ids; a generator with step = 2 gives even ids.
    Interleave,
    /// Triggers refuse INSERTs without an id.
    Guard,
    /// Columns narrower than BIGINT become BIGINT, with the columns that foreign keys connect to
    /// them.
    Widen,
    /// The columns lose AUTO_INCREMENT.
    Drop,
}

pub(super) async fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let shards = shards::open(&loaded.config, args.shard.as_slice()).await?;
    let Some(shard) = shards.first() else { bail!("backend.address is empty") };
    let tables = shard.ruled(&loaded.rules, &args.choice).await?;
    shards::be_some(tables.len(), &shards)?;
    let mut notes = Vec::new();
    let needs_counter = args.step.is_none() || (args.step == Some(StepName::Drop) && args.back);
    let reads_bounds = needs_counter && args.counter.is_none();
    let store = if reads_bounds { open_store(&loaded, &mut notes).await } else { None };
    // A client that the SQL is piped into does not show its comments.
    for note in &notes {
        eprintln!("warning: {note}");
    }
    let mut subjects = Vec::new();
    for (table, rule) in &tables {
        subjects.extend(subject(shard, table, (rule, &loaded.rules), args.counter, store.as_ref()).await?);
    }
    if args.step == Some(StepName::Drop) && args.back {
        be_some_left(&subjects)?;
    }
    let widens = matches!(args.step, None | Some(StepName::Widen));
    let family = if widens { read_family(shard, &subjects).await? } else { Family::default() };
    let counting = Counting::of(&shard.schema.globals(&VARIABLES).await?);
    let seat = seat(args, &counting)?;
    let steps = |name| -> Step {
        match name {
            StepName::Interleave => interleave(&counting, seat),
            StepName::Guard => guard(&subjects),
            StepName::Widen => widen(&family, counting.flavour),
            StepName::Drop => drop_counter(&subjects, counting.flavour),
        }
    };
    let text = if let Some(name) = args.step {
        render(&[steps(name)], if args.back { Print::Back } else { Print::Forward })
    } else {
        let all = [StepName::Interleave, StepName::Guard, StepName::Widen, StepName::Drop];
        let wanted = all.into_iter().filter(|name| *name != StepName::Guard || args.guard_triggers);
        render(&wanted.map(steps).collect::<Vec<_>>(), Print::All)
    };
    let mut out = stdout();
    for note in notes {
        writeln!(out, "-- {note}")?;
    }
    write!(out, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// An error where every counter is to stay away.
fn be_some_left(subjects: &[Subject]) -> anyhow::Result<()> {
    let left_out: Vec<_> = subjects.iter().filter_map(left_out).collect();
    if left_out.is_empty() || left_out.len() < subjects.len() {
        return Ok(());
    }
    bail!("no table is left for step drop --back:\n{}", left_out.join("\n"));
}

/// The server's seat among the servers that take writes. The server's increments must fit the seat: a wrong seat
/// would make two servers hand out the same ids.
fn seat(args: &SqlArgs, counting: &Counting) -> Result<Seat, Usage> {
    let seat = Seat { nth: args.server, of: args.servers };
    if seat.nth > seat.of {
        return Err(Usage(format!("--server {} is not one of --servers {}", seat.nth, seat.of)));
    }
    let is_concerned = matches!(args.step, None | Some(StepName::Interleave));
    if is_concerned && !seat.is_of(counting.increments) {
        let Increments { increment, offset } = counting.increments;
        return Err(Usage(format!(
            "this server counts by {increment} from {offset}; server {} of {} does not count so, before or after step interleave: \
             write --servers with the number of servers that take writes, and --server with the place of this server",
            seat.nth, seat.of
        )));
    }
    Ok(seat)
}

/// The store, to ask for what generators may have issued. Without the store the tables alone are asked.
async fn open_store(loaded: &Loaded, notes: &mut Vec<String>) -> Option<OperatorStore> {
    let note_error = |error: &anyhow::Error| {
        // One line: it is a comment of SQL.
        let why = format!("{error:#}").replace(char::is_control, " ");
        notes.push(format!("The generators' bounds cannot be read: {why}"));
        notes.push(
            "The counter of step drop --back begins above the tables' ids. This is right if one proxy serves the tables, and \
             has stored an id since its rule has step = 2. Otherwise write --counter."
                .to_owned(),
        );
    };
    OperatorStore::open(&loaded.config).await.inspect_err(note_error).ok()
}

/// `None`: the table went away meanwhile.
async fn subject(
    shard: &Shard,
    table: &str,
    (rule, rules): (&Rule, &RuleSet),
    counter: Option<u64>,
    store: Option<&OperatorStore>,
) -> anyhow::Result<Option<Subject>> {
    let of = IdColumn { schema: &rule.schema, table, column: &rule.column };
    let Some((column, definition)) = column(shard, of).await.with_context(|| rule.origin.to_string())? else {
        return Ok(None);
    };
    let counter_from = match (counter, shares_no_ids(rule, rules)) {
        (Some(counter), _) => Ok(counter),
        (None, Err(why)) => Err(why),
        (None, Ok(())) => {
            let highest = shard.schema.highest_ids(&[of]).await?.first().copied().flatten();
            let highest = highest.with_context(|| {
                format!(
                    "{}.{table}: the highest id cannot be read: the table is locked or damaged, or the control account lacks SELECT",
                    rule.schema
                )
            })?;
            let issued_below = match store {
                Some(operator) => issued_below(&*operator.store, &rule.generator.to_string()).await?,
                None => 1,
            };
            Ok(issued_below.max(highest.saturating_add(1)).min(ID_MAX))
        }
    };
    let schema = rule.schema.clone();
    Ok(Some(Subject { schema, table: table.to_owned(), column, definition, counter_from }))
}

/// `Ok` if the generator and the server's counter share no ids, as the rule is now; an error says
/// what to do.
fn shares_no_ids(rule: &Rule, rules: &RuleSet) -> Result<(), &'static str> {
    if rule.mode != Mode::On {
        return Ok(());
    }
    match rules.generator_of(rule).map(|spec| &spec.kind) {
        Some(GeneratorKind::Timestamp(_)) => Err(concat!(
            "its generator makes timestamps, and after a timestamp id the counter would continue among the ids to come; give the \
             table a sequence of even ids first (",
            crate::book::page!("migrate"),
            "), or write mode = \"off\" when no client inserts through a proxy"
        )),
        Some(GeneratorKind::Sequence(spec)) if !is_even(spec) => {
            Err("its generator issues odd ids too; write step = 2, offset = 0 first, on every proxy")
        }
        _ => Ok(()),
    }
}

/// A column as it is defined; `None`: there is no such table.
async fn column(shard: &Shard, of: IdColumn<'_>) -> anyhow::Result<Option<(ColumnShape, Definition)>> {
    let name = format!("{}.{}", of.schema, of.table);
    let create = shard.schema.create_table(of.schema, of.table).await.with_context(|| name.clone())?;
    let Some(create) = create else { return Ok(None) };
    let shape = shard.schema.shape(of.schema, of.table).await?;
    let column =
        shape.and_then(|shape| shape.columns.into_iter().find(|one| same_column(&one.name, of.column)));
    let Some(column) = column else { bail!("table {name} has no column {}", of.column) };
    let Some(definition) = Definition::of(&create, &column.name) else {
        bail!("{name}: SHOW CREATE TABLE has no definition of column {} that Rowstamp can read", column.name);
    };
    Ok(Some((column, definition)))
}

/// The narrow columns of these tables, and all that must be widened with them.
async fn read_family(shard: &Shard, subjects: &[Subject]) -> anyhow::Result<Family> {
    let narrow = subjects.iter().filter(|of| is_narrow(&of.column));
    let case = shard.schema.name_case().await?;
    // The names as the foreign keys have them: folded, if the server folds names.
    let folded = |name: &str| case.folded(name).into_owned();
    let place = |of: &Subject| -> TableColumn {
        (TableName { schema: folded(&of.schema), table: folded(&of.table) }, of.column.name.clone())
    };
    let roots: Vec<TableColumn> = narrow.map(place).collect();
    if roots.is_empty() {
        return Ok(Family::default());
    }
    let all = shard.schema.whole_keys().await?;
    let (places, keys) = related(case, &roots, &all);
    if let Some(key) = keys.iter().find(|key| key.on_delete.is_empty() || key.on_update.is_empty()) {
        let (schema, table) = (&key.child.schema, &key.child.table);
        bail!(
            "foreign key {} of {schema}.{table}: the control account does not see the key's actions for DELETE and UPDATE, so the \
             SQL could not restore the key; GRANT SELECT, SHOW VIEW ON {}.* to the account",
            key.name,
            quoted(schema)
        );
    }
    let mut columns = Vec::with_capacity(places.len());
    for (table, name) in places {
        let of = IdColumn { schema: &table.schema, table: &table.table, column: &name };
        let tied = || {
            format!(
                "{}.{}.{name}, which foreign keys connect to a column with a rule",
                table.schema, table.table
            )
        };
        let Some((column, definition)) = column(shard, of).await.with_context(tied)? else {
            bail!("{} does not exist any more: run the command again", tied());
        };
        if is_narrow(&column) {
            columns.push(Member { table, column, definition });
        }
    }
    Ok(Family { columns, keys })
}
