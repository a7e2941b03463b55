use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{ApiError, json};

/// What a client asks: its body as it came, and what routing needs to know of it.
#[derive(Debug)]
pub(crate) struct Ask {
    body: Bytes,
    model: Option<Arc<str>>,
    /// Every top-level `model` of the body: engines take the last.
    places: Vec<Range<usize>>,
    stream: bool,
}

impl Ask {
    /// Reads a body. Only what no engine could read is refused.
    pub(crate) fn read(body: Bytes) -> Result<Self, ApiError> {
        let mut places = Vec::new();
        let mut stream = None;
        json::members(&body, |name, value| match name {
            "model" => places.push(value),
            "stream" => stream = Some(value),
            _ => {}
        })
        .map_err(|broken| ApiError::bad_body(format!("the body is not valid JSON: {broken}")))?;
        let stream = stream.is_some_and(|place| {
            let value = body.get(place).unwrap_or_default();
            !matches!(value, b"false" | b"null" | b"0")
        });
        Ok(Self {
            model: model(&body, places.last())?,
            body,
            places,
            stream,
        })
    }

    /// The model that the client names.
    pub(crate) const fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// Whether the reply is to be a stream.
    pub(crate) const fn is_stream(&self) -> bool {
        self.stream
    }

    /// The size of the body.
    pub(crate) const fn len(&self) -> usize {
        self.body.len()
    }

    /// The body with its model, and nothing else, replaced by `model`.
    pub(crate) fn body_for(&self, model: Option<&str>) -> Bytes {
        match model {
            Some(model) if self.model.as_deref() != Some(model) => self.renamed(model),
            _ => self.body.clone(),
        }
    }

    fn renamed(&self, model: &str) -> Bytes {
        let model = json::quote(model);
        if !self.places.is_empty() {
            return json::splice(&self.body, &self.places, &model).into();
        }
        let Some(open) = self.body.iter().position(|&byte| byte == b'{') else {
            return self.body.clone();
        };
        let first = open + 1;
        let rest = self.body.get(first..).unwrap_or_default();
        let is_empty = rest.trim_ascii_start().starts_with(b"}");
        let comma = if is_empty { "" } else { "," };
        let member = format!("\"model\":{model}{comma}");
        json::splice(&self.body, std::slice::from_ref(&(first..first)), &member).into()
    }
}

fn model(body: &[u8], place: Option<&Range<usize>>) -> Result<Option<Arc<str>>, ApiError> {
    let Some(place) = place else { return Ok(None) };
    let value = body.get(place.clone()).unwrap_or_default();
    if value == b"null" {
        return Ok(None);
    }
    json::string(value)
        .map(|name: Cow<'_, str>| Some(Arc::from(name)))
        .ok_or_else(|| ApiError::bad_model("model must be a string".to_owned()))
}

#[cfg(test)]
mod tests;
