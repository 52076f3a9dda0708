//! redis-rs: a connection of `Client`, a pipeline, and that of `cluster::ClusterClient`; the asynchronous ones, since the other one of a
//! cluster never goes back to the nodes that it was given.

mod check;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncCommands, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    RedisResult, TlsCertificates, Value, cmd, pipe,
};
use tokio::runtime::Runtime;

use check::{Check, Library, User};

enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

struct Redis<'a> {
    runtime: &'a Runtime,
    connection: Connection,
}

/// Waits for what the call answers.
macro_rules! on {
    ($redis:expr, $connection:ident => $call:expr) => {
        $redis.runtime.block_on(async {
            match &mut $redis.connection {
                Connection::One($connection) => $call.await,
                Connection::Cluster($connection) => $call.await,
            }
        })
    };
}

impl Library for Redis<'_> {
    fn incr(&mut self, key: &str) -> RedisResult<u64> {
        on!(self, connection => connection.incr(key, 1))
    }

    fn incr_by(&mut self, key: &str, n: u64) -> RedisResult<u64> {
        on!(self, connection => connection.incr(key, n))
    }

    fn pipeline(&mut self, keys: &[&str]) -> RedisResult<Vec<u64>> {
        let mut pipe = pipe();
        keys.iter().for_each(|key| _ = pipe.cmd("INCR").arg(*key));
        on!(self, connection => pipe.query_async(connection))
    }

    fn get(&mut self, key: &str) -> RedisResult<Option<String>> {
        on!(self, connection => connection.get(key))
    }

    fn mget(&mut self, keys: &[&str]) -> RedisResult<Vec<Option<String>>> {
        on!(self, connection => connection.mget(keys))
    }

    fn exists(&mut self, keys: &[&str]) -> RedisResult<u64> {
        on!(self, connection => cmd("EXISTS").arg(keys).query_async(connection))
    }

    fn set(&mut self, key: &str, value: &str) -> RedisResult<()> {
        on!(self, connection => connection.set(key, value))
    }

    fn raw(&mut self, words: &[&str]) -> RedisResult<Value> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        on!(self, connection => command.query_async(connection))
    }
}

/// Installs what TLS needs.
fn certificates() -> Result<TlsCertificates> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let ca = std::env::var("ROWSTAMP_CA").context("ROWSTAMP_CA")?;
    Ok(TlsCertificates { client_tls: None, root_cert: Some(std::fs::read(ca)?) })
}

async fn open(mode: &str, ports: &[u16], user: User) -> Result<Connection> {
    let is_tls = mode.ends_with("tls");
    let protocol = if mode.ends_with('2') { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 };
    let login = || {
        let login = RedisConnectionInfo::default().set_username(user.name).set_password(user.password);
        // With TLS the library's own default.
        if is_tls { login } else { login.set_protocol(protocol) }
    };
    let nodes = ports.iter().map(|port| {
        let host = "127.0.0.1".to_owned();
        let at = match is_tls {
            true => ConnectionAddr::TcpTls { host, port: *port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, *port),
        };
        Ok(at.into_connection_info()?.set_redis_settings(login()))
    });
    let mut nodes = nodes.collect::<Result<Vec<_>>>()?;
    if mode.starts_with("cluster") {
        let builder = ClusterClient::builder(nodes).username(user.name).password(user.password);
        let builder = if is_tls { builder.certs(certificates()?) } else { builder.use_protocol(protocol) };
        return Ok(Connection::Cluster(builder.build()?.get_async_connection().await?));
    }
    let first = nodes.swap_remove(0);
    let client = if is_tls { Client::build_with_tls(first, certificates()?)? } else { Client::open(first)? };
    Ok(Connection::One(client.get_multiplexed_async_connection().await?))
}

fn main() -> Result<()> {
    let mode = std::env::args().nth(1).context("a mode")?;
    let ports = std::env::var("ROWSTAMP_PORTS").context("ROWSTAMP_PORTS")?;
    let ports = ports.split(' ').map(str::parse).collect::<Result<Vec<u16>, _>>()?;
    let runtime = Runtime::new()?;
    Check::default().run(mode.starts_with("cluster"), |user| {
        let connection = runtime.block_on(open(&mode, &ports, user))?;
        Ok(Redis { runtime: &runtime, connection })
    })
}
