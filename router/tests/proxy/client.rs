//! A client that sends the bytes a test says.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::wire::{Message, Wire};

/// One connection to the router.
#[derive(Debug)]
pub(crate) struct Client(pub(crate) Wire);

impl Client {
    pub(crate) async fn connect(router: SocketAddr) -> Self {
        Self(Wire::new(TcpStream::connect(router).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, request: impl AsRef<[u8]>) {
        self.0.send(request).await;
    }

    /// The next response.
    pub(crate) async fn response(&mut self) -> Message {
        self.0.message().await.expect("closed without a response")
    }

    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request).await;
        self.response().await
    }

    /// Asks for a chat completion.
    pub(crate) async fn chat(&mut self, body: impl AsRef<[u8]>) -> Message {
        self.ask(chat("", body)).await
    }
}

/// A chat request.
pub(crate) fn chat(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    request("POST /v1/chat/completions", headers, body)
}

pub(crate) fn request(line: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nhost: refrain\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}
