//! The authentication exchange after a handshake response or a COM_CHANGE_USER: relayed as it is, except for the two
//! plugins whose form depends on the transport, if client and server do not have the same one.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_auth_switch_request.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>,
//! <https://dev.mysql.com/doc/refman/8.4/en/sha256-pluggable-authentication.html>.
//!
//! `caching_sha2_password` (its full exchange) and `sha256_password` send the password in clear where the transport is
//! secure, else encrypted with the server's RSA key. With a secure client and a plain server, the proxy asks for the
//! server's key and encrypts; with a plain client and a secure server, it shows a key of its own and decrypts. Clients that have
//! the key on disk ask for none: they send the encrypted password where others ask.
//!
//! No input or output here: packets' payloads go in, [`AuthStep`]s come out. Which side speaks next is the plugin's matter,
//! so both are to be read; a client's packet numbered 0 is no answer but its next command, and is to wait.

use std::fmt;
use std::sync::Arc;

use rand::rngs::OsRng;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::handshake::trim_nonce;
use super::reader::{Malformed, Reader};

const OK: u8 = 0x00;
const MORE_DATA: u8 = 0x01;
const NEXT_FACTOR: u8 = 0x02;
const SWITCH: u8 = 0xFE;
const ERR: u8 = 0xFF;
/// `caching_sha2_password`: the password's hash was not in the server's cache.
const FULL_AUTH: &[u8] = &[MORE_DATA, 4];
/// The whole of a packet in which a client asks for the server's RSA key; the two plugins differ.
const CACHING_SHA2_KEY_REQUEST: &[u8] = &[2];
const SHA256_KEY_REQUEST: &[u8] = &[1];
const RSA_BITS: usize = 2048;

/// The transport of one side of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Unix,
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    pub client: Transport,
    pub server: Transport,
    /// True if a clear password may be sent on over a transport that eavesdroppers can read, although the client's
    /// side keeps it from them.
    pub clear_passwords: bool,
}

impl Sides {
    fn exposes_clear(self) -> bool {
        !self.clear_passwords && self.client != Transport::Tcp && self.server == Transport::Tcp
    }
}

/// The plugins whose exchange depends on the transport; all others are relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plugin {
    CachingSha2,
    Sha256,
    /// The client sends the password as it is, whatever the transport: PAM, LDAP.
    Clear,
    Other,
}

impl Plugin {
    fn named(name: &[u8]) -> Self {
        match name {
            b"caching_sha2_password" => Plugin::CachingSha2,
            b"sha256_password" => Plugin::Sha256,
            b"mysql_clear_password" | b"dialog" => Plugin::Clear,
            _ => Plugin::Other,
        }
    }

    /// True if both ends take a clear password over this transport. `sha256_password` trusts TLS alone.
    fn trusts(self, transport: Transport) -> bool {
        match self {
            Plugin::CachingSha2 => transport != Transport::Tcp,
            Plugin::Sha256 | Plugin::Clear | Plugin::Other => transport == Transport::Tls,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the server's authentication packet: {0}")]
    Server(Malformed),
    #[error("the server's RSA key cannot be used")]
    ServerKey,
    #[error("the client did not encrypt the password with the key that it requested")]
    Undecipherable,
    #[error(
        "the password is too long for the server's RSA key; use TLS to the server, or a shorter password"
    )]
    PasswordTooLong,
    #[error(
        "the client has encrypted the password with an RSA key from its disk, and Rowstamp has no private key; name the private key in \
         listen.rsa_key, or let the client request the key, or use TLS"
    )]
    NoPinnedKey,
    #[error(
        "the client has encrypted the password with an RSA key from its disk, and that key does not belong to listen.rsa_key; give the \
         client the public key of listen.rsa_key"
    )]
    OtherPinnedKey,
    #[error(
        "the server requests the password in clear text, and Rowstamp's connection to the server has no TLS; set backend.tls.mode = \
         \"required\", or backend.clear_passwords = true if nobody can read the network in between"
    )]
    ClearPassword,
}

/// Why a text is not the key of [`OwnKey::from_pem`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "holds no RSA private key that can be read; use PEM with BEGIN PRIVATE KEY or BEGIN RSA PRIVATE KEY and without a passphrase, \
         as openssl genrsa 2048 makes it"
    )]
    NotPem,
    #[error("holds an RSA key of {0} bits; use a key of 2048 to 4096 bits, as openssl genrsa 2048 makes it")]
    Bits(usize),
}

/// The next step for the caller, which numbers the payloads by each side's own count.
#[must_use]
pub enum AuthStep {
    ToClient(Vec<u8>),
    ToServer(Zeroizing<Vec<u8>>),
    /// The client is to be shown the proxy's own key: call [`AuthRelay::own_key`] with it.
    NeedsOwnKey,
    /// The client's password under a key that it has on disk: call [`AuthRelay::pinned`] with it.
    Pinned(Vec<u8>),
    /// The server's OK packet, not sent on yet: its session state may have to go.
    Done(Vec<u8>),
    /// The server's ERR packet, not sent on yet.
    Failed(Vec<u8>),
}

