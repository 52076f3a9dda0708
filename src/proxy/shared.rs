//! What all sessions of a proxy share.

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

/// What all sessions of a proxy share.
#[derive(Clone)]
pub struct Shared {
    pub login: LoginContext,
    pub tables: Arc<InForce>,
    /// How long a ruled statement waits for its ids.
    pub id_deadline: Duration,
    pub verifier: Verifier,
    /// What cannot be rewritten goes on as it came, where the table keeps its AUTO_INCREMENT.
    pub forwards: bool,
    pub sessions: Arc<Sessions>,
    pub audit: Arc<Audit>,
    /// Who may insert into what, as far as that was seen.
    pub allowed: Arc<Allowed>,
    /// Who may draw ids by calls. `None`: all who may log in to the server.
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
