//! PROXY protocol, versions 1 and 2: who the client is, sent first on a connection. Read from the load balancers that
//! listen.proxy_protocol_from names, sent to the server where backend.send_proxy says so.
//! Source: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ppp::{HeaderResult, v1, v2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::mysql::reader::Reader;
use crate::proxy::connect::stream::{Socket, Stream};
use crate::proxy::settings::{ListenProxy, ProxyProtocol, SendProxy};

/// With "optional", a load balancer has so long to begin: clients of this protocol wait for the server's greeting.
const OPTIONAL_WAIT: Duration = Duration::from_millis(100);
/// The addresses, and some room for what else a header of version 2 may tell.
const HEADER_BYTES_MAX: usize = 4096;
/// The most bytes of a header of version 1, its line end included.
const V1_BYTES_MAX: usize = 107;
/// The bytes of a header of version 2 up to the end of its length field.
const V2_BYTES_MIN: usize = 16;
const V1_PREFIX: &[u8] = b"PROXY ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub client: SocketAddr,
    pub proxy: SocketAddr,
}

#[derive(Debug, thiserror::Error)]
pub enum ProxyProtocolError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "listen.proxy_protocol = \"required\" accepts only connections from listen.proxy_protocol_from, and {0} is not in that list; \
         connect through the load balancer, or add the address"
    )]
    NotFrom(IpAddr),
    #[error(
        "no PROXY protocol header, and listen.proxy_protocol is \"required\"; let the load balancer send the header, or set \"optional\""
    )]
    Missing,
    #[error("the PROXY protocol header cannot be read: {0}")]
    Malformed(String),
}

impl ProxyProtocolError {
    /// Whose fault it is, where that is not one of `listen.proxy_protocol_from`.
    pub fn from(&self) -> Option<IpAddr> {
        match self {
            ProxyProtocolError::NotFrom(address) => Some(*address),
            _ => None,
        }
    }
}

/// The two addresses of a connection that was accepted. `None`: it came over a Unix socket, which has none.
pub async fn ends_of(client: &mut Stream, listen: &ListenProxy) -> Result<Option<Ends>, ProxyProtocolError> {
    let Stream::Plain(Socket::Tcp(socket)) = client else { return Ok(None) };
    let own = Ends { client: canonical(socket.peer_addr()?), proxy: canonical(socket.local_addr()?) };
    let is_from = listen.from.iter().any(|network| network.contains(&own.client.ip()));
    let header = match listen.mode {
        ProxyProtocol::Off => return Ok(Some(own)),
        ProxyProtocol::Optional if !is_from => return Ok(Some(own)),
        ProxyProtocol::Required if !is_from => return Err(ProxyProtocolError::NotFrom(own.client.ip())),
        ProxyProtocol::Optional => match timeout(OPTIONAL_WAIT, socket.peek(&mut [0])).await {
            // No byte came in time: this client sends no header, and waits for the server's greeting.
            Err(_) => return Ok(Some(own)),
            Ok(_) => read(socket, own).await?,
        },
        ProxyProtocol::Required => Some(read(socket, own).await?.ok_or(ProxyProtocolError::Missing)?),
    };
    Ok(Some(header.unwrap_or(own)))
}

/// An IPv4 address in an IPv6 socket is one of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Reads the header at the beginning of a connection, and not a byte after it. Returns the ends that the header names.
/// `None`: there is no header, and nothing was read. `own`: the ends of the connection itself.
async fn read(socket: &mut TcpStream, own: Ends) -> Result<Option<Ends>, ProxyProtocolError> {
    let mut header = Vec::new();
    loop {
        let mut ahead = [0; 512];
        let seen = socket.peek(&mut ahead).await?;
        let ahead = ahead.get(..seen).unwrap_or_default();
        if ahead.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let (bytes, is_all) = match belonging(&header, ahead) {
            Belongs::NoHeader if header.is_empty() => return Ok(None),
            Belongs::NoHeader => return Err(malformed(&"the header is incomplete")),
            Belongs::Bytes { bytes, is_all } => (bytes, is_all),
        };
        let start = header.len();
        header.resize(start + bytes, 0);
        socket.read_exact(header.get_mut(start..).unwrap_or_default()).await?;
        if is_all {
            return parse(&header, own).map(Some);
        }
    }
}

fn malformed(reason: &dyn ToString) -> ProxyProtocolError {
    ProxyProtocolError::Malformed(reason.to_string())
}

