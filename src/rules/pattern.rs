//! Table names with wildcards: `*` is any run of characters, `?` is one.

/// True if a table's name, as a rule writes it, stands for several tables.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// True if `pattern` matches all of `name`. Compares characters, not bytes; no allocation, and no more steps
/// than the product of both lengths: only the latest `*` is tried again.
pub fn matches(pattern: &str, name: &str) -> bool {
    run(pattern, name, |wanted, found| wanted == '?' || wanted == found)
}

/// True if `wide` matches every name that `narrow` matches, as far as the texts show:
/// `true` is a proof, `false` is not.
pub fn covers(wide: &str, narrow: &str) -> bool {
    // A wildcard of `narrow` stands for characters unknown: only a wildcard can match those, and
    // only `*` a whole run.
    run(wide, narrow, |wanted, found| found != '*' && (wanted == '?' || wanted == found))
}

fn run(pattern: &str, name: &str, one: impl Fn(char, char) -> bool) -> bool {
    let (mut wanted, mut found) = (pattern.chars(), name.chars());
    // The place to continue from if the pattern does not fit: after the latest `*`, one character later in
    // the name.
    let mut retry = None;
    loop {
        let name_here = found.clone();
        match (wanted.next(), found.next()) {
            (Some('*'), _) => {
                // The `*` takes nothing yet.
                found = name_here.clone();
                retry = Some((wanted.clone(), name_here));
            }
            (None, None) => return true,
            (Some(w), Some(f)) if one(w, f) => {}
            _ => {
                let Some((behind_star, mut taken)) = retry.take() else { return false };
                if taken.next().is_none() {
                    return false;
                }
                wanted = behind_star.clone();
                found = taken.clone();
                retry = Some((behind_star, taken));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{covers, matches};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[track_caller]
    fn check(pattern: &str, name: &str, expect: bool) {
        assert_eq!(matches(pattern, name), expect, "{pattern} on {name}");
    }

    #[test]
    fn names() {
        check("orders", "orders", true);
        check("orders", "order", false);
        check("order_*", "order_", true);
        check("order_*", "order_items_7", true);
        check("order_*", "orders", false);
        check("*_7", "a_7_7", true);
        check("*_7", "a_7_8", false);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("a?c", "a\u{fc}c", true);
        check("**", "", true);
        check("?", "", false);
        check("", "", true);
        check("*a*b*", "xxaxxbxx", true);
        check("*a*b*", "xxbxxaxx", false);
    }

    #[test]
    fn what_covers_what() {
        for (wide, narrow, expect) in [
            ("order_*", "order_items_*", true),
            ("order_items_*", "order_*", false),
            ("*", "*", true),
            ("a?", "a?", true),
            ("a*", "a?", true),
            ("a?", "a*", false),
            ("order_*", "*_log", false),
            ("*_log", "order_*", false),
        ] {
            assert_eq!(covers(wide, narrow), expect, "{wide} over {narrow}");
        }
    }

    /// The textbook recursion, exponential but plainly right.
    fn slow(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', p @ ..], _) => (0..=name.len()).any(|k| slow(p, &name[k..])),
            (['?', p @ ..], [_, n @ ..]) => slow(p, n),
            ([a, p @ ..], [b, n @ ..]) => a == b && slow(p, n),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn as_the_textbook_says(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let (p, n): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches(&pattern, &name), slow(&p, &n));
        }

        #[test]
        fn covered_means_matched(wide in "[a*?]{0,4}", narrow in "[a*?]{0,4}", name in "[ab]{0,5}") {
            if covers(&wide, &narrow) && matches(&narrow, &name) {
                prop_assert!(matches(&wide, &name));
            }
        }
    }
}
