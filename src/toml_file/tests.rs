use std::fs;
use std::path::Path;

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{AddressText, ByteSize, Interval, OneOrMany, OrOff};
use super::{FILE_BYTES_MAX, Findings, join, parse, read};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Sample {
    word: Option<Word>,
    #[schemars(range(min = 1, max = 9))]
    count: u64,
    id: u64,
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    share: f64,
    yes: bool,
    time: Option<Interval>,
    size: Option<ByteSize>,
    place: Option<OneOrMany<AddressText>>,
    off: Option<OrOff>,
    #[schemars(length(min = 1))]
    name: String,
    inner: Inner,
    many: std::collections::BTreeMap<String, Inner>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["must"]))]
struct Inner {
    #[schemars(example = 7)]
    must: Option<i64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    Embedded,
    Etcd,
}

/// Checks the findings in the text; without the file's name, and without an `inner.must` that is missing on line 1.
#[track_caller]
fn check(text: &str, expect: &[&str]) {
    let mut findings = Findings::default();
    parse::<Sample>(Path::new("f"), text, None, &mut findings);
    let found: Vec<_> = findings.sorted().iter().map(ToString::to_string).collect();
    let found: Vec<_> = found
        .iter()
        .map(|one| &one[2..])
        .filter(|one| !one.starts_with("1: inner.must: is missing"))
        .collect();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn what_fits() {
    for text in [
        "",
        "word = 'etcd'\ncount = 9\nid = 18446744073709551615\nshare = 1\nyes = true",
        "time = '1m 30s'\nsize = '64MiB'\nplace = 'a:1'\noff = 'off'\nname = 'x'",
        "place = ['a:1', 'unix:/b']\noff = 'a:1'\nid = 1_000\nshare = 0.5\ncount = 0x9",
        "inner = { must = -3 }\nmany.a.must = 1\n[many.'b*']\nmust = 2",
        "\u{feff}count = 1",
    ] {
        check(text, &[]);
    }
}

#[test]
fn values_that_do_not_fit() {
    check("place = ['a:1',\n 'a:x']", &["2: place[1]: \"x\" is not a port: write a number from 0 to 65535"]);
    for (line, expect) in [
        ("count = 10", "count: 10 is out of range: write a number from 1 up to 9"),
        ("count = -1", "count: -1 is out of range: write a number from 1 up to 9"),
        ("id = 18446744073709551616", "id: is too large: write a number up to 18446744073709551615"),
        ("share = 0", "share: 0 is out of range: write a number above 0 up to 1"),
        ("share = nan", "share: NaN is out of range: write a number above 0 up to 1"),
        (
            "count = '1'",
            "count: expected a whole number from 1 up to 9, found a string; write it without quotes",
        ),
        ("count = 1.0", "count: expected a whole number from 1 up to 9, found a float"),
        ("yes = 'true'", "yes: expected true or false, found a string; write it without quotes"),
        ("yes = 1979-05-27", "yes: expected true or false, found a datetime"),
        ("name = ''", "name: must not be empty; write a value, or remove the key"),
        ("name = []", "name: expected a string, found an array"),
        (
            "inner = 1",
            "inner: expected a table, found an integer; write its keys under a header, [...], or as { key = value }",
        ),
        (
            "word = 'etdc'",
            "word: \"etdc\" is unknown; did you mean \"etcd\"? Known: \"embedded\" or \"etcd\"",
        ),
        ("word = 'mysql'", "word: \"mysql\" is unknown; write \"embedded\" or \"etcd\""),
        ("word = 1", "word: expected \"embedded\" or \"etcd\", found an integer; write it in quotes"),
        ("time = '0s'", "time: must be longer than 0: write, for example, \"3s\""),
        (
            "time = 3",
            "time: expected a duration such as \"3s\" or \"10m\", found an integer; write it in quotes",
        ),
        (
            "size = '0MiB'",
            "size: is not a size: write a whole number above 0 and B, KiB, MiB or GiB, as in \"64MiB\"",
        ),
        (
            "size = '18446744073709551615GiB'",
            "size: is not a size: write a whole number above 0 and B, KiB, MiB or GiB, as in \"64MiB\"",
        ),
        (
            "place = 'localhost'",
            "place: \"localhost\" has no port: write host:port, or unix:/path for a Unix socket",
        ),
        (
            "place = 1",
            "place: expected an address, \"host:port\" or \"unix:/path\" or a list, found an integer; write it in quotes",
        ),
    ] {
        check(line, &[&format!("1: {expect}")]);
    }
}

#[test]
fn all_errors_at_once_each_with_its_line() {
    check(
        "count = 0\n\nnmae = 'x'\n[many.a]\n[many.'b*']\nmust = 'x'\n[many.c]\nmust = 1\nmost = 1\nwholly_else = 1",
        &[
            "1: count: 0 is out of range: write a number from 1 up to 9",
            "3: nmae: unknown key; did you mean name?",
            "4: many.a.must: is missing; write, for example, must = 7",
            "6: many.\"b*\".must: expected a whole number, found a string",
            "9: many.c.most: unknown key; did you mean must?",
            "10: many.c.wholly_else: unknown key; the keys here are: must",
        ],
    );
}

#[test]
fn a_key_that_is_missing_is_told_where_its_table_is_missing_too() {
    let mut findings = Findings::default();
    let keys = parse::<Sample>(Path::new("f"), "count = 3", None, &mut findings).unwrap().keys;
    assert_eq!(findings.to_string(), "error: f:1: inner.must: is missing; write, for example, must = 7");
    assert_eq!(keys, Sample { count: 3, ..Sample::default() });
}

#[test]
fn syntax_errors_name_line_and_column_and_not_what_the_line_says() {
    check(
        "count = 1\nname = secret",
        &["2: name: column 8: string values must be quoted; write name = \"...\""],
    );
    check("count = 1\nname = id", &["2: name: column 8: string values must be quoted; write name = \"...\""]);
    check(
        "count = 1\n\u{e4} = 'x'\ncount = 2",
        &[
            "2: column 1: invalid unquoted key; put quotes around a name with other characters than letters, digits, _ and -",
            "3: count: column 1: the key is defined a second time; remove one of the two",
        ],
    );
}

#[test]
fn where_keys_were_written() {
    let mut findings = Findings::default();
    let text = "count = 1\n[inner]\nmust = 1\n[many.'a.b']\nmust = 2";
    let source = parse::<Sample>(Path::new("dir/f"), text, None, &mut findings).unwrap();
    assert!(source.is_written("count") && source.is_written("inner.must") && !source.is_written("id"));
    let lines = ["count", "inner.must", "inner.none", "none", "many.\"a.b\".must", "many.\"a.b\".none"];
    assert_eq!(lines.map(|key| source.line(key)), [1, 3, 2, 1, 5, 4]);
    assert_eq!(source.resolve(Path::new("x")), Path::new("dir/x"));
    assert_eq!(source.resolve(Path::new("/x")), Path::new("/x"));
}

#[test]
fn long_names_are_cut_and_many_errors_are_counted() {
    let long = "x".repeat(1 << 20);
    assert_eq!(join("t", &long).len(), "t.".len() + 64 + "...".len());
    let text = (0..150).map(|k| format!("x{k} = 1")).collect::<Vec<_>>().join("\n");
    let mut findings = Findings::default();
    parse::<Sample>(Path::new("f"), &text, None, &mut findings);
    let found = findings.to_string();
    assert_eq!(found.lines().count(), 101);
    assert!(found.contains("errors of this file that are not shown: 51"), "{found}");
    let mut findings = Findings::default();
    parse::<Sample>(Path::new("f"), &"= 1\n".repeat(150), None, &mut findings);
    assert_eq!(findings.to_string().lines().count(), 100);
}

#[test]
fn hostile_texts_are_errors_and_no_panic() {
    for text in [
        "[".repeat(100_000),
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{a=".repeat(100_000)),
        format!("{}a = 1", "a.".repeat(100_000)),
        format!("{} = 1", "x".repeat(10 << 20)),
        "a = \"\0\"".to_owned(),
    ] {
        let mut findings = Findings::default();
        parse::<Sample>(Path::new("f"), &text, None, &mut findings);
        assert!(findings.has_errors());
        assert!(findings.to_string().len() < 100_000, "{}", findings.to_string().len());
    }
}

#[test]
fn files_that_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let huge = write("huge.toml", b"");
    fs::File::options().write(true).open(&huge).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    for (path, expect) in [
        (huge, "is larger than 16 MiB: split it"),
        (write("latin1.toml", b"# a\n# \xe4"), "line 2 is not UTF-8: save the file as UTF-8"),
        (folder.path().to_owned(), "is not a file; name the file itself"),
        (
            folder.path().join("none"),
            "cannot be read: No such file or directory (os error 2); name a file that exists",
        ),
    ] {
        let mut findings = Findings::default();
        assert!(read::<Sample>(&path, None, &mut findings).is_none());
        assert_eq!(findings.to_string(), format!("error: {}: {expect}", path.display()));
    }
}

proptest! {
    /// Pieces of TOML in any order: mostly wrong, never a panic, and each finding on a line that there is.
    #[test]
    fn any_text_is_read_or_told_of(
        text in "(word|count|id|many|inner|must|a|=|= 1|= 'x'|\\.|\\[|\\]|\\[many\\.x\\]|\\{|\\}|,|'|\"|\n| |#|\u{e4}){0,30}"
    ) {
        let mut findings = Findings::default();
        let source = parse::<Sample>(Path::new("f"), &text, None, &mut findings);
        prop_assert!(source.is_some() || findings.has_errors());
        let lines = text.matches('\n').count() + 1;
        for finding in &findings {
            prop_assert!(finding.line.is_some_and(|line| (1..=lines).contains(&line)), "{finding}");
        }
    }

    #[test]
    fn values_are_written_as_they_are_read(bytes: u64, secs in 1..=u32::MAX, shift in 0..64u32) {
        let size = ByteSize((bytes >> shift).max(1));
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        let interval = Interval::from_secs(u64::from(secs));
        prop_assert_eq!(interval.to_string().parse(), Ok(interval));
    }

    #[test]
    fn any_bytes_are_no_value_or_one(text in any::<String>()) {
        let _ = text.parse::<Interval>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<OrOff>();
    }
}
