//! ERR packets: those that the proxy writes itself. Codes, SQL states and texts: <https://dev.mysql.com/doc/mysql-errors/8.4/en/>.
//! Form: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html>.

use super::compressed::BadLevel;
use super::reader::Reader;

/// The beginning of an error text that is Rowstamp's own, as no server has it.
pub const PREFIX: &str = "rowstamp: ";

/// Why the proxy itself answers with an error. The text is what the client reads, so it names the remedy and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("Too many connections: Rowstamp's {0} is reached")]
    TooManyConnections(&'static str),
    #[error("Too many connections of this user: Rowstamp's limits.per_user is reached")]
    TooManyUserConnections,
    #[error("Access denied: {0}")]
    AccessDenied(String),
    #[error("Access denied for user {0}")]
    ConsoleDenied(String),
    #[error("Bad handshake: {0}")]
    BadHandshake(String),
    #[error("Unknown command {0:#04x}")]
    UnknownCommand(u8),
    #[error("Got packets out of order")]
    PacketsOutOfOrder,
    #[error("Couldn't uncompress communication packet")]
    Unpack,
    /// The level of a client's zstd is bad. The text is MySQL's.
    #[error("{0}")]
    ZstdLevel(BadLevel),
    #[error("Got a packet bigger than {bytes_max} bytes; raise limits.statement_bytes, or send fewer rows")]
    PacketTooBig { bytes_max: usize },
    #[error("Got a packet bigger than {0} bytes; this limit is fixed")]
    FixedLimit(usize),
    /// "why; what to write instead".
    #[error("{PREFIX}{0}")]
    Statement(String),
    /// The attributes of a COM_QUERY cannot be read. The text is MySQL's.
    #[error("Malformed communication packet.")]
    MalformedPacket,
    /// A bulk execution, as MariaDB says it.
    #[error("This command is not supported in the prepared statement protocol yet")]
    UnsupportedPrepared,
    /// A bulk execution has wrong arguments. The text is MariaDB's.
    #[error("Incorrect arguments to mysqld_stmt_bulk_execute")]
    WrongArguments,
    #[error("Unknown prepared statement handler ({0}) given to EXECUTE")]
    UnknownStatement(u32),
    /// A right to a table is missing. The text is like that of servers.
    #[error("{PREFIX}command denied: {0}")]
    NoRight(String),
    /// Nothing of the statement was sent.
    #[error("{PREFIX}no id for this statement: {0}")]
    NoId(String),
    #[error("Got timeout reading communication packets: the login took longer than {0}")]
    Timeout(&'static str),
    #[error(
        "Connections using insecure transport are prohibited while listen.tls.mode = \"required\": use TLS"
    )]
    TlsRequired,
    /// The text begins as MySQL Router's does.
    #[error("Can't connect to remote MySQL server: {0}")]
    BackendUnreachable(String),
    #[error("TLS to the MySQL server failed: {0}")]
    BackendTls(String),
    #[error("The MySQL server sent a malformed packet: {0}")]
    BackendMalformed(String),
}

impl Refusal {
    /// Error code and SQL state. This is the one place that gives them.
    pub fn code(&self) -> (u16, [u8; 5]) {
        match self {
            Refusal::TooManyConnections(_) => (1040, *b"08004"),
            Refusal::TooManyUserConnections => (1203, *b"42000"),
            Refusal::AccessDenied(_) | Refusal::ConsoleDenied(_) => (1045, *b"28000"),
            Refusal::BadHandshake(_) => (1043, *b"08S01"),
            Refusal::UnknownCommand(_) => (1047, *b"08S01"),
            Refusal::PacketsOutOfOrder => (1156, *b"08S01"),
            // ER_NET_UNCOMPRESS_ERROR, ER_WRONG_COMPRESSION_LEVEL_CLIENT
            Refusal::Unpack => (1157, *b"08S01"),
            Refusal::ZstdLevel(_) => (3923, *b"HY000"),
            Refusal::PacketTooBig { .. } | Refusal::FixedLimit(_) => (1153, *b"08S01"),
            Refusal::UnsupportedPrepared => (1295, *b"HY000"),
            Refusal::WrongArguments => (1210, *b"HY000"),
            Refusal::MalformedPacket => (1835, *b"HY000"),
            Refusal::Statement(_) => (NOT_SUPPORTED_YET, *b"42000"),
            Refusal::UnknownStatement(_) => (1243, *b"HY000"),
            // ER_TABLEACCESS_DENIED_ERROR
            Refusal::NoRight(_) => (1142, *b"42000"),
            Refusal::NoId(_) => (1467, *b"HY000"),
            // ER_SERVER_SHUTDOWN, which a server answers that goes or comes: clients that wait for a server to come back try again (so
            // do the servers' own test suites, which take any other code for a failure). MySQL Router answers with 2003, a client's
            // code, which MariaDB's client library takes for a malformed packet (measured, 10.11).
            Refusal::BackendUnreachable(_) => (1053, *b"08S01"),
            // ER_NET_READ_INTERRUPTED
            Refusal::Timeout(_) => (1159, *b"08S01"),
            // ER_SECURE_TRANSPORT_REQUIRED
            Refusal::TlsRequired => (3159, *b"HY000"),
            // ER_UNKNOWN_ERROR, for want of a server's own; the state is "communication link failure".
            Refusal::BackendTls(_) | Refusal::BackendMalformed(_) => (UNKNOWN_ERROR, *b"08S01"),
        }
    }

