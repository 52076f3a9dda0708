//! Which sides of a session speak the compressed protocol from the end of the login on. Each side
//! agrees for itself.

use crate::mysql::capabilities::Capabilities;
use crate::mysql::compressed::{Agreed, BadLevel, Packing, agreed_with_client, agreed_with_server};
use crate::mysql::handshake::{ClientResponse, Greeting};
use crate::proxy::connect::stream::Stream;
use crate::proxy::connect::stream::compressed::Peer;
use crate::proxy::settings::Settings;

const BOTH: Capabilities = Capabilities::COMPRESS.union(Capabilities::ZSTD);

/// `None`: packets as they are.
#[derive(Debug, Clone, Copy)]
pub(in crate::proxy) struct Framing {
    pub(in crate::proxy) client: Option<Agreed>,
    pub(in crate::proxy) server: Option<Agreed>,
}

impl Framing {
    /// The compression that a client is offered. Where both sides are to use the same one, the
    /// client is offered no more than the server offers.
    pub(in crate::proxy) fn offered(greeting: &Greeting, settings: &Settings) -> Capabilities {
        let offered = settings.listen_compression.capabilities();
        match settings.backend.compression.always() {
            Some(_) => offered,
            None => offered & greeting.capabilities,
        }
    }

    pub(in crate::proxy) fn agree(
        greeting: &Greeting,
        response: &ClientResponse,
        settings: &Settings,
    ) -> Result<Self, BadLevel> {
        let knows_zstd = !greeting.version.is_mariadb;
        let offered = Self::offered(greeting, settings);
        let client = agreed_with_client(response.compression, offered, response.zstd_level, knows_zstd)?;
        let wanted = match settings.backend.compression.always() {
            Some(wanted) => wanted.capabilities(),
            None => written_by(client),
        };
        // zstd needs its level in the response. Without room for it, the server would not find the
        // level.
        let wanted = if response.has_room_for_level() { wanted } else { wanted & Capabilities::COMPRESS };
        let server = agreed_with_server(wanted, greeting.capabilities, response.server_zstd_level());
        Ok(Framing { client, server })
    }

    /// From the end of the login on. Returns both sides, and the bytes of the client's packets that
    /// were read early. Where the client speaks in frames, these bytes are part of a frame and stay
    /// with its stream.
    pub(in crate::proxy) fn begin(
        self,
        client: Stream,
        server: Stream,
        read: Vec<u8>,
    ) -> (Stream, Stream, Vec<u8>) {
        let (packets, frames) = if self.client.is_some() { (Vec::new(), read) } else { (read, Vec::new()) };
        let client = client.compressed(Peer::Client, self.client, frames);
        (client, server.compressed(Peer::Server, self.server, Vec::new()), packets)
    }

    /// The capabilities for the server: its side's compression in place of the client's.
    pub(in crate::proxy) fn for_server(self, capabilities: Capabilities) -> Capabilities {
        capabilities.with(BOTH, false) | written_by(self.server)
    }
}

/// The bit of what one side's frames are packed by.
fn written_by(side: Option<Agreed>) -> Capabilities {
    match side.map(|agreed| agreed.writes) {
        Some(Packing::Zlib) => Capabilities::COMPRESS,
        Some(Packing::Zstd { .. }) => Capabilities::ZSTD,
        Some(Packing::Stored) | None => Capabilities::default(),
    }
}