#[derive(Debug, PartialEq, Eq)]
enum Belongs {
    NoHeader,
    // So many of the bytes ahead belong to the header; at least one. `is_all`: it ends with them.
    Bytes { bytes: usize, is_all: bool },
}

/// The part of the bytes ahead that belongs to the header whose beginning was read.
fn belonging(header: &[u8], ahead: &[u8]) -> Belongs {
    let all = [header, ahead].concat();
    let begins = |prefix: &[u8]| all.iter().zip(prefix).all(|(byte, expected)| byte == expected);
    let end = if begins(v2::PROTOCOL_PREFIX) {
        let mut r = Reader::new(&all);
        // The length is big-endian, and the reader's integers are little-endian.
        let more = r.bytes(V2_BYTES_MIN - 2, "signature").and_then(|_| r.u16("length")).map(u16::swap_bytes);
        more.ok().map(|more| V2_BYTES_MIN + usize::from(more))
    } else if begins(V1_PREFIX) {
        let newline = all.iter().position(|byte| *byte == b'\n');
        Some(newline.map_or(V1_BYTES_MAX, |newline| newline + 1))
    } else {
        return Belongs::NoHeader;
    };
    // A header that is longer is cut here, and `parse` then refuses it as incomplete.
    let end = end.map(|end| end.min(HEADER_BYTES_MAX));
    let bytes = end.map_or(ahead.len(), |end| end.saturating_sub(header.len()).min(ahead.len()));
    match bytes {
        0 => Belongs::NoHeader,
        bytes => Belongs::Bytes { bytes, is_all: end.is_some_and(|end| header.len() + bytes >= end) },
    }
}

/// The ends in the header. `own` if the load balancer checks our health, or does not know its client's address.
fn parse(header: &[u8], own: Ends) -> Result<Ends, ProxyProtocolError> {
    let end = |address: IpAddr, port| canonical(SocketAddr::new(address, port));
    let of_4 = |ip: v2::IPv4| Ends {
        client: end(ip.source_address.into(), ip.source_port),
        proxy: end(ip.destination_address.into(), ip.destination_port),
    };
    let of_6 = |ip: v2::IPv6| Ends {
        client: end(ip.source_address.into(), ip.source_port),
        proxy: end(ip.destination_address.into(), ip.destination_port),
    };
    let ends = match HeaderResult::parse(header) {
        // The crate takes a blank for the carriage return.
        HeaderResult::V1(Ok(header)) if !header.header.ends_with("\r\n") => {
            return Err(malformed(&"the header does not end with CR LF"));
        }
        HeaderResult::V1(header) => match header.map_err(|error| malformed(&error))?.addresses {
            v1::Addresses::Tcp4(ip) => Some(of_4(ip)),
            v1::Addresses::Tcp6(ip) => Some(of_6(ip)),
            v1::Addresses::Unknown => None,
        },
        HeaderResult::V2(header) => {
            let header = header.map_err(|error| malformed(&error))?;
            match (header.command, header.addresses) {
                (v2::Command::Proxy, v2::Addresses::IPv4(ip)) => Some(of_4(ip)),
                (v2::Command::Proxy, v2::Addresses::IPv6(ip)) => Some(of_6(ip)),
                _ => None,
            }
        }
    };
    Ok(ends.unwrap_or(own))
}

/// Sends the client's address to the server, before everything else. A client without an address is sent as unknown.
pub async fn send(server: &mut Stream, version: SendProxy, ends: Option<Ends>) -> io::Result<()> {
    let ends = ends.map(|ends| match (ends.client, ends.proxy) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => {
            (ends.client, ends.proxy)
        }
        // A header has one family for both.
        _ => (of_version_6(ends.client), of_version_6(ends.proxy)),
    });
    let header = match version {
        SendProxy::Off => return Ok(()),
        SendProxy::V1 => ends.map_or(v1::Addresses::Unknown, v1::Addresses::from).to_string().into_bytes(),
        SendProxy::V2 => {
            let builder = if let Some(ends) = ends {
                let command = v2::Version::Two | v2::Command::Proxy;
                v2::Builder::with_addresses(command, v2::Protocol::Stream, ends)
            } else {
                let command = v2::Version::Two | v2::Command::Local;
                v2::Builder::new(command, v2::AddressFamily::Unspecified | v2::Protocol::Unspecified)
            };
            builder.build()?
        }
    };
    server.write_all(&header).await
}

fn of_version_6(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::from((ip, address.port()))
}

#[cfg(test)]
mod tests;
