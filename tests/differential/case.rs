//! Cases as they are written, several in a file.
//!
//! ```text
//! % table t ({id}, a INT)          before the first case: the file's defaults (table, tags, flags, servers)
//! == one_row                       a case and its name
//! % flags found_rows               directives, see `Case`; each case starts from the file's defaults
//! INSERT INTO t (a) VALUES (1)     a statement a line, run in order
//! INSERT INTO t (a)                lines that begin with white space continue it
//!   VALUES (?)
//! % look                           before a statement, as `% tagged`, `% refused` and `% file`: see `Statement`
//! % params 2                       under a statement: bind and execute; several lines: several executions
//! %% a remark
//! ```
//!
//! In all text `{x:bf5c}` is those bytes and `{n:3:ab}` is `ababab`. In tables `{id}` is the id column, the primary
//! key, with AUTO_INCREMENT where the run's table has it (`{text_id}` is a
//! VARCHAR where it has not); `{ai}` is that word alone; `{from}` is the table option
//! that starts its counter (the end of the text if it does not occur).

use std::fs;
use std::path::Path;

use crate::differential::run::Protocol;
use crate::differential::tally::Combination;
use crate::support::Kind;
use crate::support::raw::Param;

#[derive(Debug, Clone, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) place: String,
    /// `% table`: created in the session itself, so that the proxy sees it; dumped after each statement. A case's
    /// own take the place of the file's.
    pub(crate) tables: Vec<String>,
    pub(crate) has_own_tables: bool,
    /// `% setup`: straight to the server, after the tables.
    pub(crate) setup: Vec<Vec<u8>>,
    /// `% cleanup`: straight to the server, before and after; errors do not matter.
    pub(crate) cleanup: Vec<Vec<u8>>,
    /// `% dump`: instead of `SELECT * FROM table ORDER BY 1` of each table.
    pub(crate) dumps: Vec<Vec<u8>>,
    /// `% tags`: which declared differences may apply.
    pub(crate) tags: Vec<String>,
    pub(crate) flags: Vec<Flag>,
    /// `% servers mariadb`; empty: all.
    pub(crate) servers: Vec<String>,
    /// `% unsupported[prepared,mysql9] why`: refused so far in those combinations.
    pub(crate) unsupported: Vec<Refusal>,
    pub(crate) statements: Vec<Statement>,
}

/// `% flags ...`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// CLIENT_FOUND_ROWS.
    FoundRows,
    /// CLIENT_MULTI_STATEMENTS; text protocol only.
    Multi,
    /// Text protocol only.
    Text,
    /// Prepared protocol only.
    Prepared,
    /// Without CLIENT_DEPRECATE_EOF.
    Classic,
    /// CLIENT_SESSION_TRACK.
    Track,
    /// The handshake names gbk as the session's character set.
    GbkHandshake,
    /// No SHOW WARNINGS and SELECT LAST_INSERT_ID() after each statement: they would bring the session up to date.
    Quiet,
    /// No default database.
    NoDatabase,
    /// The generated ids that end up in the tables leave no gaps: none was burned.
    Contiguous,
}

/// The combinations in which a form is refused, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusal {
    /// Words of a combination that must all match; empty: everywhere.
    pub(crate) only: Vec<String>,
    pub(crate) why: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Statement {
    pub(crate) sql: Vec<u8>,
    pub(crate) executions: Vec<Vec<Param>>,
    /// `% refused why` or `% refused[prepared,mariadb] why` before it: the proxy refuses it for good (in those
    /// combinations of server and protocol); the native run leaves it out.
    pub(crate) refused: Option<Refusal>,
    /// `% file a\nb\n` before it: what LOAD DATA LOCAL reads.
    pub(crate) local_file: Vec<u8>,
    /// `% tagged ...` before it: as the case's `% tags`, for this statement alone.
    pub(crate) tags: Vec<String>,
    /// `% look` before it: SHOW WARNINGS and SELECT LAST_INSERT_ID() after it though the case is quiet.
    pub(crate) look: bool,
}

