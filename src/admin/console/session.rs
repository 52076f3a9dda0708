//! A client that has logged in, served by opensrv-mysql: statements in, answers out.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use opensrv_mysql::{
    AsyncMysqlIntermediary, AsyncMysqlShim, Column as WireColumn, ColumnFlags, ColumnType, ErrorKind,
    InitWriter, IntermediaryOptions, OkResponse, ParamParser, QueryResultWriter, StatementMetaWriter,
    ToMysqlValue,
};
use tokio::io::{AsyncWrite, BufWriter};

use super::answer::{Answer, Column, Type, Value};
use super::context::{Caller, Context};
use super::failure::Failure;
use super::run;
use super::voice::Voice;
use super::{IDLE_TIMEOUT, SERVER_VERSION, WRITE_TIMEOUT};
use crate::admin::console::protocol::gate::{Gate, Shared, lock};
use crate::admin::console::protocol::login::LoggedIn;
use crate::admin::console::protocol::scramble::NONCE_BYTES;
use crate::admin::console::protocol::wire::part;
use crate::admin::desk::Desk;

/// Prepared statements of one connection, and their texts' length.
const PREPARED_MAX: usize = 1_000;
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// Serves the connection to its end.
pub(super) async fn serve(
    desk: Arc<dyn Desk>,
    login: LoggedIn,
    client: String,
    connection_id: u32,
) -> io::Result<()> {
    let LoggedIn { stream, user, database, capabilities, nonce, is_tls } = login;
    let shared = Shared::default();
    lock(&shared).database = database;
    let caller = Caller { user, client, connection_id, is_tls };
    let shell = Shell { desk, caller, nonce, shared: shared.clone(), prepared: 0 };
    let (mut read, mut write) = tokio::io::split(stream);
    let gate = Gate::new(&mut read, shared, capabilities, IDLE_TIMEOUT);
    let voice = Voice::new(BufWriter::new(&mut write), WRITE_TIMEOUT);
    let options =
        IntermediaryOptions { process_use_statement_on_query: true, ..IntermediaryOptions::default() };
    let ended = AsyncMysqlIntermediary::run_with_options(shell, gate, voice, &options).await;
    part(read.unsplit(write)).await;
    ended
}

struct Shell {
    desk: Arc<dyn Desk>,
    caller: Caller,
    nonce: [u8; NONCE_BYTES],
    shared: Shared,
    /// The number of the statement that was prepared last.
    prepared: u32,
}

impl Shell {
    fn context<'a>(&'a self, database: Option<&'a str>) -> Context<'a> {
        Context { desk: &*self.desk, caller: &self.caller, database }
    }

    async fn answer(&self, statement: &str) -> Result<Answer, Failure> {
        let database = lock(&self.shared).database.clone();
        let context = self.context(database.as_deref());
        let answer = run::run(&context, statement).await?;
        if let Answer::Use(database) = &answer {
            lock(&self.shared).database = Some(database.clone());
        }
        Ok(answer)
    }

    async fn reply<W: AsyncWrite + Send + Unpin>(
        &self,
        statement: &str,
        results: QueryResultWriter<'_, W>,
    ) -> io::Result<()> {
        match self.answer(statement).await {
            Ok(Answer::Done(text)) => {
                results.completed(OkResponse { info: text.to_owned(), ..OkResponse::default() }).await
            }
            Ok(Answer::Use(_)) => results.completed(OkResponse::default()).await,
            Ok(Answer::Table(table)) => {
                let mut columns: Vec<_> = table.columns.iter().map(on_the_wire).collect();
                // Clients leave room for the word NULL in a column that may have it.
                for (nth, column) in columns.iter_mut().enumerate() {
                    let is_null = |row: &Vec<Value>| row.get(nth) == Some(&Value::Null);
                    column.colflags.set(ColumnFlags::NOT_NULL_FLAG, !table.rows.iter().any(is_null));
                }
                let mut rows = results.start(&columns).await?;
                for row in table.rows {
                    rows.write_row(row).await?;
                }
                rows.finish().await
            }
            Err(failure) => results.error(failure.kind(), failure.to_string().as_bytes()).await,
        }
    }

