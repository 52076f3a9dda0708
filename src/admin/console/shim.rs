//! A client that has logged in, served by opensrv-mysql: statements in, answers out. "Shim" is the library's word for
//! the code that answers.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use opensrv_mysql::{
    AsyncMysqlIntermediary, AsyncMysqlShim, Column as WireColumn, ColumnFlags, ColumnType, InitWriter,
    OkResponse, ParamParser, QueryResultWriter, StatementMetaWriter, ToMysqlValue,
};
use tokio::io::{AsyncWrite, BufWriter};

use super::answer::{Answer, Column, Type, Value};
use super::context::{Caller, Context};
use super::failure::Failure;
use super::{IDLE_TIMEOUT, WRITE_TIMEOUT, run};
use crate::address::socket::close;
use crate::admin::console::protocol::commands::SharedState;
use crate::admin::console::protocol::login::LoggedIn;
use crate::admin::console::protocol::opensrv::{OnePacketReader, Writer};
use crate::admin::desk::Desk;
use crate::mysql::error::Refusal;

/// Prepared statements of one connection, and their texts' length.
const PREPARED_MAX: usize = 1_000;
const PREPARED_BYTES_MAX: usize = 1 << 20;

pub(super) async fn serve(
    desk: Arc<dyn Desk>,
    logged_in: LoggedIn,
    client: String,
    connection_id: u32,
) -> io::Result<()> {
    let LoggedIn { stream, login, database, capabilities, is_tls } = logged_in;
    let state = SharedState::default();
    state.lock().database = database;
    let caller = Caller { login, client, connection_id, is_tls };
    let shim = Shim { desk, caller, state: state.clone(), prepared: 0 };
    let (mut read, mut write) = tokio::io::split(stream);
    let reader = OnePacketReader::new(&mut read, state, capabilities, IDLE_TIMEOUT);
    let writer = Writer::new(BufWriter::new(&mut write), WRITE_TIMEOUT);
    let ended = AsyncMysqlIntermediary::run_on(shim, reader, writer).await;
    close(read.unsplit(write)).await;
    ended
}

struct Shim {
    desk: Arc<dyn Desk>,
    caller: Caller,
    state: SharedState,
    /// The number of the statement that was prepared last.
    prepared: u32,
}

impl Shim {
    fn context<'a>(&'a self, database: Option<&'a str>) -> Context<'a> {
        Context { desk: &*self.desk, caller: &self.caller, database }
    }

    async fn answer(&self, statement: Result<&str, Refusal>) -> Result<Answer, Failure> {
        let database = self.state.lock().database.clone();
        let context = self.context(database.as_deref());
        let answer = run::run(&context, statement?).await?;
        if let Answer::Use(database) = &answer {
            self.state.lock().database = Some(database.clone());
        }
        Ok(answer)
    }

    async fn reply<W: AsyncWrite + Send + Unpin>(
        &self,
        statement: Result<&str, Refusal>,
        results: QueryResultWriter<'_, W>,
    ) -> io::Result<()> {
        match self.answer(statement).await {
            Ok(Answer::Done(text)) => {
                results.completed(OkResponse { info: text.to_owned(), ..OkResponse::default() }).await
            }
            Ok(Answer::Use(_)) => results.completed(OkResponse::default()).await,
            Ok(Answer::Table(table)) => {
                let mut columns: Vec<_> = table.columns.iter().map(on_the_wire).collect();
                // Clients leave room for the word NULL in a column that may be NULL.
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

    fn prepare(&mut self, statement: &str) -> Result<(u32, Vec<WireColumn>), Failure> {
        let database = self.state.lock().database.clone();
        let columns = run::columns(&self.context(database.as_deref()), statement)?;
        let mut state = self.state.lock();
        let bytes: usize = state.prepared.values().map(String::len).sum();
        if state.prepared.len() >= PREPARED_MAX || bytes + statement.len() > PREPARED_BYTES_MAX {
            return Err(Failure::TooManyPrepared(state.prepared.len()));
        }
        // opensrv-mysql keeps its data of the statements that a COM_RESET_CONNECTION ended. The
        // next statements, with the same numbers, replace it.
        if state.prepared.is_empty() {
            self.prepared = 0;
        }
        self.prepared = self.prepared.wrapping_add(1);
        state.prepared.insert(self.prepared, statement.to_owned());
        Ok((self.prepared, columns.iter().map(on_the_wire).collect()))
    }
}

#[async_trait]
impl<W: AsyncWrite + Send + Unpin> AsyncMysqlShim<W> for Shim {
    type Error = io::Error;

    /// None, so that the library asks for no auth switch: the login was before it. What it would
    /// say in a greeting (version, number, salt) stays the default, since that goes to nobody.
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
        let statement = self.state.lock().prepared.get(&id).cloned();
        self.reply(statement.as_deref().ok_or(Refusal::UnknownStatement(id)), results).await
    }

    async fn on_close<'a>(&'a mut self, id: u32)
    where
        W: 'async_trait,
    {
        self.state.lock().prepared.remove(&id);
    }

    async fn on_query<'a>(&'a mut self, query: &'a str, results: QueryResultWriter<'a, W>) -> io::Result<()> {
        let refusal = self.state.lock().refusal.take();
        self.reply(refusal.map_or(Ok(query), Err), results).await
    }

    async fn on_init<'a>(&'a mut self, database: &'a str, writer: InitWriter<'a, W>) -> io::Result<()> {
        self.state.lock().database = Some(database.to_owned());
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
            // A NULL stands in the row's NULL bitmap.
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
