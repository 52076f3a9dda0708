//! Parts that integration tests share: private servers, the proxy under test, and a client without this
//! crate's code.
//!
//! * [`keeper`]: a process that ends when the test does, however the test ends.
//! * [`machine`]: programs, folders and ports of this machine.
//! * [`clock`]: a process's time of day, put wrong.
//! * [`relay`]: what relays share.
//! * [`gate`]: a relay whose target moves.
//! * [`etcd`]: private etcd clusters.
//! * [`servers`]: private MariaDB and MySQL 9 servers.
//! * [`proxy`]: `rowstamp serve` with a configuration of the test's own.
//! * [`tap`]: a relay that writes down what it passes on.
//! * [`told`]: what clients were told of their rows, and the judge.
//! * [`router`]: MySQL Router before one of them.
//! * [`wait`]: until something is so.
//! * [`raw`]: a MySQL client over a bare socket, independent of the crate's own `mysql` module.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test crate uses a part")]
#![allow(clippy::indexing_slicing, clippy::missing_panics_doc, reason = "a panic is how a test fails")]
#![allow(clippy::many_single_char_names, reason = "the bytes of two numbers")]

pub mod clock;
pub mod etcd;
pub mod gate;
pub mod keeper;
pub mod machine;
pub mod proxy;
pub mod raw;
pub mod relay;
pub mod router;
pub mod servers;
pub mod tap;
pub mod told;
pub mod wait;

/// In literals and passwords that tests use: no proxy may have it in its log or in a file of its own, which is looked at when it goes.
pub const CANARY: &str = "c4nary";

pub use etcd::Etcd;
pub use gate::Gate;
pub use proxy::Proxy;
pub use servers::{Kind, Server};
