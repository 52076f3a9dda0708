//! A port where ids are drawn without an INSERT.

const GIVEN: &str = "given";

/// A row of the doors' list. Its counts are since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorRow {
    /// The door's name in metrics and audit lines: "resp", "api".
    pub name: &'static str,
    /// For people.
    pub protocol: &'static str,
    /// `None`: it is off.
    pub address: Option<String>,
    /// Clients can connect.
    pub is_open: bool,
    /// Towards new clients, in the words of `tls.mode`.
    pub tls: String,
    /// The other services whose paths it answers, in the words of `api.compat`.
    pub compat: Vec<String>,
    /// Clients that have logged in and are connected.
    pub clients: u64,
    /// Requests for ids, by what came of them.
    pub requests: Vec<(&'static str, u64)>,
    /// Ids that were given.
    pub ids: u64,
    pub logins_refused: u64,
}

impl DoorRow {
    pub fn is_on(&self) -> bool {
        self.address.is_some()
    }

    /// Requests that got ids.
    pub fn given(&self) -> u64 {
        self.counted(|outcome| outcome == GIVEN)
    }

    /// Requests that got none.
    pub fn refused(&self) -> u64 {
        self.counted(|outcome| outcome != GIVEN)
    }

    fn counted(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.requests.iter().filter(|(outcome, _)| is_meant(outcome)).map(|(_, count)| count).sum()
    }
}
