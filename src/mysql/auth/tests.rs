use super::{AuthError, AuthRelay, AuthStep, KeyError, OwnKey, Sides, Transport, encrypt};
use crate::mysql::capabilities::Capabilities;
use proptest::prelude::proptest;
use std::sync::{Arc, LazyLock};

const NONCE: &[u8; 20] = b"ABCDEFGHIJKLMNOPQRST";
const NONE: Capabilities = Capabilities::PROTOCOL_41;
/// One key serves as the proxy's and as the server's.
static KEY: LazyLock<Arc<OwnKey>> = LazyLock::new(|| Arc::new(OwnKey::generate().unwrap()));

fn relay(client: Transport, server: Transport, plugin: &str) -> AuthRelay {
    AuthRelay::new(Sides { client, server, clear_passwords: false }, NONE, plugin.as_bytes(), NONCE)
}

#[track_caller]
fn to_server(step: Result<AuthStep, AuthError>) -> Vec<u8> {
    match step.unwrap() {
        AuthStep::ToServer(payload) => payload.to_vec(),
        _ => panic!("not to the server"),
    }
}

#[track_caller]
fn to_client(step: Result<AuthStep, AuthError>) -> Vec<u8> {
    match step.unwrap() {
        AuthStep::ToClient(payload) => payload,
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
    assert!(matches!(relay.from_server(b"\0\0\0\x02\0\0\0"), Ok(AuthStep::Done(ok)) if ok.len() == 7));
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
        assert!(matches!(relay.from_client(&[2]), Ok(AuthStep::NeedsOwnKey)));
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
fn a_plain_client_may_have_our_key_on_disk() {
    let cipher = encrypt(b"secret\0", NONCE, &KEY.packet).unwrap();
    let begun = |server, plugin| match plugin {
        "caching_sha2_password" => full(Transport::Tcp, server),
        plugin => relay(Transport::Tcp, server, plugin),
    };
    for plugin in ["caching_sha2_password", "sha256_password"] {
        let mut own = begun(Transport::Tls, plugin);
        let Ok(AuthStep::Pinned(pinned)) = own.from_client(&cipher) else { panic!("{plugin}") };
        assert_eq!(own.pinned(None, &pinned).err(), Some(AuthError::NoPinnedKey));
        assert_eq!(own.pinned(Some(&KEY), &[7; 256]).err(), Some(AuthError::OtherPinnedKey));
        assert_eq!(to_server(own.pinned(Some(&KEY), &pinned)), b"secret\0");
        done(&mut own);
        // Like sides: it is the server's key.
        assert_eq!(to_server(begun(Transport::Tcp, plugin).from_client(&cipher)), cipher);
    }
}

#[test]
fn keys_from_files() {
    use rsa::pkcs1::EncodeRsaPrivateKey;
    use rsa::pkcs8::{EncodePrivateKey, LineEnding};
    let pkcs1 = KEY.private.to_pkcs1_pem(LineEnding::LF).unwrap();
    let pkcs8 = KEY.private.to_pkcs8_pem(LineEnding::LF).unwrap();
    let mysqls = format!("{}\0", *pkcs8);
    for pem in [&*pkcs1, &*pkcs8, &mysqls] {
        assert_eq!(OwnKey::from_pem(pem).map(|key| key.packet).as_ref(), Ok(&KEY.packet));
    }
    let public = String::from_utf8(KEY.packet[1..].to_vec()).unwrap();
    for text in ["", "no key", &public, &pkcs1[..200]] {
        assert_eq!(OwnKey::from_pem(text).err(), Some(KeyError::NotPem));
    }
    let short = rsa::RsaPrivateKey::new(&mut rand::rngs::OsRng, 1024).unwrap();
    let short = short.to_pkcs8_pem(LineEnding::LF).unwrap();
    assert_eq!(OwnKey::from_pem(&short).err(), Some(KeyError::Bits(1024)));
}

#[test]
fn sha256_password_begins_in_the_first_response() {
    let plugin = "sha256_password";
    let mut secure = relay(Transport::Tls, Transport::Tcp, plugin);
    assert_eq!(to_server(secure.from_client(b"secret\0")), [1]);
    let cipher = to_server(secure.from_server(&KEY.packet));
    assert_eq!(KEY.decrypt(&cipher, NONCE).unwrap()[..], b"secret\0"[..]);
    let mut plain = relay(Transport::Tcp, Transport::Tls, plugin);
    assert!(matches!(plain.from_client(&[1]), Ok(AuthStep::NeedsOwnKey)));
    let packet = to_client(Ok(plain.own_key(KEY.clone())));
    let cipher = encrypt(b"secret\0", NONCE, &packet).unwrap();
    assert_eq!(to_server(plain.from_client(&cipher)), b"secret\0");
    // The plugin does not trust Unix sockets, and an empty password is no secret.
    let mut unix = relay(Transport::Tcp, Transport::Unix, plugin);
    assert_eq!(to_server(unix.from_client(&[1])), [1]);
    let mut empty = relay(Transport::Tls, Transport::Tcp, plugin);
    assert_eq!(to_server(empty.from_client(&[0])), [0]);
}

#[test]
fn a_switch_changes_plugin_and_nonce() {
    let mut relay = relay(Transport::Tls, Transport::Tcp, "mysql_native_password");
    assert_eq!(to_server(relay.from_client(b"x\0")), b"x\0");
    // MySQL 9.7.4 to its own client.
    let switch = b"\xfesha256_password\0o]LiDV\x0d\x0e<(/\x15\x12?!{S3\x1c%\0";
    let nonce = &switch[17..37];
    assert_eq!(to_client(relay.from_server(switch)), switch);
    assert_eq!(relay.nonce(), nonce);
    assert_eq!(to_server(relay.from_client(b"secret\0")), [1]);
    let cipher = to_server(relay.from_server(&KEY.packet));
    assert_eq!(KEY.decrypt(&cipher, nonce).unwrap()[..], b"secret\0"[..]);
    assert!(matches!(relay.from_server(b"\xfeunended"), Err(AuthError::Server(_))));
    let old = relay.from_server(b"\xfe");
    assert_eq!(to_client(old), b"\xfe");
}

#[test]
fn prompts_are_no_second_factor_unless_one_was_negotiated() {
    let prompt = b"\x02sha256_password\0zzzz";
    let mut relay = relay(Transport::Tls, Transport::Tls, "dialog");
    assert_eq!(to_client(relay.from_server(prompt)), prompt);
    assert_eq!(relay.nonce(), NONCE);
    assert_eq!(to_server(relay.from_client(b"me\0")), b"me\0");
    let sides = Sides { client: Transport::Tls, server: Transport::Tcp, clear_passwords: false };
    let mut factors = AuthRelay::new(sides, Capabilities::MULTI_FACTOR, b"caching_sha2_password", NONCE);
    assert_eq!(to_client(factors.from_server(prompt)), prompt);
    assert_eq!(factors.nonce(), b"zzzz");
    assert_eq!(to_server(factors.from_client(b"me\0")), [1]);
}

#[test]
fn errors_and_keys_that_are_none() {
    let mut relay = full(Transport::Tls, Transport::Tcp);
    to_server(relay.from_client(b"secret\0"));
    assert!(matches!(relay.from_server(b"\xff\x15\x04#28000no"), Ok(AuthStep::Failed(_))));
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

#[test]
fn a_clear_password_goes_no_less_safe_way_than_it_came() {
    use Transport::{Tcp, Tls, Unix};
    for plugin in ["mysql_clear_password", "dialog"] {
        for (client, server, passes) in [
            (Tls, Tcp, false),
            (Unix, Tcp, false),
            (Tls, Tls, true),
            (Tls, Unix, true),
            (Unix, Unix, true),
            // An eavesdropper on the client's side has the password already.
            (Tcp, Tcp, true),
            (Tcp, Tls, true),
        ] {
            for clear_passwords in [false, true] {
                let sides = Sides { client, server, clear_passwords };
                let expected = if passes || clear_passwords { None } else { Some(AuthError::ClearPassword) };
                let context = format!("{plugin} {sides:?}");
                // Sent unasked, and asked for.
                let mut relay = AuthRelay::new(sides, NONE, plugin.as_bytes(), NONCE);
                assert_eq!(relay.from_client(b"secret\0").err(), expected, "{context}");
                let mut relay = AuthRelay::new(sides, NONE, b"caching_sha2_password", NONCE);
                let switch = [b"\xfe", plugin.as_bytes(), b"\0"].concat();
                assert_eq!(relay.from_server(&switch).err(), expected, "{context}");
                let factor = [b"\x02", plugin.as_bytes(), b"\0"].concat();
                let mut relay =
                    AuthRelay::new(sides, Capabilities::MULTI_FACTOR, b"caching_sha2_password", NONCE);
                assert_eq!(relay.from_server(&factor).err(), expected, "{context}");
            }
        }
    }
}
