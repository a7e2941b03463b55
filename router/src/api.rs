//! What clients speak: the OpenAI API. Its words live here and nowhere else.

pub(crate) mod ask;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod models;
mod path;
mod upload;

pub(crate) use self::ask::Ask;
pub(crate) use self::error::ApiError;
pub(crate) use self::path::Call;
pub(crate) use self::upload::Upload;
