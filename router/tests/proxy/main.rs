//! The data port against scripted engines, over real sockets.

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod cancel;
#[cfg(test)]
mod client;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod log;
#[cfg(test)]
mod models;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod router;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod wire;
