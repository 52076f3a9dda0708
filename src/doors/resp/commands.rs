//! The commands and their answers.

use std::num::NonZeroU64;

use super::client::{RespSession, Then};
use super::cluster::{ClusterNode, key_slot};
use super::command::{COMMANDS, Command, CommandKind};
use super::reply::Version;
use super::request::{Args, integer};
use crate::doors::Issuer;
use crate::doors::entry::End;
use crate::doors::issuer::{Caller, Denied, Shape};
use crate::ids::TakeError;
use crate::ids::block::IdBlock;
use crate::users::throttle::Tried;
use crate::users::without_tokens;

/// The door has a part of the commands of this Redis version; some clients look at it.
const REDIS_VERSION: &str = "7.0.15";

/// The name of a user who logs in by a password alone.
const DEFAULT_USER: &[u8] = b"default";

const NO_INTEGER: &str = "value is not an integer or out of range";

/// The most bytes of a client's text in an error.
const SHOWN_BYTES_MAX: usize = 64;

impl RespSession {
    pub(super) async fn run(&mut self, command: &Command, args: &Args, input: &[u8]) -> Then {
        let arg = |nth| args.get(input, nth).unwrap_or_default();
        match command.what {
            CommandKind::Incr => self.take(arg(1), None, Shape::OneRun).await,
            CommandKind::IncrBy => self.take(arg(1), Some(arg(2)), Shape::OneRun).await,
            CommandKind::Take => self.take(arg(1), Some(arg(2)), Shape::Runs).await,
            CommandKind::Get => match self.last(std::iter::once(arg(1))) {
                Ok(found) => self.told(found.first().copied().flatten()),
                Err(denied) => self.denied(&denied),
            },
            CommandKind::MGet => match self.last(args.iter(input).skip(1)) {
                Ok(found) => {
                    self.replies.array(found.len());
                    for last in found {
                        self.told(last);
                    }
                }
                Err(denied) => self.denied(&denied),
            },
            CommandKind::Exists => self.exists(args.iter(input).skip(1)),
            CommandKind::Type => {
                match self.caller().map(|(issuer, caller)| issuer.has(caller, &text(arg(1)))) {
                    Some(Ok(true)) => self.replies.simple("string"),
                    Some(Ok(false)) | None => self.replies.simple("none"),
                    Some(Err(denied)) => self.denied(&denied),
                }
            }
            CommandKind::Decode => self.decode(arg(1), arg(2)),
            CommandKind::List => self.list(),
            CommandKind::Auth => return self.auth(args, input).await,
            CommandKind::Hello => return self.hello(args, input).await,
            CommandKind::Ping => match args.len() {
                1 => self.replies.simple("PONG"),
                2 => self.replies.bulk(arg(1)),
                _ => self.replies.error("ERR", "wrong number of arguments for 'ping' command"),
            },
            CommandKind::Echo => self.replies.bulk(arg(1)),
            CommandKind::Select => match arg(1) {
                b"0" => self.ok(),
                number if integer(number).is_some() => self.replies.error("ERR", "DB index is out of range"),
                _ => self.replies.error("ERR", NO_INTEGER),
            },
            CommandKind::Client => self.client(args, input),
            CommandKind::Command => self.command(args, input),
            CommandKind::Info => self.info(),
            CommandKind::Cluster => self.cluster(args, input),
            CommandKind::ReadOnly => self.ok(),
            CommandKind::Quit => {
                self.ok();
                return Then::End(End::Client);
            }
            CommandKind::Reset => {
                self.caller = None;
                self.name.clear();
                self.says(Version::Two);
                self.replies.simple("RESET");
            }
        }
        Then::Next
    }

    fn ok(&mut self) {
        self.replies.simple("OK");
    }

    /// Without a login no command that needs one comes here.
    fn caller(&self) -> Option<(&Issuer, &Caller)> {
        Some((&self.office.issuer, self.caller.as_ref()?))
    }

    async fn take(&mut self, key: &[u8], n: Option<&[u8]>, shape: Shape) {
        let Some(n) = n.map_or(Some(1), integer) else {
            return self.replies.error("ERR", NO_INTEGER);
        };
        let Some((issuer, caller)) = self.caller() else { return };
        let (n, key) = (issuer.count(n), text(key));
        let at_hand = n.as_ref().ok().and_then(|n| issuer.take_at_once(caller, &key, *n, (1, shape)));
        let has_waited = at_hand.is_none();
        let taken = match (n, at_hand) {
            (Ok(_), Some(block)) => Ok(block),
            (Ok(n), None) => issuer.take(caller, &key, n, shape).await,
            (Err(denied), _) => Err(denied),
        };
        self.has_waited |= has_waited;
        match taken {
            Ok(block) if shape == Shape::OneRun => self.replies.id(block.last()),
            Ok(block) => self.runs(block),
            Err(denied) => self.denied(&denied),
        }
    }

