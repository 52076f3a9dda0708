//! The columns that values go into: every type, of strings in two character sets.

use crate::support::Kind;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    sql: &'static str,
    shown: Shown,
    only: Option<Kind>,
    /// True if the column may hold much more than 65,535 bytes, or tells something else of a long value.
    pub(crate) is_for_long: bool,
}

/// How its bytes are read back.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// The value as the text protocol has it.
    Plain,
    /// A string: its bytes.
    Bytes,
    /// FLOAT, which would be shown with six digits.
    Float,
    Bits,
    /// The number and the name.
    Enum,
    Json,
    Geometry,
}

const fn column(name: &'static str, sql: &'static str, shown: Shown) -> Column {
    Column { name, sql, shown, only: None, is_for_long: false }
}

const fn long(name: &'static str, sql: &'static str, shown: Shown) -> Column {
    Column { name, sql, shown, only: None, is_for_long: true }
}

const ALL: [Column; 56] = [
    column("i8", "TINYINT", Shown::Plain),
    column("i8u", "TINYINT UNSIGNED", Shown::Plain),
    column("boo", "BOOL", Shown::Plain),
    column("i16", "SMALLINT", Shown::Plain),
    column("i16u", "SMALLINT UNSIGNED", Shown::Plain),
    column("i24", "MEDIUMINT", Shown::Plain),
    column("i24u", "MEDIUMINT UNSIGNED", Shown::Plain),
    long("i32", "INT DEFAULT 11", Shown::Plain),
    column("i32u", "INT UNSIGNED", Shown::Plain),
    column("i64", "BIGINT", Shown::Plain),
    column("i64u", "BIGINT UNSIGNED", Shown::Plain),
    column("nn", "INT NOT NULL DEFAULT 7", Shown::Plain),
    column("zf", "INT(8) UNSIGNED ZEROFILL", Shown::Plain),
    column("d10", "DECIMAL(10,2)", Shown::Plain),
    column("d30", "DECIMAL(30,10)", Shown::Plain),
    column("d65", "DECIMAL(65,30)", Shown::Plain),
    column("d0u", "DECIMAL(20,0) UNSIGNED", Shown::Plain),
    column("f32", "FLOAT", Shown::Float),
    column("f7", "FLOAT(7,3)", Shown::Float),
    column("f64", "DOUBLE", Shown::Plain),
    column("f64u", "DOUBLE UNSIGNED", Shown::Plain),
    column("b1", "BIT(1)", Shown::Bits),
    column("b8", "BIT(8)", Shown::Bits),
    column("b64", "BIT(64)", Shown::Bits),
    column("l1", "CHAR(10) CHARACTER SET latin1", Shown::Bytes),
    column("c10", "CHAR(10)", Shown::Bytes),
    column("vl", "VARCHAR(20) CHARACTER SET latin1", Shown::Bytes),
    column("v20", "VARCHAR(20)", Shown::Bytes),
    long("v300", "VARCHAR(300)", Shown::Bytes),
    column("nnv", "VARCHAR(20) NOT NULL DEFAULT 'd'", Shown::Bytes),
    column("ttl", "TINYTEXT CHARACTER SET latin1", Shown::Bytes),
    long("ttx", "TINYTEXT", Shown::Bytes),
    long("tl1", "TEXT CHARACTER SET latin1", Shown::Bytes),
    long("txt", "TEXT", Shown::Bytes),
    long("mtx", "MEDIUMTEXT", Shown::Bytes),
    long("ltl", "LONGTEXT CHARACTER SET latin1", Shown::Bytes),
    long("ltx", "LONGTEXT", Shown::Bytes),
    column("bin8", "BINARY(8)", Shown::Bytes),
    column("vb20", "VARBINARY(20)", Shown::Bytes),
    column("tbl", "TINYBLOB", Shown::Bytes),
    long("blo", "BLOB", Shown::Bytes),
    long("lbl", "LONGBLOB", Shown::Bytes),
    column("dat", "DATE", Shown::Plain),
    column("tim", "TIME", Shown::Plain),
    column("tim3", "TIME(3)", Shown::Plain),
    column("dt", "DATETIME", Shown::Plain),
    column("dt6", "DATETIME(6)", Shown::Plain),
    column("ts", "TIMESTAMP NULL DEFAULT NULL", Shown::Plain),
    column("ts6", "TIMESTAMP(6) NULL DEFAULT NULL", Shown::Plain),
    column("yea", "YEAR", Shown::Plain),
    column("e", "ENUM('a','b','c')", Shown::Enum),
    column("st", "SET('a','b','c','d')", Shown::Enum),
    long("js", "JSON", Shown::Json),
    column("geo", "GEOMETRY", Shown::Geometry),
    Column { name: "ip6", sql: "INET6", shown: Shown::Plain, only: Some(Kind::MariaDb), is_for_long: false },
    Column { name: "uid", sql: "UUID", shown: Shown::Plain, only: Some(Kind::MariaDb), is_for_long: false },
];

/// The columns that the server has.
pub(crate) fn columns(kind: Kind) -> Vec<Column> {
    ALL.into_iter().filter(|column| column.only.is_none_or(|only| only == kind)).collect()
}

