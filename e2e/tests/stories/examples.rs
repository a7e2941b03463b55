//! Every file in `examples/` is applied as it stands, and does what it says.

use anyhow::{Context as _, Result, ensure};
use e2e::engines::Engines;
use e2e::environment;
use e2e::release::Release;
use e2e::world::World;
use serde_json::{Value, json};
