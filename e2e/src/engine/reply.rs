use serde_json::{Value, json};

use super::Ask;

/// A completion in the shapes of the OpenAI API.
pub(super) struct Reply {
    name: String,
    model: Value,
    tokens: Vec<String>,
    prompt_tokens: usize,
    chat: bool,
    usage_asked: bool,
}

impl Reply {
    pub(super) fn new(name: &str, request: &Value, ask: &Ask, chat: bool) -> Self {
        let prompt = if chat {
            &request["messages"]
        } else {
            &request["prompt"]
        };
        Self {
            name: name.to_owned(),
            model: request["model"].clone(),
            tokens: (0..ask.tokens).map(|i| format!("tok{i} ")).collect(),
            prompt_tokens: prompt.to_string().len() / 4,
            chat,
            usage_asked: request["stream_options"]["include_usage"] == true,
        }
    }

    /// The reply in one piece.
    pub(super) fn whole(&self) -> Value {
        let text = self.tokens.concat();
        let choice = if self.chat {
            json!({ "index": 0, "message": { "role": "assistant", "content": text },
                    "logprobs": null, "finish_reason": "stop" })
        } else {
            json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": "stop" })
        };
        let object = if self.chat {
            "chat.completion"
        } else {
            "text_completion"
        };
        let mut reply = self.envelope(object, &json!([choice]));
        reply["usage"] = self.usage();
        reply
    }

    /// The reply as server-sent events, `[DONE]` included.
    pub(super) fn events(&self) -> Vec<String> {
        let mut chunks: Vec<Value> = Vec::with_capacity(self.tokens.len() + 3);
        if self.chat {
            chunks.push(self.chunk(&json!({ "role": "assistant", "content": "" }), &Value::Null));
        }
        for token in &self.tokens {
            chunks.push(self.chunk(&json!({ "content": token }), &Value::Null));
        }
        chunks.push(self.chunk(&json!({}), &json!("stop")));
        if self.usage_asked {
            let mut usage = self.envelope(self.chunk_object(), &json!([]));
            usage["usage"] = self.usage();
            chunks.push(usage);
        }
        let data = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
        data.chain(["data: [DONE]\n\n".to_owned()]).collect()
    }

    const fn chunk_object(&self) -> &'static str {
        if self.chat {
            "chat.completion.chunk"
        } else {
            "text_completion"
        }
    }

    fn chunk(&self, delta: &Value, finish: &Value) -> Value {
        let choice = if self.chat {
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish })
        } else {
            let text = delta["content"].as_str().unwrap_or_default();
            json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish })
        };
        self.envelope(self.chunk_object(), &json!([choice]))
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        json!({ "id": "cmpl-stand-in", "object": object, "created": 1_764_547_200,
                "model": self.model, "system_fingerprint": self.name, "choices": choices })
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.tokens.len());
        json!({ "prompt_tokens": prompt, "completion_tokens": completion,
                "total_tokens": prompt + completion })
    }
}
