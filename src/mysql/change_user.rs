//! COM_CHANGE_USER: another login inside a session. The exchange after it is [`super::auth`]'s.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html>.

use std::ops::Range;

use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::reader::{Malformed, Reader};

const COMMAND: u8 = 0x11;

/// The command's payload. It may hold a clear password, so its bytes are wiped when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeUser {
    pub user: Vec<u8>,
    /// `None`: none is selected after it.
    pub database: Option<Vec<u8>>,
    /// `None`: the client leaves it to the server.
    pub collation: Option<u16>,
    /// The plugin that made the auth response; `None`: the client does not say.
    pub plugin: Option<Vec<u8>>,
    payload: Zeroizing<Vec<u8>>,
    auth_response: Range<usize>,
}

impl ChangeUser {
    /// `capabilities`: as negotiated with the server.
    pub fn parse(payload: Zeroizing<Vec<u8>>, capabilities: Capabilities) -> Result<Self, Malformed> {
        if !capabilities.contains(Capabilities::SECURE_CONNECTION) {
            return Err(Malformed::Bad(
                "COM_CHANGE_USER: Rowstamp does not support its form before MySQL 4.1",
            ));
        }
        let mut r = Reader::new(&payload);
        if r.u8("command")? != COMMAND {
            return Err(Malformed::Bad("command"));
        }
        let user = r.nul_bytes("user name")?.to_vec();
        let n = usize::from(r.u8("length of the auth response")?);
        let auth_from = r.position();
        r.bytes(n, "auth response")?;
        let auth_response = auth_from..r.position();
        let database = Some(r.nul_bytes("database name")?.to_vec()).filter(|name| !name.is_empty());
        // Older clients end here.
        let collation = if r.is_empty() { None } else { Some(r.u16("collation")?) };
        let mut plugin = None;
        if capabilities.contains(Capabilities::PLUGIN_AUTH) && !r.is_empty() {
            plugin = Some(r.nul_bytes("plugin name")?.to_vec());
        }
        Ok(ChangeUser { user, database, collation, plugin, payload, auth_response })
    }

    pub fn auth_response(&self) -> &[u8] {
        self.payload.get(self.auth_response.clone()).unwrap_or_default()
    }

    /// The command's payload with this auth response in place of the client's, for one that had to be translated.
    pub fn patched(&self, auth_response: &[u8]) -> Result<Zeroizing<Vec<u8>>, Malformed> {
        let n = u8::try_from(auth_response.len());
        let n = n.map_err(|_| Malformed::Bad("auth response: too long for COM_CHANGE_USER"))?;
        let part = |range| self.payload.get::<Range<usize>>(range).unwrap_or_default();
        let mut out = Zeroizing::new(Vec::with_capacity(self.payload.len() + auth_response.len()));
        // One byte in front of it is its length.
        out.extend_from_slice(part(0..self.auth_response.start - 1));
        out.push(n);
        out.extend_from_slice(auth_response);
        out.extend_from_slice(part(self.auth_response.end..self.payload.len()));
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::ChangeUser;
    use crate::mysql::capabilities::Capabilities;
    use proptest::prelude::proptest;
    use zeroize::Zeroizing;

    /// Captured from mysql_async to MySQL 9.7: user n, database d, collation 45, no attributes.
    const CAPTURED: &[u8] =
        b"\x11n\0\x20\x46\xd4\x43\xd0\xf9\x1f\x40\xf4\x0d\x99\x1d\x4d\xf2\xfa\x70\x50\x1d\xd2\x26\x87\
        \x6c\xfb\x6d\x81\x3d\xa2\x13\x8d\x2d\x22\xec\x73d\0\x2d\0caching_sha2_password\0\0";

    fn parse(bytes: &[u8]) -> Result<ChangeUser, super::Malformed> {
        ChangeUser::parse(Zeroizing::new(bytes.to_vec()), Capabilities::RELAYED)
    }

    #[test]
    fn captured() {
        let change = parse(CAPTURED).unwrap();
        assert_eq!((&change.user[..], change.database.as_deref()), (&b"n"[..], Some(&b"d"[..])));
        assert_eq!((change.collation, change.auth_response().len()), (Some(45), 32));
        assert_eq!(change.plugin.as_deref(), Some(&b"caching_sha2_password"[..]));
        assert_eq!(change.patched(change.auth_response()).unwrap()[..], *CAPTURED);
        let patched = change.patched(b"\x01").unwrap();
        assert_eq!((&patched[..5], &patched[5..]), (&b"\x11n\0\x01\x01"[..], &CAPTURED[36..]));
        assert!(change.patched(&[1; 256]).is_err());
    }

    #[test]
    fn cut_anywhere() {
        // After the database, after the collation and after the plugin's name it is whole.
        for end in 0..CAPTURED.len() {
            assert_eq!(parse(&CAPTURED[..end]).is_ok(), [38, 40, 62].contains(&end), "{end}");
        }
        let none = parse(b"\x11\0\0\0").unwrap();
        assert_eq!((none.user.len(), none.database, none.collation, none.plugin), (0, None, None, None));
        assert!(ChangeUser::parse(Zeroizing::new(CAPTURED.to_vec()), Capabilities::PROTOCOL_41).is_err());
        assert!(parse(&[&[0x12], &CAPTURED[1..]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            let bytes = [&[0x11], &bytes[..]].concat();
            if let Ok(change) = parse(&bytes) {
                assert_eq!(change.patched(change.auth_response()).unwrap()[..], bytes);
            }
        }
    }
}
