//! A difference, reduced to what is needed to show it.

use std::collections::BTreeSet;

use crate::differential::declared::Declared;
use crate::differential::lab::Lab;
use crate::differential::run::{self, Role, Variant};
use crate::differential::tally::Combination;
use crate::random::runner;
use crate::random::session::{self, Drawn, Recipe};
use crate::support::raw::Client;

/// Runs of the reduced case, at most.
const TRIALS: usize = 400;

pub(crate) fn report(
    lab: &Lab,
    observer: &mut Client,
    declared: &Declared,
    drawn: &Drawn,
    here: Combination,
    complaints: &[String],
) -> String {
    let mut trial = Trial { lab, observer, declared, here, field: field_of(complaints), left: TRIALS };
    let mut smallest = drawn.recipe.clone();
    let told = if trial.fails(&smallest).is_some() {
        while let Some(smaller) = trial.step(&smallest) {
            smallest = smaller;
        }
        trial.left = 1;
        trial.fails(&smallest).unwrap_or_else(|| complaints.to_vec()).join("\n    ")
    } else {
        format!("(not alone, so not reduced)\n    {}", complaints.join("\n    "))
    };
    let case = session::replay(&smallest).case;
    format!("{} {here}\n    {told}\n{}", drawn.case.name, crate::random::print::case(&case))
}

/// "step 3 insert_id: ..." -> "insert_id": a smaller case must be wrong in the same way.
fn field_of(complaints: &[String]) -> String {
    let first = complaints.first().map_or("", String::as_str);
    let field = first.split(':').next().unwrap_or_default();
    field.trim_start_matches("step ").trim_start_matches(|c: char| c.is_ascii_digit()).to_owned()
}

struct Trial<'a> {
    lab: &'a Lab,
    observer: &'a mut Client,
    declared: &'a Declared,
    here: Combination,
    field: String,
    left: usize,
}

impl Trial<'_> {
    fn fails(&mut self, recipe: &Recipe) -> Option<Vec<String>> {
        self.left = self.left.checked_sub(1)?;
        let drawn = session::replay(recipe);
        if !drawn.case.runs_by(self.here.protocol) {
            return None;
        }
        let Combination { protocol, variant, .. } = self.here;
        let lab = self.lab;
        let mut run = |case: &crate::differential::case::Case| {
            lab.with_bytes(run::run(case, self.observer, lab.proxied(), protocol, variant, Role::Proxied))
        };
        let proxied = runner::run_refusing(&drawn.case, &mut run);
        let native = proxied.as_ref().ok().map(|proxied| {
            run::run(&proxied.case, self.observer, lab.direct(), protocol, Variant::With, Role::Native)
        });
        let complaints = match (proxied, native) {
            (Ok(proxied), Some(Ok(native))) => {
                runner::judge(&drawn, &proxied.case, &native, &proxied.record, self.declared, self.here)?
            }
            (proxied, native) => {
                *self.observer = lab.observer();
                let why = proxied.err().or_else(|| native.and_then(Result::err))?;
                vec![format!("broke off: {why}")]
            }
        };
        (field_of(&complaints) == self.field).then_some(complaints)
    }

    /// The first smaller recipe that still fails.
    fn step(&mut self, recipe: &Recipe) -> Option<Recipe> {
        smaller(recipe).find(|smaller| self.fails(smaller).is_some())
    }
}

/// Without a statement; then without parts of one's choices; then with choices made plainer.
fn smaller(recipe: &Recipe) -> impl Iterator<Item = Recipe> {
    let with = |index: usize, made: Vec<u32>| {
        let mut smaller = recipe.clone();
        smaller.statements[index] = made;
        smaller
    };
    let dropped = (0..recipe.statements.len()).rev().map(|index| {
        let mut smaller = recipe.clone();
        smaller.statements.remove(index);
        smaller
    });
    let plain_session = (recipe.session.iter().any(|n| *n != 0))
        .then(|| Recipe { session: vec![0; recipe.session.len()], ..recipe.clone() });
    let shorter = recipe.statements.iter().enumerate().flat_map(move |(index, made)| {
        let halves = [made.len() / 2, made.len() * 3 / 4, made.len().saturating_sub(8)];
        halves
            .into_iter()
            .filter(|n| *n < made.len())
            .map(move |n| with(index, made[..n].to_vec()))
            .collect::<Vec<_>>()
    });
    let cut = recipe.statements.iter().enumerate().flat_map(move |(index, made)| {
        let spans = [16, 8, 4, 2, 1].into_iter().filter(|n| *n <= made.len());
        let cuts =
            spans.flat_map(move |span| (0..=made.len() - span).step_by(span).map(move |at| (span, at)));
        cuts.map(move |(span, at)| with(index, [&made[..at], &made[at + span..]].concat()))
            .collect::<Vec<_>>()
    });
    let plainer = recipe.statements.iter().enumerate().flat_map(move |(index, made)| {
        let lower = made.iter().enumerate().flat_map(|(at, n)| {
            let lower = if *n > 0 { vec![0, n / 2, n - 1] } else { Vec::new() };
            lower.into_iter().map(move |n| (at, n)).collect::<BTreeSet<_>>()
        });
        lower
            .map(|(at, n)| {
                let mut made = made.clone();
                made[at] = n;
                with(index, made)
            })
            .collect::<Vec<_>>()
    });
    dropped.chain(plain_session).chain(shorter).chain(plainer).chain(cut)
}
