//! The authentication exchange behind a handshake response or a COM_CHANGE_USER: relayed as it is, but for the two
//! plugins whose form depends on the transport, where client and server do not have the same one.
//! Sources: MySQL manual, "Authentication Phase", "Caching_sha2_password information", "SHA-256 Pluggable
//! Authentication".
//!
//! `caching_sha2_password` (its full exchange) and `sha256_password` send the password in clear where the transport is
//! secure, else encrypted with the server's RSA key. With a secure client and a plain server, the proxy asks for the
//! server's key and encrypts; with a plain client and a secure server, it shows a key of its own and decrypts.
//!
//! No input or output here: packets' payloads go in, [`Step`]s come out. Which side speaks next is the plugin's matter,
//! so both are to be read; a client's packet numbered 0 is no answer but its next command, and is to wait.

use std::sync::Arc;

use rand::rngs::OsRng;
use rsa::pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding};
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

/// What one side of the proxy is connected by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Unix,
    Tls,
}

/// What the two sides are connected by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    pub client: Transport,
    pub server: Transport,
}

/// The plugins whose exchange depends on the transport; all others are relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plugin {
    CachingSha2,
    Sha256,
    Other,
}

impl Plugin {
    fn named(name: &[u8]) -> Self {
        match name {
            b"caching_sha2_password" => Plugin::CachingSha2,
            b"sha256_password" => Plugin::Sha256,
            _ => Plugin::Other,
        }
    }

    /// Whether both ends take a clear password over this transport. `sha256_password` trusts TLS alone.
    fn trusts(self, transport: Transport) -> bool {
        match self {
            Plugin::CachingSha2 => transport != Transport::Tcp,
            Plugin::Sha256 | Plugin::Other => transport == Transport::Tls,
        }
    }
}

/// Why the exchange cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("the server's authentication packet: {0}")]
    Server(Malformed),
    #[error("the server's RSA key cannot be used")]
    ServerKey,
    #[error("the password was not encrypted with the key that was asked for")]
    Undecipherable,
    #[error("the password cannot be encrypted with the server's RSA key: it is too long")]
    PasswordTooLong,
}

/// What to do next. Payloads, to be numbered by each side's own count.
#[must_use]
pub enum Step {
    ToClient(Vec<u8>),
    ToServer(Zeroizing<Vec<u8>>),
    /// The client is to be shown the proxy's own key: call [`AuthRelay::own_key`] with it.
    NeedsOwnKey,
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

/// One authentication exchange.
pub struct AuthRelay {
    client: Transport,
    server: Transport,
    plugin: Plugin,
    nonce: Vec<u8>,
    /// Whether the server may ask for a second factor. Where it may not, a packet that looks so is a plugin's own, as
    /// the prompts of MariaDB's `dialog` are.
    multi_factor: bool,
    state: State,
}

impl AuthRelay {
    /// For the exchange that a handshake response or COM_CHANGE_USER begins: its auth response is to be given to
    /// [`Self::from_client`] first. `plugin`: what made that response; `nonce`: what the server's greeting or its last
    /// auth switch gave.
    pub fn new(sides: Sides, capabilities: Capabilities, plugin: &[u8], nonce: &[u8]) -> Self {
        AuthRelay {
            client: sides.client,
            server: sides.server,
            multi_factor: capabilities.contains(Capabilities::MULTI_FACTOR),
            plugin: Plugin::named(plugin),
            nonce: nonce.to_vec(),
            state: State::First,
        }
    }

