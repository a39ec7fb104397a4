//! The locks and atomics of the core, so that a model checker can put its own in their place.

#[cfg(not(throttle_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, OnceLock, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

#[cfg(throttle_loom)]
pub(crate) use self::once::OnceLock;
#[cfg(throttle_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

#[cfg(throttle_loom)]
mod once {
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// The standard one, which the model checker lacks, with the order it gives made visible to
    /// the checker.
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self {
                value: std::sync::OnceLock::new(),
                is_set: AtomicBool::new(false),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.is_set
                .load(Ordering::Acquire)
                .then(|| self.value.get())
                .flatten()
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(init);
            self.is_set.store(true, Ordering::Release);
            value
        }
    }
}
