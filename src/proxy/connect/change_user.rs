//! COM_CHANGE_USER: the authentication exchange of a login, inside a session. Nothing else flows meanwhile.

use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::address::Address;
use crate::mysql::auth::{AuthRelay, Sides};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::change_user::ChangeUser;
use crate::proxy::connect::login::{Exchange, LoginContext, LoginError, Opening, check_user, finish, lost};
use crate::proxy::connect::packet_io::PacketStream;
use crate::proxy::connect::seats::Seat;
use crate::proxy::connect::stream::Stream;

/// The data that the next exchange begins with.
pub(in crate::proxy) struct Identity {
    /// The last nonce that the server gave.
    pub(in crate::proxy) nonce: Vec<u8>,
    pub(in crate::proxy) sides: Sides,
    pub(in crate::proxy) address: Address,
}

/// The two streams, when the server has answered.
pub(in crate::proxy) struct Exchanged {
    pub(in crate::proxy) client: Stream,
    pub(in crate::proxy) server: Stream,
    /// Bytes of the client's next command that were read already.
    pub(in crate::proxy) client_buffered: Vec<u8>,
    /// Whose session it is now. `None`: the server has refused, and said so to the client. The
    /// session starts over all the same: MariaDB drops what it had before it looks at the new user,
    /// and MySQL ends the connection.
    pub(in crate::proxy) changed: Option<Changed>,
}

/// Another user's session, or the same user's once more.
pub(in crate::proxy) struct Changed {
    /// Status bits of the OK packet.
    pub(in crate::proxy) status: u16,
    /// The session's place among the new user's connections. `None`: the user is the same, and keeps the old place.
    pub(in crate::proxy) seat: Option<Seat<Vec<u8>>>,
    pub(in crate::proxy) user: Vec<u8>,
    pub(in crate::proxy) database: Vec<u8>,
}

/// Runs the exchange that `payload` asks for, to the server's answer. On an error the client has
/// got an error packet of ours, and the session is over.
pub(in crate::proxy) async fn run(
    (client, server): (Stream, Stream),
    payload: Zeroizing<Vec<u8>>,
    identity: &mut Identity,
    (capabilities, strips_tracking): (Capabilities, bool),
    seat: &Seat<Vec<u8>>,
    context: &LoginContext,
) -> Result<Exchanged, LoginError> {
    // The client's command had number 0.
    let (mut client, mut server) = (PacketStream::resumed(client, 1), PacketStream::new(server));
    let exchange = async {
        let change = ChangeUser::parse(payload, capabilities).map_err(LoginError::ClientMalformed)?;
        check_user(&change.user, &identity.address, context)?;
        let seat = if seat.is_of(&change.user) {
            None
        } else {
            Some(context.seats.user(&change.user).ok_or(LoginError::TooManyOfUser)?)
        };
        let plugin = change.plugin.as_deref().unwrap_or_default();
        let mut relay = AuthRelay::new(identity.sides, capabilities, plugin, &identity.nonce);
        let opening = Some(Opening::ChangeUser(&change));
        let mut exchange = Exchange { client: &mut client, server: &mut server, opening, client_held: false };
        let answer = exchange.run(&mut relay, context).await;
        identity.nonce = relay.nonce().to_vec();
        if let Err(LoginError::ServerRefused { code, message }) = &answer {
            let refused_user = &*String::from_utf8_lossy(&change.user);
            tracing::warn!(code, error = message, refused_user, "the server refused a COM_CHANGE_USER");
            return Ok(None);
        }
        let status = finish(&mut client, &answer?, capabilities, strips_tracking).await?;
        Ok(Some(Changed { status, seat, user: change.user, database: change.database.unwrap_or_default() }))
    };
    let limit = context.settings.limits.handshake_timeout;
    let result = timeout(limit, exchange).await.unwrap_or(Err(LoginError::Timeout));
    if let Some(refusal) = result.as_ref().err().and_then(LoginError::refusal) {
        client.refuse(&refusal.payload()).await;
    }
    let changed = result?;
    let (client, client_buffered) = client.take_parts().ok_or_else(lost)?;
    let (server, _) = server.take_parts().ok_or_else(lost)?;
    Ok(Exchanged { client, server, client_buffered, changed })
}