/// The columns' definitions in CREATE TABLE.
pub(crate) fn definitions(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("{} {}", column.name, column.sql)).collect::<Vec<_>>().join(", ")
}

impl Column {
    /// An expression for what is stored, short where that is long.
    pub(crate) fn shown(&self) -> String {
        let name = self.name;
        let bytes = |text: &str| {
            format!("IF(LENGTH({text})>60,CONCAT(LENGTH({text}),' ',SHA2({text},256)),HEX({text}))")
        };
        match self.shown {
            Shown::Plain => name.to_owned(),
            Shown::Bytes => bytes(name),
            Shown::Float => format!("{name}+0e0"),
            Shown::Bits => format!("{name}+0"),
            Shown::Enum => format!("CONCAT({name}+0,' ',{name})"),
            Shown::Json => bytes(&format!("CAST({name} AS CHAR)")),
            Shown::Geometry => format!("CONCAT(ST_SRID({name}),' ',HEX(ST_AsWKB({name})))"),
        }
    }
}

/// Rows of `src`, by n: the columns that are not null in them.
pub(crate) fn sources(kind: Kind) -> Vec<String> {
    let row = |n: u8, values: &[(&str, &str)]| {
        let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = values.iter().map(|(_, value)| *value).collect();
        format!("INSERT INTO src (n,{}) VALUES ({n},{})", names.join(","), values.join(","))
    };
    let mut rows = vec![
        row(
            1,
            &[
                (
                    "i8,i8u,boo,i16,i16u,i24,i24u,i32,i32u,i64,i64u,nn,zf",
                    "-128,255,1,-32768,65535,-8388608,16777215,\
                    -2147483648,4294967295,-9223372036854775808,18446744073709551615,5,42",
                ),
                (
                    "d10,d30,d65,d0u,f32,f7,f64,f64u",
                    "-12345678.90,12345678901234567890.1234567890,\
                    12345678901234567890123456789012345.123456789012345678901234567890,99999999999999999999,1.23456789,\
                    1234.567,-1.234567890123456789e300,0.1",
                ),
                ("b1,b8,b64", "b'1',b'10100101',x'FFFFFFFFFFFFFFFE'"),
                ("l1,c10,vl,v20,v300,nnv", "'é','é€😀','été','12 abc ',REPEAT('é',300),'b'"),
                (
                    "ttl,ttx,tl1,txt,mtx,ltl,ltx",
                    "'é',REPEAT('x',255),REPEAT('é',65535),REPEAT('x',65535),\
                    REPEAT('y',70000),'é',REPEAT('é',40000)",
                ),
                ("bin8,vb20,tbl,blo,lbl", "x'00FF',x'FF00',x'00',REPEAT(x'FE',65535),REPEAT(x'FE',70000)"),
                (
                    "dat,tim,tim3,dt,dt6",
                    "'9999-12-31','-838:59:59','12:34:56.789','2024-02-29 12:34:56',\
                    '2024-02-29 12:34:56.123456'",
                ),
                ("ts,ts6,yea", "'2024-02-29 12:34:56','2030-01-01 00:00:00.000001',2155"),
                (
                    "e,st,js,geo",
                    "'c','a,d','{\"b\": 1.50, \"a\": [null, \"é\"]}',ST_GeomFromText('POINT(1 2)')",
                ),
            ],
        ),
        row(
            2,
            &[
                ("i8,i8u,boo,i16,i16u,i24,i24u,i32,i32u,i64,i64u,nn,zf", "127,0,0,7,7,7,7,7,7,7,7,-5,7"),
                ("d10,d30,d65,d0u,f32,f7,f64,f64u", "1.50,0.0000000001,-0.5,0,16777217,-0.001,0.1,1e10"),
                ("b1,b8,b64", "b'0',b'1',b'1000001'"),
                ("l1,c10,vl,v20,v300,nnv", "'b','b','a,b','2024-02-29','1.5','7'"),
                ("ttl,ttx,tl1,txt,mtx,ltl,ltx", "'b','7','1e3','2024-02-29 10:00:00','b','','{\"k\": 2}'"),
                ("bin8,vb20,tbl,blo,lbl", "'7','b','','12','x'"),
                (
                    "dat,tim,tim3,dt,dt6",
                    "'0000-00-00','10:00:00','00:00:00.5','0000-00-00 00:00:00','2024-01-00 00:00:00'",
                ),
                ("ts,ts6,yea", "'1970-01-02 00:00:01','1970-01-02 00:00:01.5',0"),
                ("e,st,js,geo", "'a','','[]',ST_GeomFromText('LINESTRING(0 0,1 1)')"),
            ],
        ),
        // Not a member of the ENUM.
        row(3, &[("e,st,v20,v300", "'nothing','a,b,c,d','trailing  ',''")]),
        row(4, &[("e,st,js,v20", "2,2,'1.50','abc'")]),
        // NULL but for what cannot be.
        row(5, &[("i32", "NULL")]),
    ];
    if kind == Kind::MariaDb {
        rows.push(
            "UPDATE src SET ip6='::ffff:1.2.3.4', uid='123e4567-e89b-12d3-a456-426655440000' WHERE n<3"
                .to_owned(),
        );
    }
    rows
}
