//! The secrets that a user logs in with, and how they are kept: passwords of the file as they are, those of the store
//! as argon2id, tokens as SHA-256.

use std::collections::HashSet;
use std::fmt;
use std::time::SystemTime;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::Mutex;
use rand::RngCore;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    memory_kib: u32,
    passes: u32,
}

impl Cost {
    /// Source: OWASP, "Password Storage Cheat Sheet", argon2id: 19 MiB, two passes, one lane.
    pub(super) const FULL: Cost = Cost { memory_kib: 19 * 1024, passes: 2 };
    /// For a directory without passwords to guess.
    pub(super) const LEAST: Cost = Cost { memory_kib: Params::MIN_M_COST, passes: 1 };
}

/// A password that is longer is refused.
pub(super) const PASSWORD_BYTES_MAX: usize = 1_024;

/// Tokens begin with it, so that people and scanners of secrets know one.
const TOKEN_PREFIX: &str = "rst_";
const TOKEN_BYTES: usize = 32;
/// After its prefix. So many are taken for a token, or for most of one.
const TOKEN_DIGITS_MIN: usize = 16;
/// The length of a token's id: so many hexadecimal digits of its SHA-256.
const TOKEN_ID_DIGITS: usize = 12;

/// Passwords that are remembered as right, 32 bytes each.
const PROVEN_MAX: usize = 4_096;

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    Plain(Zeroizing<String>),
    /// A hash in the PHC string format.
    Hash(String),
    Token(Token),
}

/// A secret that Rowstamp made for a user. Only its SHA-256 is kept, so its text is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(crate) sha256: [u8; 32],
    pub made: SystemTime,
    pub expires: Option<SystemTime>,
}

impl Token {
    /// A new one, and the text that its user gets.
    pub(super) fn fresh(now: SystemTime, expires: Option<SystemTime>) -> (Token, Zeroizing<String>) {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        OsRng.fill_bytes(&mut *bytes);
        let text = Zeroizing::new(format!("{TOKEN_PREFIX}{}", *hex(&*bytes)));
        let sha256 = Sha256::digest(text.as_bytes()).into();
        (Token { sha256, made: now, expires }, text)
    }

    pub fn id(&self) -> String {
        id_of(&self.sha256)
    }

    /// The id of the token that a statement names by its id or, as people do, by its text. `None`: it is neither.
    pub(crate) fn id_in(text: &str) -> Option<String> {
        if text.starts_with(TOKEN_PREFIX) {
            return Some(id_of(&Sha256::digest(text)));
        }
        let is_id = text.len() == TOKEN_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| text.to_ascii_lowercase())
    }

    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// A text for the log: "rst_..." in place of a token, which people also write where a name is meant.
pub(crate) fn without_tokens(text: &str) -> String {
    let mut parts = text.split(TOKEN_PREFIX);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        let is_token = digits >= TOKEN_DIGITS_MIN;
        let rest = if is_token { part.get(digits..).unwrap_or_default() } else { part };
        shown + TOKEN_PREFIX + if is_token { "..." } else { "" } + rest
    })
}

fn id_of(sha256: &[u8]) -> String {
    hex(sha256).chars().take(TOKEN_ID_DIGITS).collect()
}

/// Neither passwords nor hashes are for a log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Plain(_) => "Plain",
            Secret::Hash(_) => "Hash",
            Secret::Token(_) => "Token",
        })
    }
}

impl Secret {
    /// True if the secret is right and this is known without the slow hash. Takes the same time whatever the answer is.
    /// An empty password is never right.
    pub(super) fn is_known(&self, given: &[u8], proven: &Proven) -> bool {
        match self {
            Secret::Plain(own) => {
                let [own, given] = [own.as_bytes(), given].map(Sha256::digest);
                bool::from(own.ct_eq(&given)) && !given.is_empty() && own != Sha256::digest(b"")
            }
            Secret::Hash(hash) => proven.has(hash, given),
            Secret::Token(token) => bool::from(token.sha256.ct_eq(&Sha256::digest(given))),
        }
    }

    /// A mark that differs from that of any other secret, and reveals nothing of the secret.
    pub(super) fn mark(&self) -> [u8; 32] {
        let (kind, own) = match self {
            Secret::Plain(own) => (b"plain", own.as_bytes()),
            Secret::Hash(hash) => (b"hash ", hash.as_bytes()),
            Secret::Token(token) => (b"token", token.sha256.as_slice()),
        };
        Sha256::new().chain_update(kind).chain_update(own).finalize().into()
    }
}

/// Passwords that the slow hash has found right, so that a pool of connections pays for it once. They are kept as hashes with
/// a key of this process.
pub(super) struct Proven {
    key: [u8; 32],
    right: Mutex<HashSet<[u8; 32]>>,
}

impl Default for Proven {
    fn default() -> Self {
        let mut key = [0; 32];
        OsRng.fill_bytes(&mut key);
        Proven { key, right: Mutex::default() }
    }
}

