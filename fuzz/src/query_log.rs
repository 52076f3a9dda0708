//! Query logs: whatever is in a file, its reader ends, holds little, counts every statement once, and says the same however the
//! file comes.

use std::io::{self, BufRead, Read};

use rowstamp::cli::explain::explain_log;
use rowstamp::querylog::log::Format;
use rowstamp::rules::RuleSet;

use crate::input::Input;
use crate::memory::{self, SOME_BYTES};

/// Bytes of a statement that is looked at.
const BYTES_MAX: [usize; 4] = [60, 1_000, 1 << 16, 0];

/// A plan of a text, and what is remembered of it.
const FACTOR: usize = 200;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let format = input.pick(&[Format::Auto, Format::General, Format::Slow]);
    let bytes_max = input.pick(&BYTES_MAX);
    let slice = usize::from(input.below(64)) + 1;
    let log = input.rest();
    RULES.with(|rules| {
        let whole =
            memory::within(FACTOR * log.len() + SOME_BYTES, || explain_log(log, format, bytes_max, rules));
        let slices = explain_log(Slices { rest: log, slice }, format, bytes_max, rules);
        let (Ok((text, json)), Ok(slices)) = (&whole, &slices) else {
            assert!(whole.is_err() && slices.is_err(), "no query log, however it is read");
            return;
        };
        assert_eq!((text, json), (&slices.0, &slices.1));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        let number = |key: &str| -> u64 {
            let (_, rest) = json.split_once(&format!("\"{key}\": ")).expect("it is in the JSON");
            rest.split([',', '\n']).next().unwrap().parse().expect("a number")
        };
        let parts = ["refused", "server_first", "unknown", "rewritten", "left", "elsewhere"].map(number);
        assert_eq!(parts.iter().sum::<u64>(), number("statements"), "{json}");
    });
}

thread_local! {
    static RULES: RuleSet = rules();
}

fn rules() -> RuleSet {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "schema = \"shop\"\n[generators.g]\nkind = \"sequence\"\n[tables.\"t*\"]\ncolumn = \"id\"\ngenerator = \"g\"\n";
    std::fs::write(folder.path().join("shop.toml"), text).expect("a file");
    rowstamp::rules::load(folder.path()).expect("the rules are right").0
}

/// A file that comes in pieces.
struct Slices<'a> {
    rest: &'a [u8],
    slice: usize,
}

impl Read for Slices<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(to)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Slices<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(&self.rest[..self.slice.min(self.rest.len())])
    }

    fn consume(&mut self, count: usize) {
        self.rest = &self.rest[count..];
    }
}
