//! What no rule can concern, in a session that has named something ruled before: it is not refused, however little of it can be read.

use crate::proxy::known::view::Named;
use crate::proxy::relay::unconcerned::is_unnamed_compound;
use crate::proxy::session::Session;
use crate::rewrite::plan::Planned;
use crate::rewrite::plan::effects::Effects;
use crate::sql::glance::{has_word, may_execute_name};
use crate::sql::last_result::first_word;
use crate::tables::Tables;

impl Session {
    /// What no rule can concern is not refused, however little of it can be read; and DDL that names nothing ruled makes nobody read
    /// columns or views again.
    pub(in crate::proxy) fn spared(&self, tables: &Tables, text: &[u8], planned: Planned) -> Planned {
        match planned {
            Planned::Refused(_) | Planned::Unreadable(_) | Planned::Stale { .. } | Planned::Away(_)
                if self.is_unconcerned(tables, text) =>
            {
                Planned::Untouched(Effects::unseen())
            }
            Planned::Untouched(effects) if effects.ddl => {
                let mention = tables.mention(text, self.relay.view.default_schema());
                // What a routine prepares is not run when it is made.
                let hides = mention.dynamic && !first_word(text).eq_ignore_ascii_case(b"create");
                let names_nothing = !(mention.table || mention.schema || hides);
                let ddl = !names_nothing || has_word(text, b"execute");
                Planned::Untouched(Effects { ddl, ..effects })
            }
            planned => planned,
        }
    }

    /// What a text names, and what the server has told of variables.
    pub(in crate::proxy) fn named(&self, tables: &Tables, text: &[u8]) -> Named {
        let view = &self.relay.view;
        let default = view.default_schema();
        let named = |text: &[u8]| Named::new(tables.mention(text, default), tables.has_rules_in(default));
        view.names.told().map(|text| named(text.as_bytes())).fold(named(text), Named::and)
    }

    /// Whether neither a text nor what the server told of the variables that it runs can concern a rule.
    pub(in crate::proxy) fn is_unconcerned(&self, tables: &Tables, text: &[u8]) -> bool {
        let view = &self.relay.view;
        let default = view.default_schema();
        let concerns = |text: &[u8]| tables.concerns(text, default, self.relay.escapes());
        if is_unnamed_compound(tables, text, default, view.named) {
            return true;
        }
        if may_execute_name(text) && view.names.may_run(concerns) {
            return false;
        }
        let mut told = view.names.told().peekable();
        let is_seen = if told.peek().is_some() {
            // The one text of the only statement.
            memchr::memchr(b';', text.trim_ascii_end().strip_suffix(b";").unwrap_or(text)).is_none()
                && !tables.mention(text, default).table
        } else {
            !concerns(text)
        };
        is_seen && told.all(|text| !concerns(text.as_bytes()))
    }
}
