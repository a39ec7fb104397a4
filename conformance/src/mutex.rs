//! Locks whose holders may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic: everything that is locked in this program is complete between two
/// statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
