//! docs/check.md lists the codes as they are, and every code has a row or a test on real servers.

use std::fs;
use std::path::Path;

use rowstamp::lint::Code;

use crate::rows::ROWS;

#[test]
fn the_list_of_codes_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/check.md");
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- codes: begin -->\n", "<!-- codes: end -->\n");
    let (head, rest) = text.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let row = |code: &Code| format!("| `{code}` | {} |", code.meaning());
    let rows: Vec<String> = Code::ALL.iter().map(row).collect();
    let rows = rows.join("\n");
    let expect = format!("{head}{begin}| code | what |\n|---|---|\n{rows}\n{end}{tail}");
    if std::env::var_os("ROWSTAMP_UPDATE").is_some() {
        fs::write(&path, &expect).unwrap();
        return;
    }
    assert!(
        text == expect,
        "docs/check.md is not what the code says: run ROWSTAMP_UPDATE=1 cargo test --test lint docs::"
    );
}

#[test]
fn every_code_is_shown_by_a_real_server() {
    let others = [include_str!("servers.rs"), include_str!("accounts.rs"), include_str!("text.rs")];
    for code in Code::ALL {
        let code = code.as_str();
        let is_named = others.iter().any(|text| text.contains(&format!("\"{code}\"")));
        assert!(is_named || ROWS.iter().any(|row| row.code == code), "{code}");
    }
}