/// Comments with words that would mean something outside of them.
pub(crate) fn commented(sql: &[u8], nth: usize) -> Vec<u8> {
    const BEFORE: [&[u8]; 3] = [b"-- 'show'\n", b"# call commit\n\t", b"/* insert */--\n"];
    const AFTER: &[u8] = b"\n/* route='/diagnostics', row_count(), @@identity, last_insert_id() */ -- use";
    [BEFORE[nth % BEFORE.len()], sql, AFTER].concat()
}

impl Case {
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Puts comments before and after each statement.
    pub(crate) fn comment(&mut self) {
        for (nth, statement) in self.statements.iter_mut().enumerate() {
            if !statement.sql.starts_with(b"!") {
                statement.sql = commented(&statement.sql, nth);
            }
        }
    }

    pub(crate) fn runs_on(&self, kind: Kind) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|server| server == kind.name())
    }

    pub(crate) fn runs_by(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Text => !self.has(Flag::Prepared),
            Protocol::Prepared => !self.has(Flag::Text) && !self.has(Flag::Multi),
        }
    }

    /// The case with those refusals for good that the server and the protocol meet.
    pub(crate) fn in_combination(&self, combination: Combination) -> Case {
        let mut case = self.clone();
        for statement in &mut case.statements {
            statement.refused.take_if(|refusal| !combination.matches(&refusal.only));
        }
        case
    }

    pub(crate) fn refusals_for_good(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| Some(statement.refused.as_ref()?.why.as_str()))
    }

    /// Everything that the case writes: numbers in it are explicit and never generated.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = self.tables.join(" ").into_bytes();
        for part in self.setup.iter().chain(self.statements.iter().map(|statement| &statement.sql)) {
            text.push(b' ');
            text.extend(part);
        }
        for param in self.statements.iter().flat_map(|statement| statement.executions.iter().flatten()) {
            text.push(b' ');
            match param {
                Param::Int(number) => text.extend(number.to_string().bytes()),
                Param::Uint(number) => text.extend(number.to_string().bytes()),
                Param::String(bytes)
                | Param::Blob(bytes)
                | Param::Decimal(bytes)
                | Param::Bit(bytes)
                | Param::Long(bytes) => text.extend(bytes),
                Param::Double(number) => text.extend(number.round_ties_even().to_string().bytes()),
                Param::Null
                | Param::NullInt
                | Param::Tiny(_)
                | Param::Float(_)
                | Param::Date { .. }
                | Param::Default
                | Param::Ignore => {}
            }
        }
        text
    }
}

pub(crate) fn load_all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/cases");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the folder of cases").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().flat_map(|file| load(file)).collect()
}

fn load(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).expect("a case file is UTF-8");
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut defaults = Case::default();
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in join_continued(&text) {
        let place = format!("{name}:{number}");
        if let Some(case_name) = line.strip_prefix("== ") {
            cases.push(Case { name: case_name.trim().to_owned(), place, ..defaults.clone() });
            continue;
        }
        let case = cases.last_mut().unwrap_or(&mut defaults);
        let result = match line.strip_prefix('%') {
            Some(directive) => case.directive(directive.trim()),
            None => case.statement(&line),
        };
        result.unwrap_or_else(|problem| panic!("{place}: {problem}: {line}"));
    }
    for case in &cases {
        // The native run leaves out one step, so the refused statement must be one.
        assert!(
            !case.statements.iter().any(|s| s.refused.is_some() && s.executions.len() > 1),
            "{}: refused, several params",
            case.place
        );
        // Both variants are compared with one native run.
        assert!(
            !case.statements.iter().filter_map(|s| s.refused.as_ref()).any(Refusal::names_a_variant),
            "{}: refused for good in one variant only",
            case.place
        );
        assert!(
            !case.statements.iter().any(|statement| statement.sql.is_empty()),
            "{}: a directive without its statement",
            case.place
        );
    }
    cases
}

