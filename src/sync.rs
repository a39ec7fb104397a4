//! The locks and atomics of the core, so that a model checker can put its own in their place.

#[cfg(not(throttle_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

#[cfg(throttle_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
