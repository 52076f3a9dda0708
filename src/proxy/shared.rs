//! The state that all sessions of a proxy share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::audit::Audit;
use crate::proxy::connect::login::LoginContext;
use crate::proxy::known::rights::Allowed;
use crate::proxy::settings::Verify;
use crate::proxy::verifier::Verifier;
use crate::sessions::Sessions;
use crate::tables::InForce;
use crate::users::Directory;

/// The state that all sessions of a proxy share.
#[derive(Clone)]
pub struct Shared {
    pub login: LoginContext,
    pub tables: Arc<InForce>,
    /// The longest time that a ruled statement waits for its ids.
    pub id_deadline: Duration,
    pub verifier: Verifier,
    /// A statement that cannot be rewritten goes to the server as it came, if the table keeps its AUTO_INCREMENT.
    pub forwards: bool,
    pub sessions: Arc<Sessions>,
    pub audit: Arc<Audit>,
    /// The rights of accounts to tables, as far as they were seen.
    pub allowed: Arc<Allowed>,
    /// The users of ours, whose rights limit what they draw by calls. `None`, or an account that is none of them: it
    /// draws freely.
    pub users: Option<Arc<Directory>>,
    /// `true`: sessions end where nothing is lost by it.
    pub draining: watch::Receiver<bool>,
}

impl Shared {
    /// Nobody is there yet, and nothing is noted.
    pub fn new(
        login: LoginContext,
        tables: Arc<InForce>,
        id_deadline: Duration,
        verify: Verify,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Shared {
            login,
            tables,
            id_deadline,
            verifier: Verifier::new(verify),
            forwards: false,
            sessions: Arc::default(),
            audit: Arc::default(),
            allowed: Arc::default(),
            users: None,
            draining,
        }
    }
}
