//! Verdicts counted by combination.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write};
use std::fs;
use std::path::Path;

use crate::differential::case::Case;
use crate::differential::compare::Verdict;
use crate::differential::run::{Protocol, Variant};
use crate::support::Kind;

const COMPLAINTS_SHOWN: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Combination {
    pub(crate) server: Kind,
    pub(crate) protocol: Protocol,
    pub(crate) variant: Variant,
}

impl Combination {
    pub(crate) const WORDS: [&str; 6] = ["mariadb", "mysql9", "text", "prepared", "with", "without"];

    fn words(self) -> [&'static str; 3] {
        let protocol = match self.protocol {
            Protocol::Text => "text",
            Protocol::Prepared => "prepared",
        };
        let variant = match self.variant {
            Variant::With => "with",
            Variant::Without => "without",
            Variant::Shifted => "shifted",
        };
        [self.server.name(), protocol, variant]
    }

    /// True if all these of `WORDS` are true of it.
    pub(crate) fn matches(self, words: &[String]) -> bool {
        words.iter().all(|word| self.words().contains(&word.as_str()))
    }
}

impl Display for Combination {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let [server, protocol, variant] = self.words();
        write!(out, "{server:<8} {protocol:<9} {variant:<7} AUTO_INCREMENT")
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) right: usize,
    pub(crate) refused: usize,
    pub(crate) wrong: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<Combination, Counts>,
    /// By case and what is wrong with it: where.
    complaints: BTreeMap<(String, Vec<String>), Vec<Combination>>,
    /// Declared differences that were needed, and how often.
    excused: BTreeMap<String, usize>,
    refused_so_far: BTreeSet<String>,
    refused_for_good: BTreeSet<String>,
    /// Commands whose bytes were compared on both sides of the proxy.
    pub(crate) bytes_compared: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, combination: Combination, case: &Case, verdict: Verdict) {
        let counts = self.counts.entry(combination).or_default();
        match verdict {
            Verdict::Right { excused, refusals } => {
                counts.right += 1;
                let said = case.refusals_for_good().zip(refusals);
                self.refused_for_good.extend(said.map(|(why, message)| format!("{why}\n    {message}")));
                for id in excused {
                    *self.excused.entry(id).or_default() += 1;
                }
            }
            Verdict::Refused { why, message } => {
                counts.refused += 1;
                self.refused_so_far.insert(format!("{why}\n    {message}"));
            }
            Verdict::Wrong { complaints } => {
                counts.wrong += 1;
                let head = format!("{} ({})", case.name, case.place);
                self.complaints.entry((head, complaints)).or_default().push(combination);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.counts.extend(other.counts);
        self.bytes_compared += other.bytes_compared;
        for (complaint, combinations) in other.complaints {
            self.complaints.entry(complaint).or_default().extend(combinations);
        }
        self.refused_so_far.extend(other.refused_so_far);
        self.refused_for_good.extend(other.refused_for_good);
        for (id, times) in other.excused {
            *self.excused.entry(id).or_default() += times;
        }
    }

    pub(crate) fn wrong(&self) -> usize {
        self.counts.values().map(|counts| counts.wrong).sum()
    }

    pub(crate) fn by_combination(&self) -> impl Iterator<Item = (&Combination, &Counts)> {
        self.counts.iter()
    }

    pub(crate) fn excused(&self) -> BTreeSet<String> {
        self.excused.keys().cloned().collect()
    }

    /// The first of what is wrong; all of it goes to a file that the text names.
    pub(crate) fn complaints(&self) -> String {
        let describe = |((head, complaints), combinations): (&(String, Vec<String>), &Vec<Combination>)| {
            let places: Vec<_> =
                combinations.iter().map(|combination| combination.words().join(" ")).collect();
            format!("{head}\n    in {}\n    {}\n", places.join(", "), complaints.join("\n    "))
        };
        let all: Vec<String> = self.complaints.iter().map(describe).collect();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judge-complaints.txt");
        fs::write(&file, all.concat()).expect("the target folder is writable");
        let shown = all.iter().take(COMPLAINTS_SHOWN).map(String::as_str).collect::<String>();
        format!("{shown}{} complaints, all in {}", all.len(), file.display())
    }

    pub(crate) fn summary(&self, title: &str) -> String {
        let mut text = format!("judge, {title}:");
        for (combination, Counts { right, refused, wrong }) in &self.counts {
            let _ = write!(
                text,
                "\n  {combination}: {right:>4} right, {refused:>3} refused as listed, {wrong:>3} wrong"
            );
        }
        let _ = write!(text, "\n  {} commands compared byte for byte", self.bytes_compared);
        for (id, times) in &self.excused {
            let _ = write!(text, "\n  declared difference {id}: {times} times");
        }
        for (title, forms) in
            [("refused for good", &self.refused_for_good), ("refused so far", &self.refused_so_far)]
        {
            for form in forms {
                let _ = write!(text, "\n  {title}: {form}");
            }
        }
        text
    }
}
