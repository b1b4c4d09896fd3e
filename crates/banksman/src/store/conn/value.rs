//! Statement parameters and result rows.
//!
//! Only the four types that both engines store alike. A wrong type is an error that names the
//! column, never a panic and never a silent conversion.

use std::sync::Arc;

use super::error::DbError;

/// A parameter or a column's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
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

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of a result. Columns count from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    values: Vec<Value>,
    columns: Arc<[String]>,
}

impl Row {
    pub(super) fn new(values: Vec<Value>, columns: Arc<[String]>) -> Self {
        Self { values, columns }
    }

    pub fn int(&self, index: usize) -> Result<i64, DbError> {
        self.opt_int(index)?.ok_or_else(|| self.mismatch(index, "a number"))
    }

    pub fn opt_int(&self, index: usize) -> Result<Option<i64>, DbError> {
        match self.values.get(index) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_) | Value::Blob(_)) | None => Err(self.mismatch(index, "a number")),
        }
    }

    pub fn text(&self, index: usize) -> Result<&str, DbError> {
        self.opt_text(index)?.ok_or_else(|| self.mismatch(index, "text"))
    }

    pub fn opt_text(&self, index: usize) -> Result<Option<&str>, DbError> {
        match self.values.get(index) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_) | Value::Blob(_)) | None => Err(self.mismatch(index, "text")),
        }
    }

    pub fn blob(&self, index: usize) -> Result<&[u8], DbError> {
        self.opt_blob(index)?.ok_or_else(|| self.mismatch(index, "bytes"))
    }

    pub fn opt_blob(&self, index: usize) -> Result<Option<&[u8]>, DbError> {
        match self.values.get(index) {
            Some(Value::Blob(bytes)) => Ok(Some(bytes)),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_) | Value::Text(_)) | None => Err(self.mismatch(index, "bytes")),
        }
    }

    fn mismatch(&self, index: usize, wanted: &'static str) -> DbError {
        DbError::Column {
            column: self.columns.get(index).cloned().unwrap_or_else(|| format!("number {index}")),
            wanted,
            found: self.values.get(index).map_or("no such column", Value::kind),
        }
    }
}
