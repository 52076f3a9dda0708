//! sqlx: prepared statements, kept in a cache, unless the text comes by raw_sql. TLS where the server offers it.

use rowstamp_drivers::{Address, COLUMNS, Check, Row, TABLES, rows, samples};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, MySqlConnection,
    mysql::{MySqlConnectOptions, MySqlQueryResult},
};

struct Program {
    check: Check,
    conn: MySqlConnection,
    witness: MySqlConnection,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut program =
        Program { check: Check::new("sqlx"), conn: connect().await?, witness: connect().await? };
    for (table, first_id) in TABLES {
        program.single(table, first_id).await?;
        program.several(table).await?;
        program.prepared(table).await?;
        program.transactions(table).await?;
    }
    program.check.done()
}

async fn connect() -> anyhow::Result<MySqlConnection> {
    let address = Address::from_env();
    let options = MySqlConnectOptions::new()
        .host(&address.host)
        .port(address.port)
        .username(&address.user)
        .password(&address.password)
        .database(&address.database);
    Ok(options.connect().await?)
}

async fn insert(
    conn: &mut MySqlConnection,
    table: &str,
    tag: &str,
    qty: i32,
) -> sqlx::Result<MySqlQueryResult> {
    let insert = format!("INSERT INTO {table} (tag, note, qty) VALUES (?, 't', ?)");
    sqlx::query(AssertSqlSafe(insert)).bind(tag).bind(qty).execute(conn).await
}

impl Program {
    async fn rows(&mut self, table: &str, tag: &str) -> anyhow::Result<Vec<Row>> {
        // The table's ids are signed.
        let query = format!("SELECT id, txt FROM {table}_text WHERE tag = ? ORDER BY id");
        let found: Vec<(i64, String)> =
            sqlx::query_as(AssertSqlSafe(query)).bind(tag).fetch_all(&mut self.witness).await?;
        found.into_iter().map(|(id, text)| Ok((id.try_into()?, text))).collect()
    }

    async fn single(&mut self, table: &str, first_id: u64) -> anyhow::Result<()> {
        let insert = format!("INSERT INTO {table} (tag, note, qty) VALUES ('sqlx one', 'it''s one', 0)");
        let id = sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut self.conn).await?.last_insert_id();
        let last: u64 = sqlx::query_scalar("SELECT LAST_INSERT_ID()").fetch_one(&mut self.conn).await?;
        let got = self.rows(table, "sqlx one").await?;
        self.check.same(&format!("{table}: one row"), rows(&[id], "it's one"), got);
        self.check.same(&format!("{table}: LAST_INSERT_ID() is last_insert_id"), id, last);
        self.check.same(&format!("{table}: id {id} is not below {first_id}"), true, id >= first_id);
        Ok(())
    }

    async fn several(&mut self, table: &str) -> anyhow::Result<()> {
        // A QueryBuilder is what sqlx has for a batch.
        let mut builder = sqlx::QueryBuilder::new(format!("INSERT INTO {table} (tag, note, qty) "));
        builder.push_values(0..20, |mut row, qty| {
            row.push_bind("sqlx several").push_bind("s").push_bind(qty);
        });
        let result = builder.build().execute(&mut self.conn).await?;
        let ids: Vec<u64> = (0..20).map(|i| result.last_insert_id() + i).collect();
        self.check.same(&format!("{table}: affected rows of several"), 20, result.rows_affected());
        let got = self.rows(table, "sqlx several").await?;
        self.check.same(&format!("{table}: several rows"), rows(&ids, "s"), got);
        Ok(())
    }

    async fn prepared(&mut self, table: &str) -> anyhow::Result<()> {
        let insert = format!("INSERT INTO {table} (tag, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        let mut expect = Vec::new();
        for sample in samples() {
            let result = sqlx::query(AssertSqlSafe(insert.clone()))
                .bind("sqlx repeated")
                .bind(sample.note)
                .bind(sample.qty)
                .bind(sample.price)
                .bind(sample.weight)
                .bind(sample.placed)
                .bind(sample.paid)
                .bind(sample.payload)
                .execute(&mut self.conn)
                .await?;
            expect.push((result.last_insert_id(), sample.text.to_owned()));
        }
        let got = self.rows(table, "sqlx repeated").await?;
        self.check.same(&format!("{table}: repeated executions"), expect, got);

        let insert = format!("INSERT INTO {table} (id, tag, note, qty) VALUES (?, ?, 'n', 0)");
        let result = sqlx::query(AssertSqlSafe(insert))
            .bind(None::<i64>)
            .bind("sqlx null")
            .execute(&mut self.conn)
            .await?;
        let got = self.rows(table, "sqlx null").await?;
        self.check.same(&format!("{table}: id bound to NULL"), rows(&[result.last_insert_id()], "n"), got);
        Ok(())
    }

    async fn transactions(&mut self, table: &str) -> anyhow::Result<()> {
        let mut tx = self.conn.begin().await?;
        let first = insert(&mut tx, table, "sqlx transaction", 0).await?.last_insert_id();
        let second = insert(&mut tx, table, "sqlx transaction", 1).await?.last_insert_id();
        let query = format!("SELECT COUNT(*) FROM {table} WHERE tag = 'sqlx transaction'");
        let seen: i64 = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut self.witness).await?;
        tx.commit().await?;
        self.check.same(&format!("{table}: nothing is seen before the commit"), 0, seen);
        let got = self.rows(table, "sqlx transaction").await?;
        self.check.same(&format!("{table}: committed"), rows(&[first, second], "t"), got);

        let mut tx = self.conn.begin().await?;
        let gone = insert(&mut tx, table, "sqlx rollback", 0).await?.last_insert_id();
        tx.rollback().await?;
        let got = self.rows(table, "sqlx rollback").await?;
        self.check.same(&format!("{table}: rolled back"), Vec::new(), got);
        let after = insert(&mut self.conn, table, "sqlx rollback", 0).await?.last_insert_id();
        let got = self.rows(table, "sqlx rollback").await?;
        self.check.same(&format!("{table}: after the rollback"), rows(&[after], "t"), got);
        self.check.same(&format!("{table}: id {gone} is not given again"), true, after > gone);
        Ok(())
    }
}
