//! A line of the log says whose it is: which session's, which reload's, which takeover's (`src/log_span.rs`).

use crate::rig::{code, each_with, rules};
use crate::support::raw::Client;

/// An INSERT that is refused, and by its `plus` has a line of its own.
fn refused(client: &mut Client, plus: &str) {
    assert_eq!(
        code(client, format!("INSERT INTO t(a) VALUES(1),(2) ON DUPLICATE KEY UPDATE id=id{plus}")),
        1235
    );
}

/// The end of the line in `log` that has this text.
fn end_of<'a>(log: &'a str, text: &str, from: &str) -> &'a str {
    let line = log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {log}"));
    line.find(from).and_then(|at| line.get(at..)).unwrap_or_else(|| panic!("{from}: {line}"))
}

#[test]
fn lines_have_the_fields_of_their_session_reload_and_takeover() {
    // Only SIGHUP reloads.
    let quiet = "[rules]\nwatch = false\n";
    each_with("spans", "", quiet, &rules("spans"), |rig| {
        let (mut first, mut second) = (rig.client(), rig.client());
        let of = |client: &Client| {
            let address = client.try_clone_stream().local_addr().unwrap();
            format!(" client=\"{address}\" user=\"root\"")
        };
        refused(&mut first, "+1");
        refused(&mut second, "+1+1");
        refused(&mut first, "+1+1+1");
        let log = rig.proxy.log();
        let session = |plus: &str| end_of(&log, &format!("id = id{plus}\" digest"), " session=");
        let (once, other, again) = (session(" + ?"), session(" + ? + ?"), session(" + ? + ? + ?"));
        assert!(once.ends_with(&of(&first)) && other.ends_with(&of(&second)), "{once} {other}");
        assert_eq!(once, again, "{}", rig.name());
        assert_ne!(once.split(' ').nth(1), other.split(' ').nth(1), "{}", rig.name());
        for nth in 1..3 {
            rig.proxy.write_rules(
                "rules",
                &(rules("spans") + &format!("[tables.none{nth}]\ncolumn = \"id\"\ngenerator = \"g\"\n")),
            );
            let (is_active, log) = rig.proxy.reload();
            assert!(is_active, "{log}");
            // A line of the tables' and one of the reload's own.
            for text in ["a rule's table is not there", "SIGHUP: the files are active"] {
                assert_eq!(end_of(&log, text, " reload="), format!(" reload={nth}"), "{}: {log}", rig.name());
            }
        }
        drop(rig.proxy.take_over());
        let (log, takeover) = (rig.proxy.last_log(), format!(" takeover={}", rig.proxy.pid));
        for text in
            ["this process closes the store", "this process has taken over from the process before it"]
        {
            assert_eq!(end_of(&log, text, " takeover="), takeover, "{}: {log}", rig.name());
        }
        assert!(
            end_of(&log, &format!("pid={}", rig.proxy.pid), "rowstamp starts").ends_with("generators=1"),
            "{log}"
        );
    });
}
