//! `rewrite.verify`: which rewrites get a second opinion, and what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::settings::Verify;
use crate::mysql::error::Refusal;
use crate::rewrite::plan::Plan;
use crate::rewrite::verify::{Opinion, Written, second_opinion};
use crate::sql::dialect::Dialect;

/// "sample" verifies the first rewrite and then each of this number.
pub const SAMPLE_EVERY: u64 = 256;

/// The mode, and counts that all sessions share.
#[derive(Debug, Clone)]
pub struct Verifier {
    pub mode: Verify,
    counts: Arc<Counts>,
}

/// Rewritten texts since the start, executions of prepared ones left out.
#[derive(Debug, Default)]
pub struct Counts {
    /// Texts that were sent under "sample", verified or not.
    seen: AtomicU64,
    agreed: AtomicU64,
    not_verified: AtomicU64,
    refused: AtomicU64,
}

impl Verifier {
    pub fn new(mode: Verify) -> Self {
        Verifier { mode, counts: Arc::default() }
    }

    pub(super) fn is_due(&self) -> bool {
        match self.mode {
            Verify::Off => false,
            // A counter and not the text's hash: no statement is left out for good.
            Verify::Sample => self.counts.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE_EVERY),
            Verify::Always => true,
        }
    }

    /// Refuses what is not to be sent.
    pub(super) fn judge(
        &self,
        plan: &Plan,
        dialect: &Dialect,
        (before, after): (&[u8], &[u8]),
        written: Written<'_>,
    ) -> Result<(), Refusal> {
        let count = |which: &AtomicU64| which.fetch_add(1, Ordering::Relaxed);
        match second_opinion(plan, dialect, before, after, written) {
            Opinion::Agrees => count(&self.counts.agreed),
            Opinion::NotVerified => count(&self.counts.not_verified),
            Opinion::Differs(difference) => {
                count(&self.counts.refused);
                let table = plan.inserts.first().map(|insert| insert.target.named()).unwrap_or_default();
                tracing::error!(
                    statement = digest(before),
                    table = format!("{}.{}", table.0, table.1),
                    "rewrite.verify: {difference}; the statement is refused. This is a fault of Rowstamp or of its second \
                     parser: please report it"
                );
                return Err(Refusal::Statement(format!(
                    "{}.{}: rewrite.verify refuses this INSERT: {difference}; write the INSERT in a simpler form",
                    table.0, table.1
                )));
            }
        };
        Ok(())
    }

    /// Rewrites that were found right, that could not be judged, and that were refused.
    pub fn counted(&self) -> [u64; 3] {
        [&self.counts.agreed, &self.counts.not_verified, &self.counts.refused]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

/// The name of a statement in the log: it distinguishes the statement from others, and shows nothing of its text.
fn digest(text: &[u8]) -> String {
    let hash = Sha256::digest(text);
    let first = hash.first_chunk().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;

    use super::{SAMPLE_EVERY, Verifier, Verify, digest};
    use crate::ids::block::{IdBlock, Spacing};
    use crate::rewrite::plan::target::Target;
    use crate::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
    use crate::rewrite::planner::plan;
    use crate::rewrite::verify::Written;
    use crate::rules::set::tests::rule;
    use crate::sql::dialect::Dialect;

    #[test]
    fn how_many_are_due() {
        for (mode, expected) in
            [(Verify::Off, 0), (Verify::Sample, 3), (Verify::Always, 2 * SAMPLE_EVERY + 1)]
        {
            let verifier = Verifier::new(mode);
            let due = (0..=2 * SAMPLE_EVERY).filter(|_| verifier.is_due()).count();
            assert_eq!(due as u64, expected, "{mode:?}");
        }
    }

    /// A table `shop.t` whose `id` is ours.
    fn target() -> Arc<Target> {
        let spacing = Spacing::by(NonZeroU64::MIN);
        Arc::new(Target::new(Arc::new(rule("shop", "t")), "t", None, spacing))
    }

    #[test]
    fn a_planted_wrong_splice_is_refused_and_counted() {
        let dialect = Dialect::MARIADB;
        let target = target();
        let lookup = |_: &str, _: &str| Lookup::Ruled(target.clone());
        let view = PlanContext::fresh(&dialect, Some("shop"), &lookup);
        let verifier = Verifier::new(Verify::Always);
        let before = b"INSERT INTO t(a) VALUES ('secret')";
        let Planned::Rewrite(plan) = plan(before, &view, Protocol::Text) else { panic!("it is ruled") };
        let ids = [IdBlock::new(7, Spacing::by(NonZeroU64::MIN), NonZeroU64::MIN).unwrap()];
        let right = plan.splice(before, &ids).unwrap();
        let wrong = b"INSERT INTO t(a,`id`) VALUES (LAST_INSERT_ID(7),'secret')";
        let judge = |after: &[u8]| verifier.judge(&plan, &dialect, (before, after), Written::Ids(&ids));
        assert_eq!(judge(&right), Ok(()));
        let refusal = judge(wrong).unwrap_err();
        assert_eq!(refusal.code().0, 1235);
        let text = refusal.to_string();
        assert!(text.starts_with("rowstamp: shop.t: rewrite.verify") && !text.contains("secret"), "{text}");
        assert_eq!(verifier.counted(), [1, 0, 1]);
    }

    #[test]
    fn a_digest_is_the_texts_own() {
        assert_eq!(digest(b"").len(), 16);
        assert_ne!(digest(b"insert"), digest(b"INSERT"));
    }
}
