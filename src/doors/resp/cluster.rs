//! The door's answers about a cluster: it is one, of this proxy alone, which has all slots. A client of a fleet is
//! given several proxies to begin with, and most clients use another one when theirs is gone (docs/redis.md).
//!
//! Sources: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>, and the pages of the `CLUSTER` commands
//! (<https://redis.io/docs/latest/commands/cluster-slots/>, ...).

use std::net::SocketAddr;

use sha1::{Digest, Sha1};

use super::reply::Replies;

const SLOTS: u16 = 16_384;

/// This proxy, as the client has reached it.
#[derive(Debug, Clone)]
pub(super) struct ClusterNode {
    /// 40 hexadecimal digits.
    pub(super) id: String,
    /// `None`: over a Unix socket.
    pub(super) at: Option<SocketAddr>,
    pub(super) is_tls: bool,
}

impl ClusterNode {
    /// `proxy`: its name.
    pub(super) fn new(proxy: &str, at: Option<SocketAddr>, is_tls: bool) -> ClusterNode {
        ClusterNode { id: format!("{:x}", Sha1::digest(proxy.as_bytes())), at, is_tls }
    }

    fn host(&self) -> String {
        self.at.map(|at| at.ip().to_canonical().to_string()).unwrap_or_default()
    }

    pub(super) fn port(&self) -> u16 {
        self.at.map(|at| at.port()).unwrap_or_default()
    }

    pub(super) fn slots(&self, to: &mut Replies) {
        to.array(1);
        to.array(3);
        to.integer(0);
        to.integer(i64::from(SLOTS - 1));
        to.array(4);
        to.bulk(self.host());
        to.integer(i64::from(self.port()));
        to.bulk(&self.id);
        to.array(0);
    }

    pub(super) fn shards(&self, to: &mut Replies) {
        to.array(1);
        to.map(2);
        to.bulk("slots");
        to.array(2);
        to.integer(0);
        to.integer(i64::from(SLOTS - 1));
        to.bulk("nodes");
        to.array(1);
        to.map(7);
        to.bulks(["id", &self.id, if self.is_tls { "tls-port" } else { "port" }]);
        to.integer(i64::from(self.port()));
        let host = &*self.host();
        to.bulks(["ip", host, "endpoint", host, "role", "master", "health", "online", "replication-offset"]);
        to.integer(0);
    }

    pub(super) fn nodes(&self) -> String {
        let (id, host, port) = (&self.id, self.host(), self.port());
        // The port of the cluster's bus, which there is not.
        format!("{id} {host}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1)
    }

    pub(super) fn info() -> String {
        let slots = SLOTS.to_string();
        [
            ("cluster_enabled", "1"),
            ("cluster_state", "ok"),
            ("cluster_slots_assigned", &slots),
            ("cluster_slots_ok", &slots),
            ("cluster_slots_pfail", "0"),
            ("cluster_slots_fail", "0"),
            ("cluster_known_nodes", "1"),
            ("cluster_size", "1"),
            ("cluster_current_epoch", "1"),
            ("cluster_my_epoch", "1"),
        ]
        .map(|(key, value)| format!("{key}:{value}\r\n"))
        .concat()
    }
}

/// The slot of a key, by its part in braces if there is one that is not empty: CRC16 (XMODEM) modulo 16,384.
pub(super) fn key_slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = key.get(open + 1..)?;
        rest.get(..memchr::memchr(b'}', rest)?).filter(|tag| !tag.is_empty())
    });
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::{ClusterNode, key_slot};

    /// The slots are those of redis 7.0.15 (CLUSTER KEYSLOT).
    #[test]
    fn slots_of_keys() {
        for (key, slot) in [
            ("", 0),
            ("foo", 12_182),
            ("123456789", 12_739),
            ("shop.orders", 3_678),
            ("{user1000}.following", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar", 15_278),
        ] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_node_is_who_it_was() {
        let at = "[::ffff:127.0.0.1]:6379".parse().ok();
        let node = ClusterNode::new("db1:3307", at, false);
        assert_eq!(node.id, ClusterNode::new("db1:3307", None, true).id);
        assert!(node.nodes().contains(" 127.0.0.1:6379@0 myself,master "), "{}", node.nodes());
        assert_eq!(node.id.len(), 40);
        assert_ne!(node.id, ClusterNode::new("db2:3307", at, false).id);
    }
}