    /// The number of a statement and its columns.
    fn prepare(&mut self, statement: &str) -> Result<(u32, Vec<WireColumn>), Failure> {
        let database = lock(&self.shared).database.clone();
        let columns = run::columns(&self.context(database.as_deref()), statement)?;
        let mut between = lock(&self.shared);
        let bytes: usize = between.prepared.values().map(String::len).sum();
        if between.prepared.len() >= PREPARED_MAX || bytes + statement.len() > PREPARED_BYTES_MAX {
            return Err(Failure::TooManyPrepared(between.prepared.len()));
        }
        // opensrv-mysql keeps its own of those that a COM_RESET_CONNECTION ended: the next ones take their place.
        if between.prepared.is_empty() {
            self.prepared = 0;
        }
        self.prepared = self.prepared.wrapping_add(1);
        between.prepared.insert(self.prepared, statement.to_owned());
        Ok((self.prepared, columns.iter().map(on_the_wire).collect()))
    }
}

#[async_trait]
impl<W: AsyncWrite + Send + Unpin> AsyncMysqlShim<W> for Shell {
    type Error = io::Error;

    fn version(&self) -> String {
        SERVER_VERSION.to_owned()
    }

    fn connect_id(&self) -> u32 {
        self.caller.connection_id
    }

    /// The default is one and the same for all servers. This greeting goes nowhere; should it ever, it is the connection's own.
    fn salt(&self) -> [u8; NONCE_BYTES] {
        self.nonce
    }

    /// None: no switch is asked for. Who it is was seen in the login.
    async fn auth_plugin_for_username(&self, _user: &[u8]) -> &str {
        ""
    }

    async fn on_prepare<'a>(
        &'a mut self,
        query: &'a str,
        info: StatementMetaWriter<'a, W>,
    ) -> io::Result<()> {
        match self.prepare(query) {
            Ok((id, columns)) => info.reply(id, std::iter::empty::<&WireColumn>(), &columns).await,
            Err(failure) => info.error(failure.kind(), failure.to_string().as_bytes()).await,
        }
    }

    async fn on_execute<'a>(
        &'a mut self,
        id: u32,
        _params: ParamParser<'a>,
        results: QueryResultWriter<'a, W>,
    ) -> io::Result<()> {
        let statement = lock(&self.shared).prepared.get(&id).cloned();
        match statement {
            Some(statement) => self.reply(&statement, results).await,
            None => results.error(ErrorKind::ER_UNKNOWN_STMT_HANDLER, b"Unknown prepared statement").await,
        }
    }

    async fn on_close<'a>(&'a mut self, id: u32)
    where
        W: 'async_trait,
    {
        lock(&self.shared).prepared.remove(&id);
    }

    async fn on_query<'a>(&'a mut self, query: &'a str, results: QueryResultWriter<'a, W>) -> io::Result<()> {
        let refusal = lock(&self.shared).refusal.take();
        match refusal {
            Some(refusal) => {
                results.error(ErrorKind::from(refusal.code().0), refusal.to_string().as_bytes()).await
            }
            None => self.reply(query, results).await,
        }
    }

    async fn on_init<'a>(&'a mut self, database: &'a str, writer: InitWriter<'a, W>) -> io::Result<()> {
        lock(&self.shared).database = Some(database.to_owned());
        writer.ok().await
    }
}

fn on_the_wire(column: &Column) -> WireColumn {
    let (coltype, colflags) = match column.kind {
        Type::Text => (ColumnType::MYSQL_TYPE_VAR_STRING, ColumnFlags::empty()),
        Type::Unsigned => (ColumnType::MYSQL_TYPE_LONGLONG, ColumnFlags::UNSIGNED_FLAG),
        Type::Real => (ColumnType::MYSQL_TYPE_DOUBLE, ColumnFlags::empty()),
    };
    WireColumn { table: String::new(), column: column.name.to_string(), coltype, colflags }
}

impl ToMysqlValue for Value {
    fn to_mysql_text<W: io::Write>(&self, w: &mut W) -> io::Result<()> {
        match self {
            Value::Null => None::<u64>.to_mysql_text(w),
            Value::Text(text) => text.to_mysql_text(w),
            Value::Unsigned(number) => number.to_mysql_text(w),
            Value::Real(number) => number.to_mysql_text(w),
        }
    }

    fn to_mysql_bin<W: io::Write>(&self, w: &mut W, column: &WireColumn) -> io::Result<()> {
        match self {
            // The row's map of NULLs has it.
            Value::Null => Ok(()),
            Value::Text(text) => text.to_mysql_bin(w, column),
            Value::Unsigned(number) => number.to_mysql_bin(w, column),
            Value::Real(number) => number.to_mysql_bin(w, column),
        }
    }

    fn is_null(&self) -> bool {
        *self == Value::Null
    }
}
