use proptest::prelude::*;

use super::{Args, Limits, Parsed, Violation, integer, parse, words};

/// The request's arguments, and how many bytes it has.
type Request = (Vec<Vec<u8>>, usize);

fn read(input: &[u8], limits: Limits) -> Result<Option<Request>, Violation> {
    let mut args = Args::default();
    Ok(match parse(input, limits, &mut args)? {
        Parsed::Whole(bytes) => Some((args.iter(input).map(<[u8]>::to_vec).collect(), bytes)),
        Parsed::Part(needs) => {
            assert!(needs > input.len(), "more is needed than has come");
            None
        }
    })
}

#[track_caller]
fn whole(input: &[u8], expect: &[&str], bytes: usize) {
    let expect = expect.iter().map(|word| word.as_bytes().to_vec()).collect();
    assert_eq!(read(input, Limits::LOGGED_IN), Ok(Some((expect, bytes))));
}

#[test]
fn requests() {
    whole(b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &["ECHO", ""], 20);
    whole(b"*0\r\nx", &[], 4);
    whole(b"*-1\r\nx", &[], 5);
    whole(b"incrby  k\t5\n", &["incrby", "k", "5"], 12);
    whole(b"\r\n", &[], 2);
    whole(b"ECHO \"a \\x41\\n\\q\" 'b\\'c\\n'\r\n", &["ECHO", "a A\nq", "b'c\\n"], 28);
}

/// Bytes that clients sent to a socket that recorded them.
#[test]
fn requests_of_clients() {
    const CLI: &[u8] = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n";
    const PIPE: &[u8] = b"INCR orders\r\nINCR orders\r\n\r\n*2\r\n$4\r\nECHO\r\n$20\r\n\
        \xec\x18\xeb\xab\xc5\xbd\xd0\x9au\x05\x7ft\xc3\x17\xcf\x01\xe3\xf8\xec`\r\n";
    const PY: &[u8] = b"*3\r\n$6\r\nINCRBY\r\n$6\r\norders\r\n$1\r\n1\r\n\
        *3\r\n$6\r\nINCRBY\r\n$6\r\norders\r\n$1\r\n3\r\n";
    for (client, sent, expect) in [
        ("redis-cli 7.0.15: -3 INCR orders", CLI, "HELLO 3|INCR orders"),
        // Two lines, and the end that it adds.
        (
            "redis-cli 7.0.15: --pipe",
            PIPE,
            r"INCR orders|INCR orders||ECHO \xec\x18\xeb\xab\xc5\xbd\xd0\x9au\x05\x7ft\xc3\x17\xcf\x01\xe3\xf8\xec`",
        ),
        ("redis-py 8.1.0: incr and incrby in a pipeline", PY, "INCRBY orders 1|INCRBY orders 3"),
    ] {
        let (mut found, mut rest) = (Vec::new(), sent);
        while !rest.is_empty() {
            let (args, bytes) = read(rest, Limits::LOGGED_IN).unwrap().unwrap();
            found.push(args.join(&b' ').escape_ascii().to_string());
            rest = &rest[bytes..];
        }
        assert_eq!(found.join("|"), expect, "{client}");
    }
}

