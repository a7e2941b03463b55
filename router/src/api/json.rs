//! Reads JSON in place: where a top-level member's value stands, in one pass and without building
//! anything. It takes whatever engines take (`NaN` and lone surrogates included, as Python does)
//! and nests as deep as the bytes go, without recursion.

use std::borrow::Cow;
use std::ops::Range;

/// Bytes that are not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at}")]
pub(crate) struct Broken {
    expected: &'static str,
    at: usize,
}

/// A place in JSON text.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The containers around the current value, reused from value to value.
    open: Vec<Container>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

/// Calls `member` with the name and the place of each member of the object that `bytes` hold.
pub(crate) fn members(
    bytes: &[u8],
    mut member: impl FnMut(&str, Range<usize>),
) -> Result<(), Broken> {
    let mut reader = Reader::new(bytes);
    reader.expect(b'{', "an object")?;
    if !reader.skip_if(b'}') {
        loop {
            let name = reader.name()?;
            let value = reader.skip_value()?;
            member(&name, value);
            if !reader.skip_if(b',') {
                break;
            }
        }
        reader.expect(b'}', "',' or '}'")?;
    }
    reader.end()
}

/// The string that a JSON string stands for; `None` when it is not one, or not Unicode.
pub(crate) fn string(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        return serde_json::from_slice(json).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// `bytes` with each of the `places`, in order, replaced by `value`.
pub(crate) fn splice(bytes: &[u8], places: &[Range<usize>], value: &str) -> Vec<u8> {
    let mut spliced = Vec::with_capacity(bytes.len() + places.len() * value.len());
    let mut at = 0;
    for place in places {
        spliced.extend_from_slice(bytes.get(at..place.start).unwrap_or_default());
        spliced.extend_from_slice(value.as_bytes());
        at = place.end;
    }
    spliced.extend_from_slice(bytes.get(at..).unwrap_or_default());
    spliced
}

/// The JSON of a string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        Self {
            bytes,
            at: if bytes.starts_with(BOM) { BOM.len() } else { 0 },
            open: Vec::new(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn broken<T>(&self, expected: &'static str) -> Result<T, Broken> {
        Err(Broken {
            expected,
            at: self.at,
        })
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Skips white space and, if it comes next, `byte`.
    fn skip_if(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Broken> {
        if self.skip_if(byte) {
            Ok(())
        } else {
            self.broken(expected)
        }
    }

    fn end(&mut self) -> Result<(), Broken> {
        self.space();
        if self.peek().is_none() {
            Ok(())
        } else {
            self.broken("the end")
        }
    }

    /// A member's name, and the colon after it.
    fn name(&mut self) -> Result<Cow<'a, str>, Broken> {
        self.space();
        let start = self.at;
        self.skip_name()?;
        let raw = self.bytes.get(start..self.at).unwrap_or_default();
        let raw = raw.strip_suffix(b":").unwrap_or(raw).trim_ascii_end();
        // A name that is not Unicode is none that we know.
        Ok(string(raw).unwrap_or_default())
    }

    fn skip_name(&mut self) -> Result<(), Broken> {
        self.space();
        if self.peek() != Some(b'"') {
            return self.broken("a member's name");
        }
        self.skip_string()?;
        self.expect(b':', "':'")
    }

    /// Skips one value of any depth; where it stands.
    fn skip_value(&mut self) -> Result<Range<usize>, Broken> {
        self.space();
        let start = self.at;
        self.open.clear();
        loop {
            if self.open_or_skip()? {
                continue;
            }
            if self.close()? {
                return Ok(start..self.at);
            }
        }
    }

    /// Enters a container, or skips a scalar or an empty container. Whether it entered one.
    fn open_or_skip(&mut self) -> Result<bool, Broken> {
        self.space();
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                if self.skip_if(b'}') {
                    return Ok(false);
                }
                self.open.push(Container::Object);
                self.skip_name()?;
                Ok(true)
            }
            Some(b'[') => {
                self.at += 1;
                if self.skip_if(b']') {
                    return Ok(false);
                }
                self.open.push(Container::Array);
                Ok(true)
            }
            _ => self.skip_scalar().map(|()| false),
        }
    }

    /// After a value: leaves the containers that end, and goes on to the next value. Whether the
    /// outermost value has ended.
    fn close(&mut self) -> Result<bool, Broken> {
        while let Some(&container) = self.open.last() {
            let more = self.skip_if(b',');
            match container {
                Container::Array if more => return Ok(false),
                Container::Object if more => {
                    self.skip_name()?;
                    return Ok(false);
                }
                Container::Array => self.expect(b']', "',' or ']'")?,
                Container::Object => self.expect(b'}', "',' or '}'")?,
            }
            self.open.pop();
        }
        Ok(true)
    }

    fn skip_scalar(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b't') => self.skip_word(b"true"),
            Some(b'f') => self.skip_word(b"false"),
            Some(b'n') => self.skip_word(b"null"),
            Some(b'N') => self.skip_word(b"NaN"),
            Some(b'I') => self.skip_word(b"Infinity"),
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            _ => self.broken("a value"),
        }
    }

    fn skip_word(&mut self, word: &[u8]) -> Result<(), Broken> {
        let here = self.bytes.get(self.at..).unwrap_or_default();
        if !here.starts_with(word) {
            return self.broken("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_number(&mut self) -> Result<(), Broken> {
        if self.peek() == Some(b'-') {
            self.at += 1;
            if self.peek() == Some(b'I') {
                return self.skip_word(b"Infinity");
            }
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), Broken> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return self.broken("a digit");
        }
        Ok(())
    }

    /// Skips a string; its opening quote comes next.
    fn skip_string(&mut self) -> Result<(), Broken> {
        self.at += 1;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.skip_escape()?,
                Some(byte) if byte >= 0x20 => self.at += 1,
                Some(_) => return self.broken("no control character in a string"),
                None => return self.broken("the end of a string"),
            }
        }
    }

    /// Skips what neither ends nor escapes, eight bytes at a time.
    fn skip_plain(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        for eight in rest.as_chunks::<8>().0 {
            let found = special(u64::from_le_bytes(*eight));
            if found != 0 {
                self.at += found.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
    }

    fn skip_escape(&mut self) -> Result<(), Broken> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) {
                    return self.broken("four hexadecimal digits after \\u");
                }
                self.at += 5;
            }
            _ => return self.broken("an escape"),
        }
        Ok(())
    }
}

/// Marks, by their highest bits, the bytes that are quotes, backslashes or control characters. The
/// lowest mark is exact; those above it may not be.
const fn special(eight: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES * 0x80;
    let quote = eight ^ (ONES * b'"' as u64);
    let backslash = eight ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = eight.wrapping_sub(ONES * 0x20) & !eight;
    (is_quote | is_backslash | is_control) & HIGHS
}

#[cfg(test)]
mod tests;
