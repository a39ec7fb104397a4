//! What a client says that it can be asked. A server of the suite asks nothing else: what a client
//! does not declare it cannot be tested for.

use serde_json::Value;

use crate::{protocol::Kind, scenario::Shape};

/// The capability that a client lacks to be asked a question of a kind, and in this shape. `None`
/// if it lacks none.
pub(crate) fn lacks(capabilities: &Value, kind: Kind, shape: Shape) -> Option<&'static str> {
    let declared = &capabilities[kind.capability()];
    if declared.is_null() {
        return Some(kind.capability());
    }
    match (kind, shape) {
        (Kind::Elicitation, Shape::Url) => declared["url"].is_null().then_some("elicitation.url"),
        // An empty object stands for forms.
        (Kind::Elicitation, Shape::Plain | Shape::WithTools) => {
            let has_only_urls = !declared["url"].is_null() && declared["form"].is_null();
            has_only_urls.then_some("elicitation.form")
        }
        (Kind::Sampling, Shape::WithTools) => {
            declared["tools"].is_null().then_some("sampling.tools")
        }
        // To ask for a task that a client does not declare is allowed: it answers as if it were not.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_elicitation_capability_stands_for_forms() {
        let lacks = |elicitation: Value, shape| {
            lacks(
                &json!({"elicitation": elicitation}),
                Kind::Elicitation,
                shape,
            )
        };
        assert_eq!(lacks(json!({}), Shape::Plain), None);
        assert_eq!(lacks(json!({}), Shape::Url), Some("elicitation.url"));
        assert_eq!(
            lacks(json!({"url": {}}), Shape::Plain),
            Some("elicitation.form")
        );
        assert_eq!(lacks(json!({"url": {}, "form": {}}), Shape::Url), None);
        assert_eq!(lacks(Value::Null, Shape::NoParams), Some("elicitation"));
    }
}
