//! Calls in prepared statements: each execution draws, and the client knows of no parameter but its own.

use crate::draws::{MORE, RULED, STATEMENTS, drawn, plain, with, with_table};
use crate::rig::{code_of, each_with, execute, make, prepare, rows};
use crate::support::Kind;
use crate::support::raw::{CLIENT_DEPRECATE_EOF, Client, Options, Outcome, Param};

fn cells(outcomes: &[Outcome]) -> String {
    let row = &outcomes[0].rows()[0];
    row.iter().map(|value| value.text().unwrap_or("NULL".into())).collect::<Vec<_>>().join(",")
}

/// Prepares a statement, executes it twice, and returns all that the client sees.
fn seen(client: &mut Client, db: &str, sql: &str) -> String {
    let prepared = match client.prepare(sql).unwrap() {
        Ok(prepared) => prepared,
        Err(error) => return format!("{error:?}").replace(db, "DB"),
    };
    let mut all = format!("{} parameters, {} columns\n", prepared.params, prepared.columns.len());
    for _ in 0..2 {
        let mut outcomes = client.execute(&prepared, &[]).unwrap();
        for outcome in &mut outcomes {
            // A parameter is one character wider than a SEQUENCE's value.
            if let Outcome::Rows(set) = outcome {
                set.columns.iter_mut().for_each(|column| column.length = 0);
            }
        }
        all += &plain(outcomes, db);
    }
    client.close(&prepared).unwrap();
    all
}

#[test]
fn as_a_real_sequence() {
    each_with("draws_ours_p", MORE, "", &drawn("draws_ours_p"), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let native = "draws_native_p";
        make(rig.server, native, &format!("CREATE SEQUENCE g NOCACHE;{MORE}"));
        let options = Options { database: Some(native.to_owned()), ..Options::default() };
        let mut theirs = Client::connect(&rig.server.address(), &options).unwrap();
        let mut ours = rig.client();
        for statement in STATEMENTS {
            for call in ["NEXTVAL(g)", "LASTVAL(g)", "next value for g"] {
                let sql = with(statement, call);
                assert_eq!(seen(&mut ours, &rig.db, &sql), seen(&mut theirs, native, &sql), "{sql}");
                for sql in ["SELECT LASTVAL(g)", "SELECT * FROM u", "SELECT * FROM t"] {
                    let (ours, theirs) = (rows(&mut ours, sql), rows(&mut theirs, sql));
                    assert_eq!(ours, theirs, "{statement} {call}: {sql}");
                }
            }
        }
    });
}

#[test]
fn parameters_of_the_clients_own_stay_its_own() {
    let db = "draws_prepared";
    each_with(db, RULED, "", &with_table(db), |rig| {
        for capabilities in [Options::default().capabilities, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities | Options::default().capabilities);
            let from: u64 = rows(&mut client, "SELECT NEXTVAL(g)").parse().unwrap();
            let select =
                prepare(&mut client, "SELECT ?, NEXTVAL(g), LASTVAL(g), ?, ROWSTAMP_TAKE(g, 5) AS t");
            assert_eq!((select.params, select.columns.len()), (2, 5), "{}", rig.name());
            assert_eq!(select.columns[1].name, "NEXTVAL(g)");
            let params = [Param::Int(70), Param::String(b"x".to_vec())];
            let n = from + 1;
            let first = client.execute(&select, &params).unwrap();
            assert_eq!(cells(&first), format!("70,{n},{n},x,{}", n + 1), "{}", rig.name());
            let n = n + 6;
            let long = [Param::Int(71), Param::Long(b"long".to_vec())];
            let second = client.execute(&select, &long).unwrap();
            assert_eq!(cells(&second), format!("71,{n},{n},long,{}", n + 1), "{}", rig.name());
            // A ruled table: its own ids come from the same generator. The types are sent once.
            client.run("DELETE FROM ruled");
            let insert = prepare(&mut client, "INSERT INTO ruled (a) VALUES (NEXTVAL(g) + ?), (?)");
            assert_eq!(insert.params, 2, "{}", rig.name());
            client.execute(&insert, &[Param::Int(1000), Param::Int(5)]).unwrap();
            let body = [
                &insert.id.to_le_bytes()[..],
                &[0, 1, 0, 0, 0, 0, 0],
                &2000u64.to_le_bytes(),
                &6u64.to_le_bytes(),
            ];
            client.send_command(0x17, &body.concat()).unwrap();
            assert_eq!(code_of(&client.read_outcomes(true).unwrap()), 0, "{}", rig.name());
            let n = n + 6;
            let expect = format!("{},{} {},5 {},{} {},6", n + 1, n + 1000, n + 2, n + 4, n + 2003, n + 5);
            assert_eq!(rows(&mut client, "SELECT * FROM ruled ORDER BY id"), expect, "{}", rig.name());
            // The id itself.
            let insert = prepare(&mut client, "INSERT INTO ruled VALUES (NEXTVAL(g), ?)");
            let ok = client.execute(&insert, &[Param::Int(7)]).unwrap();
            assert_eq!(ok[0].ok().unwrap().insert_id, n + 6, "{}", rig.name());
            assert_eq!(rows(&mut client, "SELECT id FROM ruled WHERE a = 7"), (n + 6).to_string());
            // Without parameters of the client's there are none to it.
            let bare = prepare(&mut client, "SELECT NEXTVAL(g)");
            assert_eq!((bare.params, execute(&mut client, bare.id, &[])), (0, 0), "{}", rig.name());
            client.reset().unwrap();
            assert_eq!(execute(&mut client, bare.id, &[]), 1243, "{}", rig.name());
        }
    });
}