    /// Answers so many INCRs, if there are ids for all of them.
    pub(super) fn incr(&mut self, key: &[u8], times: usize) -> bool {
        let n = u64::try_from(times).ok().and_then(NonZeroU64::new);
        let taken = n.zip(self.caller()).and_then(|(n, (issuer, caller))| {
            issuer.take_at_once(caller, &text(key), n, (n.get(), Shape::Runs))
        });
        let Some(block) = taken else { return false };
        (0..block.count()).filter_map(|nth| block.nth(nth)).for_each(|id| self.replies.id(id));
        true
    }

    /// Three numbers a run: its first id, how many there are, and how far each is from the next.
    fn runs(&mut self, block: IdBlock) {
        let runs: Vec<_> = block.runs().collect();
        self.replies.array(runs.len() * 3);
        for run in runs {
            for number in [run.first(), run.count(), run.step()] {
                self.replies.id(number);
            }
        }
    }

    fn last<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Option<u64>>, Denied> {
        let Some((issuer, caller)) = self.caller() else { return Ok(Vec::new()) };
        keys.try_fold(Vec::new(), |mut found, key| {
            found.push(issuer.last(caller, &text(key))?);
            Ok(found)
        })
    }

    fn told(&mut self, last: Option<u64>) {
        match last {
            Some(id) => self.replies.bulk(id.to_string()),
            None => self.replies.null(),
        }
    }

