//! A subscription whose notifications pass the same door as all others.

use std::fmt;

use rmcp::{
    RoleClient,
    model::ServerNotification,
    service::{Service, Subscription},
};

use crate::{arrival::Origin, call_error::CallError, service::Throttled};

/// A running `subscriptions/listen`. A notification whose questions do not fit is withheld.
#[must_use = "dropping it ends the subscription"]
pub struct ThrottledSubscription<'a, S> {
    subscription: Subscription,
    throttled: &'a Throttled<S>,
}

impl<'a, S: Service<RoleClient>> ThrottledSubscription<'a, S> {
    pub(super) const fn new(subscription: Subscription, throttled: &'a Throttled<S>) -> Self {
        Self {
            subscription,
            throttled,
        }
    }

    /// The next notification; `None` after the subscription has ended.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the subscription ends with an error `-32042` that asks for more
    /// than fits; [`CallError::Service`] for all else, as rmcp's `Subscription::next`. A
    /// notification that is over a limit is no error: it is passed over, and the throttle's
    /// observer and log are told.
    ///
    /// # Cancel safety
    ///
    /// As rmcp's `Subscription::next`: nothing is charged before something has arrived.
    pub async fn next(&mut self) -> Result<Option<ServerNotification>, CallError> {
        while let Some(notification) = self.throttled.guard(self.subscription.next().await)? {
            if let Some(cleared) = self
                .throttled
                .admit_notification(notification, Origin::Background)
            {
                return Ok(Some(cleared.into_message()));
            }
        }
        Ok(None)
    }

    /// The subscription, to see how it ended or to cancel it. What is read from it by itself is
    /// not counted.
    #[must_use]
    pub fn into_inner(self) -> Subscription {
        self.subscription
    }
}

impl<S> fmt::Debug for ThrottledSubscription<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledSubscription")
            .field("subscription", &self.subscription)
            .field("throttled", &self.throttled)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::{model::SubscriptionFilter, service::ServiceError};
    use serde_json::{Value, json};

    use crate::{
        CallError, Throttled,
        question::{QuestionKind, QuestionMethods},
        support::{Handler, Server, connect_modern, limits, refused},
    };

    /// The request to listen that the server has answered, and the meta of what belongs to it.
    async fn acknowledged(server: &mut Server) -> (Value, Value) {
        let listen = server.request("subscriptions/listen").await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        server
            .send(&json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": meta, "notifications": {"toolsListChanged": true}},
            }))
            .await;
        (listen, meta)
    }

    /// The error that ends a subscription can ask as well. It was handed on uncharged.
    #[tokio::test(start_paused = true)]
    async fn url_elicitation_at_the_end_of_a_subscription() {
        let (handler, _events) = Handler::open();
        let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 3))).await;
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let error =
            json!({"code": -32042, "message": "log in", "data": {"elicitations": [{}, {}]}});
        for fits in [true, false] {
            let serve = async {
                let (listen, _) = acknowledged(&mut server).await;
                server.answer_error(&listen, error.clone()).await;
            };
            let read = async { session.listen(filter.clone()).await.unwrap().next().await };
            let (ended, ()) = tokio::join!(read, serve);
            match ended.unwrap_err() {
                CallError::Service(ServiceError::McpError(given)) if fits => {
                    assert_eq!(serde_json::to_value(given).unwrap(), error);
                }
                other => drop(refused(other)),
            }
        }
    }

    /// What a subscription brings goes to its reader, past the service. rmcp lets the notifications
    /// of its filter through and no others, so one of those has to be the question here.
    #[tokio::test(start_paused = true)]
    async fn vendor_notification_of_a_subscription() {
        const CHANGED: &str = "notifications/tools/list_changed";
        let (handler, _events) = Handler::open();
        let methods = QuestionMethods::unchecked(CHANGED, QuestionKind::Elicitation);
        let throttled = Throttled::new(handler, limits(9, 2).with_questions(methods));
        let (session, mut server) = connect_modern(throttled).await;
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let serve = async {
            let (listen, meta) = acknowledged(&mut server).await;
            for _ in 0..3 {
                server
                    .send(&json!({"jsonrpc": "2.0", "method": CHANGED, "params": {"_meta": meta}}))
                    .await;
            }
            let end = json!({"resultType": "complete", "_meta": meta});
            server.answer(&listen, end).await;
        };
        let read = async {
            let mut subscription = session.listen(filter).await.unwrap();
            let mut told = 0;
            while subscription.next().await.unwrap().is_some() {
                told += 1;
            }
            told
        };
        let both = async { tokio::join!(read, serve).0 };
        let told = tokio::time::timeout(Duration::from_secs(3600), both).await;
        assert_eq!(told.expect("the subscription ends"), 2);
    }
}
