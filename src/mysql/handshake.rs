//! The server's greeting and the client's answer to it. Both are patched in place and never rebuilt: that would
//! lose the order of attributes, collations wider than a byte, and whatever a later version puts there.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_ssl_request.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html>,
//! <https://mariadb.com/kb/en/connection/>.

use std::ops::Range;

use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::compressed::{ZSTD_LEVEL, ZSTD_LEVELS};
use super::reader::{Malformed, Reader, put_lenenc_bytes};

/// Length of an SSLRequest, and of the part of a handshake response that it repeats.
pub const SSL_REQUEST_BYTES: usize = 32;
/// The offset of MariaDB's extended bits in a client's first packet.
const EXTENDED_AT: usize = 28;
/// Nonces are this long on the wire, but for a NUL after them.
const NONCE_BYTES: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerVersion {
    /// Else MySQL, or what is built from it: Percona Server, Aurora.
    pub is_mariadb: bool,
    /// Major, minor, patch; 0 where the text has none.
    pub number: (u16, u16, u16),
}

impl ServerVersion {
    /// From a greeting's text, as in "9.4.0", "10.11.6-MariaDB-log" or "5.5.5-10.11.6-MariaDB".
    pub fn parse(text: &[u8]) -> Self {
        // MariaDB 10 calls itself 5.5.5 first, for replicas that read only one digit of a version.
        let behind_prefix =
            text.strip_prefix(b"5.5.5-").filter(|rest| rest.first().is_some_and(u8::is_ascii_digit));
        let says_mariadb = memchr::memmem::find(text, b"MariaDB").is_some();
        let is_mariadb = behind_prefix.is_some() || says_mariadb;
        let mut parts = behind_prefix.unwrap_or(text).splitn(3, |byte| *byte == b'.').map(leading_number);
        let mut next = || parts.next().unwrap_or(0);
        ServerVersion { is_mariadb, number: (next(), next(), next()) }
    }
}

fn leading_number(text: &[u8]) -> u16 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |n: u16, digit| n.saturating_mul(10).saturating_add(u16::from(digit - b'0')))
}

/// The server's first packet, protocol 10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    pub version: ServerVersion,
    pub connection_id: u32,
    /// The server's capabilities, before any of them is cleared.
    pub capabilities: Capabilities,
    /// Bits of [`super::ok::status`].
    pub status: u16,
    /// The bytes that passwords are scrambled with, without the NUL after them.
    pub nonce: Vec<u8>,
    /// The plugin that the server tries first; empty: none named.
    pub plugin: Vec<u8>,
    payload: Vec<u8>,
    capabilities_at: usize,
}

impl Greeting {
    /// An ERR packet in the greeting's place is the caller's to see.
    pub fn parse(payload: Vec<u8>) -> Result<Self, Malformed> {
        let mut r = Reader::new(&payload);
        if r.u8("protocol version")? != 10 {
            return Err(Malformed::Bad("protocol version: it must be 10"));
        }
        let version = ServerVersion::parse(r.nul_bytes("server version")?);
        let connection_id = r.u32("connection id")?;
        let mut nonce = r.bytes(8, "nonce")?.to_vec();
        r.u8("filler")?;
        let capabilities_at = r.position();
        let low = r.u16("capabilities")?;
        r.u8("collation")?;
        let status = r.u16("status")?;
        let high = r.u16("upper capabilities")?;
        let nonce_bytes = usize::from(r.u8("length of the nonce")?);
        r.bytes(6, "reserved bytes")?;
        let extended = r.u32("extended capabilities")?;
        let base = u32::from(low) | u32::from(high) << 16;
        let capabilities = Capabilities::new(base, mariadb_extended(base, extended));
        let second = r.bytes(nonce_bytes.saturating_sub(8).max(13), "second part of the nonce")?;
        nonce.extend_from_slice(second.split_last().map_or(second, |(_nul, nonce)| nonce));
        let names_plugin = capabilities.contains(Capabilities::PLUGIN_AUTH);
        let plugin =
            r.rest().split(|byte| *byte == 0).next().filter(|_| names_plugin).unwrap_or_default().to_vec();
        Ok(Greeting { version, connection_id, capabilities, status, nonce, plugin, payload, capabilities_at })
    }

    /// The capabilities that the client is shown: the server's relayed ones, and `ours`. TLS and compression are each
    /// side's own matter.
    pub fn shown(&self, ours: Capabilities) -> Capabilities {
        self.capabilities & Capabilities::RELAYED | ours
    }