    fn exists<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let Some((issuer, caller)) = self.caller() else { return };
        let found: Result<Vec<bool>, Denied> = keys.map(|key| issuer.has(caller, &text(key))).collect();
        match found {
            Ok(found) => {
                let count = found.iter().filter(|is_there| **is_there).count();
                self.replies.integer(i64::try_from(count).unwrap_or(i64::MAX));
            }
            Err(denied) => self.denied(&denied),
        }
    }

    fn decode(&mut self, key: &[u8], id: &[u8]) {
        let Some((issuer, caller)) = self.caller() else { return };
        let parts = match issuer.decode(caller, &text(key), id) {
            Ok(parts) => parts,
            Err(denied) => return self.denied(&denied),
        };
        let numbers = [("node", parts.node), ("sequence", parts.sequence)];
        let numbers: Vec<_> = numbers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        self.replies.map(1 + numbers.len());
        self.replies.bulk("time");
        self.replies.bulk(parts.time.to_string());
        for (name, value) in numbers {
            self.replies.bulk(name);
            self.replies.id(value);
        }
    }

    fn list(&mut self) {
        let Some((issuer, caller)) = self.caller() else { return };
        let specs = issuer.generators(caller);
        self.replies.array(specs.len());
        self.replies.bulks(specs.iter().map(|spec| spec.name.to_string()));
    }

    fn denied(&mut self, denied: &Denied) {
        let code = match denied {
            Denied::NoRight { .. } => "NOPERM",
            Denied::OverQuota(_) => "ERR QUOTA",
            Denied::NoIds(error) if error.is_outage() => "TRYAGAIN",
            Denied::NoIds(
                TakeError::Exhausted { .. } | TakeError::EndOfLife { .. } | TakeError::NoneAbove { .. },
            ) => "ERR EXHAUSTED",
            _ => "ERR",
        };
        let remedy = if matches!(denied, Denied::OneRun { .. }) { ", or use ROWSTAMP.TAKE" } else { "" };
        self.replies.error(code, format_args!("{denied}{remedy}"));
    }

    pub(super) fn unknown(&mut self, name: &[u8]) {
        let name = shown(name);
        let why = format_args!(
            "unknown command '{name}': a key is an id generator, which Rowstamp knows {} and the like for; the page {} lists all",
            "INCR, INCRBY, GET, ROWSTAMP.TAKE",
            crate::book::page!("redis")
        );
        self.replies.error("ERR", why);
    }

    async fn auth(&mut self, args: &Args, input: &[u8]) -> Then {
        let logged_in = match (args.get(input, 1), args.get(input, 2), args.len()) {
            (Some(password), None, _) => self.log_in(DEFAULT_USER, password).await,
            (Some(user), Some(password), 3) => self.log_in(user, password).await,
            _ => return self.refused("ERR", "syntax error"),
        };
        if let Err(then) = logged_in {
            return then;
        }
        self.ok();
        Then::Next
    }

    /// If it fails, the error is among the answers.
    async fn log_in(&mut self, user: &[u8], password: &[u8]) -> Result<(), Then> {
        let issuer = &self.office.issuer;
        let verdict = issuer.users.log_in(&self.office.throttle, self.from, user, password).await;
        self.has_waited = true;
        let client = self.from.map(|from| from.to_string()).unwrap_or_default();
        match verdict {
            Tried::Right(login) => {
                if self.seat.is_none() {
                    self.seat = issuer.meter.seat(self.limits.clients);
                }
                if self.seat.is_none() {
                    self.replies.error("ERR", "max number of clients reached");
                    return Err(Then::End(End::TooMany));
                }
                tracing::debug!(user = login.user.name, client, "a client of the Redis protocol logged in");
                self.caller = Some(Caller { login, client: client.into(), connection: self.id });
                return Ok(());
            }
            Tried::Wrong => {
                issuer.meter.note_login_refused();
                let user = shown(without_tokens(&String::from_utf8_lossy(user)).as_bytes());
                tracing::warn!(user, client, "a client of the Redis protocol gave a wrong password");
                self.replies.error("WRONGPASS", "invalid username-password pair or user is disabled.");
            }
            Tried::Wait(left) => {
                issuer.meter.note_login_refused();
                let left = left.as_secs() + 1;
                let why = format_args!("the last password was wrong; try again in {left} s");
                self.replies.error("WRONGPASS", why);
            }
            Tried::Unsure => {
                let why = "the users of the store are not known at present, since the store does not answer";
                self.replies.error("TRYAGAIN", why);
            }
        }
        Err(Then::Next)
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`
    async fn hello(&mut self, args: &Args, input: &[u8]) -> Then {
        let version = match args.get(input, 1) {
            None => Some(self.replies.version),
            Some(b"2") => Some(Version::Two),
            Some(b"3") => Some(Version::Three),
            Some(other) if integer(other).is_some() => None,
            Some(_) => {
                return self.refused("ERR", "Protocol version is not an integer or out of range");
            }
        };
        let Some(version) = version else {
            return self.refused("NOPROTO", "unsupported protocol version");
        };
        let (mut at, mut name) = (2, None);
        while let Some(option) = args.get(input, at) {
            match (args.get(input, at + 1), args.get(input, at + 2)) {
                (Some(user), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                    if let Err(then) = self.log_in(user, password).await {
                        return then;
                    }
                    at += 3;
                }
                (Some(value), _) if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(value);
                    at += 2;
                }
                _ => {
                    let why = format_args!("Syntax error in HELLO option '{}'", shown(option));
                    return self.refused("ERR", why);
                }
            }
        }
        if self.caller.is_none() {
            return self.refused(
                "NOAUTH",
                "HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
                 can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if name.is_some_and(|name| !self.set_name(name)) {
            return Then::Next;
        }
        self.says(version);
        let id = i64::try_from(self.id).unwrap_or(i64::MAX);
        self.replies.map(7);
        self.replies.bulks(["server", "redis", "version", REDIS_VERSION, "proto"]);
        self.replies.integer(if version == Version::Two { 2 } else { 3 });
        self.replies.bulk("id");
        self.replies.integer(id);
        self.replies.bulks(["mode", "cluster", "role", "master", "modules"]);
        self.replies.array(0);
        Then::Next
    }

    fn refused(&mut self, code: &str, why: impl std::fmt::Display) -> Then {
        self.replies.error(code, why);
        Then::Next
    }

    /// `false`: the error is among the answers.
    fn set_name(&mut self, name: &[u8]) -> bool {
        if !name.iter().all(u8::is_ascii_graphic) {
            self.replies.error("ERR", "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
        name.clone_into(&mut self.name);
        true
    }

    fn client(&mut self, args: &Args, input: &[u8]) {
        let sub = args.get(input, 1).unwrap_or_default().to_ascii_lowercase();
        match (&*sub, args.get(input, 2), args.len()) {
            (b"setname", Some(name), 3) => {
                if self.set_name(name) {
                    self.ok();
                }
            }
            // The name of the client's library: nothing here looks at it.
            (b"setinfo", Some(_), 4) => self.ok(),
            (b"getname", None, _) => {
                if self.name.is_empty() {
                    self.replies.null();
                } else {
                    self.replies.bulk(&self.name);
                }
            }
            (b"id", None, _) => self.replies.integer(i64::try_from(self.id).unwrap_or(i64::MAX)),
            _ => self.no_subcommand("client", &["setname", "getname", "setinfo", "id"], &sub),
        }
    }

    /// A subcommand that is known has wrong arguments.
    fn no_subcommand(&mut self, command: &str, known: &[&str], sub: &[u8]) {
        if let Some(sub) = known.iter().find(|known| known.as_bytes() == sub) {
            let why = format_args!("wrong number of arguments for '{command}|{sub}' command");
            return self.replies.error("ERR", why);
        }
        let (sub, known) = (shown(sub), known.join(", ").to_uppercase());
        let why = format_args!("unknown subcommand '{sub}'; of {command} Rowstamp knows {known}");
        self.replies.error("ERR", why);
    }

    fn command(&mut self, args: &Args, input: &[u8]) {
        let count = || i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX);
        let sub = args.get(input, 1).map(<[u8]>::to_ascii_lowercase);
        match (sub.as_deref(), args.len()) {
            (None, _) | (Some(b"info"), 2) => {
                self.replies.array(COMMANDS.len());
                for command in &COMMANDS {
                    command.describe(&mut self.replies);
                }
            }
            (Some(b"count"), 2) => self.replies.integer(count()),
            (Some(b"list"), 2) => {
                self.replies.array(COMMANDS.len());
                self.replies.bulks(COMMANDS.iter().map(|command| command.name));
            }
            // The texts by which redis-cli completes and explains commands: there are none.
            (Some(b"docs"), _) => self.replies.map(0),
            (Some(b"info"), _) => {
                self.replies.array(args.len() - 2);
                for name in args.iter(input).skip(2) {
                    match Command::find(name) {
                        Some(command) => command.describe(&mut self.replies),
                        None => self.replies.null(),
                    }
                }
            }
            (Some(b"getkeys"), 4..) => self.keys_of(args, input),
            (Some(sub), _) => {
                let sub = sub.to_owned();
                self.no_subcommand("command", &["count", "docs", "getkeys", "info", "list"], &sub);
            }
        }
    }

    /// `COMMAND GETKEYS command arguments`
    fn keys_of(&mut self, args: &Args, input: &[u8]) {
        let found = args.get(input, 2).and_then(Command::find);
        match found.map(|command| (command, command.keys(args.len() - 2))) {
            Some((command, keys)) if command.takes(args.len() - 2) && !keys.is_empty() => {
                self.replies.array(keys.len());
                self.replies.bulks(keys.map(|nth| args.get(input, nth + 2).unwrap_or_default()));
            }
            Some((command, _)) if !command.takes(args.len() - 2) => {
                self.replies.error("ERR", "Invalid number of arguments specified for command");
            }
            Some(_) => self.replies.error("ERR", "The command has no key arguments"),
            None => self.replies.error("ERR", "Invalid command specified"),
        }
    }

    /// All sections, whichever are asked for.
    fn info(&mut self) {
        let office = &self.office;
        let text = format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:cluster\r\nrowstamp_version:{}\r\nrowstamp_proxy:{}\r\n\
             tcp_port:{}\r\nuptime_in_seconds:{}\r\n\r\n# Clients\r\nconnected_clients:{}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
             # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:1\r\n",
            env!("CARGO_PKG_VERSION"),
            office.proxy,
            self.node.port(),
            office.since.elapsed().as_secs(),
            office.issuer.meter.connections(),
        );
        self.replies.text(&text);
    }

    fn cluster(&mut self, args: &Args, input: &[u8]) {
        let sub = args.get(input, 1).unwrap_or_default().to_ascii_lowercase();
        match (&*sub, args.get(input, 2), args.len()) {
            (b"slots", None, _) => self.node.slots(&mut self.replies),
            (b"shards", None, _) => self.node.shards(&mut self.replies),
            (b"nodes", None, _) => self.replies.text(&self.node.nodes()),
            (b"info", None, _) => self.replies.text(&ClusterNode::info()),
            (b"myid", None, _) => self.replies.bulk(&self.node.id),
            (b"keyslot", Some(key), 3) => self.replies.integer(i64::from(key_slot(key))),
            _ => {
                let known = ["slots", "shards", "nodes", "info", "myid", "keyslot"];
                self.no_subcommand("cluster", &known, &sub);
            }
        }
    }
}

/// A generator's name. Bytes that are no UTF-8 are in none.
fn text(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

/// In an error, without what ends a line or a terminal's sequence.
fn shown(written: &[u8]) -> String {
    written.get(..SHOWN_BYTES_MAX).unwrap_or(written).escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_a_client_wrote_is_shown_in_one_line() {
        assert_eq!(shown(b"a\r\n\x1b[31m"), "a\\r\\n\\x1b[31m");
        assert_eq!(shown(&[b'x'; 100]).len(), 64);
    }
}
