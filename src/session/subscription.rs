//! A subscription whose notifications pass the same door as all others.

use std::fmt;

use rmcp::{
    RoleClient,
    model::ServerNotification,
    service::{Service, Subscription},
};

use crate::{arrival::Origin, call_error::CallError, service::Throttled};

/// A running `subscriptions/listen`. A notification whose questions do not fit is withheld.
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
    /// [`CallError::Service`] as rmcp's `Subscription::next`. A notification that is over a limit
    /// is no error: it is passed over, and the throttle's observer and log are told.
    ///
    /// # Cancel safety
    ///
    /// As rmcp's `Subscription::next`: nothing is charged before a notification has arrived.
    pub async fn next(&mut self) -> Result<Option<ServerNotification>, CallError> {
        while let Some(notification) = self.subscription.next().await? {
            if let Some(cleared) = self
                .throttled
                .admit_notification(notification, Origin::Background)
            {
                return Ok(Some(cleared.into_message()));
            }
        }
        Ok(None)
    }

    /// The subscription, to see how it ended or to cancel it.
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

    use rmcp::model::SubscriptionFilter;
    use serde_json::json;

    use crate::{
        Throttled,
        question::{QuestionKind, QuestionMethods},
        support::{Handler, connect_modern, limits},
    };

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
            let listen = server.request("subscriptions/listen").await;
            let id = &listen["id"];
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            server
                .send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {"_meta": meta, "notifications": {"toolsListChanged": true}},
                }))
                .await;
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
