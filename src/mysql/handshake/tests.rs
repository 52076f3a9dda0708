use proptest::prelude::{any, proptest};
use zeroize::Zeroizing;

use super::{ClientResponse, Greeting, ServerVersion, client_capabilities, is_ssl_request};
use crate::mysql::capabilities::Capabilities as C;

/// MariaDB 10.11.19 with TLS.
const MARIADB_GREETING: &str = "0a352e352e352d31302e31312e31392d4d6172696144422d302b64656231327531000a00000078667846367b295600fe\
    ff080200ff81150000000000001d000000583748466548794940447540006d7973716c5f6e61746976655f7061737377\
    6f726400";
/// MySQL 9.7.4 with TLS.
const MYSQL_GREETING: &str = "0a392e372e342d3200090000004c01666f5c737b7900ffffff0200ffdf150000000000000000000065445b4a3e385b7f\
    681a37540063616368696e675f736861325f70617373776f726400";
/// The `mariadb` client 10.11 to MariaDB: user n, database d, mysql_native_password.
const MARIADB_CLIENT: &str = "8ca2bf000000100021000000000000000000000000000000000000001d0000006e00145da8b180d1c4509f444159fa0f\
    ca4e536a11d8d964006d7973716c5f6e61746976655f70617373776f7264007e035f6f73054c696e75780c5f636c6965\
    6e745f6e616d650a6c69626d617269616462045f70696404363538300f5f636c69656e745f76657273696f6e06332e33\
    2e3230095f706c6174666f726d067838365f36340c70726f6772616d5f6e616d65056d7973716c0c5f7365727665725f\
    686f7374093132372e302e302e31";
/// The `mysql` client 9.7 to MySQL: user n, database d, caching_sha2_password.
const MYSQL_CLIENT: &str = "8da2bf1900000001ff00000000000000000000000000000000000000000000006e0020229055a168c381d8f9d16301e6\
    ca2394fb5ee323954eb722ca5afd412c26565a640063616368696e675f736861325f70617373776f72640071045f7069\
    640436353836095f706c6174666f726d067838365f3634035f6f73054c696e75780c5f636c69656e745f6e616d65086c\
    69626d7973716c076f735f7573657204726f6f740f5f636c69656e745f76657273696f6e05392e372e340c70726f6772\
    616d5f6e616d65056d7973716c";

fn hex(text: &str) -> Vec<u8> {
    let nibble = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
    text.as_bytes().chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
}

fn response(payload: &[u8], shown: C) -> Result<ClientResponse, super::Malformed> {
    ClientResponse::parse(Zeroizing::new(payload.to_vec()), shown)
}

#[test]
fn versions() {
    let check = |text: &str, is_mariadb, number| {
        assert_eq!(ServerVersion::parse(text.as_bytes()), ServerVersion { is_mariadb, number }, "{text}");
    };
    check("9.4.0", false, (9, 4, 0));
    check("8.0.36-28.1", false, (8, 0, 36));
    check("5.7.44-48-log", false, (5, 7, 44));
    check("5.5.5-m3", false, (5, 5, 5));
    check("8.0.mysql_aurora.3.05.2", false, (8, 0, 0));
    check("5.5.5-10.11.6-MariaDB-1:10.11.6+maria~deb12", true, (10, 11, 6));
    check("11.8.2-MariaDB-ubu2404", true, (11, 8, 2));
    check("5.5.5-10.4.32 2.5.9-maxscale", true, (10, 4, 32));
    check("", false, (0, 0, 0));
    check("99999.1", false, (u16::MAX, 1, 0));
}

