//! The process that took over, as the one before asks it for ids.

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::ids::block::IdBlock;
use crate::ids::errors::TakeError;
use crate::ids::generator::Advanced;
use crate::rewrite::plan::target::Target;
use crate::table_use::Unseen;
use crate::tables::{Look, Successor, TableError};
use crate::takeover::socket::{Lines, SOCKET};
use crate::takeover::wire::{Reply, Request, RuledTable};

pub struct RemoteSuccessor {
    path: PathBuf,
    state: watch::Sender<State>,
    /// Connections that nobody uses just now.
    idle: Mutex<Vec<Lines>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The successor opens the store.
    Opens,
    Issues,
    /// The successor ended before it issued: this process issues itself again.
    Ended,
}

impl RemoteSuccessor {
    /// `folder`: `state.path` of both processes.
    pub fn new(folder: &Path) -> RemoteSuccessor {
        RemoteSuccessor {
            path: folder.join(SOCKET),
            state: watch::Sender::new(State::Opens),
            idle: Mutex::default(),
        }
    }

    /// Notes that the successor has the store and the tables: ids may be asked for.
    pub fn issues(&self) {
        self.state.send_replace(State::Issues);
    }

    /// The process that issued ids has ended: nobody asks it any more.
    pub fn has_ended(&self) {
        self.state.send_replace(State::Ended);
    }

    async fn ask(&self, target: &Target, request: &Request, deadline: Duration) -> Result<Reply, TakeError> {
        let lost =
            |reason: String| TakeError::Successor { generator: target.rule.generator.to_string(), reason };
        let asking = async {
            let mut state = self.state.subscribe();
            // The sender is this successor's own.
            let state = state.wait_for(|state| *state != State::Opens).await;
            if !state.is_ok_and(|state| *state == State::Issues) {
                return Err("it ended before it served".to_owned());
            }
            match self.exchange(request).await {
                Ok(Reply::Refused { reason }) => Err(reason),
                Ok(reply) => Ok(reply),
                Err(error) => Err(error.to_string()),
            }
        };
        match timeout(deadline, asking).await {
            Ok(answer) => answer.map_err(lost),
            Err(_) => Err(lost("it does not answer".to_owned())),
        }
    }

    /// Dropped half-way, it drops its connection too: no answer is taken for another's.
    async fn exchange(&self, request: &Request) -> io::Result<Reply> {
        let idle = self.idle.lock().pop();
        if let Some(mut lines) = idle
            && let Ok(reply) = exchange_on(&mut lines, request).await
        {
            self.idle.lock().push(lines);
            return Ok(reply);
        }
        // If the connection has ended, another process has its place. Ids that were asked for twice are a gap.
        self.idle.lock().clear();
        let mut lines = Lines::connect(&self.path).await?;
        let reply = exchange_on(&mut lines, request).await?;
        self.idle.lock().push(lines);
        Ok(reply)
    }
}

async fn exchange_on(lines: &mut Lines, request: &Request) -> io::Result<Reply> {
    lines.send(request).await?;
    lines.next().await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn ruled_table(target: &Target) -> RuledTable {
    let spacing = target.spacing;
    RuledTable {
        schema: target.rule.schema.clone(),
        table: target.table.clone(),
        column: target.rule.column.clone(),
        generator: target.rule.generator.to_string(),
        step: spacing.step,
        ticks: spacing.ticks.map(|ticks| (ticks.ids, ticks.distance)),
    }
}

fn odd(target: &Target) -> TakeError {
    TakeError::Successor {
        generator: target.rule.generator.to_string(),
        reason: "its answer is not understood".to_owned(),
    }
}

#[async_trait]
impl Successor for RemoteSuccessor {
    async fn take(&self, target: &Target, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError> {
        let request = Request::Take { target: ruled_table(target), n, deadline_ms: millis(deadline) };
        match self.ask(target, &request, deadline).await? {
            Reply::Ids { first } => IdBlock::new(first, target.spacing, n).ok_or_else(|| odd(target)),
            _ => Err(odd(target)),
        }
    }

    async fn advance_past(
        &self,
        target: &Target,
        id: u64,
        deadline: Duration,
    ) -> Result<Advanced, TakeError> {
        let request = Request::Pass { target: ruled_table(target), id, deadline_ms: millis(deadline) };
        match self.ask(target, &request, deadline).await? {
            Reply::Passed(advanced) => Ok(advanced),
            _ => Err(odd(target)),
        }
    }

    async fn look(&self, target: &Target, look: Look, deadline: Duration) -> Result<(), TableError> {
        let Look { raises, read } = look;
        let request =
            Request::Look { target: ruled_table(target), raises, read, deadline_ms: millis(deadline) };
        match self.ask(target, &request, deadline).await? {
            Reply::Looked => Ok(()),
            Reply::Unseen { why, is_locked } => Err(TableError::Unseen(Unseen { why, is_locked })),
            _ => Err(odd(target).into()),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
