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
