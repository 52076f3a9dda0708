//! The readers of statements: whatever they find lies where a reader of tokens finds it too.

use std::ops::Range;

use rowstamp::sql::dialect::{Dialect, SqlMode};
use rowstamp::sql::insert::{self, Columns, Form, Head, Query, Row, Source, Verb, Wants};
use rowstamp::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use rowstamp::sql::load::Load;
use rowstamp::sql::name::Path;
use rowstamp::sql::statement::ddl::TableChange;
use rowstamp::sql::statement::dynamic::{self, Dynamic, Literal, TextSource, Using};
use rowstamp::sql::statement::{self, Statement};
use rowstamp::sql::value::IdValue;

use crate::input::{self, Input};
use crate::tree::{Body, Insert, Packet, Run};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let id_place = u32::from(input.below(8)).checked_sub(1);
    let text = input.rest();
    let mut lexer = Lexer::new(text, dialect).expect("shorter than 4 GiB");
    let wants = Wants { id_place, column: "id", table: "t" };
    let packet = Packet::read(text, dialect, true);
    while statements(&mut lexer, wants, &packet).unwrap_or_default() {}
}

/// One statement; whether another follows.
fn statements(lexer: &mut Lexer<'_>, wants: Wants<'_>, packet: &Packet<'_>) -> Result<bool, Odd> {
    lexer.reset_params();
    let mut ahead = lexer.clone();
    let text = lexer.text();
    let from = lexer.position() as usize;
    loop {
        match statement::classify(&mut ahead)? {
            Statement::Analyze | Statement::For(_) => continue,
            // In a prefix there may be some, which are the server's error.
            Statement::Insert(verb) if ahead.params() == 0 => {
                insert(ahead.clone(), verb, wants, packet)?;
            }
            Statement::Dynamic(dynamic) => of_text(&dynamic, text, from, lexer.dialect()),
            Statement::Ddl(changes) => names_of(&changes, text, from),
            Statement::Set(settings) => {
                let more = lexer.skip_statement()?;
                let mut dialect = lexer.dialect();
                dialect.sql_mode = settings.sql_mode.unwrap_or(dialect.sql_mode);
                dialect.charset = settings.charset.unwrap_or(dialect.charset);
                lexer.set_dialect(dialect);
                return Ok(more);
            }
            Statement::Routine => return Ok(statement::skip_routine(lexer)?.unwrap_or_default()),
            Statement::Load(path) => {
                in_order(text, from, path.as_slice());
                load(ahead.clone(), from, path, packet)?;
            }
            _ => {}
        }
        return lexer.skip_statement();
    }
}

fn in_order(text: &[u8], mut from: usize, paths: &[Path]) {
    for path in paths {
        for token in path.qualifier.iter().chain([&path.last]) {
            let span = token.span.range();
            assert!(from <= span.start && span.start < span.end && span.end <= text.len(), "{path:?}");
            assert!(matches!(token.kind, TokenKind::Word | TokenKind::QuotedName));
            from = span.end;
        }
    }
}

fn names_of(changes: &[TableChange], text: &[u8], from: usize) {
    let paths: Vec<Path> = changes
        .iter()
        .flat_map(|change| match *change {
            TableChange::CreatedTemporary(path)
            | TableChange::DroppedTemporary(path)
            | TableChange::CreatedView(path)
            | TableChange::Dropped(path) => vec![path],
            TableChange::Renamed { from, to } => vec![from, to],
        })
        .collect();
    // ALTER TABLE may rename only once, but from the one name.
    match changes {
        [TableChange::Renamed { from: first, .. }, TableChange::Renamed { from: second, .. }, ..]
            if first == second => {}
        _ => in_order(text, from, &paths),
    }
}