    /// One of each kind, for the reference. `...` stands for what a text says of its case.
    pub fn examples() -> [Refusal; 23] {
        let said = || "...".to_owned();
        [
            Refusal::TooManyConnections("limits.connections"),
            Refusal::TooManyUserConnections,
            Refusal::AccessDenied(said()),
            Refusal::ConsoleDenied(said()),
            Refusal::BadHandshake(said()),
            // COM_BINLOG_DUMP
            Refusal::UnknownCommand(0x12),
            Refusal::PacketsOutOfOrder,
            Refusal::Unpack,
            Refusal::ZstdLevel(BadLevel),
            Refusal::PacketTooBig { bytes_max: 64 << 20 },
            Refusal::FixedLimit(16 << 10),
            Refusal::Statement(said()),
            Refusal::MalformedPacket,
            Refusal::UnsupportedPrepared,
            Refusal::WrongArguments,
            Refusal::UnknownStatement(1),
            Refusal::NoRight(said()),
            Refusal::NoId(said()),
            Refusal::Timeout("limits.handshake_timeout"),
            Refusal::TlsRequired,
            Refusal::BackendUnreachable(said()),
            Refusal::BackendTls(said()),
            Refusal::BackendMalformed(said()),
        ]
    }

    /// The ERR packet's payload, for a client with `PROTOCOL_41`.
    pub fn payload(&self) -> Vec<u8> {
        let (code, sql_state) = self.code();
        err_payload(code, sql_state, &self.to_string())
    }

    /// The ERR packet's payload in place of a greeting. It has no SQL state: clients look for none there, and both
    /// servers leave it out.
    pub fn payload_before_greeting(&self) -> Vec<u8> {
        let mut payload = self.payload();
        // `#` and five characters, after the header and the code.
        payload.drain(3..9);
        payload
    }
}

// Codes of the console's errors; the library that writes them knows their SQL states.
pub const BAD_FIELD: u16 = 1054;
pub const PARSE_ERROR: u16 = 1064;
pub const UNKNOWN_ERROR: u16 = 1105;
pub const NO_SUCH_TABLE: u16 = 1146;
pub const UNKNOWN_VARIABLE: u16 = 1193;
pub const NO_PRIVILEGE: u16 = 1227;
pub const NOT_SUPPORTED_YET: u16 = 1235;
pub const TOO_MANY_PREPARED: u16 = 1461;

/// Servers cut their texts at MYSQL_ERRMSG_SIZE; clients have a buffer of that size.
const MESSAGE_BYTES_MAX: usize = 511;

const SQL_STATE_BYTES: usize = 5;

/// An ERR packet's payload, as `PROTOCOL_41` has it.
pub fn err_payload(code: u16, sql_state: [u8; 5], message: &str) -> Vec<u8> {
    let [low, high] = code.to_le_bytes();
    let mut out = vec![0xFF, low, high, b'#'];
    out.extend_from_slice(&sql_state);
    let cut = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    out.extend_from_slice(message.get(..cut).unwrap_or_default().as_bytes());
    out
}

/// Code and text of an ERR packet that a server sent, for the log. `None`: no ERR packet.
pub fn parse_err(payload: &[u8]) -> Option<(u16, String)> {
    let code = err_code(payload)?;
    let mut r = Reader::new(payload);
    r.bytes(3, "header and error code").ok()?;
    // A server that refuses before its greeting may leave the SQL state away.
    if r.peek() == Some(b'#') && r.left() > SQL_STATE_BYTES {
        r.bytes(1 + SQL_STATE_BYTES, "SQL state").ok()?;
    }
    Some((code, String::from_utf8_lossy(r.rest()).into_owned()))
}

/// The code of an ERR packet. `None`: it is none.
#[inline]
pub fn err_code(payload: &[u8]) -> Option<u16> {
    let mut r = Reader::new(payload);
    let is_err = r.u8("header") == Ok(0xFF);
    is_err.then(|| r.u16("error code").ok())?
}

/// True if a server answers with this error to everything but the change of the password: `ER_MUST_CHANGE_PASSWORD`,
/// `ER_MUST_CHANGE_PASSWORD_LOGIN`.
pub fn is_password_expired(code: u16) -> bool {
    matches!(code, 1820 | 1862)
}

#[cfg(test)]
mod tests {
    use super::{Refusal, err_payload, parse_err};

    #[test]
    fn payloads() {
        assert_eq!(Refusal::PacketsOutOfOrder.payload(), b"\xff\x84\x04#08S01Got packets out of order");
        // Cut at 511 bytes or before, never inside a character.
        assert_eq!(err_payload(1, *b"HY000", &"ä".repeat(400)).len(), 9 + 510);
    }

    /// The name at the beginning of a line, or of a debug form.
    fn name(text: &str) -> &str {
        text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
    }

    #[test]
    fn the_examples_are_one_of_each_kind() {
        let (_, kinds) = include_str!("error.rs").split_once("pub enum Refusal {\n").unwrap();
        let (kinds, _) = kinds.split_once("\n}\n").unwrap();
        let lines = kinds.lines().filter_map(|line| line.strip_prefix("    "));
        let kinds: Vec<_> =
            lines.map(name).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).collect();
        let examples: Vec<_> = Refusal::examples().iter().map(|one| format!("{one:?}")).collect();
        assert_eq!(examples.iter().map(|one| name(one)).collect::<Vec<_>>(), kinds);
    }

    #[test]
    fn errors_of_servers() {
        let host = b"\xff\x6a\x04Host 'x' is not allowed";
        assert_eq!(parse_err(host), Some((1130, "Host 'x' is not allowed".into())));
        assert_eq!(parse_err(b"\xff\x15\x04#28000no"), Some((1045, "no".into())));
        assert_eq!((parse_err(b"\xff\x15"), parse_err(b"\x00\x15\x04")), (None, None));
    }
}
