//! The making of a stage, and the facts that have to be known for it.

use super::{Facts, Job, facts_of, not_made};
use crate::proxy::decide::staged::lost;
use crate::proxy::decide::verdict::{Task, refused};
use crate::proxy::known::answered::Answered;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Going, Session, Stop};
use crate::rewrite::plan::stage::{Engine, Kind, Nulls};
use crate::rewrite::plan::target::Target;
use crate::schema::Fired;
use crate::sql::dialect::SqlMode;

/// The query for the facts, in hexadecimal digits, so that the answers do not depend on character_set_results.
const FACTS_SQL: &[u8] = b"SELECT HEX(CONCAT_WS(',',@@log_bin,@@sql_log_bin,@@binlog_format,\
    @@sql_mode LIKE '%NO_ZERO_DATE%',@@auto_increment_increment,LAST_INSERT_ID())) LIMIT 1";
/// A zero date is the default of one of the table's columns, which sql_mode allows no new table to have (1067).
const INVALID_DEFAULT: u16 = 1067;
/// InnoDB has no rows or tables as wide as other engines have: a row of more than 8,126 bytes, more than 1,017 columns. MariaDB says of the latter that
/// it cannot create the table.
const TOO_WIDE: [u16; 3] = [1005, 1117, 1118];
const UNKNOWN_COLUMN: u16 = 1054;

impl Session {
    /// Makes the stage, once the server has nothing against the client's statement.
    pub(super) async fn make_stage(&mut self, job: &Job<'_>) -> Result<Facts, Stop> {
        let Job { task, text, stage, insert, .. } = *job;
        let (nulls, unwarned) = match stage.kind {
            Kind::Query => (Nulls::Anywhere, None),
            kind => self.nulls(kind, &insert.target).await?,
        };
        let create = stage.create(text, nulls, Engine::InnoDb);
        let left = self.relay.known.session.stage.take();
        let left = left.as_deref().map(Question::Query);
        // A prepared statement has been judged, and LOAD cannot be. The client's text is the last: SHOW WARNINGS shows its error.
        let is_judged = matches!(task, Task::Execute { .. }) || stage.is_load();
        let whole = (!is_judged).then_some(Question::Prepare(text));
        let first: Vec<_> = left.into_iter().chain([Question::Query(FACTS_SQL)]).collect();
        let questions: Vec<_> = [Question::Query(&create)].into_iter().chain(whole).collect();
        let answers = self.ask_all_as_then(job, &first, &questions).await?;
        let mut answers = answers.into_iter().skip(usize::from(left.is_some()));
        let (facts, made, judged) = (answers.next(), answers.next(), answers.next());
        let mut made = made.ok_or_else(lost)?;
        let drop = || task.around().map_or_else(|| stage.drop(), |around| around.drop.clone());
        self.relay.known.session.stage = made.is_ok().then(drop);
        if let Some(Err(error)) = judged {
            return Err(Stop::Failed(error.payload));
        }
        let facts = Facts { unwarned, ..facts_of(facts.ok_or_else(lost)?, &insert.target)? };
        if made.is_err() {
            made = self.make_otherwise(made, job, nulls, create).await?;
            self.relay.known.session.stage = made.is_ok().then(drop);
        }
        if let Err(error) = made {
            // LOAD itself gives this error.
            if !stage.is_load() || error.code != UNKNOWN_COLUMN {
                let of_no_rows = self.ask_as_then(job, Question::Query(&stage.of_no_rows())).await?;
                of_no_rows.map_err(|error| Stop::Failed(error.payload))?;
            }
            return Err(not_made(error, &insert.target));
        }
        Ok(facts)
    }

    /// Makes the stage in another engine, or under another sql_mode, where the server's error says that it then can be made.
    async fn make_otherwise(
        &mut self,
        mut made: Answered,
        job: &Job<'_>,
        nulls: Nulls,
        mut create: Vec<u8>,
    ) -> Result<Answered, Stop> {
        let Job { stage, text, .. } = *job;
        let (mut engine, mut in_any_mode) = (Engine::InnoDb, false);
        // Each of the two once.
        while let Err(error) = &made {
            match error.code {
                code if TOO_WIDE.contains(&code) && engine == Engine::InnoDb => {
                    engine = Engine::MyIsam;
                    create = stage.create(text, nulls, engine);
                }
                INVALID_DEFAULT if !in_any_mode => in_any_mode = true,
                _ => break,
            }
            made = if in_any_mode {
                self.make_in_any_mode(job, &create).await?
            } else {
                self.ask_as_then(job, Question::Query(&create)).await?
            };
        }
        Ok(made)
    }

