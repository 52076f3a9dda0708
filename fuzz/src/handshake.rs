//! The packets of a login: what is read is where the manual has it, what is patched is patched there alone, and an
//! authentication exchange between like sides passes as it comes.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use rowstamp::mysql::auth::{AuthError, AuthRelay, AuthStep, OwnKey, Sides, Transport};
use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::change_user::ChangeUser;
use rowstamp::mysql::handshake::{
    ClientResponse, Greeting, SSL_REQUEST_BYTES, client_capabilities, is_ssl_request, trim_nonce,
};
use zeroize::Zeroizing;

use crate::input::Input;
use crate::memory::{self, SOME_BYTES};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    memory::within(SOME_BYTES, || match input.below(4) {
        0 => greeting(input),
        1 => response(input),
        2 => change_user(input),
        _ => exchange(input),
    });
}

/// Any bits.
fn capabilities(input: &mut Input<'_>) -> C {
    let mut half = || {
        let mut bytes = [0; 4];
        for (byte, given) in bytes.iter_mut().zip(input.bytes(4)) {
            *byte = *given;
        }
        u32::from_le_bytes(bytes)
    };
    C::new(half(), half())
}

fn has(one: C, other: C) -> bool {
    one & other != C::default()
}

/// Where two packets of one length differ.
#[track_caller]
fn changed(before: &[u8], after: &[u8]) -> BTreeSet<usize> {
    assert_eq!(before.len(), after.len(), "the length of a patched packet");
    (0..before.len()).filter(|&at| before[at] != after[at]).collect()
}

fn greeting(mut input: Input<'_>) {
    let wanted = capabilities(&mut input);
    let payload = input.rest();
    let Ok(greeting) = Greeting::parse(payload.to_vec()) else { return };
    assert_eq!(payload[0], 10);
    let version_end = payload.iter().position(|&byte| byte == 0).expect("a version ends");
    let says_mariadb = payload[1..version_end].windows(7).any(|word| word == b"MariaDB");
    assert!(!says_mariadb || greeting.version.is_mariadb);
    // Id, nonce and filler are in front of the lower half.
    let low = version_end + 1 + 4 + 8 + 1;
    let (high, extended) = (low + 5, low + 14);
    let places: BTreeSet<usize> = [low..low + 2, high..high + 2].into_iter().flatten().collect();
    let extends = payload[low] & 1 == 0;
    let all: BTreeSet<usize> =
        if extends { places.iter().copied().chain(extended..extended + 4).collect() } else { places };

    let bits = |at: usize, n: usize| {
        payload[at..at + n].iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte))
    };
    let base = bits(low, 2) | bits(high, 2) << 16;
    let has_bits = C::new(base, if extends { bits(extended, 4) } else { 0 });
    assert_eq!(greeting.capabilities, has_bits);
    assert_eq!(greeting.connection_id, bits(version_end + 1, 4));
    assert_eq!(u32::from(greeting.status), bits(low + 3, 2));
    assert_eq!(greeting.nonce[..8], payload[version_end + 5..version_end + 13]);
    assert!(payload[extended + 4..].starts_with(&greeting.nonce[8..]), "the second part of the nonce");

    assert_eq!(greeting.patched(greeting.capabilities), payload);
    for ours in [C::default(), C::SSL, C::SSL | C::COMPRESS | C::ZSTD] {
        let shown = greeting.shown(ours);
        assert_eq!(shown, (greeting.capabilities & C::RELAYED) | ours);
        same_but_for(&greeting, payload, shown, &all);
    }
    let kind = greeting.capabilities & C::CLIENT_MYSQL;
    same_but_for(&greeting, payload, wanted.with(C::CLIENT_MYSQL, kind == C::CLIENT_MYSQL), &all);
}

/// With other capabilities of the same kind of server it is the same greeting.
fn same_but_for(greeting: &Greeting, payload: &[u8], wanted: C, places: &BTreeSet<usize>) {
    let patched = greeting.patched(wanted);
    assert!(changed(payload, &patched).is_subset(places), "only capabilities change");
    let again = Greeting::parse(patched).expect("it was read before");
    let is_mysql = has(greeting.capabilities, C::CLIENT_MYSQL);
    assert_eq!(again.capabilities, if is_mysql { C::new(wanted.base(), 0) } else { wanted });
    let fields = |one: &Greeting| (one.version, one.connection_id, one.status, one.nonce.clone());
    assert_eq!(fields(&again), fields(greeting));
    if has(again.capabilities, C::PLUGIN_AUTH) && has(greeting.capabilities, C::PLUGIN_AUTH) {
        assert_eq!(again.plugin, greeting.plugin);
    }
}