    /// The nonce in force: a COM_CHANGE_USER's auth response is made with the last one that the server gave.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    pub fn from_server(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        match payload.first() {
            Some(&OK) => return Ok(Step::Done(payload.to_vec())),
            Some(&ERR) => return Ok(Step::Failed(payload.to_vec())),
            _ => {}
        }
        if let State::ServerKeyAsked(password) = &self.state {
            let cipher = encrypt(password, &self.nonce, payload)?;
            self.state = State::Relayed;
            return Ok(Step::ToServer(Zeroizing::new(cipher)));
        }
        match payload.first() {
            // A switch of one byte alone is the one to mysql_old_password: nothing to follow.
            Some(&SWITCH) if payload.len() > 1 => self.switch(payload)?,
            Some(&NEXT_FACTOR) if self.multi_factor => self.switch(payload)?,
            _ if self.plugin == Plugin::CachingSha2 && payload == FULL_AUTH => self.state = State::FullAuth,
            _ => {}
        }
        Ok(Step::ToClient(payload.to_vec()))
    }

    pub fn from_client(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        let state = std::mem::replace(&mut self.state, State::Relayed);
        let answer = match (&state, self.plugin) {
            (State::OwnKey(key), _) => {
                let password = key.decrypt(payload, &self.nonce)?;
                return Ok(Step::ToServer(password));
            }
            (State::FullAuth, Plugin::CachingSha2) => self.password(payload, CACHING_SHA2_KEY_REQUEST),
            (State::First, Plugin::Sha256) => self.password(payload, SHA256_KEY_REQUEST),
            _ => None,
        };
        Ok(answer.unwrap_or_else(|| Step::ToServer(Zeroizing::new(payload.to_vec()))))
    }

    /// Answer to [`Step::NeedsOwnKey`]; returns what the client is to be sent.
    pub fn own_key(&mut self, key: Arc<OwnKey>) -> Step {
        let packet = key.packet.clone();
        self.state = State::OwnKey(key);
        Step::ToClient(packet)
    }

    /// A packet that is a clear password or asks for a key. `None`: it goes on as it is.
    fn password(&mut self, payload: &[u8], key_request: &[u8]) -> Option<Step> {
        let server_trusts = self.plugin.trusts(self.server);
        if payload == key_request {
            return server_trusts.then_some(Step::NeedsOwnKey);
        }
        // No password at all is no secret; and what a plain client sends is encrypted already, with a key it has on disk.
        let no_password = payload.is_empty() || payload == [0];
        if no_password || server_trusts || !self.plugin.trusts(self.client) {
            return None;
        }
        self.state = State::ServerKeyAsked(Zeroizing::new(payload.to_vec()));
        Some(Step::ToServer(Zeroizing::new(key_request.to_vec())))
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
        Ok(())
    }
}

/// The RSA key that plain clients are shown. Nobody vouches for it: like the server's own key on a plain connection, it
/// guards against eavesdroppers only, not against someone in between.
pub struct OwnKey {
    private: RsaPrivateKey,
    /// The packet that shows it.
    packet: Vec<u8>,
}

impl OwnKey {
    /// Takes some hundred milliseconds: not for an async thread.
    pub fn generate() -> Result<Self, rsa::Error> {
        let private = RsaPrivateKey::new(&mut OsRng, RSA_BITS)?;
        let pem = private
            .to_public_key()
            .to_public_key_pem(LineEnding::LF)
            .map_err(|error| rsa::Error::Pkcs8(rsa::pkcs8::Error::PublicKey(error)))?;
        let mut packet = vec![MORE_DATA];
        packet.extend_from_slice(pem.as_bytes());
        Ok(OwnKey { private, packet })
    }

    /// The clear password with the NUL behind it.
    fn decrypt(&self, cipher: &[u8], nonce: &[u8]) -> Result<Zeroizing<Vec<u8>>, AuthError> {
        // Blinded: the crate's arithmetic is not constant-time (RUSTSEC-2023-0071).
        let clear = self.private.decrypt_blinded(&mut OsRng, Oaep::new::<Sha1>(), cipher);
        let mut password = Zeroizing::new(clear.map_err(|_| AuthError::Undecipherable)?);
        xor(&mut password, nonce);
        Ok(password)
    }
}

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
mod tests {
    use super::{AuthError, AuthRelay, OwnKey, Sides, Step, Transport, encrypt};
    use crate::mysql::capabilities::Capabilities;
    use proptest::prelude::proptest;
    use std::sync::{Arc, LazyLock};