    /// The greeting's bytes with other capabilities.
    pub fn patched(&self, capabilities: Capabilities) -> Vec<u8> {
        let mut out = self.payload.clone();
        let [a, b, c, d] = capabilities.base().to_le_bytes();
        // After the lower half: one byte of collation, two of status; after the upper one, seven to the extended bits.
        put_at(&mut out, self.capabilities_at, &[a, b]);
        put_at(&mut out, self.capabilities_at + 5, &[c, d]);
        if !self.capabilities.contains(Capabilities::CLIENT_MYSQL) {
            put_at(&mut out, self.capabilities_at + 14, &capabilities.extended().to_le_bytes());
        }
        out
    }
}

fn mariadb_extended(base: u32, extended: u32) -> u32 {
    if base & Capabilities::CLIENT_MYSQL.base() == 0 { extended } else { 0 }
}

/// Overwrites what was parsed at this place before; the length never changes.
fn put_at(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// The nonce of an auth switch or of the next factor: whatever plugin, less the NUL that ends it.
pub fn trim_nonce(data: &[u8]) -> &[u8] {
    match data.split_last() {
        Some((0, nonce)) if nonce.len() == NONCE_BYTES => nonce,
        _ => data,
    }
}

/// The capabilities that a client's first packet asks for, be it an SSLRequest or a handshake response.
/// `shown`: what the greeting offered; what goes beyond it is dropped, as servers do.
pub fn client_capabilities(payload: &[u8], shown: Capabilities) -> Result<Capabilities, Malformed> {
    let mut r = Reader::new(payload);
    let low = r.u16("capabilities")?;
    if u32::from(low) & Capabilities::PROTOCOL_41.base() == 0 {
        return Err(Malformed::Bad("capabilities: Rowstamp does not support the protocol before MySQL 4.1"));
    }
    let base = u32::from(low) | u32::from(r.u16("capabilities")?) << 16;
    r.bytes(EXTENDED_AT - r.position(), "fixed part of the handshake response")?;
    let extended = mariadb_extended(base, r.u32("extended capabilities")?);
    let kept = Capabilities::new(base, extended) & shown;
    // Bit 0 is no ability: it says who speaks, and a MySQL client says so to a MariaDB server too.
    Ok(kept.with(Capabilities::CLIENT_MYSQL, base & Capabilities::CLIENT_MYSQL.base() != 0))
}

/// True if a client's first packet asks for TLS and ends there.
pub fn is_ssl_request(payload: &[u8], capabilities: Capabilities) -> bool {
    payload.len() == SSL_REQUEST_BYTES && capabilities.contains(Capabilities::SSL)
}

/// A client's HandshakeResponse41. It may hold a clear password, so its bytes are wiped when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientResponse {
    /// The capabilities that client and server have in common, MariaDB's extended bits included.
    pub capabilities: Capabilities,
    /// The low byte of the collation's id, which is all that servers read here; MariaDB's collations above 1024 have
    /// the low byte of one of the same character set.
    pub collation: u8,
    /// The user's name as [`user_name`] reads it.
    pub user: Vec<u8>,
    pub database: Option<Vec<u8>>,
    /// The plugin that made the auth response; `None`: the client does not say.
    pub plugin: Option<Vec<u8>>,
    /// The bits of compression that the client set, offered or not.
    pub compression: Capabilities,
    /// The level of zstd, if the client set zstd's bit and names a level.
    pub zstd_level: Option<u8>,
    /// The offset of the level in the payload, or where it would be. `None`: a server would read a level there as
    /// something else.
    level_at: Option<usize>,
    payload: Zeroizing<Vec<u8>>,
    /// Length prefix or NUL included.
    auth_span: Range<usize>,
    auth_response: Range<usize>,
    attributes: Range<usize>,
}

/// A user's name as servers read it at the login: without one pair of quotes around it. In COM_CHANGE_USER these are part of the name.
/// Measured on MariaDB 10.11 and MySQL 9, which clip it too, to 128 and 96 characters: no account's name has so many.
pub fn user_name(sent: &[u8]) -> &[u8] {
    sent.strip_prefix(b"'").and_then(|name| name.strip_suffix(b"'")).unwrap_or(sent)
}

