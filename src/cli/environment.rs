//! What the environment says, as `--help` tells it.

use crate::config::keys::ConfigFile;
use crate::toml_file;

/// For `-h`.
pub(super) const IN_SHORT: &str =
    "ROWSTAMP_SECTION__KEY in the environment is a key of rowstamp.toml: --help lists them.";

/// For `--help`, with the variables of all keys.
pub(super) fn help() -> String {
    let variables = toml_file::variables_of::<ConfigFile>().join("\n  ");
    let page = crate::book::page!("environment");
    format!(
        "Environment:\n  \
         ROWSTAMP_CONFIG is the configuration file where --config does not name one.\n\n  \
         Each key of rowstamp.toml has a variable, which comes before the file: ROWSTAMP_, the section, two \
         underscores, the key. ROWSTAMP_BACKEND__ADDRESS=db:3306 is address under [backend]. A list is written with \
         commas, or as TOML has it. Where there is no rowstamp.toml, and no other file is named, they are the whole \
         configuration. A variable with two underscores that is no key is an error.\n\n  \
         ${{NAME}} in a value of rowstamp.toml is the text of that variable; $${{ is the two characters. rowstamp.toml \
         may also name a variable for a password: password_env. More: {page}\n\n\
         Variables of all keys:\n  {variables}"
    )
}
