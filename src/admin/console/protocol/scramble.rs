//! The check that a client knows a password, by its answer, which it has calculated from the password and our nonce.
//! The console has the passwords in clear, so no plugin needs its full exchange, and no password goes over the wire.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods_native_password_authentication.html>.

use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) const NONCE_BYTES: usize = 20;

/// The plugins of today's clients: MySQL 9's have only the first one, MariaDB's often only the
/// second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    CachingSha2,
    Native,
}

impl Plugin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Plugin::CachingSha2 => "caching_sha2_password",
            Plugin::Native => "mysql_native_password",
        }
    }

    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        [Plugin::CachingSha2, Plugin::Native].into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }

    /// Takes the same time whatever the answer is. An empty password is never right.
    pub(crate) fn is_known(self, password: &str, nonce: &[u8; NONCE_BYTES], answer: &[u8]) -> bool {
        bool::from(self.answer(password, nonce).ct_eq(answer)) && !password.is_empty()
    }

    /// The bytes that a client with this password sends for this nonce.
    fn answer(self, password: &str, nonce: &[u8; NONCE_BYTES]) -> Zeroizing<Vec<u8>> {
        match self {
            Plugin::CachingSha2 => sha2(password.as_bytes(), nonce),
            Plugin::Native => native(password.as_bytes(), nonce),
        }
    }
}

/// SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
fn native(password: &[u8], nonce: &[u8]) -> Zeroizing<Vec<u8>> {
    let once = Zeroizing::new(<[u8; 20]>::from(Sha1::digest(password)));
    let twice = Sha1::digest(*once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    xor(&*once, &mask)
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
fn sha2(password: &[u8], nonce: &[u8]) -> Zeroizing<Vec<u8>> {
    let once = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(password)));
    let twice = Sha256::digest(*once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    xor(&*once, &mask)
}

fn xor(a: &[u8], b: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(a.iter().zip(b).map(|(a, b)| a ^ b).collect())
}

#[cfg(test)]
mod tests {
    use super::Plugin;

    const NONCE: &[u8; 20] = b"ABCDEFGHIJKLMNOPQRST";

    /// The functions agree with themselves. Their answers against real clients of both kinds are tested by
    /// tests/console.
    #[test]
    fn passwords() {
        for plugin in [Plugin::CachingSha2, Plugin::Native] {
            let answer = plugin.answer("secret", NONCE);
            assert!(plugin.is_known("secret", NONCE, &answer));
            assert!(!plugin.is_known("Secret", NONCE, &answer));
            assert!(!plugin.is_known("secret", b"ABCDEFGHIJKLMNOPQRSU", &answer));
            assert!(
                !plugin.is_known("secret", NONCE, &answer[1..]) && !plugin.is_known("secret", NONCE, b"")
            );
            let of_none = plugin.answer("", NONCE);
            assert!(!plugin.is_known("", NONCE, &of_none) && !plugin.is_known("", NONCE, b""));
            assert_eq!(Plugin::of_name(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(Plugin::of_name(b"dialog"), None);
    }
}