/// What a greeting may not have offered.
const SHOWN: [C; 4] = [C::CONNECT_WITH_DB, C::PLUGIN_AUTH, C::PLUGIN_AUTH_LENENC, C::SECURE_CONNECTION];

/// A response's fields, read by the manual.
#[derive(Debug, PartialEq, Eq)]
struct Fields<'a> {
    user: &'a [u8],
    auth_response: &'a [u8],
    database: Option<&'a [u8]>,
    /// Behind the database.
    rest: &'a [u8],
}

fn until_nul(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).expect("a NUL");
    (&bytes[..end], &bytes[end + 1..])
}

fn counted(bytes: &[u8]) -> (&[u8], &[u8]) {
    let little = |n: usize| bytes[1..=n].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte));
    let (prefix, n) = match bytes[0] {
        0xFC => (3, little(2)),
        0xFD => (4, little(3)),
        0xFE => (9, little(8)),
        n => (1, usize::from(n)),
    };
    bytes[prefix..].split_at(n)
}

fn fields(payload: &[u8], capabilities: C) -> Fields<'_> {
    let (user, rest) = until_nul(&payload[SSL_REQUEST_BYTES..]);
    let (auth_response, mut rest) = if has(capabilities, C::PLUGIN_AUTH_LENENC) {
        counted(rest)
    } else if has(capabilities, C::SECURE_CONNECTION) {
        rest[1..].split_at(usize::from(rest[0]))
    } else {
        until_nul(rest)
    };
    let mut database = None;
    if has(capabilities, C::CONNECT_WITH_DB) {
        let name;
        (name, rest) = until_nul(rest);
        database = Some(name).filter(|name| !name.is_empty());
    }
    Fields { user, auth_response, database, rest }
}

fn response(mut input: Input<'_>) {
    let shown = match input.below(5) {
        0 => C::RELAYED | C::SSL,
        // All but one.
        nth => (C::RELAYED | C::SSL).with(SHOWN[usize::from(nth) - 1], false),
    };
    let wanted = capabilities(&mut input);
    let new_bytes = usize::from(input.byte());
    let new_auth = [&b"password"[..], &[b'x'; 255]].concat()[..new_bytes].to_vec();
    let payload = input.rest();
    let parse = |bytes: &[u8]| ClientResponse::parse(Zeroizing::new(bytes.to_vec()), shown);
    let asked = client_capabilities(payload, shown);
    if let Ok(asked) = asked {
        assert_eq!(asked & shown.with(C::CLIENT_MYSQL, true), asked, "nothing that was not offered");
        assert_eq!(
            is_ssl_request(payload, asked),
            payload.len() == SSL_REQUEST_BYTES && has(asked, C::SSL),
            "SSLRequest"
        );
    }
    let Ok(response) = parse(payload) else { return };
    assert_eq!(Ok(response.capabilities), asked);
    let own = fields(payload, response.capabilities);
    assert_eq!((&response.user[..], response.database.as_deref()), (own.user, own.database));
    assert_eq!((response.auth_response(), response.collation), (own.auth_response, payload[8]));
    let rest = plugin(&response, own.rest);
    attributes(&response, rest);

    if response.has_room_for_level() {
        let patched =
            response.patched(wanted | C::ZSTD, response.auth_response()).expect("it has its place already");
        assert_eq!(patched.last(), Some(&response.server_zstd_level()));
    }
    // The same but for capabilities.
    let wanted = wanted.with(C::ZSTD, false);
    let mysql = has(response.capabilities, C::CLIENT_MYSQL);
    let patched = response.patched(wanted, response.auth_response()).expect("it has its place already");
    let places: BTreeSet<usize> = if mysql { (0..4).collect() } else { (0..4).chain(28..32).collect() };
    assert!(changed(payload, &patched).is_subset(&places), "only capabilities change");
    assert_eq!(patched[..4], wanted.base().to_le_bytes());
    assert!(mysql || patched[28..32] == wanted.extended().to_le_bytes());
    let request = response.ssl_request(wanted).expect("it has its place already");
    assert_eq!(request, patched[..SSL_REQUEST_BYTES]);

    // The same but for the auth response.
    let is_short = !has(response.capabilities, C::PLUGIN_AUTH_LENENC)
        && has(response.capabilities, C::SECURE_CONNECTION);
    let Ok(patched) = response.patched(response.capabilities, &new_auth) else {
        return assert!(is_short && new_auth.len() > 255, "an auth response of {new_bytes} bytes");
    };
    let again = parse(&patched).expect("it was read before");
    let after = fields(&patched, again.capabilities);
    assert_eq!(after, Fields { auth_response: &new_auth, ..own });
    assert_eq!((again.auth_response(), &again.plugin), (&new_auth[..], &response.plugin));
    assert_eq!(again.capabilities, response.capabilities);
}

