use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client that still sends a refused request may take to notice the answer.
const LINGER: Duration = Duration::from_secs(2);

/// A client's socket. When a request was answered before all of it had come, closing waits until
/// the client closes too and throws away what still comes: closing at once would reset the
/// connection, and the client would lose the answer.
#[derive(Debug)]
pub(super) struct Wire {
    io: TokioIo<TcpStream>,
    linger: Arc<AtomicBool>,
    closing: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, linger: Arc<AtomicBool>) -> Self {
        Self {
            io: TokioIo::new(stream),
            linger,
            closing: None,
        }
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        let closing = self.closing.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        while closing.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(self.io.inner_mut()).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(())
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        }
        if self.linger.load(Ordering::Relaxed) {
            ready!(self.poll_drain(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }
}
