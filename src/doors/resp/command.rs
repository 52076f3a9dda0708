//! The commands that the door knows, as `COMMAND` describes them.

use super::reply::Replies;

/// A command. Its numbers mean what they mean in the answer to `COMMAND`.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) what: CommandKind,
    /// With the command's own name; negative: at least so many.
    arity: i64,
    flags: &'static [&'static str],
    keys: Keys,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    Incr,
    IncrBy,
    Take,
    Decode,
    List,
    Get,
    MGet,
    Exists,
    Type,
    Auth,
    Hello,
    Ping,
    Echo,
    Select,
    Client,
    Command,
    Info,
    Cluster,
    ReadOnly,
    Quit,
    Reset,
}

/// Which arguments are names of generators.
#[derive(Debug, Clone, Copy)]
enum Keys {
    None,
    First,
    All,
}

const WRITES: &[&str] = &["write", "denyoom", "fast"];
const READS: &[&str] = &["readonly", "fast"];
const OF_CONNECTION: &[&str] = &["noscript", "loading", "stale", "fast"];
const BEFORE_LOGIN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];

const fn command(
    name: &'static str,
    what: CommandKind,
    arity: i64,
    flags: &'static [&'static str],
    keys: Keys,
) -> Command {
    Command { name, what, arity, flags, keys }
}

/// The most frequent first: a command is looked for from the beginning.
pub(super) const COMMANDS: [Command; 22] = [
    command("incr", CommandKind::Incr, 2, WRITES, Keys::First),
    command("incrby", CommandKind::IncrBy, 3, WRITES, Keys::First),
    command("rowstamp.take", CommandKind::Take, 3, WRITES, Keys::First),
    command("get", CommandKind::Get, 2, READS, Keys::First),
    command("ping", CommandKind::Ping, -1, OF_CONNECTION, Keys::None),
    command("mget", CommandKind::MGet, -2, READS, Keys::All),
    command("exists", CommandKind::Exists, -2, READS, Keys::All),
    command("type", CommandKind::Type, 2, READS, Keys::First),
    command("rowstamp.decode", CommandKind::Decode, 3, READS, Keys::First),
    command("rowstamp.list", CommandKind::List, 1, READS, Keys::None),
    command("auth", CommandKind::Auth, -2, BEFORE_LOGIN, Keys::None),
    command("hello", CommandKind::Hello, -1, BEFORE_LOGIN, Keys::None),
    command("echo", CommandKind::Echo, 2, OF_CONNECTION, Keys::None),
    command("select", CommandKind::Select, 2, OF_CONNECTION, Keys::None),
    command("client", CommandKind::Client, -2, OF_CONNECTION, Keys::None),
    command("command", CommandKind::Command, -1, OF_CONNECTION, Keys::None),
    command("info", CommandKind::Info, -1, OF_CONNECTION, Keys::None),
    command("cluster", CommandKind::Cluster, -2, OF_CONNECTION, Keys::None),
    command("readonly", CommandKind::ReadOnly, 1, OF_CONNECTION, Keys::None),
    command("readwrite", CommandKind::ReadOnly, 1, OF_CONNECTION, Keys::None),
    command("quit", CommandKind::Quit, -1, BEFORE_LOGIN, Keys::None),
    command("reset", CommandKind::Reset, 1, BEFORE_LOGIN, Keys::None),
];

impl Command {
    pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
        COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if the command takes so many arguments, its name among them.
    pub(super) fn takes(&self, args: usize) -> bool {
        let args = i64::try_from(args).unwrap_or(i64::MAX);
        if self.arity < 0 { args >= -self.arity } else { args == self.arity }
    }

    pub(super) fn needs_login(&self) -> bool {
        !self.flags.contains(&"no_auth")
    }

    /// The places of the command's keys among so many arguments.
    pub(super) fn keys(&self, args: usize) -> std::ops::Range<usize> {
        match self.keys {
            Keys::None => 1..1,
            Keys::First => 1..2.min(args),
            Keys::All => 1..args,
        }
    }

    /// Describes the command as redis 7 does: ten elements, the last four without anything.
    pub(super) fn describe(&self, to: &mut Replies) {
        to.array(10);
        to.bulk(self.name);
        to.integer(self.arity);
        to.set(self.flags.len());
        self.flags.iter().for_each(|flag| to.simple(flag));
        // The place of the first key, of the last (-1: of the last argument), and from one to the next.
        let places = match self.keys {
            Keys::None => [0, 0, 0],
            Keys::First => [1, 1, 1],
            Keys::All => [1, -1, 1],
        };
        for place in places {
            to.integer(place);
        }
        to.set(0);
        (0..3).for_each(|_| to.array(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Command, CommandKind};

    #[test]
    fn names_and_arities() {
        for (line, what) in [
            ("incr k", Some(CommandKind::Incr)),
            ("INCRBY k 3", Some(CommandKind::IncrBy)),
            ("RowStamp.Take k 3", Some(CommandKind::Take)),
            ("mget a b c", Some(CommandKind::MGet)),
            ("ping", Some(CommandKind::Ping)),
            ("incr", None),
            ("incr a b", None),
            ("mget", None),
            ("set k 1", None),
        ] {
            let words: Vec<_> = line.split(' ').collect();
            let found = Command::find(words[0].as_bytes()).filter(|command| command.takes(words.len()));
            assert_eq!(found.map(|command| command.what), what, "{line}");
        }
        let names: std::collections::BTreeSet<_> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
