//! COM_CHANGE_USER: a login inside a session. Source: MySQL manual, "COM_CHANGE_USER".

use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::reader::{Malformed, Reader};

/// The command's payload, kept whole; only its auth response may be exchanged.
pub struct ChangeUser {
    payload: Zeroizing<Vec<u8>>,
    pub user: Vec<u8>,
    pub plugin: Vec<u8>,
    /// Where the auth response is, its length byte not included.
    auth: std::ops::Range<usize>,
}

impl ChangeUser {
    /// A peer without `SECURE_CONNECTION` ends its response with NUL: too old to be understood here.
    pub fn parse(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        if !capabilities.contains(Capabilities::SECURE_CONNECTION) {
            return Err(Malformed::Bad("capabilities: COM_CHANGE_USER without SECURE_CONNECTION"));
        }
        let mut r = Reader::new(payload);
        r.u8("command")?;
        let user = r.nul_bytes("user")?.to_vec();
        let auth_bytes = r.u8("length of the auth response")?;
        let start = r.position();
        r.bytes(usize::from(auth_bytes), "auth response")?;
        let auth = start..r.position();
        r.nul_bytes("database")?;
        // Old clients end here.
        let mut plugin = Vec::new();
        if !r.is_empty() {
            r.u16("character set")?;
        }
        if !r.is_empty() && capabilities.contains(Capabilities::PLUGIN_AUTH) {
            plugin = r.nul_bytes("plugin name")?.to_vec();
        }
        Ok(ChangeUser { payload: Zeroizing::new(payload.to_vec()), user, plugin, auth })
    }

    pub fn auth_response(&self) -> &[u8] {
        self.payload.get(self.auth.clone()).unwrap_or_default()
    }

    /// The payload with another auth response; byte for byte the same where it is the same.
    pub fn patched(&self, auth_response: &[u8]) -> Result<Zeroizing<Vec<u8>>, Malformed> {
        let length =
            u8::try_from(auth_response.len()).map_err(|_| Malformed::Bad("length of the auth response"))?;
        let head = self.payload.get(..self.auth.start.saturating_sub(1)).unwrap_or_default();
        let tail = self.payload.get(self.auth.end..).unwrap_or_default();
        Ok(Zeroizing::new([head, &[length], auth_response, tail].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::ChangeUser;
    use crate::mysql::capabilities::Capabilities;

    const MODERN: Capabilities = Capabilities::SECURE_CONNECTION;

    fn capabilities() -> Capabilities {
        MODERN | Capabilities::PLUGIN_AUTH
    }

    const PACKET: &[u8] = b"\x11app\0\x03abcshop\0\x2d\x00mysql_native_password\0\x00";

    #[test]
    fn parts() {
        let change = ChangeUser::parse(PACKET, capabilities()).unwrap();
        assert_eq!(
            (&*change.user, change.auth_response(), &*change.plugin),
            (&b"app"[..], &b"abc"[..], &b"mysql_native_password"[..])
        );
        assert_eq!(*change.patched(b"abc").unwrap(), PACKET);
        assert_eq!(*change.patched(b"").unwrap(), b"\x11app\0\x00shop\0\x2d\x00mysql_native_password\0\x00");
        assert!(change.patched(&[0; 256]).is_err());
    }

    #[test]
    fn cut_at_every_byte_it_is_an_error_or_an_old_client() {
        for n in 0..PACKET.len() - 1 {
            let cut = ChangeUser::parse(&PACKET[..n], capabilities());
            let is_old_client = n == 14 || n == 16;
            assert!(cut.is_err() || is_old_client || n > 37, "{n}");
        }
        assert!(ChangeUser::parse(&[0x11], capabilities()).is_err());
    }
}
