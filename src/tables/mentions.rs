//! Which texts can concern a rule at all: the words of ruled tables, of tables in shadow mode, and
//! of their views.

use crate::rules::mentions::{DefaultSchema, Mention, Mentions};
use crate::rules::model::Mode;
use crate::sql::draws::may_be_in;
use crate::sql::look::has_any_word;
use crate::sql::statement::dynamic::shows_its_text;
use crate::table_name::FoldedName;
use crate::tables::Tables;
use crate::tables::looks::names::Names;

/// True if a rule may concern a text in which `mention` was found. `escapes`: whether backslashes
/// are escapes, if that is known.
pub(crate) fn is_concerning(mention: Mention, text: &[u8], escapes: Option<bool>) -> bool {
    mention.table || mention.draws || mention.dynamic && !shows_its_text(text, escapes)
}

/// True if a text in which `mention` was found may make or drop a SEQUENCE of a generator's name, or a function that
/// a call would then mean.
pub(crate) fn may_change_calls(mention: Mention, text: &[u8]) -> bool {
    mention.draw_words && has_any_word(text, &["sequence", "function"])
}

/// True if a text inserts, as far as its words show.
fn inserts(text: &[u8]) -> bool {
    has_any_word(text, &["insert", "replace", "load"])
}

impl Tables {
    /// Which ruled names are in a text. While there may be a view that nobody has read yet, every
    /// text that may insert may name it.
    pub(crate) fn mention(&self, text: &[u8], default: DefaultSchema<'_>) -> Mention {
        let mentions = self.mentions.load();
        let mention = mentions.in_text(text, default);
        let may_name_new_view = self.awaits_views(text);
        Mention { table: mention.table || may_name_new_view, ..mention }
    }

    /// True if the text may insert into a view that nobody has read yet.
    pub(crate) fn awaits_views(&self, text: &[u8]) -> bool {
        self.misses_views() && inserts(text)
    }

    /// True if there may be views that nobody has read yet, and there are rules that such views may concern.
    pub(crate) fn misses_views(&self) -> bool {
        !self.mentions.load().is_empty() && !self.views.are_read_at(self.common.ddl.seen())
    }

    pub(crate) fn may_draw(&self, text: &[u8]) -> bool {
        let mentions = self.mentions.load();
        mentions.has_draws() && may_be_in(text) && mentions.in_text(text, DefaultSchema::Unknown).draws
    }

    /// True if there are generators that calls draw from.
    pub(crate) fn has_draws(&self) -> bool {
        self.mentions.load().has_draws()
    }

    /// True if the default database is, or may be, one with rules.
    pub(crate) fn has_rules_in(&self, default: DefaultSchema<'_>) -> bool {
        self.mentions.load().has_names_in(default)
    }

    /// True if a rule may concern a text, or a text within it that does not show.
    /// `escapes`: as in [`is_concerning`].
    pub(crate) fn concerns(&self, text: &[u8], default: DefaultSchema<'_>, escapes: Option<bool>) -> bool {
        is_concerning(self.mention(text, default), text, escapes)
    }

    /// By the rules, and by the views as they were read last.
    pub(super) fn renew_mentions(&self) {
        let rules = self.rules.rules().filter(|rule| rule.mode != Mode::Off);
        let views = self.views.ruled();
        let shadows = self.shadows.load();
        self.view_names.store(Names::of(views.iter().map(FoldedName::table)).into());
        let names = rules
            .map(|rule| (rule.schema.as_str(), rule.table.as_str(), true))
            .chain(views.iter().chain(shadows.views.keys()).map(|view| (view.schema(), view.table(), false)));
        let drawn = self.rules.drawn().map(|spec| spec.name.name.as_str());
        self.mentions.store(Mentions::new(names).and_draws(drawn).into());
    }
}