/// Lines with what continues them; remarks and empty lines are dropped. With the number of the first.
fn join_continued(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("%%") || line.trim().is_empty() {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if line.starts_with([' ', '\t']) => {
                last.push('\n');
                last.push_str(line);
            }
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines
}

impl Case {
    fn statement(&mut self, line: &str) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("a statement outside of any case".to_owned());
        }
        self.begun().sql = expand(line)?;
        Ok(())
    }

    /// The statement that a directive has begun, or a new one.
    fn begun(&mut self) -> &mut Statement {
        if self.statements.last().is_none_or(|last| !last.sql.is_empty()) {
            self.statements.push(Statement::default());
        }
        self.statements.last_mut().expect("just pushed")
    }

    fn directive(&mut self, directive: &str) -> Result<(), String> {
        let (word, rest) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let rest = rest.trim();
        match word {
            "table" => {
                if !self.name.is_empty() && !self.has_own_tables {
                    self.tables.clear();
                    self.has_own_tables = true;
                }
                self.tables.push(rest.to_owned());
            }
            "setup" => self.setup.push(expand(rest)?),
            "cleanup" => self.cleanup.push(expand(rest)?),
            "dump" => self.dumps.push(expand(rest)?),
            "tags" => self.tags.extend(rest.split_whitespace().map(str::to_owned)),
            "servers" => self.servers = rest.split_whitespace().map(str::to_owned).collect(),
            "flags" => {
                for flag in rest.split_whitespace() {
                    self.flags.push(Flag::parse(flag)?);
                }
            }
            "file" => {
                self.begun().local_file = rest.replace("\\n", "\n").replace("\\t", "\t").into_bytes();
            }
            "tagged" => self.begun().tags = rest.split_whitespace().map(str::to_owned).collect(),
            "look" => self.begun().look = true,
            "params" => {
                let statement = self.statements.last_mut().ok_or("params of no statement")?;
                statement.executions.push(parse_params(rest)?);
            }
            _ => match word.split_once('[').unwrap_or((word, "")) {
                ("unsupported", only) => self.unsupported.push(Refusal::parse(only, rest)?),
                ("refused", only) => self.begun().refused = Some(Refusal::parse(only, rest)?),
                _ => return Err("an unknown directive".to_owned()),
            },
        }
        Ok(())
    }
}

impl Refusal {
    fn parse(only: &str, why: &str) -> Result<Refusal, String> {
        let only: Vec<_> =
            only.split([',', ']']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match only.iter().find(|word| !Combination::WORDS.contains(&word.as_str())) {
            Some(word) => Err(format!("no combination is called {word}")),
            None if why.is_empty() => Err("a refusal without its reason".to_owned()),
            None => Ok(Refusal { only, why: why.to_owned() }),
        }
    }

    fn names_a_variant(&self) -> bool {
        self.only.iter().any(|word| word == "with" || word == "without")
    }
}

impl Flag {
    fn parse(word: &str) -> Result<Flag, String> {
        Ok(match word {
            "found_rows" => Flag::FoundRows,
            "multi" => Flag::Multi,
            "text" => Flag::Text,
            "prepared" => Flag::Prepared,
            "classic" => Flag::Classic,
            "track" => Flag::Track,
            "gbk_handshake" => Flag::GbkHandshake,
            "quiet" => Flag::Quiet,
            "no_database" => Flag::NoDatabase,
            "contiguous" => Flag::Contiguous,
            _ => return Err(format!("an unknown flag {word}")),
        })
    }
}

/// `1, 'x', NULL, null_int, 0.4, f0.4, true, u18446744073709551615`; `b'bytes'`, `decimal'1.5'`, `bit'{x:01}'`,
/// `date'2020-01-31'`, `long'sent ahead'`. Strings hold no quotes; `{x:..}` gives bytes.
fn parse_params(text: &str) -> Result<Vec<Param>, String> {
    let mut params = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let prefix = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (param, after) = if let Some(string) = rest[prefix..].strip_prefix('\'') {
            let (inside, after) = string.split_once('\'').ok_or("a string without end")?;
            (typed(&rest[..prefix], expand(inside)?)?, after)
        } else {
            let (word, _) = rest.split_once(',').unwrap_or((rest, ""));
            (parse_word(word.trim())?, &rest[word.len()..])
        };
        params.push(param);
        rest = after.trim().strip_prefix(',').unwrap_or_default().trim();
    }
    Ok(params)
}

