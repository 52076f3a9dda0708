use std::net::Ipv4Addr;

use proptest::prelude::*;
use tokio::net::TcpListener;

use crate::proxy::connect::proxy_protocol::*;

fn listen(mode: ProxyProtocol, from: &str) -> ListenProxy {
    ListenProxy { mode, from: vec![from.parse().unwrap()] }
}

/// A client that connected, and what was accepted of it.
async fn pair() -> (TcpStream, Stream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, Stream::client(listener.accept().await.unwrap().0).unwrap())
}

fn ends(client: &str, proxy: &str) -> Ends {
    Ends { client: client.parse().unwrap(), proxy: proxy.parse().unwrap() }
}

/// The address that a client seems to have who sends this, and what is left of it.
async fn seen(mode: ProxyProtocol, parts: &[&[u8]]) -> (Result<Option<Ends>, ProxyProtocolError>, Vec<u8>) {
    let (mut client, mut server) = pair().await;
    let writing = async {
        for part in parts {
            client.write_all(part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        client.shutdown().await.unwrap();
    };
    let reading = async {
        let result = ends_of(&mut server, &listen(mode, "127.0.0.0/8")).await;
        let mut rest = Vec::new();
        // A client that was refused may find the connection reset.
        let _ = server.read_to_end(&mut rest).await;
        (result, rest)
    };
    tokio::join!(reading, writing).0
}

const V2_IPV4: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\x0a\0\0\x02\x10\x92\x0c\xea";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

#[tokio::test]
async fn headers_are_read_and_nothing_behind_them() {
    let check = async |header: &[u8], expect: Option<Ends>| {
        for parts in [
            vec![&[header, b"rest"].concat()[..]],
            vec![header, b"rest"],
            vec![&header[..9], &header[9..], b"rest"],
        ] {
            let (told, rest) = seen(ProxyProtocol::Required, &parts).await;
            let told = told.unwrap().unwrap();
            match expect {
                Some(expect) => assert_eq!(told, expect),
                None => assert_eq!(told.client.ip(), Ipv4Addr::LOCALHOST, "its own"),
            }
            assert_eq!(rest, b"rest");
        }
    };
    check(b"PROXY TCP4 192.0.2.1 10.0.0.2 4242 3306\r\n", Some(ends("192.0.2.1:4242", "10.0.0.2:3306")))
        .await;
    check(
        b"PROXY TCP6 2001:db8::1 2001:db8::2 4242 3306\r\n",
        Some(ends("[2001:db8::1]:4242", "[2001:db8::2]:3306")),
    )
    .await;
    check(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", Some(ends("192.0.2.1:1", "[::1]:2"))).await;
    check(b"PROXY UNKNOWN\r\n", None).await;
    check(V2_IPV4, Some(ends("192.0.2.1:4242", "10.0.0.2:3306"))).await;
    check(V2_LOCAL, None).await;
    // Everything else in a header is ignored.
    let with_more = [&V2_IPV4[..15], b"\x10", &V2_IPV4[16..], b"\xea\0\x01x"].concat();
    check(&with_more, Some(ends("192.0.2.1:4242", "10.0.0.2:3306"))).await;
}

#[tokio::test]
async fn what_is_no_header() {
    let refused = async |bytes: &[u8], expect: &str| {
        let error = seen(ProxyProtocol::Required, &[bytes]).await.0.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    refused(b"\x20\0\0\x01login", "no PROXY protocol header").await;
    refused(b"GET / HTTP/1.1\r\n\r\n", "no PROXY protocol header").await;
    refused(b"PROXY TCP4 192.0.2.1\r\n", "cannot be read").await;
    refused(b"PROXY UNKNOWN \n", "CR LF").await;
    refused(b"PROXY TCP4 192.0.2.256 10.0.0.2 1 2\r\n", "cannot be read").await;
    refused(&[b"PROXY TCP4 ", &b"1"[..].repeat(200)[..]].concat(), "cannot be read").await;
    refused(b"PROXY TCP4 192.0.2.1 10.0", "unexpected end").await;
    refused(&V2_IPV4[..20], "unexpected end").await;
    refused(b"", "unexpected end").await;
    let huge = [&V2_IPV4[..14], b"\xff\xff", &[0; 5000]].concat();
    refused(&huge, "cannot be read").await;
}

#[tokio::test]
async fn whom_it_is_taken_from() {
    let header = b"PROXY TCP4 192.0.2.1 10.0.0.2 4242 3306\r\n";
    let elsewhere = async |mode, bytes: &[u8]| {
        let (mut client, mut server) = pair().await;
        client.write_all(bytes).await.unwrap();
        (ends_of(&mut server, &listen(mode, "10.0.0.0/8")).await, server)
    };
    let (error, _) = elsewhere(ProxyProtocol::Required, header).await;
    assert!(error.unwrap_err().to_string().contains("127.0.0.1 is not in that list"));
    for mode in [ProxyProtocol::Optional, ProxyProtocol::Off] {
        let (told, mut server) = elsewhere(mode, header).await;
        assert_eq!(told.unwrap().unwrap().client.ip(), Ipv4Addr::LOCALHOST);
        let mut byte = [0];
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"P", "it is the client's");
    }
    let (told, rest) = seen(ProxyProtocol::Optional, &[header, b"x"]).await;
    assert_eq!((told.unwrap().unwrap(), &*rest), (ends("192.0.2.1:4242", "10.0.0.2:3306"), &b"x"[..]));
}

/// The client waits for a greeting, as clients do.
#[tokio::test]
async fn who_sends_none_where_it_is_optional() {
    let (client, mut server) = pair().await;
    let told = ends_of(&mut server, &listen(ProxyProtocol::Optional, "127.0.0.1/32")).await;
    assert_eq!(told.unwrap().unwrap().client, client.local_addr().unwrap());
}

#[tokio::test]
async fn a_unix_socket_has_no_address() {
    let (_client, server) = tokio::net::UnixStream::pair().unwrap();
    let told = ends_of(&mut Stream::unix(server), &listen(ProxyProtocol::Off, "::/0")).await;
    assert_eq!(told.unwrap(), None);
}

/// A reader gets from each version's header the addresses that were written into it.
#[tokio::test]
async fn what_is_sent_is_what_is_read() {
    let addresses = [
        Some(ends("192.0.2.1:4242", "10.0.0.2:3306")),
        Some(ends("[2001:db8::1]:4242", "[2001:db8::2]:3306")),
        Some(ends("192.0.2.1:4242", "[2001:db8::2]:3306")),
        None,
    ];
    for version in [SendProxy::V1, SendProxy::V2] {
        for expect in addresses {
            let (client, mut server) = pair().await;
            send(&mut Stream::server(client).unwrap(), version, expect).await.unwrap();
            let told = ends_of(&mut server, &listen(ProxyProtocol::Required, "127.0.0.0/8")).await.unwrap();
            assert_eq!(told.filter(|_| expect.is_some()), expect, "{version:?}");
        }
    }
}

proptest! {
    /// However a header is cut, the same bytes belong to it, and no byte after it.
    #[test]
    fn a_header_ends_where_it_ends(which in 0..4usize, cuts in proptest::collection::vec(1..20usize, 1..40), more: Vec<u8>) {
        let header = [V2_IPV4, V2_LOCAL, b"PROXY TCP4 192.0.2.1 10.0.0.2 4242 3306\r\n", b"PROXY UNKNOWN\r\n"][which];
        let stream = [header, &more].concat();
        let (mut read, mut cuts) = (0, cuts.into_iter().cycle());
        loop {
            let ahead = &stream[read..stream.len().min(read + cuts.next().unwrap())];
            let Belongs::Bytes { bytes, is_all } = belonging(&stream[..read], ahead) else { panic!("{read}") };
            read += bytes;
            if is_all {
                break;
            }
        }
        prop_assert_eq!(read, header.len());
    }

    #[test]
    fn any_bytes_are_a_header_or_none(header: Vec<u8>, ahead in proptest::collection::vec(any::<u8>(), 1..600)) {
        if let Belongs::Bytes { bytes, .. } = belonging(&header, &ahead) {
            prop_assert!((1..=ahead.len()).contains(&bytes));
            let _ = parse(&[&header[..], &ahead[..bytes]].concat(), ends("1.2.3.4:5", "1.2.3.4:6"));
        }
    }
}