#[test]
fn the_greeting_of_mariadb() {
    let bytes = hex(MARIADB_GREETING);
    let greeting = Greeting::parse(bytes.clone()).unwrap();
    assert_eq!(greeting.version, ServerVersion { is_mariadb: true, number: (10, 11, 19) });
    assert_eq!((greeting.connection_id, greeting.status), (10, 2));
    assert_eq!((greeting.nonce.len(), &greeting.plugin[..]), (20, &b"mysql_native_password"[..]));
    assert_eq!(greeting.capabilities, C::new(0x81ff_fffe, 0x1d));
    assert_eq!(greeting.patched(greeting.capabilities), bytes);
    // COMPRESS goes; TLS is as we offer it; nothing else changes.
    assert_eq!(greeting.shown(C::SSL), C::new(0x81ff_ffde, 0x1d));
    assert_eq!(greeting.shown(C::default()), C::new(0x81ff_f7de, 0x1d));
    let shown = greeting.patched(greeting.shown(C::default()));
    let changed: Vec<_> = (0..bytes.len()).filter(|i| bytes[*i] != shown[*i]).collect();
    assert_eq!(changed.len(), 2);
    assert_eq!(Greeting::parse(shown).unwrap().capabilities, greeting.shown(C::default()));
}

#[test]
fn the_greeting_of_mysql() {
    let bytes = hex(MYSQL_GREETING);
    let greeting = Greeting::parse(bytes.clone()).unwrap();
    assert_eq!(greeting.version, ServerVersion { is_mariadb: false, number: (9, 7, 4) });
    assert_eq!((greeting.nonce.len(), &greeting.plugin[..]), (20, &b"caching_sha2_password"[..]));
    assert_eq!(greeting.capabilities, C::new(0xdfff_ffff, 0));
    // COMPRESS and ZSTD go. Reserved bytes stay what they are.
    assert_eq!(greeting.shown(C::SSL), C::new(0xdbff_ffdf, 0));
    let shown = greeting.patched(greeting.shown(C::SSL) | C::new(0, 0xff));
    assert_eq!(Greeting::parse(shown.clone()).unwrap().capabilities, greeting.shown(C::SSL));
    assert_eq!((0..bytes.len()).filter(|i| bytes[*i] != shown[*i]).count(), 2);
}

