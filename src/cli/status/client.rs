//! GET /status.json.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;

const DEADLINE: Duration = Duration::from_secs(10);
/// Some thousand generators.
const ANSWER_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
#[error("no Rowstamp proxy answers at {address} (http.address): {why}; {remedy}")]
pub(super) struct ClientError {
    address: Address,
    why: Why,
    remedy: &'static str,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("{0}")]
    Connect(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the answer cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer was {0}")]
    Status(StatusCode),
    #[error("no answer within {DEADLINE:?}")]
    Late,
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
}

/// The body of the answer.
pub(super) async fn ask(address: &Address) -> Result<Bytes, ClientError> {
    let answer = tokio::time::timeout(DEADLINE, get(address)).await.unwrap_or(Err(Why::Late));
    answer.map_err(|why| {
        let remedy = match why {
            Why::Connect(_) => {
                "start the proxy, name its configuration with --config, or look for http.address in its log"
            }
            Why::Late => "the proxy may be overloaded; look at its log",
            _ => "another program may listen there; give the proxy another address",
        };
        ClientError { address: address.clone(), why, remedy }
    })
}

async fn get(address: &Address) -> Result<Bytes, Why> {
    match address {
        Address::Tcp { host, port } => {
            get_over(TcpStream::connect((host.as_str(), *port)).await?, &address.to_string()).await
        }
        Address::Unix(path) => get_over(UnixStream::connect(path).await?, "localhost").await,
    }
}

async fn get_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
) -> Result<Bytes, Why> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let task = tokio::spawn(connection);
    let request = Request::get("/status.json").header("host", host).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(Why::Body)?;
    task.abort();
    if status == StatusCode::OK { Ok(body.to_bytes()) } else { Err(Why::Status(status)) }
}
