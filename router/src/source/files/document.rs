//! A file's text → its documents.

use std::path::Path;

use serde_json::Value;

/// One document of a file.
#[derive(Debug)]
pub(super) struct Document {
    /// From 1, as people count.
    pub(super) number: usize,
    /// Its content, or why it cannot be read. Positions count from the top of the file.
    pub(super) content: Result<Value, String>,
}

/// Splits a file. Documents without content do not count.
pub(super) fn split(file: &str, text: &str) -> Vec<Document> {
    let ending = Path::new(file).extension();
    let contents = if ending.is_some_and(|ending| ending == "json") {
        json(text)
    } else {
        yaml(text)
    };
    let numbered = contents.into_iter().enumerate();
    let document = |(at, content)| Document {
        number: at + 1,
        content,
    };
    numbered.map(document).collect()
}

/// JSON values one after the other. Nothing can be read after a broken one.
fn json(text: &str) -> Vec<Result<Value, String>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values
        .map(|value| value.map_err(|e| e.to_string()))
        .collect()
}

/// Each document is read by itself, so that a broken one does not hide the others. `---` at the
/// start of a line always separates: YAML allows it nowhere else.
fn yaml(text: &str) -> Vec<Result<Value, String>> {
    let mut contents = Vec::new();
    // Blank lines in place of what comes before keep the positions in messages right.
    let mut document = String::new();
    let mut lines_before = 0;
    for (at, line) in text.lines().enumerate() {
        let rest = line.strip_prefix("---");
        let separates = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if separates {
            contents.extend(one(&document, lines_before));
            document.clear();
            lines_before = at;
            document.push_str("   ");
            document.push_str(rest.unwrap_or_default());
        } else {
            document.push_str(line);
        }
        document.push('\n');
    }
    contents.extend(one(&document, lines_before));
    contents
}

/// None for a document of comments and directives only.
fn one(document: &str, lines_before: usize) -> Option<Result<Value, String>> {
    let says = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
    };
    if !document.lines().any(says) {
        return None;
    }
    let padded = "\n".repeat(lines_before) + document;
    let options = serde_saphyr::options! {
        // A snippet could show a credential in the log.
        with_snippet: false,
    };
    let value = serde_saphyr::from_str_with_options(&padded, options);
    Some(value.map_err(|error: serde_saphyr::Error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(file: &str, text: &str) -> Vec<Option<Value>> {
        let documents = split(file, text).into_iter();
        documents.map(|document| document.content.ok()).collect()
    }

    #[test]
    fn documents_are_told_apart_and_empty_ones_do_not_count() {
        let text =
            "# header\n---\na: 1\n---\n\n# nothing\n--- # a note\nb: |\n  text\n  ---\n...\n---\n";
        let read = values("x.yaml", text);
        assert_eq!(
            read,
            [Some(json!({"a": 1})), Some(json!({"b": "text\n---\n"}))]
        );
    }

    #[test]
    fn a_broken_document_does_not_hide_the_others_and_is_found_by_its_line() {
        let text = "a: 1\n---\nb: [1\nc: 2\n---\nd: 4\n";
        let documents = split("x.yaml", text);
        let read: Vec<_> = documents.iter().map(|d| d.content.is_ok()).collect();
        assert_eq!(read, [true, false, true]);
        let error = documents[1].content.as_ref().unwrap_err();
        assert!(
            error.contains("line 3") || error.contains("line 4"),
            "{error}"
        );
    }

    #[test]
    fn json_files_hold_one_value_after_the_other() {
        let read = values("x.json", "{\"a\":1}\n{\"b\":2} {\"c\":");
        assert_eq!(read, [Some(json!({"a": 1})), Some(json!({"b": 2})), None]);
    }

    #[test]
    fn an_error_does_not_show_what_the_document_holds() {
        let documents = split("x.yaml", "data:\n  key: sk-hidden\n  key: sk-hidden\n");
        let error = documents[0].content.as_ref().unwrap_err();
        assert!(!error.contains("sk-hidden"), "{error}");
    }
}