enum State {
    /// The next packet of the client is its first one for the plugin.
    First,
    /// Nothing is left to translate.
    Relayed,
    /// The server wants `caching_sha2_password`'s full exchange; the client's next packet is the password or asks for a key.
    FullAuth,
    /// The client was shown the proxy's key: its next packet is the password under that key.
    OwnKey(Arc<OwnKey>),
    /// The clear password that waits for the server's key.
    ServerKeyAsked(Zeroizing<Vec<u8>>),
}

pub struct AuthRelay {
    sides: Sides,
    plugin: Plugin,
    nonce: Vec<u8>,
    /// True if the server may ask for a second factor. If it may not, a packet that looks so is a plugin's own, as
    /// the prompts of MariaDB's `dialog` are.
    multi_factor: bool,
    state: State,
}

impl AuthRelay {
    /// For the exchange that a handshake response or COM_CHANGE_USER begins: its auth response is to be given to [`Self::from_client`]
    /// first. `plugin`: what made that response; `nonce`: what the server's greeting or its last auth switch gave.
    pub fn new(sides: Sides, capabilities: Capabilities, plugin: &[u8], nonce: &[u8]) -> Self {
        AuthRelay {
            sides,
            multi_factor: capabilities.contains(Capabilities::MULTI_FACTOR),
            plugin: Plugin::named(plugin),
            nonce: nonce.to_vec(),
            state: State::First,
        }
    }

    /// The nonce in use: a COM_CHANGE_USER's auth response is made with the last one that the server gave.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    pub fn from_server(&mut self, payload: &[u8]) -> Result<AuthStep, AuthError> {
        match Reader::new(payload).peek() {
            Some(OK) => return Ok(AuthStep::Done(payload.to_vec())),
            Some(ERR) => return Ok(AuthStep::Failed(payload.to_vec())),
            _ => {}
        }
        if let State::ServerKeyAsked(password) = &self.state {
            let cipher = encrypt(password, &self.nonce, payload)?;
            self.state = State::Relayed;
            return Ok(AuthStep::ToServer(Zeroizing::new(cipher)));
        }
        match Reader::new(payload).peek() {
            // A switch of one byte alone is the one to mysql_old_password: nothing to follow.
            Some(SWITCH) if payload.len() > 1 => self.switch(payload)?,
            Some(NEXT_FACTOR) if self.multi_factor => self.switch(payload)?,
            _ if self.plugin == Plugin::CachingSha2 && payload == FULL_AUTH => self.state = State::FullAuth,
            _ => {}
        }
        Ok(AuthStep::ToClient(payload.to_vec()))
    }

    pub fn from_client(&mut self, payload: &[u8]) -> Result<AuthStep, AuthError> {
        self.refuse_clear()?;
        let state = std::mem::replace(&mut self.state, State::Relayed);
        let answer = match (&state, self.plugin) {
            (State::OwnKey(key), _) => Some(AuthStep::ToServer(key.decrypt(payload, &self.nonce)?)),
            (State::FullAuth, Plugin::CachingSha2) => self.password(payload, CACHING_SHA2_KEY_REQUEST),
            (State::First, Plugin::Sha256) => self.password(payload, SHA256_KEY_REQUEST),
            _ => None,
        };
        Ok(answer.unwrap_or_else(|| AuthStep::ToServer(Zeroizing::new(payload.to_vec()))))
    }

    /// Answer to [`AuthStep::NeedsOwnKey`]; returns what the client is to be sent.
    pub fn own_key(&mut self, key: Arc<OwnKey>) -> AuthStep {
        let packet = key.packet.clone();
        self.state = State::OwnKey(key);
        AuthStep::ToClient(packet)
    }

    /// Answer to [`AuthStep::Pinned`]: `key` is the one that clients may have on disk.
    pub fn pinned(&mut self, key: Option<&OwnKey>, cipher: &[u8]) -> Result<AuthStep, AuthError> {
        let key = key.ok_or(AuthError::NoPinnedKey)?;
        let password = key.decrypt(cipher, &self.nonce).map_err(|_| AuthError::OtherPinnedKey)?;
        Ok(AuthStep::ToServer(password))
    }

    /// A packet that is a clear password, one under a key, or asks for a key. `None`: it goes on as it is.
    fn password(&mut self, payload: &[u8], key_request: &[u8]) -> Option<AuthStep> {
        let server_trusts = self.plugin.trusts(self.sides.server);
        if payload == key_request {
            return server_trusts.then_some(AuthStep::NeedsOwnKey);
        }
        // No password at all is no secret.
        let no_password = payload.is_empty() || payload == [0];
        match (self.plugin.trusts(self.sides.client), server_trusts) {
            _ if no_password => return None,
            (true, false) => {}
            // A plain client has encrypted its password already, with a key that it has on disk. A plain server has that key too.
            (false, true) => return Some(AuthStep::Pinned(payload.to_vec())),
            (true, true) | (false, false) => return None,
        }
        self.state = State::ServerKeyAsked(Zeroizing::new(payload.to_vec()));
        Some(AuthStep::ToServer(Zeroizing::new(key_request.to_vec())))
    }

    /// An auth switch, or the next factor, which has the same form.
    fn switch(&mut self, payload: &[u8]) -> Result<(), AuthError> {
        let mut r = Reader::new(payload);
        let read = |r: &mut Reader<'_>| {
            r.u8("header")?;
            r.nul_bytes("plugin name").map(Plugin::named)
        };
        self.plugin = read(&mut r).map_err(AuthError::Server)?;
        self.nonce = trim_nonce(r.rest()).to_vec();
        self.state = State::First;
        // A clear password is refused here, before the client sends it.
        self.refuse_clear()
    }

    fn refuse_clear(&self) -> Result<(), AuthError> {
        let is_exposed = self.plugin == Plugin::Clear && self.sides.exposes_clear();
        if is_exposed { Err(AuthError::ClearPassword) } else { Ok(()) }
    }
}