#[test]
fn in_bulk_each_set_draws() {
    let db = "draws_bulk";
    each_with(db, RULED, "", &with_table(db), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut client = rig.bulk_client(true);
        let insert = prepare(&mut client, "INSERT INTO u VALUES (?, NEXTVAL(g))");
        let sets: [&[Param]; 3] = [&[Param::Int(1)], &[Param::Null], &[Param::Int(3)]];
        assert_eq!(code_of(&client.bulk(insert.id, &sets).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT * FROM u"), "1,1 NULL,2 3,3");
        let insert = prepare(&mut client, "INSERT INTO ruled (a) VALUES (NEXTVAL(g) * ?)");
        assert_eq!(code_of(&client.bulk(insert.id, &[&[Param::Int(10)], &[Param::Int(100)]]).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT * FROM ruled"), "6,40 7,500");
        // The one that was prepared last, before its id is known.
        client
            .pipeline(&[
                (0x16, b"INSERT INTO u VALUES (7, LASTVAL(g))"),
                (0x17, &[255, 255, 255, 255, 0, 1, 0, 0, 0]),
            ])
            .unwrap();
        client.next_response();
        client.read_prepared().unwrap().unwrap();
        client.next_response();
        assert_eq!(code_of(&client.read_outcomes(true).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT a FROM u WHERE id = 7"), "5");
    });
}

#[test]
fn the_rules_change_between_executions() {
    let db = "draws_rules";
    each_with(db, RULED, "", &with_table(db), |rig| {
        let mut client = rig.client();
        let select = prepare(&mut client, "SELECT NEXTVAL(g)");
        let insert = prepare(&mut client, "INSERT INTO ruled (a) VALUES (NEXTVAL(g))");
        assert_eq!(cells(&client.execute(&select, &[]).unwrap()), "1");
        rig.proxy.write_rules("rules", &format!("{}mode = \"off\"\n", with_table(db)));
        assert!(rig.proxy.reload().0, "{}", rig.proxy.log());
        assert_eq!(cells(&client.execute(&select, &[]).unwrap()), "2", "{}", rig.name());
        // The INSERT gets no id of its own now.
        assert_eq!(code_of(&client.execute(&insert, &[]).unwrap()), 1364, "{}", rig.name());
        rig.proxy.write_rules("rules", &with_table(db).replace("sql = true", "sql = false"));
        assert!(rig.proxy.reload().0, "{}", rig.proxy.log());
        let outcomes = client.execute(&select, &[]).unwrap();
        let error = outcomes[0].err().unwrap();
        assert!(error.code == 1235 && error.message.contains("prepare the statement again"), "{error:?}");
        assert_ne!(code_of(&client.query("SELECT NEXTVAL(g)").unwrap()), 0, "{}", rig.name());
    });
}
