//! mysql_async: text (query), the binary protocol (exec: prepared once for each text and kept in a cache) and exec_batch,
//! which is MariaDB's bulk execution where the server has it, and else executes one statement over and over.

use mysql_async::{Conn, OptsBuilder, Params, TxOpts, Value, prelude::Queryable};
use rowstamp_drivers::{Address, COLUMNS, Check, Row, Sample, TABLES, rows, samples};

struct Program {
    check: Check,
    conn: Conn,
    witness: Conn,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut program =
        Program { check: Check::new("mysql_async"), conn: connect().await?, witness: connect().await? };
    for (table, first_id) in TABLES {
        program.single(table, first_id).await?;
        program.several(table).await?;
        program.prepared(table).await?;
        program.transactions(table).await?;
    }
    program.check.done()
}

async fn connect() -> anyhow::Result<Conn> {
    let address = Address::from_env();
    let opts = OptsBuilder::default()
        .ip_or_hostname(address.host)
        .tcp_port(address.port)
        .user(Some(address.user))
        .pass(Some(address.password))
        .db_name(Some(address.database))
        // By default it asks a server on a loopback address for @@socket and, if that file is there, connects again to it: past
        // any proxy.
        .prefer_socket(false);
    Ok(Conn::new(opts).await?)
}

fn values(tag: &str, sample: &Sample) -> Params {
    let all: Vec<Value> = vec![
        tag.into(),
        sample.note.into(),
        sample.qty.into(),
        sample.price.into(),
        sample.weight.into(),
        sample.placed.into(),
        sample.paid.into(),
        sample.payload.into(),
    ];
    Params::Positional(all)
}

/// The id of the connection's last INSERT.
fn id(conn: &Conn) -> u64 {
    conn.last_insert_id().unwrap_or(0)
}

impl Program {
    async fn rows(&mut self, table: &str, tag: &str) -> anyhow::Result<Vec<Row>> {
        let query = format!("SELECT id, txt FROM {table}_text WHERE tag = ? ORDER BY id");
        Ok(self.witness.exec(query, (tag,)).await?)
    }

    async fn single(&mut self, table: &str, first_id: u64) -> anyhow::Result<()> {
        let insert =
            format!("INSERT INTO {table} (tag, note, qty) VALUES ('mysql_async one', 'it''s one', 0)");
        self.conn.query_drop(insert).await?;
        let id = id(&self.conn);
        let last: Option<u64> = self.conn.query_first("SELECT LAST_INSERT_ID()").await?;
        let got = self.rows(table, "mysql_async one").await?;
        self.check.same(&format!("{table}: one row"), rows(&[id], "it's one"), got);
        self.check.same(&format!("{table}: LAST_INSERT_ID() is last_insert_id"), Some(id), last);
        self.check.same(&format!("{table}: id {id} is not below {first_id}"), true, id >= first_id);
        Ok(())
    }

    async fn several(&mut self, table: &str) -> anyhow::Result<()> {
        let tag = "mysql_async several";
        let insert =
            format!("INSERT INTO {table} (tag, note, qty) VALUES (?, 's', 0), (?, 's', 1), (?, 's', 2)");
        self.conn.exec_drop(insert, (tag, tag, tag)).await?;
        let first = id(&self.conn);
        self.check.same(&format!("{table}: affected rows of several"), 3, self.conn.affected_rows());
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: several rows"), rows(&[first, first + 1, first + 2], "s"), got);
        Ok(())
    }

    async fn prepared(&mut self, table: &str) -> anyhow::Result<()> {
        let tag = "mysql_async repeated";
        let insert = format!("INSERT INTO {table} (tag, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        let statement = self.conn.prep(insert).await?;
        let mut expect = Vec::new();
        for sample in samples() {
            self.conn.exec_drop(&statement, values(tag, &sample)).await?;
            expect.push((id(&self.conn), sample.text.to_owned()));
        }
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: repeated executions"), expect, got);

        let tag = "mysql_async batch";
        let insert = format!("INSERT INTO {table} (tag, note, qty) VALUES (?, 'b', ?)");
        self.conn.exec_batch(insert, (0..20).map(|qty| (tag, qty))).await?;
        let (reported, affected) = (id(&self.conn), self.conn.affected_rows());
        let got = self.rows(table, tag).await?;
        let ids: Vec<u64> = got.iter().map(|(id, _)| *id).collect();
        self.check.same(&format!("{table}: rows of a batch"), rows(&ids, "b"), got);
        // One result of a bulk execution, with the first id; or that of the loop's last execution.
        let expect = if affected == 20 { ids.first() } else { ids.last() };
        self.check.same(
            &format!("{table}: number and id of a batch"),
            (20, expect),
            (ids.len(), Some(&reported)),
        );

        let insert = format!("INSERT INTO {table} (id, tag, note, qty) VALUES (?, ?, 'n', 0)");
        self.conn.exec_drop(insert, (None::<u64>, "mysql_async null")).await?;
        let id = id(&self.conn);
        let got = self.rows(table, "mysql_async null").await?;
        self.check.same(&format!("{table}: id bound to NULL"), rows(&[id], "n"), got);
        Ok(())
    }

    async fn transactions(&mut self, table: &str) -> anyhow::Result<()> {
        let insert = format!("INSERT INTO {table} (tag, note, qty) VALUES (?, 't', ?)");
        let tag = "mysql_async transaction";
        self.conn.query_drop("BEGIN").await?;
        let mut ids = Vec::new();
        for qty in 0..2 {
            self.conn.exec_drop(&insert, (tag, qty)).await?;
            ids.push(id(&self.conn));
        }
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: nothing is seen before the commit"), Vec::new(), got);
        self.conn.query_drop("COMMIT").await?;
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: committed"), rows(&ids, "t"), got);

        let tag = "mysql_async rollback";
        let mut transaction = self.conn.start_transaction(TxOpts::default()).await?;
        transaction.exec_drop(&insert, (tag, 0)).await?;
        let gone = transaction.last_insert_id().unwrap_or(0);
        transaction.rollback().await?;
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: rolled back"), Vec::new(), got);
        let mut transaction = self.conn.start_transaction(TxOpts::default()).await?;
        transaction.exec_drop(&insert, (tag, 0)).await?;
        let after = transaction.last_insert_id().unwrap_or(0);
        transaction.commit().await?;
        let got = self.rows(table, tag).await?;
        self.check.same(&format!("{table}: after the rollback"), rows(&[after], "t"), got);
        self.check.same(&format!("{table}: id {gone} is not given again"), true, after > gone);
        Ok(())
    }
}
