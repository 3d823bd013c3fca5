//! The admin API below `/v1`.

pub mod view;