    /// Makes the stage while no sql_mode looks at the defaults that it takes over.
    async fn make_in_any_mode(&mut self, job: &Job<'_>, create: &[u8]) -> Result<Answered, Stop> {
        let questions = [
            Question::Query(b"SET @`rowstamp sql_mode`=@@sql_mode"),
            Question::Query(b"SET sql_mode=''"),
            Question::Query(create),
            Question::Query(b"SET sql_mode=@`rowstamp sql_mode`"),
            Question::Query(b"SET @`rowstamp sql_mode`=NULL"),
        ];
        let mut answers = self.ask_all_as_then(job, &[], &questions).await?;
        if let Some(Err(error)) = answers.get(3) {
            return Err(Stop::Failed(error.payload.clone()));
        }
        Ok(answers.swap_remove(2))
    }

    /// Which triggers an INSERT into the table fires; `None`: the control account cannot see them.
    pub(super) async fn fired(&mut self, target: &Target) -> Going<Option<Fired>> {
        let in_force = self.shared.tables.clone();
        self.meanwhile(async {
            let (schema, table) = target.named();
            let asked = in_force.schema()?.fired_by_insert(schema, table).await;
            asked.inspect_err(|error| tracing::warn!(%error, "cannot read the triggers of a table")).ok()?
        })
        .await
    }

    /// Which columns of the stage may be NULL, and why the server must not warn of what fills it. NULL
    /// where a column takes none is stored as another value, with a warning, or refused, unless a
    /// BEFORE INSERT trigger may replace it.
    async fn nulls(&mut self, kind: Kind, target: &Target) -> Result<(Nulls, Option<String>), Stop> {
        let schema = target.named().0;
        let has_trigger = self.fired(target).await?.map(|fired| fired.before);
        let state = self.relay.known.session.state();
        let is_mysql = state.is_some_and(|state| !state.dialect.is_mariadb());
        let strict = [SqlMode::STRICT_TRANS_TABLES, SqlMode::STRICT_ALL_TABLES];
        let is_strict =
            state.is_some_and(|state| strict.iter().any(|mode| state.dialect.sql_mode.contains(*mode)));
        let (nulls, why) = match has_trigger {
            Some(false) if matches!(kind, Kind::Load { loses_defaults: true, .. }) => {
                let why = "a line that is too short gives a BIT column another default".to_owned();
                return Ok((Nulls::AsInTable, Some(why)));
            }
            Some(false) => return Ok((Nulls::AsInTable, None)),
            // MariaDB fills columns that are left out, or missing in a line, with NULL.
            Some(true) if kind != Kind::Values && !is_mysql => return Ok((Nulls::Anywhere, None)),
            // Either statement is refused if a value is NULL after the trigger.
            Some(true) if kind == Kind::Values && is_strict => return Ok((Nulls::Anywhere, None)),
            Some(true) if kind == Kind::Values => (
                Nulls::AsInTable,
                "the table has a BEFORE INSERT trigger, which would not see NULL".to_owned(),
            ),
            Some(true) => (
                Nulls::Anywhere,
                "the table has a BEFORE INSERT trigger, which would see NULL where LOAD gives another value"
                    .to_owned(),
            ),
            None => (
                Nulls::AsInTable,
                format!(
                    "Rowstamp does not know whether the table has a BEFORE INSERT trigger (GRANT TRIGGER ON `{schema}`.* TO the account \
                     of [backend.control])"
                ),
            ),
        };
        if matches!(kind, Kind::Load { leaves_defaults: true, .. }) {
            return Err(refused(target.at(format_args!(
                "LOAD leaves out a column that is NOT NULL and has no default, and {why}; name the column in the list"
            )))
            .into());
        }
        Ok((nulls, Some(why)))
    }
}
