//! A console on a free port and on a Unix socket, with TLS of a certificate of its own.

use std::path::PathBuf;
use std::sync::Arc;

use rowstamp::address::Address;
use rowstamp::admin::console::{self, Listener, Tls};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::console::fake::FakeDesk;

pub(crate) struct Console {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    pub(crate) desk: Arc<FakeDesk>,
    _dir: tempfile::TempDir,
    /// The console's tasks end with the runtime.
    _runtime: tokio::runtime::Runtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    Disabled,
    Preferred,
    Required,
}

impl Console {
    pub(crate) fn start() -> Console {
        Self::start_with(TlsMode::Preferred)
    }

    pub(crate) fn start_with(mode: TlsMode) -> Console {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
        let desk = Arc::new(FakeDesk { issued: Some(u64::MAX), ..FakeDesk::default() });
        let acceptor = (mode != TlsMode::Disabled).then(acceptor);
        let tls = Tls { acceptor, is_required: mode == TlsMode::Required };
        let mut port = 0;
        for address in [Address::Tcp { host: "127.0.0.1".into(), port: 0 }, Address::Unix(socket.clone())] {
            let listener = runtime.block_on(Listener::bind(&address)).unwrap();
            if let Some((_, text)) = listener.address().rsplit_once("127.0.0.1:") {
                port = text.parse().unwrap();
            }
            let tls = tls.clone();
            runtime.spawn(console::serve(listener, desk.clone(), move || tls.clone()));
        }
        Console { port, socket, desk, _dir: dir, _runtime: runtime }
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.desk.done.lock().clone()
    }
}

fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
