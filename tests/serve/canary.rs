//! Literals, bound values and passwords: wherever a proxy says something, they are not in it. The log and the audit file are looked at
//! by [`crate::support::Proxy`] itself, of every proxy of every test.

use crate::console::typed_as;
use crate::http::get;
use crate::rig::{code, each_with, rules};
use crate::support::CANARY;
use crate::support::raw::Param;
use crate::support::servers::free_port;

const PASSWORD: &str = "c4nary-password";

/// Statements of every fate: rewritten, passed, refused by the proxy, and by the server.
const STATEMENTS: [&str; 16] = [
    "INSERT INTO w(s) VALUES('c4nary1')",
    "INSERT INTO w(s) VALUES('c4nary2'),(\"c4nary3\")",
    "INSERT INTO w SET s = 'c4nary4'",
    "REPLACE INTO w(s) VALUES('c4nary5') /* c4nary6 */",
    "INSERT INTO w(s) SELECT CONCAT(s, 'c4nary7') FROM w WHERE s LIKE 'c4nary%'",
    "INSERT INTO w(id, s) VALUES(id, 'c4nary8')",
    "INSERT INTO w(id, s) VALUES('c4nary9', 'c4nary10')",
    "INSERT INTO w(s) VALUES('c4nary11') ON DUPLICATE KEY UPDATE s = 'c4nary12'",
    "INSERT INTO w(nothing) VALUES('c4nary13')",
    "INSERT INTO w(s) VALUES('c4nary14'",
    "INSERT INTO w(id, s) VALUES(1, 'c4nary15')",
    "INSERT INTO shadowed(s) VALUES('c4nary16')",
    "INSERT INTO shadowed(id, s) VALUES('c4nary17', 'c4nary18')",
    "SELECT 'c4nary19' FROM w WHERE s = 'c4nary20'",
    "SET @c = 'c4nary21'",
    "PREPARE p FROM 'INSERT INTO w(s) VALUES(''c4nary22'')'",
];

#[test]
fn no_literal_and_no_secret_is_told() {
    let db = "canary_everywhere";
    let tables = "CREATE TABLE w (id BIGINT PRIMARY KEY, s VARCHAR(200)); \
                  CREATE TABLE shadowed (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(200));";
    let port = free_port();
    let config = format!(
        "[log]\nlevel = \"trace\"\naudit = \"audit.log\"\n\n[admin]\naddress = \"127.0.0.1:0\"\n\n\
         [[admin.users]]\nname = \"dba\"\npassword = \"{PASSWORD}\"\nrole = \"write\"\n"
    );
    let rules = format!(
        "{}[tables.w]\ncolumn = \"id\"\ngenerator = \"g\"\n[tables.shadowed]\ncolumn = \"id\"\ngenerator = \"g\"\nmode = \"shadow\"\n",
        rules(db)
    );
    each_with(db, tables, &config, &rules, |rig| {
        // The rig's own configuration gets the port, which takes effect at a start.
        let file = rig.proxy.dir().join("rowstamp.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let text =
            text.replace("[http]\naddress = \"off\"", &format!("[http]\naddress = \"127.0.0.1:{port}\""));
        std::fs::write(&file, text).unwrap();
        rig.proxy.restart();
        let mut client = rig.client();
        let codes: Vec<u16> = STATEMENTS.iter().map(|statement| code(&mut client, statement)).collect();
        assert!(codes.contains(&0) && codes.contains(&1235) && codes.contains(&1064), "{codes:?}");
        for sql in ["INSERT INTO w(s) VALUES(?)", "INSERT INTO shadowed(s) VALUES(?)", "SELECT ?"] {
            let prepared = client.prepare(sql).unwrap().unwrap();
            for param in [Param::String(b"c4nary23".to_vec()), Param::Long(b"c4nary24".to_vec())] {
                client.execute(&prepared, &[param]).unwrap();
            }
        }
        assert_eq!(code(&mut client, "EXECUTE p"), 0);
        for path in ["/", "/metrics", "/status.json", "/readyz", "/healthz"] {
            let (status, body) = get(port, path).unwrap();
            assert!(status == 200 && !body.contains(CANARY), "{}: {path}: {status} {body}", rig.name());
        }
        for what in [
            "RULES",
            "GENERATORS",
            "PROXIES",
            "SLOTS",
            "SESSIONS",
            "STATS",
            "FINDINGS",
            "CONFIG",
            "VERSION",
            "BACKENDS",
            "DOORS",
            "GRANTS",
            "REFUSED",
            "TOKENS",
            "USERS",
        ] {
            let told = typed_as(PASSWORD, &rig.proxy, &format!("SHOW {what}"));
            assert!(!told.contains(CANARY), "{}: SHOW {what}: {told}", rig.name());
        }
        let reloaded = typed_as(PASSWORD, &rig.proxy, "RELOAD RULES");
        assert!(!reloaded.contains(CANARY), "{}: {reloaded}", rig.name());
        assert!(typed_as("c4nary-wrong", &rig.proxy, "SHOW RULES").contains("1045"), "{}", rig.name());
        let audited = std::fs::read_to_string(rig.proxy.dir().join("audit.log")).unwrap();
        assert!(audited.contains("INSERT INTO w(s) VALUES (...)"), "{audited}");
    });
}
