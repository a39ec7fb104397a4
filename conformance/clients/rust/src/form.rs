//! Answers to questions, made up at once: a form is filled in as its schema asks.

use serde_json::{Map, Value, json};

/// A value for every property of a form: its default, or else something valid.
#[must_use]
pub fn filled_in(schema: &Value) -> Map<String, Value> {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Map::new();
    };
    let fields = properties.iter();
    fields
        .map(|(name, field)| (name.clone(), value(field)))
        .collect()
}

/// A value for every property that a tool needs.
#[must_use]
pub fn required(schema: &Value) -> Map<String, Value> {
    let mut filled = filled_in(schema);
    let needed = schema["required"].as_array();
    filled.retain(|name, _| needed.is_some_and(|needed| needed.iter().any(|one| one == name)));
    filled
}

fn value(field: &Value) -> Value {
    if let Some(default) = field.get("default") {
        return default.clone();
    }
    if let Some(first) = field["enum"].get(0) {
        return first.clone();
    }
    if let Some(first) = field["oneOf"].get(0) {
        return first["const"].clone();
    }
    match field["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => field.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => match field["format"].as_str() {
            Some("email") => json!("ada@example.org"),
            Some("uri") => json!("https://example.org/"),
            Some("date") => json!("2026-11-30"),
            Some("date-time") => json!("2026-11-30T12:00:00Z"),
            _ => json!("Ada"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_win_and_the_rest_is_valid() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "Grace"},
            "age": {"type": "integer", "minimum": 18},
            "plan": {"type": "string", "enum": ["free", "paid"]},
            "mail": {"type": "string", "format": "email"},
        }, "required": ["age"]});
        let filled = Value::Object(filled_in(&schema));
        assert_eq!(
            filled,
            json!({"name": "Grace", "age": 18, "plan": "free", "mail": "ada@example.org"})
        );
        assert_eq!(Value::Object(required(&schema)), json!({"age": 18}));
    }
}
