//! Cuts between one proxy and one member of etcd, in a network namespace that is the test's alone.
//!
//! All is on its loopback. A proxy reaches each member by an address that no other proxy uses, so a packet's address tells whose
//! it is. Packets are dropped where they arrive, as a network loses them: nobody is told.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::chaos::plan::Loses;

const TABLE: &str = "
table inet chaos {
  set requests { type ipv4_addr; }
  set answers { type ipv4_addr; }
  chain arriving {
    type filter hook input priority 0;
    ip daddr @requests drop
    ip saddr @answers drop
  }
}
";

/// Panics in the namespace that tests/chaos.sh was called in: nothing there is ours to change.
pub(crate) fn start() {
    let outside = std::env::var("ROWSTAMP_CHAOS_OUTSIDE").expect("tests/chaos.sh sets it");
    let here = fs::read_link("/proc/self/ns/net").expect("a network namespace");
    assert_ne!(here.to_string_lossy(), outside, "tests/chaos.sh makes a network namespace");
    nft(TABLE);
}

/// The address by which this proxy reaches this member.
pub(crate) fn address(proxy: usize, member: usize) -> String {
    format!("127.0.{}.{}", proxy + 1, member + 1)
}

pub(crate) fn cut(proxy: usize, members: &[usize], loses: Loses) {
    change("add", proxy, members, loses);
}

pub(crate) fn heal(proxy: usize, members: &[usize], loses: Loses) {
    change("delete", proxy, members, loses);
}

fn change(word: &str, proxy: usize, members: &[usize], loses: Loses) {
    let addresses: Vec<_> = members.iter().map(|&member| address(proxy, member)).collect();
    let sets = match loses {
        Loses::Requests => &["requests"][..],
        Loses::Answers => &["answers"],
        Loses::Both => &["requests", "answers"],
    };
    let line = |set: &&str| format!("{word} element inet chaos {set} {{ {} }}\n", addresses.join(", "));
    nft(&sets.iter().map(line).collect::<String>());
}

/// All of it, or nothing.
fn nft(commands: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft starts");
    nft.stdin.take().expect("it is piped").write_all(commands.as_bytes()).expect("nft reads");
    assert!(nft.wait().expect("nft ends").success(), "nft: {commands}");
}