#[test]
fn the_response_of_mariadbs_client() {
    let bytes = hex(MARIADB_CLIENT);
    let shown = Greeting::parse(hex(MARIADB_GREETING)).unwrap().shown(C::SSL);
    let shown = shown.with(C::MARIADB_STMT_BULK, false);
    let response = response(&bytes, shown).unwrap();
    assert_eq!((&response.user[..], response.database.as_deref()), (&b"n"[..], Some(&b"d"[..])));
    assert_eq!(response.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
    assert_eq!((response.auth_response().len(), response.collation), (20, 33));
    assert_eq!(response.attribute(b"program_name"), Some(&b"mysql"[..]));
    assert_eq!(response.attribute(b"nothing"), None);
    // The client asked for the bulk bit, which it was not shown.
    assert_eq!(bytes[28], 0x1d);
    assert_eq!(response.capabilities, C::new(0x00bf_a28c, 0x19));
    let patched = response.patched(response.capabilities, response.auth_response()).unwrap();
    assert_eq!((&patched[..28], patched[28], &patched[29..]), (&bytes[..28], 0x19, &bytes[29..]));
}

#[test]
fn the_response_of_mysqls_client() {
    let bytes = hex(MYSQL_CLIENT);
    let shown = Greeting::parse(hex(MYSQL_GREETING)).unwrap().shown(C::SSL);
    let response = response(&bytes, shown).unwrap();
    assert_eq!((&response.user[..], response.database.as_deref()), (&b"n"[..], Some(&b"d"[..])));
    assert_eq!(response.plugin.as_deref(), Some(&b"caching_sha2_password"[..]));
    assert_eq!((response.auth_response().len(), response.collation), (32, 255));
    assert_eq!(response.attribute(b"_client_version"), Some(&b"9.7.4"[..]));
    let wanted = response.capabilities | C::SSL | C::SESSION_TRACK;
    let patched = response.patched(wanted, response.auth_response()).unwrap();
    assert_eq!(client_capabilities(&patched, shown), Ok(wanted));
    assert_eq!(patched[4..], bytes[4..]);
    let request = response.ssl_request(wanted).unwrap();
    assert_eq!((is_ssl_request(&request, wanted), &request[..]), (true, &patched[..32]));
    assert!(!is_ssl_request(&request, response.capabilities) && !is_ssl_request(&patched, wanted));
}

/// Flags, the fixed part, and what follows it.
fn old_response(flags: C, rest: &[u8]) -> Vec<u8> {
    let mut out = (flags | C::PROTOCOL_41 | C::CLIENT_MYSQL).base().to_le_bytes().to_vec();
    out.resize(32, 0);
    out.extend_from_slice(rest);
    out
}

#[test]
fn three_forms_of_auth_response() {
    let check = |flags: C, rest: &[u8], auth: &[u8], replaced: &[u8]| {
        let bytes = old_response(flags, rest);
        let response = response(&bytes, C::RELAYED).unwrap();
        assert_eq!((&response.user[..], response.auth_response()), (&b"me"[..], auth));
        let patched = response.patched(response.capabilities, b"\x01").unwrap();
        assert_eq!(&patched[32..], replaced);
        let same = response.patched(response.capabilities, auth).unwrap();
        assert_eq!(same[..], bytes);
    };
    check(C::default(), b"me\0abc\0", b"abc", b"me\0\x01\0");
    check(C::SECURE_CONNECTION, b"me\0\x03a\0c", b"a\0c", b"me\0\x01\x01");
    check(C::PLUGIN_AUTH_LENENC, b"me\0\xfc\x03\x00abc", b"abc", b"me\0\x01\x01");
    let all = C::PLUGIN_AUTH_LENENC | C::CONNECT_WITH_DB | C::PLUGIN_AUTH;
    check(all, b"me\0\x00db\0x", b"", b"me\0\x01\x01db\0x");
}

#[test]
fn what_servers_take_is_taken_and_the_rest_is_not() {
    let db = C::SECURE_CONNECTION | C::CONNECT_WITH_DB;
    assert_eq!(response(&old_response(db, b"me\0\0\0"), C::RELAYED).unwrap().database, None);
    assert!(response(&old_response(db, b"me\0\0db"), C::RELAYED).is_err());
    let plugin = C::SECURE_CONNECTION | C::PLUGIN_AUTH | C::CONNECT_ATTRS;
    assert_eq!(response(&old_response(plugin, b"me\0\0x"), C::RELAYED).unwrap().plugin, None);
    assert!(response(&old_response(plugin, b"me\0\0x\0\x05a"), C::RELAYED).is_err());
    let mut old = old_response(C::default(), b"me\0\0");
    old[1] = 0;
    assert!(response(&old, C::RELAYED).is_err(), "the protocol before 4.1");
}

#[test]
fn cut_anywhere_is_an_error() {
    let shown = C::RELAYED;
    // From the plugin's name to the NUL after it: without that NUL it counts as not given.
    for (bytes, taken) in [(hex(MARIADB_CLIENT), 57..=79), (hex(MYSQL_CLIENT), 69..=91)] {
        for end in 0..bytes.len() {
            assert_eq!(response(&bytes[..end], shown).is_ok(), taken.contains(&end), "{end}");
        }
    }
    for text in [MARIADB_GREETING, MYSQL_GREETING] {
        let bytes = hex(text);
        let plugin_at = bytes.len() - Greeting::parse(bytes.clone()).unwrap().plugin.len() - 1;
        for end in 0..bytes.len() {
            assert_eq!(Greeting::parse(bytes[..end].to_vec()).is_ok(), end >= plugin_at, "{end}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes: Vec<u8>, shown: u64, flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8)) {
        let shown = C::new(u32::try_from(shown >> 32).unwrap(), u32::try_from(shown & 0xFFFF_FFFF).unwrap());
        let mut noisy = [hex(MYSQL_CLIENT), hex(MARIADB_GREETING), bytes];
        for bytes in &mut noisy {
            let len = bytes.len().max(1);
            for (at, byte) in &flips {
                if let Some(place) = bytes.get_mut(at % len) { *place = *byte; }
            }
            if let Ok(greeting) = Greeting::parse(bytes.clone()) {
                assert_eq!(&greeting.patched(greeting.capabilities), bytes);
            }
            if let Ok(response) = response(bytes, shown) {
                let _ = response.attribute(b"x");
                let relayed = response.capabilities.with(C::ZSTD, false);
                let same = response.patched(relayed, response.auth_response()).unwrap();
                assert_eq!(same.len(), bytes.len());
            }
        }
    }
}
