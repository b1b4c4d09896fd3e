//! Statement parameters and result rows.
//!
//! Only the four types that both engines store alike. A wrong type is an error that names the
//! column, never a panic and never a silent conversion.

use std::str::FromStr;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Result;
use super::error::DbError;

/// A parameter or a column's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlValue {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl SqlValue {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Int(_) => "a number",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
        }
    }

    /// The bytes that the value adds to a message to the server.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Int(_) => 8,
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// A text as both engines hold it: PostgreSQL refuses the character NUL.
pub(in crate::store) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

/// How each type is stored as a value.
macro_rules! store_as {
    ($($type:ty: $inner:ident => $variant:ident($stored:expr);)*) => {$(
        impl From<$type> for SqlValue {
            fn from($inner: $type) -> Self {
                Self::$variant($stored)
            }
        }
    )*};
}

store_as! {
    i64: number => Int(number);
    u32: number => Int(number.into());
    bool: flag => Int(flag.into());
    &str: text => Text(storable(text.to_owned()));
    &String: text => Text(storable(text.clone()));
    String: text => Text(storable(text));
    Vec<u8>: bytes => Blob(bytes);
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What a column can be read as.
pub trait FromValue<'r>: Sized {
    /// The name of it in an error.
    const KIND: &'static str;

    /// `None` if the value is of another kind.
    fn from_value(value: &'r SqlValue) -> Option<Self>;
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_value(value: &'r SqlValue) -> Option<Self> {
        if *value == SqlValue::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}

/// As it is, whatever its kind.
impl FromValue<'_> for SqlValue {
    const KIND: &'static str = "a value";

    fn from_value(value: &Self) -> Option<Self> {
        Some(value.clone())
    }
}

/// How each type is read from a value of its kind.
macro_rules! read_as {
    ($($type:ty: $kind:literal, $variant:ident($inner:ident) => $read:expr;)*) => {$(
        impl<'r> FromValue<'r> for $type {
            const KIND: &'static str = $kind;

            fn from_value(value: &'r SqlValue) -> Option<Self> {
                if let SqlValue::$variant($inner) = value { Some($read) } else { None }
            }
        }
    )*};
}

read_as! {
    i64: "a number", Int(number) => *number;
    bool: "a number", Int(number) => *number != 0;
    &'r str: "text", Text(text) => text;
    String: "text", Text(text) => text.clone();
    &'r [u8]: "bytes", Blob(bytes) => bytes;
    Vec<u8>: "bytes", Blob(bytes) => bytes.clone();
}

/// One row of a result. Columns count from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    values: Vec<SqlValue>,
    columns: Arc<[String]>,
}

impl Row {
    pub(super) fn new(values: Vec<SqlValue>, columns: Arc<[String]>) -> Self {
        Self { values, columns }
    }

    /// A column as the type that the caller expects.
    pub fn get<'r, T: FromValue<'r>>(&'r self, index: usize) -> Result<T> {
        let value = self.values.get(index).and_then(T::from_value);
        value.ok_or_else(|| self.mismatch(index, T::KIND))
    }

    pub fn int(&self, index: usize) -> Result<i64> {
        self.get(index)
    }

    pub fn text(&self, index: usize) -> Result<&str> {
        self.get(index)
    }

    /// The index of a column by its name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// A column that holds JSON of this type.
    pub fn json<T: DeserializeOwned>(&self, index: usize) -> Result<T> {
        let read = serde_json::from_str(self.text(index)?);
        read.map_err(|_| self.mismatch(index, "JSON of its form"))
    }

    /// A column that holds a word of a closed set.
    pub fn word<T: FromStr>(&self, index: usize) -> Result<T> {
        let word = self.text(index)?.parse();
        word.map_err(|_| self.mismatch(index, "a word that this version knows"))
    }

    fn mismatch(&self, index: usize, wanted: &'static str) -> DbError {
        DbError::Column {
            column: self.columns.get(index).cloned().unwrap_or_else(|| format!("number {index}")),
            wanted,
            found: self.values.get(index).map_or("no such column", SqlValue::kind),
        }
    }
}
