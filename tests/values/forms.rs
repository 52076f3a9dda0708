//! The ways to make a value: the lines of `forms.txt`, the columns of `src`, and what is bound.

use crate::support::Kind;
use crate::support::raw::Param;
use crate::values::columns::Column;

const LINES: &str = include_str!("forms.txt");
/// The table with a row for each of several kinds of value.
const FROM_SRC: &str = " FROM src ORDER BY n";

#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) name: String,
    /// Run before each statement.
    pub(crate) setup: Vec<String>,
    pub(crate) made: Made,
    /// None: a statement without placeholders.
    pub(crate) bound: Option<Bound>,
}

#[derive(Debug, Clone)]
pub(crate) enum Made {
    /// An expression, with a `?` where a value is bound, and the ways that it can stand in a statement.
    Expression { text: String, shapes: &'static [Shape] },
    /// A whole query and the columns that it goes into.
    Query { columns: String, text: String },
}

/// The values that are bound, one execution after the other of the same prepared statement.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) executions: Vec<Param>,
    pub(crate) size: Size,
    /// True if long data is sent in several pieces.
    pub(crate) in_pieces: bool,
}

/// Into how many columns at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Short,
    /// Into those only that hold it, or tell so.
    Long,
    /// Into one.
    Huge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Select,
    /// A row for each of `src`.
    Rows,
    Values,
    Union,
    Derived,
    /// With the FROM of an aggregate.
    Grouped,
}

const ALONE: &[Shape] = &[Shape::Select, Shape::Rows, Shape::Values, Shape::Union, Shape::Derived];
const BOUND: &[Shape] = &[Shape::Select, Shape::Rows, Shape::Values, Shape::Derived];
const LONG: &[Shape] = &[Shape::Select, Shape::Values];

pub(crate) fn forms(kind: Kind, columns: &[Column]) -> Vec<Form> {
    let mut forms = Vec::new();
    let mut section = "";
    for line in LINES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let Some(text) = for_server(kind, line) else { continue };
        let expression = |shapes| Made::Expression { text: text.to_owned(), shapes };
        let made = match section {
            "value" => expression(ALONE),
            "row" | "window" => expression(&[Shape::Rows]),
            "aggregate" => expression(&[Shape::Grouped]),
            "variable" => Made::Expression { text: "@v".to_owned(), shapes: ALONE },
            "query" => {
                let (columns, text) = text.split_once(": ").expect("columns stand before a query");
                Made::Query { columns: columns.to_owned(), text: text.to_owned() }
            }
            "bound" => {
                forms.extend(bound(kind, text));
                continue;
            }
            other => panic!("forms.txt has a section [{other}]"),
        };
        let setup = setup(section, text);
        forms.push(Form { name: format!("{section} {text}"), setup, made, bound: None });
    }
    forms.extend(columns.iter().map(|column| Form {
        name: format!("column {}", column.name),
        setup: Vec::new(),
        made: Made::Expression { text: column.name.to_owned(), shapes: &[Shape::Rows] },
        bound: None,
    }));
    forms
}

/// The statements that make the session the same before each run.
fn setup(section: &str, text: &str) -> Vec<String> {
    if section == "variable" {
        // A variable that is set to NULL keeps the type that it had.
        return vec!["SET @v='7'".to_owned(), format!("SET @v={text}")];
    }
    if text.contains("@r") || text.contains("@q") {
        return vec!["SET @r=0,@q=0".to_owned(), "SET @r=NULL,@q=NULL".to_owned()];
    }
    if text.contains("FOUND_ROWS()") { vec!["SELECT n FROM many LIMIT 7".to_owned()] } else { Vec::new() }
}

fn for_server(kind: Kind, line: &str) -> Option<&str> {
    match line.split_once("| ") {
        Some(("mariadb", text)) => (kind == Kind::MariaDb).then_some(text),
        Some(("mysql9", text)) => (kind == Kind::MySql9).then_some(text),
        _ => Some(line),
    }
}

