//! A refused statement: it leaves one line in the log, without its values.

use crate::rig::{Rig, code, code_of, each};
use crate::support::raw::Param;

const UNSUPPORTED: u16 = 1235;
/// Longer than what a log has by chance: its ports and times have digits too.
const SECRET: &str = "918273645";

fn lines(rig: &Rig) -> usize {
    rig.proxy.log().matches("a statement was refused").count()
}

#[test]
fn it_is_logged_once_and_its_values_never() {
    each("refused_log", "", |rig| {
        let mut client = rig.client();
        let odku =
            |n| format!("INSERT INTO t(a) VALUES({n}),({n}) ON DUPLICATE KEY UPDATE id=id+{SECRET}{n}");
        for n in 0..20 {
            assert_eq!(code(&mut client, odku(n)), UNSUPPORTED, "{}", rig.name());
        }
        assert_eq!(lines(rig), 1, "{}: {}", rig.name(), rig.proxy.log());
        let log = rig.proxy.log();
        let has = |text: &str| assert!(log.contains(text), "{}: {text}: {log}", rig.name());
        has("ON DUPLICATE KEY UPDATE id = id + ?");
        has("root");
        assert!(!log.contains(SECRET), "{}: {log}", rig.name());
        // By way of a stage, and prepared.
        assert_eq!(code(&mut client, "INSERT INTO t(a) SELECT ROW_COUNT()"), UNSUPPORTED, "{}", rig.name());
        assert_eq!(lines(rig), 2, "{}: {}", rig.name(), rig.proxy.log());
        let insert = client.prepare("INSERT INTO t(id,a) VALUES(?,1)").unwrap().unwrap();
        let sent_ahead = [Param::Long(b"0x".to_vec())];
        let sent = [&insert.id.to_le_bytes()[..], &[0, 0], b"0x"].concat();
        client.send_command(0x18, &sent).unwrap();
        if code_of(&client.execute(&insert, &sent_ahead).unwrap()) == UNSUPPORTED {
            assert_eq!(lines(rig), 3, "{}: {}", rig.name(), rig.proxy.log());
        } else {
            panic!("{}: it is no longer refused", rig.name());
        }
    });
}
