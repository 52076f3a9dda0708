//! The whole matrix on one server.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::support::raw::{Client, Options};
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Proxy, Server, proxy};
use crate::values::columns::{Column, columns, sources};
use crate::values::findings::{Findings, Place, differing, is_declared};
use crate::values::forms::{Form, Made, forms};
use crate::values::plan::{Cell, Statement};
use crate::values::sides::{self, AUTO, Answer, NATIVE, PLAIN, Side, Stored, TABLES, TRIED};

const MODES: [&str; 3] =
    ["STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO", "STRICT_ALL_TABLES", ""];
/// In a short run, of the forms: how many run with IGNORE, and where zero dates are allowed.
const OTHERS_PERCENT: u64 = 33;
/// If not all columns take a value, a short run tries so many of them one by one.
const TRIED_AT_ONCE: usize = 18;
/// And so many of those that refuse it get their statement.
const REFUSING_AT_ONCE: usize = 3;

pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) percent: u64,
}

pub(crate) struct Outcome {
    kind: Kind,
    pub(crate) findings: Findings,
    /// Statements through the proxy.
    pub(crate) proxied: u64,
    took: Duration,
}

impl Outcome {
    pub(crate) fn summary(&self) -> String {
        format!(
            "values: {}: {} statements through the proxy in {:.1} s, {} differences",
            self.kind.name(),
            self.proxied,
            self.took.as_secs_f64(),
            self.findings.count()
        )
    }
}

pub(crate) fn run_all(kind: Kind, draw: &Draw, filter: &str) -> Option<Outcome> {
    // For values of 20 MB.
    let arguments = vec!["--max-allowed-packet=128M".to_owned()];
    let server = Server::start_with(kind, ServerOptions { arguments, ..ServerOptions::default() })?;
    let columns = columns(kind);
    let mut observer = Client::connect(&server.address(), &Options::default()).expect("root logs in");
    sides::make_tables(&mut observer, &columns, &sources(kind));
    let rules = |schema: &str| {
        format!(
            "schema = \"{schema}\"\n[generators.{schema}]\nkind = \"sequence\"\nstart = 1\nseed = \"none\"\n\
             [tables.\"t*\"]\ncolumn = \"id\"\ngenerator = \"{schema}\"\n"
        )
    };
    let config = proxy::config(&server.address()) + "[limits]\nstatement_bytes = \"64MiB\"\n";
    let proxy = Proxy::start(&config, &[(AUTO, &rules(AUTO)), (PLAIN, &rules(PLAIN))]);
    let side = |address: &str, schema| Side::connect(address, schema).expect("root logs in");
    let mut forms = forms(kind, &columns);
    forms.retain(|form| form.name.contains(filter));
    let mut run = Run {
        kind,
        draw: StdRng::seed_from_u64(draw.seed),
        percent: draw.percent,
        columns: &columns,
        observer,
        tried: side(&server.address(), TRIED),
        native: side(&server.address(), NATIVE),
        proxied: [side(&proxy.address(), AUTO), side(&proxy.address(), PLAIN)],
        done: Vec::new(),
        findings: Findings::default(),
        count: 0,
        k: 0,
    };
    let started = Instant::now();
    for sql_mode in MODES {
        for ignore in [false, true] {
            run.batch(&forms, sql_mode, ignore).expect("the server goes on");
        }
    }
    Some(Outcome { kind, findings: run.findings, proxied: run.count, took: started.elapsed() })
}

struct Run<'a> {
    kind: Kind,
    draw: StdRng,
    percent: u64,
    columns: &'a [Column],
    observer: Client,
    /// Natively, to see which columns take a value.
    tried: Side,
    native: Side,
    proxied: [Side; 2],
    done: Vec<Done>,
    findings: Findings,
    count: u64,
    k: usize,
}

/// A statement that was run natively and by some of the proxied sides.
struct Done {
    k: usize,
    form: String,
    cell: Cell,
    is_staged: bool,
    sql: String,
    native: Answer,
    /// By the sides' indexes; what is not there was not run, or broke off.
    proxied: [Option<Answer>; 2],
}