/// The RSA key that plain clients are shown. Nobody vouches for it unless they have it on disk: like the server's own key on a plain
/// connection, it guards against eavesdroppers only, not against someone in between.
pub struct OwnKey {
    private: RsaPrivateKey,
    /// The packet that shows it.
    packet: Vec<u8>,
}

impl OwnKey {
    /// Takes some hundred milliseconds: not for an async thread.
    pub fn generate() -> Result<Self, rsa::Error> {
        Self::new(RsaPrivateKey::new(&mut OsRng, RSA_BITS)?)
    }

    /// A private key in PEM form: PKCS#8, or PKCS#1 as MySQL's `private_key.pem`.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        // MySQL 9.7 ends its file with a zero byte.
        let pem = pem.trim_end_matches(|c: char| c == '\0' || c.is_whitespace());
        let pkcs8 = RsaPrivateKey::from_pkcs8_pem(pem).ok();
        let private = pkcs8.or_else(|| RsaPrivateKey::from_pkcs1_pem(pem).ok()).ok_or(KeyError::NotPem)?;
        match private.size() * 8 {
            2048..=4096 => Self::new(private).map_err(|_| KeyError::NotPem),
            bits => Err(KeyError::Bits(bits)),
        }
    }

    fn new(private: RsaPrivateKey) -> Result<Self, rsa::Error> {
        let pem = private
            .to_public_key()
            .to_public_key_pem(LineEnding::LF)
            .map_err(|error| rsa::Error::Pkcs8(rsa::pkcs8::Error::PublicKey(error)))?;
        let mut packet = vec![MORE_DATA];
        packet.extend_from_slice(pem.as_bytes());
        Ok(OwnKey { private, packet })
    }

    /// The clear password with the NUL after it.
    fn decrypt(&self, cipher: &[u8], nonce: &[u8]) -> Result<Zeroizing<Vec<u8>>, AuthError> {
        // Blinded: the crate's arithmetic is not constant-time (RUSTSEC-2023-0071).
        let clear = self.private.decrypt_blinded(&mut OsRng, Oaep::new::<Sha1>(), cipher);
        let mut password = Zeroizing::new(clear.map_err(|_| AuthError::Undecipherable)?);
        xor(&mut password, nonce);
        Ok(password)
    }
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey")
    }
}

impl PartialEq for OwnKey {
    fn eq(&self, other: &Self) -> bool {
        self.packet == other.packet
    }
}

impl Eq for OwnKey {}

/// The password (NUL included) for the server whose key this packet shows.
fn encrypt(password: &[u8], nonce: &[u8], key_packet: &[u8]) -> Result<Vec<u8>, AuthError> {
    let pem = key_packet.strip_prefix(&[MORE_DATA]).and_then(|pem| std::str::from_utf8(pem).ok());
    let pem = pem.ok_or(AuthError::ServerKey)?;
    let key = RsaPublicKey::from_public_key_pem(pem).map_err(|_| AuthError::ServerKey)?;
    let mut masked = Zeroizing::new(password.to_vec());
    xor(&mut masked, nonce);
    key.encrypt(&mut OsRng, Oaep::new::<Sha1>(), &masked).map_err(|_| AuthError::PasswordTooLong)
}

fn xor(password: &mut [u8], nonce: &[u8]) {
    for (byte, mask) in password.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