/// The plugin's name is where it is; returns what stands behind it.
fn plugin<'a>(response: &ClientResponse, rest: &'a [u8]) -> &'a [u8] {
    if !has(response.capabilities, C::PLUGIN_AUTH) {
        assert_eq!(response.plugin, None);
        return rest;
    }
    if !rest.contains(&0) {
        assert_eq!(response.plugin, None, "a name without its NUL is none");
        return &[];
    }
    let (name, rest) = until_nul(rest);
    assert_eq!(response.plugin.as_deref(), Some(name));
    rest
}

/// The first attribute of a name is the one that is found.
fn attributes(response: &ClientResponse, rest: &[u8]) {
    if !has(response.capabilities, C::CONNECT_ATTRS) || rest.is_empty() {
        return assert_eq!(response.attribute(b""), None, "no attributes");
    }
    let (attributes, _) = counted(rest);
    let mut seen = BTreeSet::new();
    let mut left = attributes;
    while let (Some((name, behind)), true) = (try_counted(left), left.len() < 400) {
        let Some((value, behind)) = try_counted(behind) else { break };
        if seen.insert(name) {
            assert_eq!(response.attribute(name), Some(value), "{}", name.escape_ascii());
        }
        left = behind;
    }
}

/// [`counted`] of bytes that may be too few, or no length.
fn try_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let prefix = match bytes.first()? {
        0xFB | 0xFF => return None,
        0xFC => 3,
        0xFD => 4,
        0xFE => 9,
        _ => 1,
    };
    let little = bytes.get(1..prefix)?.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
    let n = if prefix == 1 { u64::from(bytes[0]) } else { little };
    bytes[prefix..].split_at_checked(usize::try_from(n).ok()?)
}

fn change_user(mut input: Input<'_>) {
    let capabilities = C::RELAYED.with(C::PLUGIN_AUTH, input.below(2) == 0);
    let new_bytes = usize::from(input.byte()) * 2;
    let new_auth = vec![b'x'; new_bytes];
    let payload = input.rest();
    let parse = |bytes: &[u8]| ChangeUser::parse(Zeroizing::new(bytes.to_vec()), capabilities);
    let Ok(change) = parse(payload) else { return };
    assert_eq!(payload[0], 0x11);
    let (user, rest) = until_nul(&payload[1..]);
    let (auth_response, rest) = rest[1..].split_at(usize::from(rest[0]));
    let (database, rest) = until_nul(rest);
    assert_eq!((&change.user[..], change.auth_response()), (user, auth_response));
    assert_eq!(change.database.as_deref(), Some(database).filter(|name| !name.is_empty()));
    let collation = rest.get(..2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    assert_eq!(change.collation, collation);
    let names_plugin = has(capabilities, C::PLUGIN_AUTH) && rest.len() > 2;
    assert_eq!(change.plugin.as_deref(), names_plugin.then(|| until_nul(&rest[2..]).0));
    assert_eq!(change.patched(change.auth_response()).unwrap()[..], *payload);
    let Ok(patched) = change.patched(&new_auth) else {
        return assert!(new_bytes > 255, "an auth response of {new_bytes} bytes");
    };
    let again = parse(&patched).expect("it was read before");
    assert_eq!(again.auth_response(), new_auth);
    let rest_of =
        |one: &ChangeUser| (one.user.clone(), one.database.clone(), one.collation, one.plugin.clone());
    assert_eq!(rest_of(&again), rest_of(&change));
    assert_eq!(patched.len() + auth_response.len(), payload.len() + new_auth.len());
}

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Unix, Transport::Tls];
const PLUGINS: [&[u8]; 4] =
    [b"caching_sha2_password", b"sha256_password", b"mysql_native_password", b"dialog"];