    const NONCE: &[u8; 20] = b"ABCDEFGHIJKLMNOPQRST";
    const NONE: Capabilities = Capabilities::PROTOCOL_41;
    /// One key serves as the proxy's and as the server's.
    static KEY: LazyLock<Arc<OwnKey>> = LazyLock::new(|| Arc::new(OwnKey::generate().unwrap()));

    fn relay(client: Transport, server: Transport, plugin: &str) -> AuthRelay {
        AuthRelay::new(Sides { client, server }, NONE, plugin.as_bytes(), NONCE)
    }

    #[track_caller]
    fn to_server(step: Result<Step, AuthError>) -> Vec<u8> {
        match step.unwrap() {
            Step::ToServer(payload) => payload.to_vec(),
            _ => panic!("not to the server"),
        }
    }

    #[track_caller]
    fn to_client(step: Result<Step, AuthError>) -> Vec<u8> {
        match step.unwrap() {
            Step::ToClient(payload) => payload,
            _ => panic!("not to the client"),
        }
    }

    /// Full authentication up to the client's packet that answers it.
    fn full(client: Transport, server: Transport) -> AuthRelay {
        let mut relay = relay(client, server, "caching_sha2_password");
        assert_eq!(to_server(relay.from_client(&[9; 32])), [9; 32]);
        assert_eq!(to_client(relay.from_server(&[1, 4])), [1, 4]);
        relay
    }

    fn done(relay: &mut AuthRelay) {
        assert!(matches!(relay.from_server(b"\0\0\0\x02\0\0\0"), Ok(Step::Done(ok)) if ok.len() == 7));
    }

    #[test]
    fn like_sides_are_relayed() {
        for (client, server) in [(Transport::Tls, Transport::Unix), (Transport::Unix, Transport::Tls)] {
            let mut relay = full(client, server);
            assert_eq!(to_server(relay.from_client(b"secret\0")), b"secret\0");
            done(&mut relay);
        }
        let mut relay = full(Transport::Tcp, Transport::Tcp);
        assert_eq!(to_server(relay.from_client(&[2])), [2]);
        assert_eq!(to_client(relay.from_server(&KEY.packet)), KEY.packet);
        assert_eq!(to_server(relay.from_client(&[7; 256])), [7; 256]);
        done(&mut relay);
    }

    #[test]
    fn fast_authentication_needs_no_password() {
        let mut relay = relay(Transport::Tcp, Transport::Tls, "caching_sha2_password");
        to_server(relay.from_client(&[9; 32]));
        assert_eq!(to_client(relay.from_server(&[1, 3])), [1, 3]);
        done(&mut relay);
    }

    #[test]
    fn a_clear_password_never_goes_to_a_plain_server() {
        for client in [Transport::Tls, Transport::Unix] {
            let mut relay = full(client, Transport::Tcp);
            assert_eq!(to_server(relay.from_client(b"secret\0")), [2]);
            let cipher = to_server(relay.from_server(&KEY.packet));
            assert_eq!(KEY.decrypt(&cipher, NONCE).unwrap()[..], b"secret\0"[..]);
            done(&mut relay);
        }
    }

    #[test]
    fn a_plain_client_is_shown_our_key() {
        for server in [Transport::Tls, Transport::Unix] {
            let mut relay = full(Transport::Tcp, server);
            assert!(matches!(relay.from_client(&[2]), Ok(Step::NeedsOwnKey)));
            let packet = to_client(Ok(relay.own_key(KEY.clone())));
            assert!(packet.starts_with(b"\x01-----BEGIN PUBLIC KEY-----\n"));
            let cipher = encrypt(b"secret\0", NONCE, &packet).unwrap();
            assert_eq!(to_server(relay.from_client(&cipher)), b"secret\0");
            done(&mut relay);
        }
        let mut relay = full(Transport::Tcp, Transport::Tls);
        let _ = relay.from_client(&[2]).unwrap();
        let _ = relay.own_key(KEY.clone());
        assert_eq!(relay.from_client(&[7; 256]).err(), Some(AuthError::Undecipherable));
    }

