//! The letters of character sets of one byte a character, as both servers have them.

use rowstamp::sql::letters::KNOWN;

use crate::support::raw::Client;
use crate::support::servers::{Kind, Server};

/// The letter that the server makes of each of these bytes, in hex; that of `?` if it makes nothing of it.
fn converted(client: &mut Client, set: &str, bytes: &[u8]) -> Vec<String> {
    let one = |byte: &u8| format!("HEX(CONVERT(CONVERT(x'{byte:02x}' USING {set}) USING utf8mb4))");
    let outcomes = client.run(format!("SELECT {}", bytes.iter().map(one).collect::<Vec<_>>().join(",")));
    (0..bytes.len()).map(|column| outcomes[0].cell(0, column).unwrap_or_default()).collect()
}

/// True if the server takes each as the beginning of a name without quotes, and after another letter.
fn are_names(client: &mut Client, bytes: &[u8]) -> bool {
    let mut sql = b"SELECT 1 AS a".to_vec();
    for &byte in bytes {
        sql.extend_from_slice(b",1 AS ");
        sql.extend_from_slice(&[byte, b'x', byte]);
    }
    client.prepare(&sql).unwrap().is_ok_and(|prepared| prepared.columns.len() == bytes.len() + 1)
}

#[test]
fn letters_are_those_of_the_servers() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let mut client = server.client();
        let mut wrong = Vec::new();
        for letters in KNOWN {
            let set = letters.name();
            let all: Vec<(u8, char)> =
                (0x80..=0xFF).filter_map(|byte| Some((byte, letters.letter(byte)?))).collect();
            assert!(all.len() > 25, "{set} has {} letters", all.len());
            let bytes: Vec<u8> = all.iter().map(|(byte, _)| *byte).collect();
            client.run("SET character_set_client = utf8mb4");
            for ((byte, letter), server) in all.iter().zip(converted(&mut client, set, &bytes)) {
                let ours =
                    letter.to_string().bytes().map(|b| format!("{b:02X}")).collect::<Vec<_>>().concat();
                if ours != server {
                    wrong.push(format!("{set} {byte:02x}: {letter} is {server} to the server"));
                }
                let written = letters.encode(&letter.to_string()).map(std::borrow::Cow::into_owned);
                assert_eq!(written, Some(vec![*byte]), "{set} {letter}");
            }
            client.run(format!("SET character_set_client = {set}"));
            if !are_names(&mut client, &bytes) {
                let odd = bytes.iter().filter(|byte| !are_names(&mut client, &[**byte]));
                wrong.extend(
                    odd.collect::<Vec<_>>().iter().map(|byte| format!("{set} {byte:02x}: no name's")),
                );
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", kind.name(), wrong.join("\n"));
    }
}
