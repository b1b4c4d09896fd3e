//! Parses one settings file and checks it against the list of keys; each value keeps its line.

use std::io;
use std::path::Path;

use banksman_core::lifecycle::problem::suggestion;
use banksman_core::text::clip;
use toml_edit::{Document, Item, TableLike, Value};

use super::keys::{KEYS, NAMED, Raw, setting_type};
use super::{ConfigError, LIFECYCLES, Result};
use crate::plain_file;

/// Far more than a person writes.
const FILE_BYTES: usize = 1024 * 1024;

/// A setting in a file. `key` is its full name, such as `sqlite.busy_timeout`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParsedSetting {
    pub(super) key: String,
    pub(super) value: Raw,
    pub(super) line: usize,
}

/// The text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match plain_file::read_settings(path, FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

/// Parses a text; `origin` names it in messages.
pub(super) fn parse(text: &str, origin: &str) -> Result<Vec<ParsedSetting>> {
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let hint = "settings files are TOML: `key = \"value\"`, tables as `[name]`";
        ConfigError::value(&format!("{origin}:{line}"), error.message().to_owned(), hint)
    })?;
    let mut reader = SettingsReader { text, origin, found: Vec::new() };
    reader.table(document.as_table(), "")?;
    Ok(reader.found)
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

struct SettingsReader<'a> {
    text: &'a str,
    origin: &'a str,
    found: Vec<ParsedSetting>,
}

impl SettingsReader<'_> {
    /// Names have at most four parts, which limits the depth.
    fn table(&mut self, table: &dyn TableLike, prefix: &str) -> Result<()> {
        for (name, item) in table.iter() {
            let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line = span.map_or(1, |span| line_at(self.text, span.start));
            match item.as_table_like() {
                Some(inner) if is_table(&key) => self.table(inner, &key)?,
                Some(_) | None => self.setting(&key, item, line)?,
            }
        }
        Ok(())
    }

    fn setting(&mut self, key: &str, item: &Item, line: usize) -> Result<()> {
        let place = format!("{}:{line}", self.origin);
        let of_lifecycle =
            key.strip_prefix(LIFECYCLES).is_some_and(|rest| rest.matches('.').count() == 2);
        let known = setting_type(key);
        if known.is_none() && !of_lifecycle {
            let message = format!("unknown setting `{}`", clip(key));
            return Err(ConfigError::value(&place, message, &suggested(key)));
        }
        let wrong = |message: String| {
            let hint = "`banksman help formatting` shows how values are written";
            ConfigError::value(&place, format!("`{key}` {message}"), hint)
        };
        let value = scalar(item).ok_or_else(|| {
            wrong("must be a text, a number, true or false, or a list".to_owned())
        })?;
        if let Some(known) = known {
            known.check(&value).map_err(wrong)?;
        }
        self.found.push(ParsedSetting { key: key.to_owned(), value, line });
        Ok(())
    }
}

/// Suggests a similar name.
fn suggested(key: &str) -> String {
    let named = NAMED.iter().flat_map(|(table, settings)| {
        settings.iter().map(move |(setting, _)| format!("{table}.NAME.{setting}"))
    });
    let lifecycles = ["lifecycles.NAME.SETTING".to_owned()];
    let names = KEYS.iter().map(|known| known.name.to_owned()).chain(named).chain(lifecycles);
    // Within an existing table, suggest its settings; else suggest tables and top-level settings.
    let table = |name: &str| name.split_once('.').map(|(table, _)| table.to_owned());
    let all: Vec<String> = names.collect();
    let own = table(key).filter(|own| all.iter().any(|name| table(name).as_ref() == Some(own)));
    let mut near: Vec<String> = match &own {
        Some(_) => all.into_iter().filter(|name| table(name) == own).collect(),
        None => all
            .iter()
            .map(|name| table(name).map_or_else(|| name.clone(), |table| format!("{table}.…")))
            .collect(),
    };
    near.dedup();
    suggestion(key, near.iter().map(String::as_str))
}

/// Whether a key names a table of settings rather than a setting.
fn is_table(key: &str) -> bool {
    let tables = NAMED.iter().map(|(table, _)| *table).chain([LIFECYCLES]);
    let named = |table: &str| {
        let Some(rest) = key.strip_prefix(table) else { return false };
        let parts: Vec<&str> = rest.split('.').collect();
        // The table, one of its entries, or the variables of a worker.
        matches!(parts[..], [""] | ["", _])
            || matches!(parts[..], ["", _, "env"] if table == "workers")
    };
    let holds_keys = KEYS
        .iter()
        .any(|known| known.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')));
    holds_keys || tables.into_iter().any(named)
}

fn scalar(item: &Item) -> Option<Raw> {
    match item.as_value()? {
        Value::String(text) => Some(Raw::Text(text.value().clone())),
        #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
        Value::Integer(number) => Some(Raw::Number(*number.value() as f64)),
        Value::Float(number) => {
            Some(Raw::Number(*number.value())).filter(|_| number.value().is_finite())
        }
        Value::Boolean(flag) => Some(Raw::Flag(*flag.value())),
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map(Raw::List)
        }
        Value::Datetime(_) | Value::InlineTable(_) => None,
    }
}