    #[test]
    fn sha256_password_begins_in_the_first_response() {
        let plugin = "sha256_password";
        let mut secure = relay(Transport::Tls, Transport::Tcp, plugin);
        assert_eq!(to_server(secure.from_client(b"secret\0")), [1]);
        let cipher = to_server(secure.from_server(&KEY.packet));
        assert_eq!(KEY.decrypt(&cipher, NONCE).unwrap()[..], b"secret\0"[..]);
        let mut plain = relay(Transport::Tcp, Transport::Tls, plugin);
        assert!(matches!(plain.from_client(&[1]), Ok(Step::NeedsOwnKey)));
        let packet = to_client(Ok(plain.own_key(KEY.clone())));
        let cipher = encrypt(b"secret\0", NONCE, &packet).unwrap();
        assert_eq!(to_server(plain.from_client(&cipher)), b"secret\0");
        // It does not trust Unix sockets, and an empty password is no secret.
        let mut unix = relay(Transport::Tcp, Transport::Unix, plugin);
        assert_eq!(to_server(unix.from_client(&[1])), [1]);
        let mut empty = relay(Transport::Tls, Transport::Tcp, plugin);
        assert_eq!(to_server(empty.from_client(&[0])), [0]);
    }

    #[test]
    fn a_switch_changes_plugin_and_nonce() {
        let mut relay = relay(Transport::Tls, Transport::Tcp, "mysql_native_password");
        assert_eq!(to_server(relay.from_client(b"x\0")), b"x\0");
        let switch = b"\xfesha256_password\0abcdefghijklmnopqrst\0";
        assert_eq!(to_client(relay.from_server(switch)), switch);
        assert_eq!(relay.nonce(), b"abcdefghijklmnopqrst");
        assert_eq!(to_server(relay.from_client(b"secret\0")), [1]);
        let cipher = to_server(relay.from_server(&KEY.packet));
        assert_eq!(KEY.decrypt(&cipher, b"abcdefghijklmnopqrst").unwrap()[..], b"secret\0"[..]);
        assert_eq!(
            relay.from_server(b"\xfeunended").err().map(|e| matches!(e, AuthError::Server(_))),
            Some(true)
        );
        let old = relay.from_server(b"\xfe");
        assert_eq!(to_client(old), b"\xfe");
    }

    #[test]
    fn prompts_are_no_second_factor_unless_one_was_negotiated() {
        let prompt = b"\x02sha256_password\0zzzz";
        let mut relay = relay(Transport::Tls, Transport::Tcp, "dialog");
        assert_eq!(to_client(relay.from_server(prompt)), prompt);
        assert_eq!(relay.nonce(), NONCE);
        assert_eq!(to_server(relay.from_client(b"me\0")), b"me\0");
        let sides = Sides { client: Transport::Tls, server: Transport::Tcp };
        let mut factors = AuthRelay::new(sides, Capabilities::MULTI_FACTOR, b"caching_sha2_password", NONCE);
        assert_eq!(to_client(factors.from_server(prompt)), prompt);
        assert_eq!(factors.nonce(), b"zzzz");
        assert_eq!(to_server(factors.from_client(b"me\0")), [1]);
    }

    #[test]
    fn errors_and_keys_that_are_none() {
        let mut relay = full(Transport::Tls, Transport::Tcp);
        to_server(relay.from_client(b"secret\0"));
        assert!(matches!(relay.from_server(b"\xff\x15\x04#28000no"), Ok(Step::Failed(_))));
        for key in [&b"\x01no key"[..], b"\x04", b"", b"\x01\xff"] {
            assert_eq!(encrypt(b"secret\0", NONCE, key), Err(AuthError::ServerKey));
        }
        assert_eq!(encrypt(&[b'x'; 300], NONCE, &KEY.packet), Err(AuthError::PasswordTooLong));
    }

    proptest! {
        #[test]
        fn any_packets(packets: Vec<(bool, Vec<u8>)>) {
            let mut relay = full(Transport::Tls, Transport::Tcp);
            for (from_server, payload) in packets {
                let _ = if from_server { relay.from_server(&payload) } else { relay.from_client(&payload) };
            }
        }
    }
}
