//! Choices by their names in the file, which the admin API shows, too.

use std::fmt;

/// Declares an enum whose values have names.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Each with its name.
            pub const ALL: &[(&str, Self)] = &[$(($word, Self::$variant)),+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

words! {
    /// Which messages of a group wait for which.
    Order {
        Key = "key",
        Partition = "partition",
        None = "none",
    }
}

words! {
    Serializer {
        Raw = "raw",
        /// What the original proxy wrote: an envelope around `Data`.
        Json = "json",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessStatus {
    Any2xx,
    Exactly(u16),
}

impl fmt::Display for SuccessStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any2xx => f.write_str("2xx"),
            Self::Exactly(status) => status.fmt(f),
        }
    }
}