impl Proven {
    fn of(&self, hash: &str, password: &[u8]) -> [u8; 32] {
        let length = u64::try_from(hash.len()).unwrap_or(u64::MAX).to_le_bytes();
        let digest = Sha256::new().chain_update(self.key).chain_update(length).chain_update(hash);
        digest.chain_update(password).finalize().into()
    }

    fn has(&self, hash: &str, password: &[u8]) -> bool {
        self.right.lock().contains(&self.of(hash, password))
    }

    pub(super) fn note(&self, hash: &str, password: &[u8]) {
        let mut right = self.right.lock();
        if right.len() >= PROVEN_MAX {
            right.clear();
        }
        right.insert(self.of(hash, password));
    }
}

/// Takes tens of milliseconds on purpose: not for a thread that serves others.
pub(super) fn hash(password: &[u8], cost: Cost) -> Option<String> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, None).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = SaltString::generate(&mut OsRng);
    Some(argon2.hash_password(password, &salt).ok()?.to_string())
}

/// True if the password is right; as slow as [`hash`]. `hash` has the parameters that it was made with.
pub(super) fn is_right(hash: &str, password: &[u8]) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// Takes as long as [`is_right`], for a name that nobody has: the time of an answer does not tell so.
pub(super) fn waste(password: &[u8], cost: Cost) {
    let _ = std::hint::black_box(hash(password, cost));
}

pub(super) fn hex(bytes: &[u8]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?'));
    Zeroizing::new(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
}

pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let bytes = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{Cost, Proven, Secret, Token, hash, hex, is_right, unhex, without_tokens};
    use std::time::{Duration, SystemTime};

    #[test]
    fn passwords_of_the_store() {
        let own = hash(b"s3cret", Cost::FULL).unwrap();
        assert!(own.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{own}");
        assert_ne!(hash(b"s3cret", Cost::FULL).unwrap(), own, "each has a salt of its own");
        let (secret, proven) = (Secret::Hash(own.clone()), Proven::default());
        for (password, right) in [("s3cret", true), ("s3cre", false), ("", false), (&own, false)] {
            assert_eq!(is_right(&own, password.as_bytes()), right, "{password:?}");
            assert!(!secret.is_known(password.as_bytes(), &proven), "not yet");
        }
        proven.note(&own, b"s3cret");
        assert!(secret.is_known(b"s3cret", &proven) && !secret.is_known(b"s3cre", &proven));
        assert!(
            !Secret::Hash(hash(b"s3cret", Cost::FULL).unwrap()).is_known(b"s3cret", &proven),
            "another user's"
        );
        for damaged in ["", "$argon2id$", "s3cret", "$1$x"] {
            assert!(!is_right(damaged, b"s3cret") && !is_right(damaged, b""), "{damaged}");
        }
    }

    #[test]
    fn passwords_of_the_file() {
        let proven = Proven::default();
        let plain = |text: &str| Secret::Plain(text.to_owned().into());
        for (given, right) in [("s3cret", true), ("s3cre", false), ("s3cret2", false), ("", false)] {
            assert_eq!(plain("s3cret").is_known(given.as_bytes(), &proven), right, "{given:?}");
        }
        assert!(!plain("").is_known(b"", &proven));
    }

    #[test]
    fn tokens() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
        let (token, text) = Token::fresh(now, Some(now + Duration::from_secs(1)));
        assert!(text.starts_with("rst_") && text.len() == 68, "{}", text.len());
        assert_ne!(Token::fresh(now, None).1, text);
        let proven = Proven::default();
        let secret = Secret::Token(token.clone());
        assert!(secret.is_known(text.as_bytes(), &proven) && !secret.is_known(b"rst_", &proven));
        assert!(!secret.is_known(hex(&token.sha256).as_bytes(), &proven), "what the store has is none");
        let found = |text: &str| Token::id_in(text);
        assert_eq!((found(&text), found(&token.id().to_uppercase())), (Some(token.id()), Some(token.id())));
        assert_eq!((found("0a1b"), found("5f70bf18a08x"), found("")), (None, None, None));
        assert!(!token.is_over(now) && token.is_over(now + Duration::from_secs(1)));
        assert_eq!((token.id().len(), unhex(&hex(&token.sha256))), (12, Some(token.sha256)));
        for text in ["", "zz", "0", &"00".repeat(33), &"0é".repeat(21)] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_log_may_have() {
        let token = Token::fresh(SystemTime::UNIX_EPOCH, None).1;
        for (written, shown) in [
            ("", ""),
            ("app", "app"),
            ("rst_", "rst_"),
            ("rst_feed", "rst_feed"),
            (&token, "rst_..."),
            (&token[..20], "rst_..."),
            (&format!("a.{}-{}!", *token, *token), "a.rst_...-rst_...!"),
            ("rst_rst_0123456789abcdefg", "rst_rst_...g"),
        ] {
            assert_eq!(without_tokens(written), shown);
        }
    }

    #[test]
    fn nothing_is_shown() {
        let hash = Secret::Hash("$argon2id$x".to_owned());
        let plain = Secret::Plain("s3cret".to_owned().into());
        assert_eq!(format!("{hash:?} {plain:?}"), "Hash Plain");
        assert_ne!(hash.mark(), plain.mark());
    }
}
