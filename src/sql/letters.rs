//! Names in character sets of one byte a character: the letters that `encoding_rs` and both servers
//! read alike.
//!
//! tests/oracle compares this with the servers: what each byte is to them, and whether it may stand in a name without
//! quotes. A byte that is no letter here is one that names are not read with: the statement is then nobody's to
//! rewrite.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// A character set whose letters are known.
#[derive(Debug, PartialEq, Eq)]
pub struct Letters {
    /// The set's name, as SHOW CHARACTER SET has it.
    name: &'static str,
    encoding: &'static Encoding,
    /// Letters to Unicode that to the servers are others, or none that a name may have without
    /// quotes.
    except: &'static [u8],
}

macro_rules! sets {
    ($($name:literal $encoding:ident $except:expr;)*) => {
        /// The sets that are known. Left out: tis620, swe7 and others whose letters differ, and sets that
        /// `encoding_rs` has not got.
        pub static KNOWN: &[Letters] =
            &[$(Letters { name: $name, encoding: encoding_rs::$encoding, except: $except }),*];
    };
}

sets! {
    "latin1" WINDOWS_1252 b"\x88\xAA\xB5\xBA";
    "latin2" ISO_8859_2 b"\xB7\xD0\xDF";
    "latin5" WINDOWS_1254 b"\x83\x88\x8A\x8C\x9A\x9C\x9F\xAA\xB5\xBA";
    "latin7" ISO_8859_13 b"\xA8\xB5\xB8";
    "greek" ISO_8859_7 b"\xAA";
    "hebrew" ISO_8859_8 b"\xB5";
    "cp1250" WINDOWS_1250 b"\xA1\xB5";
    "cp1251" WINDOWS_1251 b"\xB5";
    "cp1256" WINDOWS_1256 b"\x88\x8A\x8F\x98\x9A\x9F\xAA\xB5\xC0\xFF";
    "cp1257" WINDOWS_1257 b"\x8E\xB5";
    "cp866" IBM866 b"";
    "koi8r" KOI8_R b"";
    "koi8u" KOI8_U b"\xAE\xBE";
    "macroman" MACINTOSH b"\x80\xB5\xB9\xBB\xBC\xBD\xCB\xCE\xCF\xDE\xDF\xE5\xF6\xFF";
}

impl Letters {
    /// In lower case, as SHOW CHARACTER SET lists it.
    pub fn named(name: &str) -> Option<&'static Letters> {
        KNOWN.iter().find(|letters| letters.name == name)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The letter that a byte beyond ASCII stands for.
    pub fn letter(&self, byte: u8) -> Option<char> {
        if byte < 0x80 || self.except.contains(&byte) {
            return None;
        }
        let bytes = [byte];
        let text = self.encoding.decode_without_bom_handling_and_without_replacement(&bytes)?;
        let mut chars = text.chars();
        chars.next().filter(|c| c.is_alphabetic() && chars.next().is_none())
    }

    /// `None`: it has other bytes than ASCII's and letters.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
        if bytes.is_ascii() {
            return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
        }
        let one = |&byte: &u8| if byte < 0x80 { Some(char::from(byte)) } else { self.letter(byte) };
        bytes.iter().map(one).collect::<Option<String>>().map(Cow::Owned)
    }

    /// `None`: not all of it can be written.
    pub fn encode<'a>(&self, text: &'a str) -> Option<Cow<'a, [u8]>> {
        let (bytes, _, is_unmappable) = self.encoding.encode(text);
        (!is_unmappable && self.decode(&bytes).as_deref() == Some(text)).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Letters;

    #[track_caller]
    fn check(set: &str, text: &str, bytes: Option<&[u8]>) {
        let letters = Letters::named(set).unwrap();
        assert_eq!(letters.encode(text).as_deref(), bytes, "{set} {text}");
        if let Some(bytes) = bytes {
            assert_eq!(letters.decode(bytes).as_deref(), Some(text), "{set} {text}");
        }
    }

    #[test]
    fn names_there_and_back() {
        check("koi8r", "\u{437}\u{430}\u{43a}\u{430}\u{437}_1", Some(b"\xDA\xC1\xCB\xC1\xDA_1"));
        check("cp1251", "\u{437}\u{430}\u{43a}\u{430}\u{437}", Some(b"\xE7\xE0\xEA\xE0\xE7"));
        check("latin1", "gr\u{f6}\u{df}e", Some(b"gr\xF6\xDFe"));
        check("latin1", "\u{437}", None);
        check("koi8r", "\u{f6}", None);
        check("latin1", "\u{b5}", None);
        check("koi8u", "\u{45e}", None);
        check("latin1", "a\u{301}", None);
        check("greek", "", Some(b""));
        assert_eq!(Letters::named("koi8r").unwrap().decode(b"\x80"), None);
        assert!(Letters::named("tis620").is_none() && Letters::named("utf8mb4").is_none());
    }
}
