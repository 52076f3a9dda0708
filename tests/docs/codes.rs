//! docs/check.md lists the codes as they are. tests/lint shows each of that list on real servers.

use rowstamp::lint::Code;

use super::check_part;

#[test]
fn the_list_of_codes_is_that_of_the_code() {
    let rows: Vec<_> = Code::ALL.iter().map(|code| format!("| `{code}` | {} |\n", code.meaning())).collect();
    check_part("docs/check.md", "codes", &format!("| code | what |\n|---|---|\n{}", rows.concat()));
}