impl ClientResponse {
    /// `shown`: what the greeting offered this client.
    pub fn parse(payload: Zeroizing<Vec<u8>>, shown: Capabilities) -> Result<Self, Malformed> {
        let capabilities = client_capabilities(&payload, shown)?;
        let asked = Capabilities::new(Reader::new(&payload).u32("capabilities")?, 0);
        let compression = asked & (Capabilities::COMPRESS | Capabilities::ZSTD);
        let mut r = Reader::new(&payload);
        r.u64("fixed part of the handshake response")?;
        let collation = r.u8("collation")?;
        r.bytes(SSL_REQUEST_BYTES - r.position(), "fixed part of the handshake response")?;
        let user = user_name(r.nul_bytes("user name")?).to_vec();
        let auth_from = r.position();
        let auth = if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC) {
            r.lenenc_bytes("auth response")?
        } else if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let n = usize::from(r.u8("length of the auth response")?);
            r.bytes(n, "auth response")?
        } else {
            r.nul_bytes("auth response")?
        };
        let auth_span = auth_from..r.position();
        let prefixed = capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC)
            || capabilities.contains(Capabilities::SECURE_CONNECTION);
        let auth_to = if prefixed { auth_span.end } else { auth_span.end - 1 };
        let auth_response = auth_to - auth.len()..auth_to;
        let mut database = None;
        if capabilities.contains(Capabilities::CONNECT_WITH_DB) {
            database = Some(r.nul_bytes("database name")?.to_vec()).filter(|name| !name.is_empty());
        }
        let (mut plugin, mut is_cut) = (None, false);
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            // MySQL takes a name without its NUL for no name, and reads no further.
            match r.nul_bytes("plugin name") {
                Ok(name) => plugin = Some(name.to_vec()),
                Err(_) => is_cut = !r.rest().is_empty(),
            }
        }
        let mut attributes = r.position()..r.position();
        let has_attributes = capabilities.contains(Capabilities::CONNECT_ATTRS);
        let lacks_attributes = has_attributes && r.is_empty();
        if has_attributes && !lacks_attributes {
            let bytes = r.lenenc_bytes("connection attributes")?;
            attributes = r.position() - bytes.len()..r.position();
        }
        let level_at = (!is_cut && !lacks_attributes).then(|| r.position());
        let asks_zstd = compression.contains(Capabilities::ZSTD);
        let zstd_level = if asks_zstd { r.u8("zstd level").ok() } else { None };
        Ok(ClientResponse {
            capabilities,
            collation,
            user,
            database,
            plugin,
            compression,
            zstd_level,
            level_at,
            payload,
            auth_span,
            auth_response,
            attributes,
        })
    }

    pub fn auth_response(&self) -> &[u8] {
        self.payload.get(self.auth_response.clone()).unwrap_or_default()
    }

    /// The value of a connection attribute, as in `program_name`.
    pub fn attribute(&self, name: &[u8]) -> Option<&[u8]> {
        let mut r = Reader::new(self.payload.get(self.attributes.clone()).unwrap_or_default());
        loop {
            let key = r.lenenc_bytes("attribute's name").ok()?;
            let value = r.lenenc_bytes("attribute's value").ok()?;
            if key == name {
                return Some(value);
            }
        }
    }

    /// True if the response has a place where a server reads a level of zstd.
    pub fn has_room_for_level(&self) -> bool {
        self.level_at.is_some()
    }

    /// The level of zstd that a server is asked for: the client's, or [`ZSTD_LEVEL`] if the client names no valid one.
    pub fn server_zstd_level(&self) -> u8 {
        self.zstd_level.filter(|level| ZSTD_LEVELS.contains(level)).unwrap_or(ZSTD_LEVEL)
    }

    /// The response's bytes with other capabilities, and with another auth response if it had to be translated.
    pub fn patched(
        &self,
        capabilities: Capabilities,
        auth_response: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Malformed> {
        let mut out = Zeroizing::new(Vec::with_capacity(self.payload.len() + auth_response.len() + 9));
        if auth_response == self.auth_response() {
            out.extend_from_slice(&self.payload);
        } else {
            out.extend_from_slice(self.payload.get(..self.auth_span.start).unwrap_or_default());
            self.put_auth_response(&mut out, auth_response)?;
            out.extend_from_slice(self.payload.get(self.auth_span.end..).unwrap_or_default());
        }
        if let (true, Some(level_at)) = (capabilities.contains(Capabilities::ZSTD), self.level_at) {
            let end = out.len() - (self.payload.len() - level_at);
            out.truncate(end);
            out.push(self.server_zstd_level());
        }
        put_at(&mut out, 0, &capabilities.base().to_le_bytes());
        if !self.capabilities.contains(Capabilities::CLIENT_MYSQL) {
            put_at(&mut out, EXTENDED_AT, &capabilities.extended().to_le_bytes());
        }
        Ok(out)
    }

    fn put_auth_response(&self, out: &mut Vec<u8>, auth_response: &[u8]) -> Result<(), Malformed> {
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC) {
            put_lenenc_bytes(out, auth_response);
        } else if self.capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let n = u8::try_from(auth_response.len());
            out.push(n.map_err(|_| Malformed::Bad("auth response: too long for this client's protocol"))?);
            out.extend_from_slice(auth_response);
        } else {
            out.extend_from_slice(auth_response);
            out.push(0);
        }
        Ok(())
    }

    /// The SSLRequest that goes ahead of it.
    pub fn ssl_request(&self, capabilities: Capabilities) -> Result<Vec<u8>, Malformed> {
        let mut out = self.patched(capabilities, self.auth_response())?.to_vec();
        out.truncate(SSL_REQUEST_BYTES);
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
