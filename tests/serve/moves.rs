//! The proxy knows the default database without a question to the server.
//! Only the session's own texts can move it.

use crate::rig::{code, each, insert_id};
use crate::support::Proxy;
use crate::support::raw::{Client, Options};
use crate::support::tap::{Direction, Tap};
use crate::untouched::{CAPABILITIES, Wires, sent};

/// Both schemas are without rules. What is prepared may move the default database at any time.
#[test]
fn a_prepared_move_between_schemas_without_rules_passes_byte_for_byte() {
    let others = "CREATE DATABASE moves_2; CREATE TABLE moves_2.u (id INT, a INT); \
                  CREATE DATABASE moves_3; CREATE TABLE moves_3.u (id INT, a INT);";
    each("moves", others, |rig| {
        let wires = Wires::new(rig);
        for capabilities in CAPABILITIES {
            let options =
                Options { database: Some("moves_2".to_owned()), capabilities, ..Options::default() };
            let mut client = Client::connect(&wires.outer.address(), &options).unwrap();
            wires.begin();
            let context = |text: &str| format!("{} {capabilities:#x}: {text}", rig.name());
            // MySQL prepares no USE, and says so.
            for text in [
                "PREPARE s FROM 'USE moves_3'",
                "UPDATE u SET a=1",
                "EXECUTE s",
                "DELETE FROM u",
                "USE `moves_2`",
                "PREPARE s FROM \"USE `moves_3`;\" ;",
                "UPDATE u SET a=2",
                "SET session_track_schema=OFF",
                "EXECUTE s",
                "DELETE FROM u",
                "SET session_track_schema=ON",
                "EXECUTE IMMEDIATE 'use moves_2'",
                "UPDATE u SET a=3",
                "EXECUTE IMMEDIATE 'USE nowhere'",
                "DELETE FROM u",
            ] {
                client.query(text).unwrap();
                wires.are_alike(&context(text));
            }
            let prepared = client.prepare("USE moves_3").unwrap();
            client.query("UPDATE u SET a=4").unwrap();
            if let Ok(prepared) = prepared {
                client.execute(&prepared, &[]).unwrap();
            }
            client.query("DELETE FROM u").unwrap();
            wires.are_alike(&context("the driver's PREPARE"));
            client.reset().unwrap();
            client.query("UPDATE u SET a=5").unwrap();
            wires.are_alike(&context("COM_RESET_CONNECTION"));
        }
    });
}

/// An INSERT that names the schema of a ruled table, and another table, is no DDL: nobody reads columns and views again for it.
#[test]
fn an_insert_into_another_table_of_the_schema_is_no_ddl() {
    each("moves_ddl", "", |rig| {
        let tap = Tap::start(&rig.server.address());
        // The other proxy of this test has the lock of the ruled table.
        let rules = crate::rig::rules(&rig.db).replace("[tables.t]", "[tables.another]");
        let proxy = Proxy::start(&crate::support::proxy::config(&tap.address()), &[("rules", &rules)]);
        let options = Options { database: Some(rig.db.clone()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        client.run("INSERT INTO moves_ddl.u VALUES(0,0)");
        tap.take();
        for number in 0..40 {
            client.run(format!("INSERT INTO moves_ddl.u VALUES({number},0)"));
        }
        let sent = sent(&tap.take(), Direction::Up);
        let reads = memchr::memmem::find_iter(&sent, b"information_schema.views").count();
        // Views are read from time to time.
        assert!(reads < 20, "{}: the views were read {reads} times", rig.name());
    });
}

/// Any of several prepared moves may be executed, and the client has the server report none.
#[test]
fn one_of_many_prepared_moves_leads_to_a_ruled_table() {
    each("moves_many", "CREATE DATABASE moves_many_2; CREATE TABLE moves_many_2.t (id INT, a INT);", |rig| {
        let options = Options { database: Some("moves_many_2".to_owned()), ..Options::default() };
        for others in [1, 40] {
            let mut client = Client::connect(&rig.proxy.address(), &options).unwrap();
            client.run("SET session_track_schema=OFF");
            if code(&mut client, "PREPARE s FROM 'USE moves_many'") != 0 {
                return;
            }
            for number in 0..others {
                code(&mut client, format!("PREPARE s{number} FROM 'USE moves_many_{number}'"));
            }
            client.run("USE moves_many_2");
            client.run("INSERT INTO moves_many_2.t VALUES(1,2)");
            client.run("EXECUTE s");
            client.run("UPDATE u SET a=1");
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0, "{}", rig.name());
        }
    });
}