/// Makes a parameter of the bytes in quotes that come after `prefix`.
fn typed(prefix: &str, bytes: Vec<u8>) -> Result<Param, String> {
    Ok(match prefix {
        "" => Param::String(bytes),
        "b" => Param::Blob(bytes),
        "decimal" => Param::Decimal(bytes),
        "bit" => Param::Bit(bytes),
        "long" => Param::Long(bytes),
        "date" => {
            let text = String::from_utf8(bytes).map_err(|e| e.to_string())?;
            let parts: Vec<u16> = text.split('-').filter_map(|part| part.parse().ok()).collect();
            let [year, month, day] = parts[..] else { return Err(format!("no date: {text}")) };
            let byte = |number: u16| u8::try_from(number).map_err(|e| e.to_string());
            Param::Date { year, month: byte(month)?, day: byte(day)? }
        }
        _ => return Err(format!("an unknown parameter {prefix}'")),
    })
}

fn parse_word(word: &str) -> Result<Param, String> {
    Ok(match word {
        "NULL" => Param::Null,
        "null_int" => Param::NullInt,
        "true" => Param::Tiny(1),
        "false" => Param::Tiny(0),
        _ => {
            if let Some(number) = word.strip_prefix('u').and_then(|number| number.parse().ok()) {
                Param::Uint(number)
            } else if let Ok(number) = word.parse() {
                Param::Int(number)
            } else if let Some(number) = word.strip_prefix('f').and_then(|number| number.parse().ok()) {
                Param::Float(number)
            } else {
                Param::Double(word.parse().map_err(|_| format!("an unknown parameter {word}"))?)
            }
        }
    })
}

/// `{x:hex}` and `{n:count:text}`, the latter not nested.
fn expand(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{x:").into_iter().chain(rest.find("{n:")).min() {
        bytes.extend(rest[..start].bytes());
        let (inside, after) = rest[start + 3..].split_once('}').ok_or("a macro without end")?;
        if rest[start..].starts_with("{x:") {
            for pair in inside.as_bytes().chunks(2) {
                let pair = str::from_utf8(pair).map_err(|e| e.to_string())?;
                bytes.push(u8::from_str_radix(pair, 16).map_err(|e| e.to_string())?);
            }
        } else {
            let (count, text) = inside.split_once(':').ok_or("{n:count:text}")?;
            bytes.extend(text.repeat(count.parse().map_err(|_| "no count")?).bytes());
        }
        rest = after;
    }
    bytes.extend(rest.bytes());
    Ok(bytes)
}

#[test]
fn cases_are_read_as_written() {
    assert_eq!(expand("a{x:bf5c}b{n:2:(}c").unwrap(), b"a\xbf\x5cb((c");
    assert!(expand("{x:1").is_err() && expand("{n:b}").is_err());
    let params =
        parse_params("1, 'x,y', NULL, null_int, 0.4, true, u9, b'{x:ff}', f1.5, date'2020-1-31'").unwrap();
    assert_eq!(
        params,
        [
            Param::Int(1),
            Param::String(b"x,y".to_vec()),
            Param::Null,
            Param::NullInt,
            Param::Double(0.4),
            Param::Tiny(1),
            Param::Uint(9),
            Param::Blob(vec![0xFF]),
            Param::Float(1.5),
            Param::Date { year: 2020, month: 1, day: 31 },
        ]
    );
    assert!(parse_params("nonsense").is_err());
    let refusal = Refusal::parse("prepared,mysql9]", "because").unwrap();
    assert_eq!(refusal.only, ["prepared", "mysql9"]);
    assert!(Refusal::parse("", "").is_err() && Refusal::parse("by_text]", "because").is_err());
    assert_eq!(join_continued("a\n  b\n%% c\n\nd"), [(1, "a\n  b".to_owned()), (5, "d".to_owned())]);
}
