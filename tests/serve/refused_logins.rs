//! Logins that fail fill no log.

use crate::rig::each;
use crate::support::raw::{Client, Options};

#[test]
fn failed_logins_are_told_once_and_counted() {
    each("refused_logins", "", |rig| {
        let options = Options { user: "nobody_of_this_name".to_owned(), ..Options::default() };
        for _ in 0..100 {
            assert!(Client::connect(&rig.proxy.address(), &options).is_err());
        }
        let log = rig.proxy.log();
        let told = log.lines().filter(|line| line.contains("refused the login")).count();
        assert_eq!(told, 1, "{}: {told} lines of 100 failed logins", rig.name());
    });
}
