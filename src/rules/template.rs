//! Generators that are named after their tables: `{table}` and `{schema}` in a generator's name.

use super::model::GeneratorName;
use super::pattern;

/// Stands for the schema of a table.
pub const SCHEMA: &str = "{schema}";
/// Stands for a table's name.
pub const TABLE: &str = "{table}";

/// MySQL manual, "Identifier Length Limits".
pub const NAME_CHARS_MAX: usize = 64;

/// True if a name has words in it that stand for a table's names; an error: what is wrong with the name.
pub fn words(text: &str) -> Result<bool, String> {
    if text.contains("${") {
        return Err("has a ${, but rules files cannot use variables; write the name itself".to_owned());
    }
    let rest = literal(text);
    let Some(at) = rest.find(['{', '}']) else { return Ok(rest.len() < text.len()) };
    let word = rest.get(at..).and_then(|rest| rest.split_inclusive('}').next()).unwrap_or_default();
    Err(format!("has {word:?}, which has no meaning here; write \"{SCHEMA}\" or \"{TABLE}\""))
}

/// The text without its words.
pub fn literal(text: &str) -> String {
    text.replace(SCHEMA, "").replace(TABLE, "")
}

/// True if the names of generators may have this character.
pub fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// With a table's names in place of the words. In one pass: a schema may be named `{table}`.
fn filled(text: &str, schema: &str, table: &str) -> String {
    let mut made = String::with_capacity(text.len() + schema.len() + table.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(SCHEMA) {
            made.push_str(schema);
            rest = after;
        } else if let Some(after) = rest.strip_prefix(TABLE) {
            made.push_str(table);
            rest = after;
        } else {
            made.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    made
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

impl GeneratorName {
    /// True if the name stands for a generator of each table, or of each schema.
    pub fn is_template(&self) -> bool {
        [&self.schema, &self.name].into_iter().any(|text| text.contains(SCHEMA) || text.contains(TABLE))
    }

    /// The name for the tables of one schema.
    #[must_use]
    pub fn of_schema(&self, schema: &str) -> GeneratorName {
        GeneratorName {
            schema: filled(&self.schema, schema, TABLE),
            name: filled(&self.name, &plain(schema), TABLE),
        }
    }

    /// The name for one table. What a generator's name cannot hold becomes `_`: at worst two tables share a generator, and no id
    /// comes twice.
    #[must_use]
    pub fn of_table(&self, schema: &str, table: &str) -> GeneratorName {
        let table = plain(table);
        GeneratorName {
            schema: filled(&self.schema, schema, &table),
            name: filled(&self.name, &plain(schema), &table),
        }
    }

    /// True if this template may stand for `name`.
    pub fn makes(&self, name: &GeneratorName) -> bool {
        self.makes_for("*", "*", name)
    }

    /// True if this template may stand for `name` where tables are called like this. Letter case is ignored too, because only the
    /// server says whether it counts.
    pub fn makes_for(&self, schema: &str, table: &str, name: &GeneratorName) -> bool {
        let of_name = |pattern: &str| -> String {
            pattern.chars().map(|c| if is_plain(c) || matches!(c, '*' | '?') { c } else { '_' }).collect()
        };
        let fits = |text: &str, schema: &str, name: &str| {
            let pattern = filled(text, schema, &of_name(table));
            pattern::matches(&pattern, name)
                || pattern::matches(&pattern.to_lowercase(), &name.to_lowercase())
        };
        fits(&self.schema, schema, &name.schema) && fits(&self.name, &of_name(schema), &name.name)
    }

    pub fn is_too_long(&self) -> bool {
        self.name.chars().count() > NAME_CHARS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::rules::model::GeneratorName;

    #[test]
    fn words_of_names() {
        let nothing = |word: &str| {
            Err(format!("has {word:?}, which has no meaning here; write \"{{schema}}\" or \"{{table}}\""))
        };
        for (text, expect) in [
            ("orders", Ok(false)),
            ("{table}", Ok(true)),
            ("{schema}.{table}", Ok(true)),
            ("ids_{schema}", Ok(true)),
            ("{tabel}", nothing("{tabel}")),
            ("a{", nothing("{")),
            ("{Table}x", nothing("{Table}")),
            ("a}", nothing("}")),
            ("${T}", Err("has a ${, but rules files cannot use variables; write the name itself".to_owned())),
        ] {
            assert_eq!(words(text), expect, "{text}");
        }
    }

    #[track_caller]
    fn check(template: (&str, &str), table: (&str, &str), expect: &str) {
        let template = GeneratorName { schema: template.0.into(), name: template.1.into() };
        let made = template.of_table(table.0, table.1);
        assert_eq!(made.to_string(), expect, "{template} {table:?}");
        assert_eq!(template.of_schema(table.0).of_table("other", table.1), made, "{template} in two steps");
        assert!(template.makes(&made), "{template} {made}");
    }

    #[test]
    fn whose_generator_a_name_is() {
        let template = |schema: &str, name: &str| GeneratorName { schema: schema.into(), name: name.into() };
        let (own, of_name) = (template("{schema}", "{table}"), template("ids", "{schema}_{table}"));
        for (template, schema, table, name, expect) in [
            (&own, "shop_*", "*", ("shop_1", "orders"), true),
            (&own, "shop_*", "*", ("crm_1", "orders"), false),
            (&own, "Shop_*", "a b*", ("shop_1", "a_b_7"), true),
            (&own, "shop_*", "o?ders", ("shop_1", "items"), false),
            (&of_name, "shop.*", "o*", ("ids", "shop_1_orders"), true),
            (&of_name, "shop.*", "o*", ("ids", "shop_1_items"), false),
        ] {
            let name = GeneratorName { schema: name.0.into(), name: name.1.into() };
            let made = template.makes_for(schema, table, &name);
            assert_eq!(made, expect, "{template} {schema} {table} {name}");
        }
    }

    #[test]
    fn names_of_tables() {
        check(("{schema}", "{table}"), ("shop_1", "orders"), "shop_1.orders");
        check(("ids", "{table}"), ("shop_1", "orders"), "ids.orders");
        check(("ids", "{schema}_{table}_x"), ("a.b", "c d"), "ids.a_b_c_d_x");
        check(("{schema}", "ids"), ("shop 1", "x"), "shop 1.ids");
    }
}
