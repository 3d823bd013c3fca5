//! The core against models: two heaps for the State Manager, a ledger for the whole.

mod any_history;
mod two_heaps;
