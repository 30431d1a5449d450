//! Server-sent events: the newest state, whenever it changes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

/// Time after which a connection without news says that it lives. A client that left is found by
/// it.
const BEAT_EVERY: Duration = Duration::from_secs(15);

/// Body of an endless answer.
struct Events {
    lines: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Returns an answer with an event for each state of `news` that the client is fast enough for, and
/// an event `end` after the last one. `place` is taken as long as the client stays.
pub(crate) fn answer<T: Clone + Send + Sync + 'static>(
    news: watch::Receiver<T>,
    text: fn(&T) -> Arc<str>,
    place: OwnedSemaphorePermit,
) -> Response {
    let (sender, lines) = mpsc::channel(1);
    tokio::spawn(forward(news, text, sender));
    let body = Body::new(Events { lines, _place: place });
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn forward<T: Clone>(
    mut news: watch::Receiver<T>,
    text: fn(&T) -> Arc<str>,
    lines: mpsc::Sender<Bytes>,
) {
    loop {
        let now = text(&news.borrow_and_update());
        // A state that is not known yet is no event.
        if !now.is_empty() && lines.send(Bytes::from(format!("data: {now}\n\n"))).await.is_err() {
            return;
        }
        loop {
            match timeout(BEAT_EVERY, news.changed()).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => {
                    let _left = lines.send(Bytes::from_static(b"event: end\ndata:\n\n")).await;
                    return;
                }
                Err(_) if lines.send(Bytes::from_static(b":\n\n")).await.is_err() => return,
                Err(_) => {}
            }
        }
    }
}
