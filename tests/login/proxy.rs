//! A proxy that does logins and then copies bytes.

use std::path::{Path, PathBuf};

use rowstamp::address::Address;
use rowstamp::proxy::connect::login::{self, LoginContext};
use rowstamp::proxy::connect::stream::Stream;
use rowstamp::proxy::settings::{BackendTlsMode, ListenTlsMode, Settings};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    /// The result of each login, in the order in which they ended.
    pub(crate) ends: std::sync::mpsc::Receiver<Result<String, String>>,
    dir: tempfile::TempDir,
    /// The proxy's tasks end with the runtime.
    _runtime: tokio::runtime::Runtime,
}

impl Proxy {
    /// For clients by TCP, TLS and Unix socket.
    pub(crate) fn start(backend: &str, listen: ListenTlsMode, backend_tls: BackendTlsMode) -> Proxy {
        Self::start_with(backend, listen, backend_tls, |_| ())
    }

    pub(crate) fn start_with(
        backend: &str,
        listen: ListenTlsMode,
        backend_tls: BackendTlsMode,
        change: impl FnOnce(&mut LoginContext),
    ) -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(backend.parse().unwrap(), listen, backend_tls, dir.path());
        let mut context = LoginContext::new(settings).unwrap();
        change(&mut context);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
        let socket = dir.path().join("sock");
        let (report, ends) = std::sync::mpsc::channel();
        let entered = runtime.enter();
        let unix = UnixListener::bind(&socket).unwrap();
        let tcp = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        drop(entered);
        let port = tcp.local_addr().unwrap().port();
        runtime.spawn(async move {
            loop {
                let stream = tokio::select! {
                    accepted = tcp.accept() => Stream::client(accepted.unwrap().0).unwrap(),
                    accepted = unix.accept() => Stream::unix(accepted.unwrap().0),
                };
                tokio::spawn(session(stream, context.clone(), report.clone()));
            }
        });
        Proxy { port, socket, ends, dir, _runtime: runtime }
    }

    /// The path of its certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.path().join("state/tls.pem")
    }
}

async fn session(
    client: Stream,
    context: LoginContext,
    report: std::sync::mpsc::Sender<Result<String, String>>,
) {
    let mut session = match login::run(client, None, &context).await {
        Ok(session) => session,
        Err(error) => return drop(report.send(Err(error.to_string()))),
    };
    // A test that is over does not listen.
    let _ = report.send(Ok(String::from_utf8_lossy(&session.user).into_owned()));
    let _ = session.server.write_all(&session.client_buffered).await;
    let _ = tokio::io::copy_bidirectional(&mut session.client, &mut session.server).await;
}

fn settings(backend: Address, listen: ListenTlsMode, backend_tls: BackendTlsMode, dir: &Path) -> Settings {
    let mut settings = Settings::bare(backend, dir.join("state"));
    (settings.listen_tls.mode, settings.backend.tls.mode) = (listen, backend_tls);
    settings
}