const NONCE: &[u8; 20] = b"ABCDEFGHIJKLMNOPQRST";
/// The packet in which a client asks for the server's key, by plugin.
const KEY_REQUESTS: [u8; 2] = [2, 1];
/// Takes a while: one for all.
static KEY: LazyLock<Arc<OwnKey>> = LazyLock::new(|| Arc::new(OwnKey::generate().expect("a key")));

/// What the client's next packet is.
#[derive(PartialEq, Eq)]
enum Stage {
    /// Its first one for this plugin.
    First,
    /// The answer to `caching_sha2_password`'s demand for the full exchange.
    Full,
    Later,
}

/// What is known of an exchange from its packets alone.
struct Exchange {
    relay: AuthRelay,
    sides: Sides,
    plugin: Vec<u8>,
    nonce: Vec<u8>,
    multi_factor: bool,
    stage: Stage,
    /// Whether ciphers are read: milliseconds each.
    deciphers: bool,
}

/// Packets, each behind a sign that says whose it is.
fn exchange(mut input: Input<'_>) {
    // Where a clear password is refused, a unit test has every case.
    let sides =
        Sides { client: input.pick(&TRANSPORTS), server: input.pick(&TRANSPORTS), clear_passwords: true };
    let plugin = input.pick(&PLUGINS);
    let how = input.byte();
    let multi_factor = how & 1 == 1;
    let mut exchange = Exchange {
        relay: AuthRelay::new(sides, C::RELAYED.with(C::MULTI_FACTOR, multi_factor), plugin, NONCE),
        sides,
        plugin: plugin.to_vec(),
        nonce: NONCE.to_vec(),
        multi_factor,
        stage: Stage::First,
        deciphers: matches!(how, 8 | 9),
    };
    for part in input.rest().split(|&byte| byte == b'|') {
        let goes_on = match part.split_first() {
            None => continue,
            Some((b'S', payload)) => exchange.of_server(payload),
            Some((_, payload)) => exchange.of_client(payload),
        };
        if !goes_on {
            return;
        }
    }
}

impl Exchange {
    fn is_like(&self) -> bool {
        match &self.plugin[..] {
            b"caching_sha2_password" => {
                (self.sides.client == Transport::Tcp) == (self.sides.server == Transport::Tcp)
            }
            b"sha256_password" => {
                (self.sides.client == Transport::Tls) == (self.sides.server == Transport::Tls)
            }
            _ => true,
        }
    }

    /// Whether a clear password of this client's would be read by whoever listens to the server's side.
    fn must_encrypt(&self, payload: &[u8]) -> bool {
        let (is_due, request) = match &self.plugin[..] {
            b"caching_sha2_password" => (self.stage == Stage::Full, KEY_REQUESTS[0]),
            b"sha256_password" => (self.stage == Stage::First, KEY_REQUESTS[1]),
            _ => return false,
        };
        let secret = !payload.is_empty() && payload != [0] && payload != [request];
        let from_secure = match &self.plugin[..] {
            b"caching_sha2_password" => self.sides.client != Transport::Tcp,
            _ => self.sides.client == Transport::Tls,
        };
        is_due && secret && from_secure && !self.is_like()
    }

    fn of_server(&mut self, payload: &[u8]) -> bool {
        let step = self.relay.from_server(payload);
        match (payload.first(), step) {
            (Some(0x00), Ok(AuthStep::Done(same))) | (Some(0xFF), Ok(AuthStep::Failed(same))) => {
                assert_eq!(same, payload);
                return false;
            }
            (Some(0x00 | 0xFF), _) => panic!("an end that is none"),
            (_, Err(AuthError::Server(_) | AuthError::ServerKey)) => return false,
            (_, Ok(AuthStep::ToClient(same))) => assert_eq!(same, payload, "a packet of the server's"),
            _ => panic!("neither passed nor refused"),
        }
        let switches = payload[..].first() == Some(&0xFE) && payload.len() > 1
            || payload.first() == Some(&2) && self.multi_factor;
        if switches {
            let (plugin, nonce) = until_nul(&payload[1..]);
            (self.plugin, self.nonce) = (plugin.to_vec(), trim_nonce(nonce).to_vec());
            self.stage = Stage::First;
        } else if payload == [1, 4] && self.plugin == b"caching_sha2_password" {
            self.stage = Stage::Full;
        }
        assert_eq!(self.relay.nonce(), self.nonce);
        true
    }

