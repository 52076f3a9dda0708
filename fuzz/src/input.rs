//! What the first bytes of an input say: under which server, session and rule the rest is read. A header of `0` means
//! MariaDB, its usual modes and the plainest table, so that seeds are written by hand.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use rowstamp::ids::block::Spacing;
use rowstamp::rewrite::plan::Lookup;
use rowstamp::rewrite::plan::target::{Target, Through};
use rowstamp::rules::model::{
    Collide, ColumnShape, Explicit, GeneratorName, InsertId, Mode, Origin, Rule, TableShape, Unavailable,
};
use rowstamp::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};

/// The bytes of an input, taken from its front; behind its end there are zeros.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Input { rest: data }
    }

    /// `0` to `9` mean 0 to 9, and every other byte something too.
    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte ^ b'0'
    }

    /// Below `n`.
    pub fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// Up to `n` bytes.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

const SERVERS: [(ServerKind, u32); 6] = [
    (ServerKind::MariaDb, 101_119),
    (ServerKind::MySql, 90_704),
    (ServerKind::MariaDb, 110_803),
    (ServerKind::MySql, 80_036),
    (ServerKind::MariaDb, 50_568),
    (ServerKind::MySql, 50_744),
];

const MODES: [SqlMode; 5] = [
    SqlMode::ANSI_QUOTES,
    SqlMode::NO_BACKSLASH_ESCAPES,
    SqlMode::NO_AUTO_VALUE_ON_ZERO,
    SqlMode::IGNORE_SPACE,
    SqlMode::ORACLE,
];

const CHARSETS: [ClientCharset; 8] = [
    ClientCharset::Utf8,
    ClientCharset::Latin1,
    ClientCharset::Safe,
    ClientCharset::Gbk,
    ClientCharset::Gb18030,
    ClientCharset::Big5,
    ClientCharset::Sjis,
    ClientCharset::Unknown,
];

/// Three bytes: server, modes as bits, character set.
pub fn dialect(input: &mut Input<'_>) -> Dialect {
    let (kind, version) = input.pick(&SERVERS);
    let modes = input.byte();
    let bits = MODES.iter().enumerate().filter(|(bit, _)| modes >> bit & 1 == 1);
    let sql_mode = bits.fold(SqlMode::NONE, |all, (_, &mode)| all.union(mode));
    Dialect { server: Server { kind, version }, sql_mode, charset: input.pick(&CHARSETS) }
}

/// Columns as the server would list them.
const TABLES: [&str; 8] = [
    "id bigint, a int, b text",
    "id bigint auto_increment, a int, b text",
    "a int, b text, id int unsigned",
    "id bigint invisible, a int, b text",
    "id varchar, a int, b text",
    "id decimal, a int",
    "id bigint, größe int, `x``y` int",
    "id float",
];

/// A table, its rule and how ids are drawn.
pub struct Ruled {
    pub target: Arc<Target>,
    pub first_id: u64,
}

/// Two bytes: the table, where there are bits for the rule, and the generator.
pub fn ruled(input: &mut Input<'_>) -> Ruled {
    let table = input.byte();
    let (rule_bits, first) = (input.byte(), input.byte());
    let bit = |nth: u8| rule_bits >> nth & 1 == 1;
    let rule = Rule {
        schema: "shop".to_owned(),
        of_schemas: None,
        table: "t".to_owned(),
        column: "id".to_owned(),
        generator: GeneratorName { schema: "shop".to_owned(), name: "t".to_owned() },
        made_from: None,
        explicit: if bit(0) { Explicit::Reject } else { Explicit::Keep },
        insert_id: if bit(1) { InsertId::Packet } else { InsertId::Session },
        mode: if bit(2) { Mode::Shadow } else { Mode::On },
        unavailable: Unavailable::Refuse,
        collide: Collide::Raise,
        origin: Origin { file: PathBuf::new(), line: 1 },
    };
    let view =
        bit(3).then(|| Through { schema: "shop".to_owned(), name: "t".to_owned(), column: "id".to_owned() });
    let columns = TABLES[usize::from(table) % TABLES.len()];
    // Without a control account no columns are known.
    let shape = (!bit(4)).then(|| {
        Arc::new(TableShape {
            columns: columns.split(", ").map(column).collect(),
            shows_insert_id: bit(5),
            fires_on_update: false,
        })
    });
    let spacing = Spacing::by(NonZeroU64::new(u64::from(first % 4) + 1).unwrap_or(NonZeroU64::MIN));
    let first_id = [7, 1_000_000, i64::MAX.unsigned_abs() - 1_000_000_000, u64::from(u32::MAX)];
    Ruled {
        target: Arc::new(Target {
            rule: Arc::new(rule),
            table: "t".to_owned(),
            shape,
            spacing,
            view,
            usage: Arc::default(),
        }),
        first_id: first_id[usize::from(first / 4) % first_id.len()],
    }
}

fn column(text: &str) -> ColumnShape {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let has = |word: &str| rest.split(' ').any(|one| one == word);
    ColumnShape {
        name: name.trim_matches('`').replace("``", "`"),
        data_type: rest.split(' ').next().unwrap_or_default().to_owned(),
        unsigned: has("unsigned"),
        auto_increment: has("auto_increment"),
        generated: false,
        invisible: has("invisible"),
        in_primary_key: false,
        needs_value: false,
        set_by_trigger: false,
        masked: has("masked"),
    }
}

/// What a name means: `t` is ruled, and some names have a fate of their own.
pub fn lookup(target: &Arc<Target>, schema: &str, table: &str) -> Lookup {
    match table {
        _ if schema != "shop" => Lookup::NotRuled,
        "t" | "T" => Lookup::Ruled(Arc::clone(target)),
        "gone" => Lookup::Missing,
        "unknown" => Lookup::Unknown,
        "perhaps" => Lookup::PerhapsHidden,
        "never" => Lookup::Refused("it cannot be served".to_owned()),
        "first" => Lookup::ServerFirst("it cannot be served".to_owned()),
        _ => Lookup::NotRuled,
    }
}
