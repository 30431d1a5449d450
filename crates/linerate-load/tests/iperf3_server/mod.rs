//! Our iperf3 server in this process, at a free port of loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use linerate_iperf3::serve::{ServeOptions, Served, serve};

/// Server, which ends when it is dropped.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(ServeOptions::default().per_client)
    }

    /// Starts a server with at most `per_client` tests at once.
    pub(crate) fn with(per_client: usize) -> Self {
        let address = Some(Ipv4Addr::new(127, 78, 0, 31).into());
        let options = ServeOptions { address, port: 0, per_client, ..ServeOptions::default() };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, (tell, events)) = (Arc::clone(&stop), channel());
        let tell = Mutex::new(tell);
        let thread = std::thread::spawn(move || {
            let tell = move |event| {
                // Only the first event is read.
                let _ = tell.lock().expect("nobody panics with it").send(event);
            };
            serve(options, tell, move || stopped.load(Ordering::Relaxed)).expect("it listens");
        });
        let Ok(Served::Listening(at)) = events.recv() else { panic!("it does not listen") };
        Self { at, stop, thread: Some(thread) }
    }

    /// Returns the server as plans name it.
    pub(crate) fn name(&self) -> String {
        format!("iperf3://{}", self.at)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The test has failed already if the server panicked.
            let _ = thread.join();
        }
    }
}
