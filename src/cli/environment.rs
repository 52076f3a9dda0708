//! The text about environment variables in `--help`.

use crate::config::keys::ConfigFile;
use crate::toml_file;

/// For `-h`.
pub(super) const IN_SHORT: &str =
    "The variable ROWSTAMP_SECTION__KEY sets a key of rowstamp.toml; --help lists all variables.";

/// For `--help`, with the variables of all keys.
pub(super) fn help() -> String {
    let variables = toml_file::variables_of::<ConfigFile>().join("\n  ");
    let page = crate::book::page!("environment");
    format!(
        "Environment:\n  \
         ROWSTAMP_CONFIG is the configuration file if --config does not name one.\n\n  \
         Each key of rowstamp.toml has a variable, which takes precedence over the file: ROWSTAMP_, the section, two \
         underscores, the key. ROWSTAMP_BACKEND__ADDRESS=db:3306 is address under [backend]. A list is written with \
         commas, or as in TOML. If there is no rowstamp.toml, and no other file is named, the variables are the whole \
         configuration. A variable with two underscores that names no key is an error.\n\n  \
         ${{NAME}} in a value of rowstamp.toml is the text of the variable NAME; $${{ is the two characters ${{. \
         rowstamp.toml may also name a variable for a password: password_env. More: {page}\n\n\
         Variables of all keys:\n  {variables}"
    )
}