/// Behind LOAD. What is found lies in the order of the text and cuts no token. `path`: the table's name, as it was found without
/// the rest.
fn load(mut lexer: Lexer<'_>, from: usize, path: Option<Path>, packet: &Packet<'_>) -> Result<(), Odd> {
    let (text, before_params) = (lexer.text(), lexer.params());
    let Some(load) = Load::read(&mut lexer, "id", "t")? else { return Ok(()) };
    let position = lexer.position() as usize;
    let Load { table, partition, list, listed, assigned, qualifiers, .. } = &load;
    let last = path.expect("the table's name").last;
    assert!(from < table.start as usize && table.end == last.span.end, "{load:?}");
    assert!(load.end as usize <= position && position <= text.len() && before_params <= load.params);
    assert!(if load.semicolon { text[..position].ends_with(b";") } else { position == text.len() });
    assert!(listed.is_none() || list.start < list.end);
    let whole: Vec<Span> = [*table].into_iter().chain(*partition).chain([*list]).collect();
    let columns: Vec<Span> = listed.iter().flatten().chain(assigned).map(|token| token.span).collect();
    for (spans, mut at) in [(&whole, table.start), (&columns, list.start), (qualifiers, table.end)] {
        for span in spans {
            assert!(at <= span.start && span.start <= span.end && span.end <= load.end, "{load:?}");
            at = span.end;
            let is_cut = |token: &Token| {
                let cut = |at| token.span.start < at && at < token.span.end;
                cut(span.start) || cut(span.end)
            };
            assert!(packet.is_odd || !packet.tokens.iter().any(is_cut), "{load:?}");
        }
    }
    Ok(())
}

/// PREPARE and its like.
fn of_text(dynamic: &Dynamic, text: &[u8], from: usize, dialect: Dialect) {
    let (source, using) = match dynamic {
        Dynamic::Prepare { source, .. } => (Some(source), None),
        Dynamic::Execute { using, .. } => (None, Some(using)),
        Dynamic::Immediate { source, using } => (Some(source), Some(using)),
        Dynamic::Deallocate { .. } => (None, None),
    };
    match source {
        Some(TextSource::Literal(literal)) => literal_of(literal, text, from, dialect),
        Some(TextSource::Evaluated(span) | TextSource::Computed(span)) => {
            assert!(from <= span.start as usize && !span.of(text).is_empty());
        }
        Some(TextSource::Unseen) | None => {}
    }
    if let Some(Using { args, end }) = using {
        let mut at = from;
        for arg in args {
            assert!(at <= arg.start as usize && !arg.of(text).is_empty(), "{using:?}");
            at = arg.end as usize;
        }
        assert!(at <= *end as usize && *end as usize <= text.len());
    }
}

fn literal_of(literal: &Literal, text: &[u8], from: usize, dialect: Dialect) {
    let mut before = from;
    for (at, &byte) in literal.text.iter().enumerate() {
        let place = literal.place(u32::try_from(at).expect("shorter than 4 GiB")) as usize;
        assert!(before < place && place < text.len(), "byte {at}");
        before = place;
        let is_escaped = matches!(text[place], b'\\' | b'\'' | b'"')
            || place > 0 && matches!(text[place - 1], b'\\' | b'\'' | b'"');
        assert!(text[place] == byte || is_escaped, "byte {at}");
    }
    let modes = dialect.sql_mode;
    if !literal.text.is_ascii() || modes.contains(SqlMode::ANSI_QUOTES) {
        return;
    }
    // What is written in its place must come out as it was.
    let again = [b"PREPARE s FROM '", &*dynamic::escape(&literal.text, b'\'', modes), b"'"].concat();
    let mut lexer = Lexer::new(&again, dialect).expect("shorter than 4 GiB");
    let Ok(Statement::Dynamic(Dynamic::Prepare { source: TextSource::Literal(again), .. })) =
        statement::classify(&mut lexer)
    else {
        panic!("{} is no literal", again.escape_ascii());
    };
    assert_eq!(again.text, literal.text);
}

