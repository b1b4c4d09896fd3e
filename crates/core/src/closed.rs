//! Closed sets of words: an enum whose variants have one name each, wherever they are read,
//! written or shown.

/// A text that is not one of a closed set of words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of: {known}")]
pub struct UnknownWord {
    pub word: String,
    pub known: String,
}

/// Declares an enum and its words. A word is also what serde reads and writes; what is stored may
/// still have its former one, which is read and no longer written.
#[macro_export]
macro_rules! closed {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $($(#[$attribute:meta])* $Variant:ident = $word:literal $(formerly $former:literal)?,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        $vis enum $Name {
            $($(#[$attribute])* #[serde(rename = $word $(, alias = $former)?)] $Variant,)+
        }

        impl $Name {
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$Variant),+];

            /// The words, in the same order.
            $vis const NAMES: [&'static str; Self::ALL.len()] = [$($word),+];

            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = $crate::closed::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word $(| $former)? => Ok(Self::$Variant),)+
                    other => Err($crate::closed::UnknownWord {
                        word: other.chars().take(64).collect(),
                        known: Self::NAMES.join(", "),
                    }),
                }
            }
        }
    };
}
pub use closed;
