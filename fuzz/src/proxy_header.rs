//! A PROXY protocol header in front of a connection: nothing behind it is read, and it tells what the crate that parses it
//! finds in the whole stream.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ppp::{HeaderResult, v1, v2};
use rowstamp::proxy::connect::proxy_protocol::{Ends, ProxyProtocolError, ends_of};
use rowstamp::proxy::connect::stream::Stream;
use rowstamp::proxy::settings::{ListenProxy, ProxyProtocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{idle, on_runtime};
use crate::input::Input;
use crate::slices;

/// Longer headers are refused: ours is the limit, not the protocol's.
const HEADER_BYTES_MAX: usize = 4096;

pub fn check(mut input: Input<'_>) {
    let mut how = Input::new(input.bytes(1));
    let stream = input.rest();
    let slices = slices::cut(&mut how, stream);
    let (told, own, behind) = on_runtime(seen(&slices));
    match (told, HeaderResult::parse(stream)) {
        (Ok(told), parsed) => {
            let (header_bytes, ends) = parsed_ends(&parsed).expect("what is no header was taken for one");
            assert_eq!(behind, stream[header_bytes..], "behind the header");
            assert_eq!(told, Some(ends.unwrap_or(own)));
        }
        (Err(error), parsed) => {
            if let Some((bytes, _)) = parsed_ends(&parsed) {
                // A line that has another one's end in it is refused too, and one whose end is not CR LF.
                let ends_otherwise =
                    stream[..bytes - 1].contains(&b'\n') || !stream[..bytes].ends_with(b"\r\n");
                let is_text = matches!(parsed, HeaderResult::V1(_));
                assert!(bytes > HEADER_BYTES_MAX || is_text && ends_otherwise, "{error}");
            }
        }
    }
}

type Seen = (Result<Option<Ends>, ProxyProtocolError>, Ends, Vec<u8>);

/// What the proxy makes of a connection, its own ends, and what is left to be read.
async fn seen(slices: &[&[u8]]) -> Seen {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    // Closed without a trace: the system runs out of ports else.
    client.set_zero_linger().unwrap();
    server.set_zero_linger().unwrap();
    let own = Ends { client: client.local_addr().unwrap(), proxy: server.local_addr().unwrap() };
    let mut server = Stream::server(server).unwrap();
    let from = vec![IpAddr::V4(Ipv4Addr::LOCALHOST).into()];
    let listen = ListenProxy { mode: ProxyProtocol::Required, from };
    let writing = async {
        for slice in slices {
            client.write_all(slice).await.unwrap();
            idle().await;
        }
        client.shutdown().await.unwrap();
    };
    let reading = async {
        let told = ends_of(&mut server, &listen).await;
        let mut behind = Vec::new();
        server.read_to_end(&mut behind).await.unwrap();
        (told, own, behind)
    };
    tokio::join!(reading, writing).0
}

/// How long the header is, and what it tells; `None`: there is none.
fn parsed_ends(parsed: &HeaderResult<'_>) -> Option<(usize, Option<Ends>)> {
    let ends = |client: (IpAddr, u16), proxy: (IpAddr, u16)| {
        let address = |(ip, port): (IpAddr, u16)| SocketAddr::new(ip.to_canonical(), port);
        Some(Ends { client: address(client), proxy: address(proxy) })
    };
    match parsed {
        HeaderResult::V1(header) => {
            let header = header.as_ref().ok()?;
            let told = match header.addresses {
                v1::Addresses::Tcp4(ip) => ends(
                    (ip.source_address.into(), ip.source_port),
                    (ip.destination_address.into(), ip.destination_port),
                ),
                v1::Addresses::Tcp6(ip) => ends(
                    (ip.source_address.into(), ip.source_port),
                    (ip.destination_address.into(), ip.destination_port),
                ),
                v1::Addresses::Unknown => None,
            };
            Some((header.header.len(), told))
        }
        HeaderResult::V2(header) => {
            let header = header.as_ref().ok()?;
            let told = match header.addresses {
                _ if header.command == v2::Command::Local => None,
                v2::Addresses::IPv4(ip) => ends(
                    (ip.source_address.into(), ip.source_port),
                    (ip.destination_address.into(), ip.destination_port),
                ),
                v2::Addresses::IPv6(ip) => ends(
                    (ip.source_address.into(), ip.source_port),
                    (ip.destination_address.into(), ip.destination_port),
                ),
                v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
            };
            Some((header.header.len(), told))
        }
    }
}