/// Behind the verb. `packet`: the same text, read by tokens.
fn insert(mut lexer: Lexer<'_>, verb: Verb, wants: Wants<'_>, packet: &Packet<'_>) -> Result<(), Odd> {
    let (text, from) = (lexer.text(), lexer.position() as usize);
    let Some(head) = Head::parse(&mut lexer, verb)? else { return Ok(()) };
    in_order(text, from, &[head.table]);
    assert!(!head.table.deep);
    let Some((columns, source)) = Head::columns(&mut lexer)? else { return Ok(()) };
    let end = lexer.position() as usize;
    let is_it = |run: &&Run| run.verb.is_some_and(|verb| packet.tokens[verb].span.end as usize == from);
    let run = packet.statements.iter().find(is_it);
    let read = run.and_then(|run| packet.insert(run));
    let tree = run.zip(read.as_ref()).map(|(run, read)| (packet, read, run));
    if let Columns::Listed { open, close, names } = &columns {
        assert!(from < *open as usize && open < close && (*close as usize) < end);
        assert_eq!((text[*open as usize], text[*close as usize]), (b'(', b')'));
        assert!(names.iter().all(|name| open < &name.span.start && name.span.end <= *close));
        if let Some((packet, tree, _)) = tree {
            let (opens, pieces, closes) = tree.columns.as_ref().expect("a list of columns");
            assert_eq!(packet.tokens[*opens].span.start, *open);
            assert_eq!(packet.tokens[*closes].span.start, *close);
            let lasts = pieces.iter().map(|piece| packet.tokens[piece.end - 1]);
            assert!(lasts.eq(names.iter().copied()), "names of columns");
        }
    }
    let body = match source {
        Source::Values(_) => insert::Body::values(&mut lexer, wants)?,
        Source::Set => insert::Body::set(&mut lexer, wants)?,
        Source::Query(first) => return query(&mut lexer, first, wants, tree),
    };
    let Some(body) = body else { return Ok(()) };
    let Some((packet, tree, run)) = tree else {
        assert!(packet.is_odd && run.is_none(), "the reader of tokens finds no INSERT");
        return Ok(());
    };
    ends(packet, run, lexer.position() as usize, body.semicolon);
    let before = |token: usize| packet.params(run.tokens.start..token);
    assert_eq!(body.params as usize, packet.params(run.tokens.clone()), "placeholders");
    let mut integers = 0;
    let mut counts = |class: IdValue| {
        integers += usize::from(matches!(class, IdValue::Integer | IdValue::Converted | IdValue::Truncated));
    };
    match (&body.form, &tree.body) {
        (Form::Values(rows), Body::Rows(_, others)) => {
            assert_eq!(rows.len(), others.len(), "rows");
            for (row, other) in rows.iter().zip(others) {
                let start = |token: usize| packet.tokens[token].span.start;
                assert_eq!((row.open, row.close), (start(other.open), start(other.close)));
                assert_eq!(row.values as usize, other.values.len(), "values of a row");
                let id = wants.id_place.and_then(|place| other.values.get(place as usize));
                id_of(packet, row, id, before(id.map_or(other.close, |id| id.start)));
                counts(row.class);
            }
        }
        (Form::Set(set), Body::Set(_, assignments)) => {
            let last = assignments.last().expect("an assignment");
            assert_eq!(set.end, packet.tokens[last.end - 1].span.end);
            let ids: Vec<_> = assignments.iter().filter(|piece| assigns_id(packet, piece)).collect();
            assert_eq!(set.times as usize, ids.len(), "assignments to the id");
            if let Some(id) = ids.last() {
                let value = behind_equals(packet, id);
                assert_eq!(set.id, span_of(packet, &value));
                assert_eq!(set.params_before as usize, before(value.start));
            }
            counts(set.class);
        }
        _ => panic!("another form"),
    }
    assert_eq!(integers, body.integers.len(), "integers");
    traits(packet, tree, wants, &body);
    if let Some(odku) = body.tail.odku {
        let end = tree.tail.clone().find(|&at| packet.tokens[at].span.end == odku.end);
        let next = end.expect("its last token") + 1;
        let is_end = next == tree.tail.end || packet.is_word(next, "RETURNING");
        assert!(is_end || packet.is_any(next, &["ON", "AS"]), "behind ON DUPLICATE KEY UPDATE");
    }
    if let Some(alias) = body.tail.alias {
        assert!(packet.is_word(tree.tail.start, "AS"));
        assert_eq!(alias.end, packet.tokens[tree.tail.start + 1].span.end);
        if let Some(close) = alias.list_close {
            assert_eq!(text[close as usize], b')');
        }
    }
    Ok(())
}

fn ends(packet: &Packet<'_>, run: &Run, position: usize, semicolon: bool) {
    let last = packet.tokens[run.tokens.end - 1];
    assert_eq!(position, last.span.end as usize, "behind the statement");
    assert_eq!(semicolon, last.is_punct(b';'));
}

