//! What the stories are told with: a real one-node Kubernetes in private namespaces of this machine, the images that
//! run on it, and the [`World`](world::World) each story gets.

pub mod client;
pub mod cluster;
pub mod engine;
pub mod engines;
pub mod environment;
pub mod images;
pub mod manifest;
pub mod reach;
pub mod release;
pub mod sdk;
pub mod world;
