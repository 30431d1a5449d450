//! Connections: accepted in limited number, with limits on the size and the time of requests.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::routes::{self, App};

/// Connections at one time. Further ones wait in the queue of the listening socket.
pub(crate) const MOST_CONNECTIONS: usize = 64;
/// Time for the handshake of TLS, and for the head of each request.
pub(crate) const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longest life of a connection: a browser opens the next one by itself.
const LONGEST_LIFE: Duration = Duration::from_secs(600);
/// Largest head of a request.
pub(crate) const LARGEST_HEAD: usize = 16 << 10;
/// Most headers of a request.
const MOST_HEADERS: usize = 64;
/// Time after which a client that takes nothing is cut off. The kernel counts it.
pub(crate) const STUCK: Duration = Duration::from_secs(10);
/// Threads for pages that take time: one page at a time, and the next one ready.
const MOST_BLOCKING: usize = 2;
/// Pause after an accept that failed, for example for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves on `listener` until the process ends.
pub(crate) fn run(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    app: App,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_BLOCKING)
        .build()?;
    runtime.block_on(accept_all(listener, tls.map(TlsAcceptor::from), app))
}

async fn accept_all(listener: TcpListener, tls: Option<TlsAcceptor>, app: App) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let router = routes::router(app);
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Events are small, and each is to be seen at once.
        let _is_small = socket.set_nodelay(true);
        let stuck = u32::try_from(STUCK.as_millis()).unwrap_or(u32::MAX);
        let _is_limited = rustix::net::sockopt::set_tcp_user_timeout(&socket, stuck);
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => one(socket, router).await,
                Some(tls) => {
                    if let Ok(Ok(secured)) = timeout(HEAD_WITHIN, tls.accept(socket)).await {
                        one(secured, router).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Serves the requests of one connection. Its errors are the client's own.
async fn one(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: axum::Router) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(socket), service);
    let _ended = timeout(LONGEST_LIFE, connection).await;
}