fn span_of(packet: &Packet<'_>, piece: &Range<usize>) -> Span {
    Span { start: packet.tokens[piece.start].span.start, end: packet.tokens[piece.end - 1].span.end }
}

fn id_of(packet: &Packet<'_>, row: &Row, id: Option<&Range<usize>>, params_before: usize) {
    assert_eq!(row.params_before as usize, params_before, "placeholders in front of the id");
    let Some(id) = id else {
        assert_eq!((row.class, row.id), (IdValue::Omitted, Span::default()));
        return;
    };
    assert_eq!(row.id, span_of(packet, id));
    let words = packet.piece(id);
    match words.as_slice() {
        [b"?"] => assert_eq!(row.class, IdValue::Placeholder(row.params_before)),
        [null] if null.eq_ignore_ascii_case(b"NULL") => assert_eq!(row.class, IdValue::Null),
        [null] if null.eq_ignore_ascii_case(b"DEFAULT") => assert_eq!(row.class, IdValue::Default),
        [digits] if digits.len() < 19 && digits.iter().all(u8::is_ascii_digit) => {
            let is_zero = digits.iter().all(|&digit| digit == b'0');
            assert_eq!(row.class, if is_zero { IdValue::Zero } else { IdValue::Integer });
        }
        _ => assert_ne!(row.class, IdValue::Omitted),
    }
}

fn behind_equals(packet: &Packet<'_>, piece: &Range<usize>) -> Range<usize> {
    packet.equals_of(piece) + 1..piece.end
}

fn assigns_id(packet: &Packet<'_>, piece: &Range<usize>) -> bool {
    let value = behind_equals(packet, piece);
    packet.names(value.start - 2, "id")
}

/// What must not be overlooked in values that are not the id's.
fn traits(packet: &Packet<'_>, tree: &Insert, wants: Wants<'_>, body: &insert::Body) {
    let pieces: Vec<_> = match &tree.body {
        Body::Rows(_, rows) => {
            let place = wants.id_place.map_or(usize::MAX, |place| place as usize);
            let others = |(at, value): (usize, &Range<usize>)| (at != place).then(|| value.clone());
            rows.iter().flat_map(|row| row.values.iter().enumerate().filter_map(others)).collect()
        }
        Body::Set(_, assignments) => {
            let others = assignments.iter().filter(|piece| !assigns_id(packet, piece));
            others.map(|piece| behind_equals(packet, piece)).collect()
        }
        Body::Query(_) => Vec::new(),
    };
    for at in pieces.into_iter().flatten() {
        if packet.is_sign(at - 1, b'.') || packet.is_sign(at - 1, b'@') || packet.is_sign(at + 1, b'.') {
            continue;
        }
        let names_id = packet.tokens[at].kind == TokenKind::Word && packet.names(at, "id");
        assert!(!names_id || body.traits.names_id, "a value names the id");
        if packet.is_word(at, "LAST_INSERT_ID") && packet.is_sign(at + 1, b'(') {
            let reads = packet.is_sign(at + 2, b')');
            assert!(if reads { body.traits.reads_last_id } else { body.traits.sets_last_id });
        }
        assert!(!packet.is_word(at, "SELECT") || body.traits.loud, "a query among the values");
    }
}

fn query(
    lexer: &mut Lexer<'_>,
    first: Token,
    wants: Wants<'_>,
    tree: Option<(&Packet<'_>, &Insert, &Run)>,
) -> Result<(), Odd> {
    let Some(query) = Query::read(lexer, first, wants.column, wants.table)? else { return Ok(()) };
    assert_eq!(query.span.start, first.span.start);
    assert!(query.params <= query.all_params);
    let Some((packet, tree, run)) = tree else { return Ok(()) };
    ends(packet, run, lexer.position() as usize, query.semicolon);
    assert_eq!(query.all_params as usize, packet.params(run.tokens.clone()), "placeholders");
    let Body::Query(from) = tree.body else { panic!("another form") };
    let last = (from..run.tokens.end).find(|&at| packet.tokens[at].span.end == query.span.end);
    let last = last.expect("the query's last token");
    assert_eq!(query.params as usize, packet.params(run.tokens.start..last + 1));
    let next = last + 1;
    assert!(next == run.tokens.end - 1 || packet.is_any(next, &["ON", "RETURNING"]), "behind the query");
    Ok(())
}
