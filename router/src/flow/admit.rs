use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The hash of the credential; all who send none are one caller.
    id: Option<[u8; 32]>,
}

impl fmt::Display for Caller {
    /// Enough of the hash to tell callers apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(id) = &self.id else {
            return f.write_str("anonymous");
        };
        id.iter()
            .take(6)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Knows the caller by the credential; no credential is wrong.
pub(super) fn admit(headers: &HeaderMap) -> Caller {
    let credential = headers
        .get(AUTHORIZATION)
        .or_else(|| headers.get("x-api-key"));
    Caller {
        id: credential.map(|credential| Sha256::digest(credential.as_bytes()).into()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn caller(name: &'static str, value: &'static str) -> Caller {
        admit(&HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )]))
    }

    #[test]
    fn callers_are_told_apart_by_their_credential_and_never_shown_by_it() {
        let one = caller("authorization", "Bearer sk-1");
        assert_eq!(one, caller("authorization", "Bearer sk-1"));
        assert_ne!(one, caller("authorization", "Bearer sk-2"));
        assert_ne!(one, caller("x-api-key", "sk-1"));
        assert_eq!(one.to_string().len(), 12);
        assert!(!one.to_string().contains("sk"));
    }

    #[test]
    fn all_without_a_credential_are_one_caller() {
        assert_eq!(caller("cookie", "a=b"), admit(&HeaderMap::new()));
        assert_eq!(admit(&HeaderMap::new()).to_string(), "anonymous");
    }
}