/// An expression with each of what can be bound.
fn bound(kind: Kind, text: &str) -> Vec<Form> {
    let string = |bytes: usize| Param::String(vec![b'x'; bytes]);
    let text_of = |text: &str| Param::String(text.as_bytes().to_vec());
    let date = Param::Date { year: 2024, month: 2, day: 29 };
    let zero_date = Param::Date { year: 0, month: 0, day: 0 };
    let list: Vec<(&str, Vec<Param>, Size)> = vec![
        ("NULL", vec![Param::Null, Param::NullInt], Size::Short),
        (
            "integers",
            vec![Param::Int(7), Param::Int(-1), Param::Int(i64::MIN), Param::Uint(u64::MAX)],
            Size::Short,
        ),
        ("doubles", vec![Param::Double(1.0 / 3.0), Param::Double(-1e300), Param::Double(0.0)], Size::Short),
        ("floats", vec![Param::Float(1.1), Param::Float(16_777_217.0)], Size::Short),
        ("booleans", vec![Param::Tiny(1), Param::Tiny(0), Param::Tiny(-128)], Size::Short),
        (
            "decimals",
            vec![
                Param::Decimal(b"1.50".to_vec()),
                Param::Decimal(b"-12345678901234567890.123456789".to_vec()),
            ],
            Size::Short,
        ),
        ("dates", vec![date.clone(), zero_date], Size::Short),
        ("bits", vec![Param::Bit(vec![5]), Param::Bit(vec![0xFF; 8])], Size::Short),
        (
            "strings",
            ["", "12", "12abc", "é€😀", "2024-02-29 12:34:56.123456", "b", "{\"b\": 1.50}"]
                .map(text_of)
                .to_vec(),
            Size::Short,
        ),
        (
            "blobs",
            vec![Param::Blob(vec![0xE9]), Param::Blob(vec![0, 0xFF]), Param::Blob(Vec::new())],
            Size::Short,
        ),
        (
            "one type after the other",
            vec![
                Param::Int(7),
                text_of("b"),
                Param::Double(1.5),
                date,
                Param::Null,
                string(300),
                Param::Int(8),
            ],
            Size::Short,
        ),
        ("strings around 255", vec![string(255), string(256), string(300)], Size::Short),
        ("strings around 65535", vec![string(65_535), string(65_536), string(7)], Size::Long),
        ("a string of 300000", vec![string(300_000)], Size::Long),
        ("long data of 0 and 5", vec![Param::Long(Vec::new()), Param::Long(b"12abc".to_vec())], Size::Short),
        ("long data of 65536", vec![Param::Long(vec![b'y'; 65_536]), Param::Int(5)], Size::Long),
        ("long data of 300000", vec![Param::Long(vec![b'z'; 300_000])], Size::Long),
        ("a string of 20000000", vec![string(20_000_000)], Size::Huge),
    ];
    let shapes = |size| if size == Size::Short { BOUND } else { LONG };
    list.into_iter()
        .filter(|(_, _, size)| text == "?" || *size == Size::Short)
        // MariaDB takes a bound BIT for NULL, and its bytes for those of the next parameter.
        .filter(|(name, ..)| *name != "bits" || kind == Kind::MySql9)
        .map(|(name, executions, size)| Form {
            name: format!("bound {text} with {name}"),
            setup: Vec::new(),
            made: Made::Expression { text: text.to_owned(), shapes: shapes(size) },
            bound: Some(Bound { executions, size, in_pieces: name.starts_with("long data of 300000") }),
        })
        .collect()
}

impl Form {
    pub(crate) fn shapes(&self) -> &'static [Shape] {
        match &self.made {
            Made::Expression { shapes, .. } => shapes,
            Made::Query { .. } => &[Shape::Select],
        }
    }

    pub(crate) fn is_huge(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.size == Size::Huge)
    }

    /// The columns, by their indexes, that its values are for.
    pub(crate) fn columns(&self, columns: &[Column]) -> Vec<usize> {
        let size = self.bound.as_ref().map_or(Size::Short, |bound| bound.size);
        let fits = |column: &Column| match size {
            Size::Short => true,
            Size::Long => column.is_for_long,
            Size::Huge => column.name == "ltx",
        };
        columns.iter().enumerate().filter(|(_, column)| fits(column)).map(|(index, _)| index).collect()
    }
}

impl Shape {
    /// The statement after its column list, for so many columns.
    pub(crate) fn rows(self, k: usize, expression: &str, columns: usize) -> String {
        let list = |value: &str| format!("{k},{}", vec![value; columns].join(","));
        let values = list(expression);
        match self {
            Shape::Select => format!("SELECT {values}"),
            Shape::Rows => format!("SELECT {values}{FROM_SRC}"),
            Shape::Grouped => format!("SELECT {values} FROM src"),
            Shape::Values => format!("VALUES (NULL,{values}),(NULL,{values})"),
            Shape::Union => format!("SELECT {values} UNION ALL SELECT {values}"),
            Shape::Derived => format!("SELECT {} FROM (SELECT {expression} AS x) d", list("x")),
        }
    }
}
