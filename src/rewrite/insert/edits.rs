//! The edits that bring a statement's ids into its text.

use super::row_ids::RowId;
use super::{Draft, Planning, RowShape, Rows, refused};
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece, Style};
use crate::sql::insert::body::Alias;
use crate::sql::insert::{Body, Columns, Row, Source};
use crate::sql::name;
use crate::sql::value::IdValue;

impl Draft<'_> {
    fn edit(&mut self, start: u32, end: u32, params_before: u32, piece: Piece) {
        self.plan.edits.push(Edit { start, end, params_before, piece });
    }

    fn adds_column(&self, rows: &Rows<'_>) -> bool {
        self.plan.ids > 0 && rows.rows.first().is_some_and(|row| row.class == IdValue::Omitted)
    }

    /// The id goes last in the list, where it is not in it. Where the statement has no list, it
    /// gets that of the columns as they are known: DDL of somebody else may be under way, and a
    /// value must not end up in another column.
    pub(super) fn write_columns(
        &mut self,
        columns: &Columns,
        source: Source,
        rows: &Rows<'_>,
    ) -> Planning<()> {
        let with_id = self.adds_column(rows);
        match (columns, source) {
            (Columns::Unlisted, Source::Values(keyword)) if rows.shape == RowShape::Filled => {
                self.check_names(true)?;
                let charset = self.context.dialect.charset;
                self.edit(keyword.start, keyword.start, 0, Piece::AllColumns { with_id, charset });
            }
            _ if !with_id => {}
            (Columns::Listed { close, names, .. }, _) => {
                let before = if names.is_empty() { "" } else { "," };
                self.check_names(false)?;
                self.column_edit(*close, before, "");
            }
            (Columns::Unlisted, Source::Values(keyword)) => {
                self.check_names(false)?;
                self.column_edit(keyword.start, "(", ")");
            }
            (Columns::Unlisted, _) => self.check_names(false)?,
        }
        Ok(())
    }

    /// Names are written in the client's character set.
    fn check_names(&self, all: bool) -> Planning<()> {
        let target = self.context.target;
        let charset = self.context.dialect.charset;
        let all = target.shape.iter().filter(|_| all).flat_map(|shape| shape.visible());
        let mut names = all.map(|column| column.name.as_str()).chain([target.id_column()]);
        if names.all(|name| charset.written(name).is_some()) {
            return Ok(());
        }
        unwritten()
    }

    fn column_edit(&mut self, at: u32, before: &'static str, after: &'static str) {
        let charset = self.context.dialect.charset;
        self.edit(at, at, 0, Piece::Column { before, after, charset });
    }

    pub(super) fn write_rows(&mut self, rows: &Rows<'_>, text: &[u8]) {
        self.plan.edits.reserve(self.plan.ids as usize + 1);
        let mut nth = 0u32;
        let mut warned = std::mem::take(&mut self.warned).into_iter().peekable();
        for (at, row) in (0u32..).zip(rows.rows.iter()) {
            if warned.next_if_eq(&at).is_some() {
                let piece = Piece::Id(Id { nth, row: at, comma: false, form: IdForm::Warned });
                self.edit(row.id.start, row.id.end, row.params_before, piece);
                nth += 1;
                continue;
            }
            match RowId::of(self.meaning, row.class) {
                None | Some(RowId::Keep | RowId::Client | RowId::Clamped) => {}
                Some(RowId::Zero) => {
                    self.edit(row.id.start, row.id.end, row.params_before, Piece::Text(b"0"[..].into()));
                }
                Some(RowId::Generate) => {
                    self.write_id((at, row), rows.shape, nth);
                    nth += 1;
                }
            }
        }
        debug_assert!(self.plan.edits.iter().all(|edit| edit.end as usize <= text.len()));
    }

    fn write_id(&mut self, (at, row): (u32, &Row), shape: RowShape, nth: u32) {
        let form = match self.plan.style {
            Style::Wrapped | Style::OdkuOne if nth == 0 => IdForm::Wrapper,
            Style::Wrapped | Style::OdkuOne => IdForm::AfterWrapper,
            Style::Literal | Style::OdkuLiteral | Style::OdkuNative => IdForm::Literal,
        };
        if row.class != IdValue::Omitted {
            return self.edit(
                row.id.start,
                row.id.end,
                row.params_before,
                Piece::Id(Id { nth, row: at, comma: false, form }),
            );
        }
        if shape == RowShape::Assignments {
            self.column_edit(row.close, ",", "=");
        }
        let comma = shape == RowShape::Filled;
        self.edit(row.close, row.close, row.params_before, Piece::Id(Id { nth, row: at, comma, form }));
    }

    /// The row has one more value, whose name in the alias must not be the id's: there the client's
    /// own `id` means the table's, and `new.id` is an error. So an alias without a list gets one.
    fn write_alias(&mut self, alias: Alias, columns: &Columns, text: &[u8]) {
        let name = unused_name(text);
        let (at, list) = match (alias.list_close, columns) {
            (Some(close), _) => (close, format!(",{name}").into_bytes()),
            (None, Columns::Listed { names, .. }) if !names.is_empty() => {
                // The names are copied as the client writes them, in whatever character set.
                let mut list = vec![b'('];
                for name in names {
                    list.extend_from_slice(name.span.of(text));
                    list.push(b',');
                }
                list.extend_from_slice(name.as_bytes());
                list.push(b')');
                (alias.end, list)
            }
            (None, _) => return,
        };
        self.edit(at, at, 0, Piece::Text(list.into()));
    }

    pub(super) fn write_tail(
        &mut self,
        body: &Body,
        columns: &Columns,
        rows: &Rows<'_>,
        text: &[u8],
    ) -> Planning<()> {
        if let Some(alias) = body.tail.alias.filter(|_| self.adds_column(rows)) {
            self.write_alias(alias, columns, text);
        }
        let Some(odku) = body.tail.odku.filter(|_| self.odku_appends) else { return Ok(()) };
        let column = name::quoted(self.context.target.id_column());
        // Beside a row alias a bare name is ambiguous.
        let updated = match body.tail.alias {
            Some(_) => format!("{}.{column}", name::quoted(self.context.table)),
            None => column.clone(),
        };
        let text = format!(",{column}=LAST_INSERT_ID({updated})");
        let Some(text) = self.context.dialect.charset.written(&text) else { return unwritten() };
        self.edit(odku.end, odku.end, 0, Piece::Text(text.into()));
        Ok(())
    }
}

fn unwritten<T>() -> Planning<T> {
    refused(
        "Rowstamp must write a column's name that the client's character set cannot write; connect with utf8mb4",
    )
}

/// A name for a column of a row alias that nobody refers to: the statement's text has no such name in it.
fn unused_name(text: &[u8]) -> String {
    let lower = text.to_ascii_lowercase();
    let is_used = |name: &String| memchr::memmem::find(&lower, name.as_bytes()).is_some();
    let mut name = "rowstamp_id".to_owned();
    while is_used(&name) {
        name.push('_');
    }
    name
}
