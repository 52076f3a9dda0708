//! A column's definition as SHOW CREATE TABLE prints it, changed and nothing else lost: comments, defaults, INVISIBLE.

/// The text after the column's name in CREATE TABLE: `bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'x'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition(String);

const WORD: &str = "AUTO_INCREMENT";

impl Definition {
    /// The definition of `column` in the text that SHOW CREATE TABLE prints in the usual sql_mode: a line for each column.
    pub fn of(create_table: &str, column: &str) -> Option<Definition> {
        let name = crate::sql::name::quoted(column);
        let lines = create_table.lines().skip(1).map(str::trim_start);
        let mut found = lines.filter_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
        found.next().map(|rest| Definition(rest.strip_suffix(',').unwrap_or(rest).to_owned()))
    }

    pub fn has_counter(&self) -> bool {
        place_of(&self.0, WORD).is_some()
    }

    #[must_use]
    pub fn without_counter(&self) -> Definition {
        match place_of(&self.0, WORD) {
            None => self.clone(),
            Some(at) => {
                let (before, rest) = self.0.split_at(at);
                Definition(format!("{}{}", before.trim_end(), rest.get(WORD.len()..).unwrap_or_default()))
            }
        }
    }

    #[must_use]
    pub fn with_counter(&self) -> Definition {
        if self.has_counter() { self.clone() } else { Definition(format!("{} {WORD}", self.0)) }
    }

    /// With another type, as in "bigint"; whether it is unsigned stays, and how many digits ZEROFILL makes it show.
    #[must_use]
    pub fn with_type(&self, data_type: &str) -> Definition {
        let width = self.0.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.0.len());
        let rest = self.0.get(width..).unwrap_or_default();
        // Else a display width belongs to the old type.
        let keeps_width = place_of(rest, "zerofill").is_some();
        let rest = match rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((_, behind)) if !keeps_width => behind,
            _ => rest,
        };
        Definition(format!("{data_type}{rest}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The place of a whole word in the text, outside of strings.
fn place_of(text: &str, word: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_part = |at: usize| bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let (mut at, mut in_string) = (0, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'\'' => in_string = !in_string,
            _ if !in_string => {
                let is_here = bytes
                    .get(at..at + word.len())
                    .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
                let begins = at == 0 || !is_part(at - 1);
                if is_here && begins && !is_part(at + word.len()) {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Definition;

    const CREATE: &str = "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL COMMENT 'no `id` here',\n  \
                          `i``d` int(10) unsigned NOT NULL AUTO_INCREMENT COMMENT 'AUTO_INCREMENT, isn''t it',\n  \
                          `b` bigint NOT NULL /*!80023 INVISIBLE */,\n  `z` int(5) unsigned zerofill NOT NULL,\n  PRIMARY KEY (`i``d`)\n) ENGINE=InnoDB AUTO_INCREMENT=7";

    #[track_caller]
    fn check(column: &str, change: impl Fn(&Definition) -> Definition, expect: &str) {
        assert_eq!(change(&Definition::of(CREATE, column).unwrap()).as_str(), expect);
    }

    #[test]
    fn a_columns_definition_is_changed_and_kept() {
        let id = "int(10) unsigned NOT NULL AUTO_INCREMENT COMMENT 'AUTO_INCREMENT, isn''t it'";
        check("i`d", Definition::clone, id);
        check("i`d", Definition::with_counter, id);
        check(
            "i`d",
            Definition::without_counter,
            "int(10) unsigned NOT NULL COMMENT 'AUTO_INCREMENT, isn''t it'",
        );
        check(
            "i`d",
            |id| id.without_counter().with_type("bigint"),
            "bigint unsigned NOT NULL COMMENT 'AUTO_INCREMENT, isn''t it'",
        );
        check(
            "i`d",
            |id| id.without_counter().with_counter(),
            "int(10) unsigned NOT NULL COMMENT 'AUTO_INCREMENT, isn''t it' AUTO_INCREMENT",
        );
        check("b", Definition::with_counter, "bigint NOT NULL /*!80023 INVISIBLE */ AUTO_INCREMENT");
        check("b", |b| b.with_type("int"), "int NOT NULL /*!80023 INVISIBLE */");
        check("z", |z| z.with_type("bigint"), "bigint(5) unsigned zerofill NOT NULL");
        assert_eq!(Definition::of(CREATE, "c"), None);
        assert!(!Definition::of(CREATE, "a").unwrap().has_counter());
    }
}
