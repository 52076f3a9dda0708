//! Packets out of a stream: payloads are put together the same however it is sliced, from no more bytes than they
//! take, and written again they are the same bytes. So are the first packets of a login, and a PROXY protocol header
//! in front of it.

use rowstamp::mysql::packet::{
    HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, Whole, packets_of, payload_of, put_packets, whole_payload,
};

use crate::input::Input;
use crate::memory::{self, SOME_BYTES};
use crate::{login, proxy_header, slices};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(4) {
        0 => of_stream(input),
        1 => of_payloads(input),
        2 => login::first_packet(input),
        _ => proxy_header::check(input),
    }
}

/// A payload as it was found: the number of its first packet, and its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    packet_nr: u8,
    payload: Vec<u8>,
}

/// Takes payloads out of a window that grows slice by slice; what is left stays in it.
fn take(slices: &[&[u8]]) -> (Vec<Found>, Vec<u8>) {
    let (mut window, mut found) = (Vec::new(), Vec::new());
    for slice in slices {
        window.extend_from_slice(slice);
        loop {
            match whole_payload(&window) {
                Whole::Needs { window_bytes } => {
                    assert!(window_bytes > window.len(), "{window_bytes} bytes are there");
                    break;
                }
                Whole::Is { window_bytes, packets } => {
                    assert_eq!(
                        whole_payload(&window[..window_bytes - 1]),
                        Whole::Needs { window_bytes },
                        "its last byte is missing"
                    );
                    let payload = payload_of(&window, window_bytes).into_owned();
                    assert_eq!(window_bytes, payload.len() + packets * HEADER_BYTES);
                    assert_eq!(packets, packets_of(payload.len()));
                    found.push(Found { packet_nr: window[3], payload });
                    window.drain(..window_bytes);
                }
            }
        }
    }
    (found, window)
}

/// Bytes that may be anything.
fn of_stream(mut input: Input<'_>) {
    let mut how = Input::new(input.bytes(1));
    let stream = input.rest();
    let slices = slices::cut(&mut how, stream);
    let (found, rest) = memory::within(SOME_BYTES, || take(&slices));
    assert_eq!((&found, &rest), (&take(&[stream]).0, &take(&[stream]).1), "in {} slices", slices.len());
    let mut again = Vec::new();
    for Found { packet_nr, payload } in &found {
        let next = put_packets(&mut again, *packet_nr, payload);
        assert_eq!(next, packet_nr.wrapping_add(1), "a packet of {} bytes", payload.len());
    }
    again.extend_from_slice(&rest);
    assert_eq!(again, stream, "written again");
    if let Some(header) = Header::parse(&rest) {
        assert_eq!(header.bytes(), rest[..HEADER_BYTES]);
        assert!(rest.len() < header.packet_bytes());
    }
}

/// Payloads that are written, one of them perhaps at the edge where it takes several packets.
fn of_payloads(mut input: Input<'_>) {
    let mut how = Input::new(input.bytes(1));
    let (mut packet_nr, big) = (input.byte(), input.byte());
    let mut payloads: Vec<Vec<u8>> = input.rest().split(|&byte| byte == b'|').map(<[u8]>::to_vec).collect();
    if big == 9 {
        // From two bytes less than a packet holds to some more.
        let payload = &mut payloads[0];
        let bytes = PAYLOAD_BYTES_MAX - 2 + payload.len() % 6;
        let last = payload.last().copied().unwrap_or_default();
        payload.resize(bytes, last);
    }
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for payload in payloads {
        let next = put_packets(&mut stream, packet_nr, &payload);
        let packets = u8::try_from(packets_of(payload.len())).expect("two at most");
        assert_eq!(next, packet_nr.wrapping_add(packets));
        expected.push(Found { packet_nr, payload });
        packet_nr = next;
    }
    let slices = slices::cut(&mut how, &stream);
    // The window, twice as long where it grows, and the payloads.
    let (found, rest) = memory::within(4 * stream.len() + SOME_BYTES, || take(&slices));
    assert!(found == expected && rest.is_empty(), "{} payloads of {}", found.len(), expected.len());
}