    fn of_client(&mut self, payload: &[u8]) -> bool {
        let must_encrypt = self.must_encrypt(payload);
        let step = self.relay.from_client(payload);
        self.stage = Stage::Later;
        match step {
            Ok(AuthStep::ToServer(sent)) if must_encrypt => {
                assert_eq!(sent.len(), 1, "a clear password goes to a plain server");
                self.encrypted(payload)
            }
            Ok(AuthStep::ToServer(sent)) => {
                assert_eq!(sent[..], *payload, "a packet of the client's");
                true
            }
            Ok(AuthStep::NeedsOwnKey) => {
                assert!(
                    self.sides.server != Transport::Tcp && payload.len() == 1,
                    "the server has a key to show"
                );
                self.decrypted()
            }
            Ok(AuthStep::Pinned(cipher)) => {
                let is_secret = !payload.is_empty() && payload != [0];
                assert!(!must_encrypt && !self.is_like() && is_secret, "the server has this key");
                assert_eq!(cipher, payload);
                // Nobody's key: the exchange ends.
                assert!(self.relay.pinned(None, &cipher).is_err());
                false
            }
            _ => panic!("neither passed nor asked for a key"),
        }
    }

    /// The server shows its key, and the password comes encrypted with it.
    fn encrypted(&mut self, password: &[u8]) -> bool {
        if !self.deciphers {
            return false;
        }
        let shown = own_key_packet();
        let step = match self.relay.from_server(&shown) {
            Ok(AuthStep::ToServer(cipher)) => deciphered(&cipher, &self.nonce),
            // RSA of 2,048 bits with OAEP and SHA-1 holds no more.
            Err(AuthError::PasswordTooLong) => {
                assert!(password.len() > 214);
                return false;
            }
            _ => panic!("a key that is not used"),
        };
        assert_eq!(step[..], *password, "the password");
        true
    }

    /// The client gets our key, encrypts with it, and the server gets the password.
    fn decrypted(&mut self) -> bool {
        if !self.deciphers {
            return false;
        }
        let AuthStep::ToClient(shown) = self.relay.own_key(KEY.clone()) else { panic!("a key is shown") };
        let mut client = relay_of((Transport::Tls, Transport::Tcp), &self.nonce);
        let _ = client.from_server(&[1, 4]);
        let _ = client.from_client(b"secret\0");
        let Ok(AuthStep::ToServer(cipher)) = client.from_server(&shown) else { panic!("it encrypts") };
        let Ok(AuthStep::ToServer(password)) = self.relay.from_client(&cipher) else { panic!("it decrypts") };
        assert_eq!(password[..], *b"secret\0");
        true
    }
}

fn relay_of((client, server): (Transport, Transport), nonce: &[u8]) -> AuthRelay {
    AuthRelay::new(Sides { client, server, clear_passwords: true }, C::RELAYED, PLUGINS[0], nonce)
}

/// The packet that shows the key, as a server would.
fn own_key_packet() -> Vec<u8> {
    let mut relay = relay_of((Transport::Tcp, Transport::Tls), NONCE);
    match relay.own_key(KEY.clone()) {
        AuthStep::ToClient(packet) => packet,
        _ => panic!("a key is shown"),
    }
}

/// What a server with this key reads.
fn deciphered(cipher: &[u8], nonce: &[u8]) -> Vec<u8> {
    let mut relay = relay_of((Transport::Tcp, Transport::Tls), nonce);
    let _ = relay.own_key(KEY.clone());
    match relay.from_client(cipher) {
        Ok(AuthStep::ToServer(password)) => password.to_vec(),
        _ => panic!("what nobody can decipher"),
    }
}
