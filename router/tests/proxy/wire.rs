//! HTTP/1.1 by hand: what goes over the wire is what a test says.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything here takes, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Its framing says that it is complete.
    pub(crate) whole: bool,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice: {self:?}");
        value
    }

    pub(crate) fn status(&self) -> u16 {
        let status = self.line.split(' ').nth(1).unwrap();
        status.parse().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The error that the body tells of.
    pub(crate) fn error(&self) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert!(body["error"]["message"].is_string(), "{body}");
        body["error"].clone()
    }
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.stream.write_all(bytes.as_ref());
        timeout(DEADLINE, sent).await.unwrap().unwrap();
    }

    /// As `send`, for when the other end may have gone.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        let sent = self.stream.write_all(bytes.as_ref());
        timeout(DEADLINE, sent).await.unwrap()
    }

    pub(crate) async fn send_chunk(&mut self, bytes: impl AsRef<[u8]>) {
        self.send(chunk(bytes)).await;
    }

    /// More bytes; `false` at the end, an orderly one or not.
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.buffer);
        let read = timeout(DEADLINE, read).await.expect("nothing came in time");
        read.is_ok_and(|n| n > 0)
    }

    /// Waits until the other end closes.
    pub(crate) async fn closed(&mut self) {
        while self.more().await {}
    }

    /// Waits for the other end to close, having sent nothing more.
    pub(crate) async fn closed_in_silence(&mut self) {
        self.closed().await;
        let rest = String::from_utf8_lossy(&self.buffer);
        assert!(rest.is_empty(), "{rest}");
    }

    /// Closes with a RST.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    async fn take_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.buffer.windows(end.len()).position(|w| w == end);
            if let Some(at) = found {
                let rest = self.buffer.split_off(at + end.len());
                let mut taken = std::mem::replace(&mut self.buffer, rest);
                taken.truncate(at);
                return Some(taken);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn take_exactly(&mut self, n: usize) -> Result<Vec<u8>, Vec<u8>> {
        while self.buffer.len() < n {
            if !self.more().await {
                return Err(std::mem::take(&mut self.buffer));
            }
        }
        let rest = self.buffer.split_off(n);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// A head; its body is not read.
    pub(crate) async fn head(&mut self) -> Option<Message> {
        let head = String::from_utf8(self.take_until(b"\r\n\r\n").await?).unwrap();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Some(Message {
            line,
            headers: headers.collect(),
            body: vec![],
            whole: false,
        })
    }

    /// A message with its body, as far as it comes.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        let mut message = self.head().await?;
        self.body(&mut message).await;
        Some(message)
    }

    pub(crate) async fn body(&mut self, message: &mut Message) {
        if message.header("transfer-encoding") == Some("chunked") {
            while !message.whole
                && let Some(chunk) = self.chunk().await
            {
                message.whole = chunk.is_empty();
                message.body.extend(chunk);
            }
            return;
        }
        let length = message.header("content-length").map(|n| n.parse().unwrap());
        match self.take_exactly(length.unwrap_or(0)).await {
            Ok(body) => (message.body, message.whole) = (body, true),
            Err(part) => message.body = part,
        }
    }

    /// The next chunk of a chunked body; the last one is empty.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = String::from_utf8(self.take_until(b"\r\n").await?).unwrap();
        let size = usize::from_str_radix(&size, 16).unwrap();
        let chunk = self.take_exactly(size).await.ok()?;
        self.take_exactly(2).await.ok()?;
        Some(chunk)
    }
}

pub(crate) fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "never: {what}");
        sleep(Duration::from_millis(1)).await;
    }
    started.elapsed()
}