#[test]
fn what_is_no_request() {
    let many = |byte: u8, n: usize| vec![byte; n];
    let rows: Vec<(Vec<u8>, Violation)> = vec![
        (b"*x\r\n".to_vec(), Violation::Count),
        (b"*+1\r\n".to_vec(), Violation::Count),
        (b"*01\r\n".to_vec(), Violation::Count),
        (b"*1\r\n$04\r\n".to_vec(), Violation::Length),
        (b"*1\rx".to_vec(), Violation::Count),
        (b"*2147483648\r\n".to_vec(), Violation::Count),
        (b"*99999999999999999999\r\n".to_vec(), Violation::Count),
        ([b"*".to_vec(), many(b'1', 40)].concat(), Violation::Count),
        // Found by the fuzz target resp: more was waited for.
        (b"*2\r\n$4\rs.high\r\n".to_vec(), Violation::Length),
        (b"*1\r\n:1\r\n".to_vec(), Violation::NoBulk(b':')),
        (b"*1\r\n*1\r\n*1\r\n".to_vec(), Violation::NoBulk(b'*')),
        (b"*1\r\n$-1\r\n".to_vec(), Violation::Length),
        (b"*1\r\n$536870912\r\n".to_vec(), Violation::Length),
        (b"*1\r\n$4\r\nPINGxx".to_vec(), Violation::End),
        (many(b'a', 1 << 20), Violation::LongLine),
        (b"ECHO \"a\r\n".to_vec(), Violation::Quotes),
        (b"ECHO 'a'b\r\n".to_vec(), Violation::Quotes),
    ];
    for (input, expect) in rows {
        let found = read(&input, Limits::LOGGED_IN);
        assert_eq!(found, Err(expect), "{}", input[..input.len().min(30)].escape_ascii());
    }
    let stranger = |input: &[u8]| read(input, Limits::BEFORE_LOGIN);
    assert_eq!(stranger(b"*11\r\n"), Err(Violation::CountBeforeLogin));
    assert_eq!(stranger(b"*2\r\n$4\r\nAUTH\r\n$20000\r\n"), Err(Violation::LengthBeforeLogin));
    assert_eq!(stranger(b"*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap().unwrap().1, 28);
}

#[test]
fn integers_as_redis_reads_them() {
    for (text, expect) in [
        ("0", Some(0)),
        ("-5", Some(-5)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("+5", None),
        ("05", None),
        ("-0", None),
        (" 5", None),
        ("5.0", None),
        ("", None),
    ] {
        assert_eq!(integer(text.as_bytes()), expect, "{text:?}");
    }
}

/// Lines are cut as redis 7.0.15 cuts them.
#[test]
fn words_of_a_line() {
    let cut = |line: &str| -> Option<Vec<String>> {
        Some(words(line.as_bytes())?.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    };
    for (line, expect) in [
        ("", Some(vec![])),
        ("  a  b ", Some(vec!["a", "b"])),
        ("\"\" ''", Some(vec!["", ""])),
        ("a\"b c\"", Some(vec!["ab c"])),
        (r#""\x4g\x4A\t""#, Some(vec!["x4gJ\t"])),
        (r"'\x41'", Some(vec![r"\x41"])),
        ("\"", None),
        ("'", None),
        (r#""\"#, None),
        ("\"a\"b", None),
    ] {
        let expect = expect.map(|words| words.into_iter().map(str::to_owned).collect());
        assert_eq!(cut(line), expect, "{line:?}");
    }
}

fn written(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

proptest! {
    /// However a request is cut, it is read when the last byte has come, and not before; and no more is asked for than there will be.
    #[test]
    fn cut_anywhere(args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8), cut in any::<prop::sample::Index>()) {
        let bytes = written(&args);
        let cut = cut.index(bytes.len());
        let mut found = Args::default();
        match parse(&bytes[..cut], Limits::LOGGED_IN, &mut found) {
            Ok(Parsed::Part(needs)) => prop_assert!(cut < needs && needs <= bytes.len()),
            other => prop_assert!(false, "{other:?}"),
        }
        let more = [bytes.clone(), b"*1\r\n$4\r\nPING\r\n".to_vec()].concat();
        prop_assert_eq!(read(&more, Limits::LOGGED_IN), Ok(Some((args, bytes.len()))));
    }

    #[test]
    fn any_bytes(input in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"*$\r\n0123456789-\"' ax"[..])], 0..200)) {
        for limits in [Limits::LOGGED_IN, Limits::BEFORE_LOGIN] {
            // Until so many bytes have come there is neither a request nor a violation.
            let (mut args, mut needs) = (Args::default(), 0);
            for come in 0..=input.len() {
                match parse(&input[..come], limits, &mut args) {
                    Ok(Parsed::Part(more)) => {
                        prop_assert!(more > come);
                        needs = more.max(needs);
                    }
                    found => {
                        prop_assert!(come >= needs, "{:?} at {come} bytes, not before {needs}", found);
                        break;
                    }
                }
            }
        }
    }
}