impl Run<'_> {
    /// All forms in one sql_mode; then the tables are compared.
    fn batch(&mut self, forms: &[Form], sql_mode: &str, ignore: bool) -> io::Result<()> {
        for side in [&mut self.tried, &mut self.native].into_iter().chain(&mut self.proxied) {
            side.set_mode(sql_mode);
        }
        // The longest would take seconds each time.
        let is_left_out = |form: &Form| form.is_huge() && (ignore || sql_mode.is_empty());
        for form in forms.iter().filter(|form| !is_left_out(form)) {
            // The plain strict and the plain loose are always run.
            let is_other = ignore || sql_mode == MODES[1];
            if is_other && self.percent < 100 && self.draw.gen_range(0..100) >= OTHERS_PERCENT {
                continue;
            }
            for (cell, sides) in self.cells(form, ignore) {
                self.cell(form, cell, &sides)?;
            }
        }
        self.compare_tables();
        Ok(())
    }

    /// Draws from the ways to run a form: one, and some of the others.
    fn cells(&mut self, form: &Form, ignore: bool) -> Vec<(Cell, BTreeSet<usize>)> {
        let mut all = Vec::new();
        for &shape in form.shapes() {
            for table in TABLES {
                for is_prepared in [false, true] {
                    if is_prepared || form.bound.is_none() {
                        all.extend([0, 1].map(|side| (Cell { ignore, table, shape, is_prepared }, side)));
                    }
                }
            }
        }
        all.shuffle(&mut self.draw);
        let mut cells: Vec<(Cell, BTreeSet<usize>)> = Vec::new();
        for (index, (cell, side)) in all.into_iter().enumerate() {
            if index > 0 && self.draw.gen_range(0..100) >= self.percent {
                continue;
            }
            match cells.iter_mut().find(|(other, _)| *other == cell) {
                Some((_, sides)) => _ = sides.insert(side),
                None => cells.push((cell, BTreeSet::from([side]))),
            }
        }
        cells
    }

    fn cell(&mut self, form: &Form, cell: Cell, sides: &BTreeSet<usize>) -> io::Result<()> {
        let mut mine = form.columns(self.columns);
        let columns = self.columns;
        let pick = |indexes: &[usize]| indexes.iter().map(|index| &columns[*index]).collect::<Vec<_>>();
        if matches!(form.made, Made::Query { .. }) || self.takes(form, cell, &pick(&mine))? {
            return self.both(form, cell, &pick(&mine), sides);
        }
        if self.percent < 100 {
            mine.shuffle(&mut self.draw);
            mine.truncate(TRIED_AT_ONCE);
        }
        let (mut taking, mut refusing) = (Vec::new(), Vec::new());
        for index in mine {
            let takes = self.takes(form, cell, &pick(&[index]))?;
            if takes { taking.push(index) } else { refusing.push(index) }
        }
        if !taking.is_empty() {
            self.both(form, cell, &pick(&taking), sides)?;
        }
        if self.percent < 100 {
            refusing.shuffle(&mut self.draw);
            refusing.truncate(REFUSING_AT_ONCE);
        }
        for index in refusing {
            self.both(form, cell, &pick(&[index]), sides)?;
        }
        Ok(())
    }

    /// True if the server stores the value in these columns.
    fn takes(&mut self, form: &Form, cell: Cell, columns: &[&Column]) -> io::Result<bool> {
        Ok(!self.tried.run(&cell.statement(form, 0, columns))?.has_failed)
    }

    fn both(
        &mut self,
        form: &Form,
        cell: Cell,
        columns: &[&Column],
        sides: &BTreeSet<usize>,
    ) -> io::Result<()> {
        self.k += 1;
        let statement = cell.statement(form, self.k, columns);
        let native = self.native.run(&statement)?;
        let mut proxied = [None, None];
        for side in sides {
            self.count += 1;
            match self.proxied[*side].run(&statement) {
                Ok(answer) => proxied[*side] = Some(answer),
                Err(error) => {
                    let sql = sql_of(&statement);
                    self.findings.add(self.kind, "broke off", &form.name, || format!("{error}: {sql}"));
                    self.proxied[*side].connect_again()?;
                }
            }
        }
        let sql = sql_of(&statement);
        let (form, is_staged) = (form.name.clone(), cell.is_staged(form));
        let done = Done { k: self.k, form, cell, is_staged, sql, native, proxied };
        for (side, schema) in [AUTO, PLAIN].into_iter().enumerate() {
            if let Some(answer) = &done.proxied[side] {
                self.compare_answers(&done, answer, schema);
            }
        }
        self.done.push(done);
        Ok(())
    }

    /// Notes a difference that is not declared.
    fn differs(
        &mut self,
        (done, answer, schema): (&Done, &Answer, &str),
        fact: &str,
        (native, proxied): (&str, &str),
        what: &str,
    ) {
        let place = Place {
            kind: self.kind,
            schema,
            cell: done.cell,
            is_staged: done.is_staged,
            has_failed: done.native.has_failed || answer.has_failed,
            form: &done.form,
        };
        if !is_declared(place, fact, native, proxied) {
            self.findings.add(self.kind, fact, &done.form, || {
                format!("{what}{}: {schema} {}", differing(native, proxied), done.sql)
            });
        }
    }

    fn compare_answers(&mut self, done: &Done, answer: &Answer, schema: &str) {
        let here = (done, answer, schema);
        if let Some((_, why)) = answer.facts.iter().find(|(fact, _)| *fact == "refused") {
            return self.differs(here, "refused", ("", why), "");
        }
        let facts = |answer: &Answer| {
            let mut facts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (fact, value) in &answer.facts {
                facts.entry(fact).or_default().push(value.clone());
            }
            facts
        };
        let (native, proxied) = (facts(&done.native), facts(answer));
        let names: BTreeSet<_> = native.keys().chain(proxied.keys()).copied().collect();
        for fact in names {
            let text = |facts: &BTreeMap<&str, Vec<String>>| {
                facts.get(fact).map_or("none".to_owned(), |v| v.join(" | "))
            };
            let (native, proxied) = (text(&native), text(&proxied));
            if native != proxied {
                self.differs(here, fact, (&native, &proxied), "");
            }
        }
    }

    fn compare_tables(&mut self) {
        let done = std::mem::take(&mut self.done);
        let native = self.take_stored(NATIVE);
        self.take_stored(TRIED);
        for (side, schema) in [AUTO, PLAIN].into_iter().enumerate() {
            let proxied = self.take_stored(schema);
            let done: Vec<_> =
                done.iter().filter_map(|done| Some((done, done.proxied[side].as_ref()?))).collect();
            for (done, answer) in &done {
                self.compare_rows(done, answer, &native, &proxied, schema);
            }
            self.look_for_gaps(&done, &proxied, schema);
        }
    }

    fn take_stored(&mut self, schema: &str) -> BTreeMap<usize, Stored> {
        // Rows of TRIED only fill its tables: their values are not compared.
        let columns = if schema == TRIED { &[] } else { self.columns };
        let stored = |table| sides::take_stored(&mut self.observer, schema, table, columns);
        TABLES.into_iter().flat_map(stored).collect()
    }

    fn compare_rows(
        &mut self,
        done: &Done,
        answer: &Answer,
        native: &BTreeMap<usize, Stored>,
        proxied: &BTreeMap<usize, Stored>,
        schema: &str,
    ) {
        if answer.facts.iter().any(|(fact, _)| *fact == "refused") {
            return;
        }
        let nothing = Stored::default();
        let stored = |rows: &'_ BTreeMap<usize, Stored>| rows.get(&done.k).unwrap_or(&nothing).clone();
        let (native, proxied) = (stored(native), stored(proxied));
        let here = (done, answer, schema);
        if native.rows.len() != proxied.rows.len() {
            let counts = [&native, &proxied].map(|stored| stored.rows.len().to_string());
            return self.differs(here, "rows", (&counts[0], &counts[1]), "");
        }
        for (native, proxied) in native.rows.iter().zip(&proxied.rows) {
            let columns = self.columns.iter().zip(native.iter().zip(proxied));
            for (column, (native, proxied)) in columns.filter(|(_, (native, proxied))| native != proxied) {
                self.differs(here, "stored", (native, proxied), &format!("{}: ", column.name));
            }
        }
        // The place of the client's insert id among the rows of the statement.
        let told = |answer: &Answer, stored: &Stored| {
            let place = |id: &u64| match stored.ids.iter().position(|stored| stored == id) {
                Some(place) => format!("row {place}"),
                None if *id == 0 => "none".to_owned(),
                None => "no row's".to_owned(),
            };
            answer.insert_ids.iter().map(place).collect::<Vec<_>>().join(" | ")
        };
        let (native, proxied) = (told(&done.native, &native), told(answer, &proxied));
        if native != proxied {
            self.differs(here, "insert id", (&native, &proxied), "");
        }
    }

    /// A statement takes the ids after those of the one before it, as many as it has rows. A failed statement
    /// may have taken some.
    fn look_for_gaps(&mut self, done: &[(&Done, &Answer)], stored: &BTreeMap<usize, Stored>, schema: &str) {
        let failed: BTreeSet<usize> =
            done.iter().filter(|(_, answer)| answer.has_failed).map(|(done, _)| done.k).collect();
        let mut last: Option<(usize, u64)> = None;
        for (done, answer) in done {
            for id in stored.get(&done.k).into_iter().flat_map(|stored| &stored.ids) {
                let gap =
                    last.filter(|(k, last)| *id != last + 1 && failed.range(*k..=done.k).next().is_none());
                if let Some((_, last)) = gap {
                    let (expected, id) = ((last + 1).to_string(), id.to_string());
                    self.differs((done, answer, schema), "gap", (&expected, &id), "");
                }
                last = Some((done.k, *id));
            }
        }
    }
}

fn sql_of(statement: &Statement) -> String {
    let sql: String = statement.sql.chars().take(300).collect();
    let how = if statement.executions.is_some() { " (prepared)" } else { "" };
    format!("{sql}{how}")
}
