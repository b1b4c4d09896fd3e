//! Lifecycle versions: immutable, identified by the hash of their source and overrides.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::lifecycle::{Lifecycle, Setting};
use banksman_core::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use super::conn::Conn;
use super::row::json as text;
use super::tx::params;
use super::{Result, StoreError, sql};

/// A lifecycle with its source and overrides, ready to be stored.
#[derive(Debug, Clone)]
pub struct Definition {
    pub lifecycle: Arc<Lifecycle>,
    pub source: String,
    pub overrides: Overrides,
}

/// A cache of versions. A version never changes, so an entry never becomes stale.
#[derive(Default)]
pub(super) struct Definitions(RwLock<BTreeMap<String, Known>>);

struct Known {
    lifecycle: Arc<Lifecycle>,
    /// It is certainly in the store. A version that was only read may come from a transaction that
    /// was rolled back later.
    is_kept: bool,
}

impl Definitions {
    pub(super) fn get(&self, conn: &mut dyn Conn, version: &str) -> Result<Arc<Lifecycle>> {
        if let Some(lifecycle) = self.known(version, |known| Arc::clone(&known.lifecycle)) {
            return Ok(lifecycle);
        }
        let rows = conn.query(sql::LIFECYCLE, &params![version])?;
        let row = rows.first().ok_or_else(|| StoreError::NoDefinition(version.to_owned()))?;
        let origin = format!("lifecycle {version} of the store");
        let lifecycle =
            read_again(row.text(0)?, &origin, &overrides_from(row.text(1)?)).map_err(|source| {
                StoreError::Definition { version: version.to_owned(), source: Box::new(source) }
            })?;
        // The version is the hash of the content. If the content hashes to another version, this
        // version is missing.
        if lifecycle.version != version {
            return Err(StoreError::NoDefinition(version.to_owned()));
        }
        let lifecycle = Arc::new(lifecycle);
        self.add(&lifecycle, false);
        Ok(lifecycle)
    }

    fn known<T>(&self, version: &str, read: impl Fn(&Known) -> T) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(version).map(read)
    }

    fn add(&self, lifecycle: &Arc<Lifecycle>, is_kept: bool) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Known { lifecycle: Arc::clone(lifecycle), is_kept };
        all.entry(lifecycle.version.clone()).or_insert_with(new).is_kept |= is_kept;
    }

    /// Stores a version for the tasks that use it.
    pub(super) fn keep(
        &self,
        conn: &mut dyn Conn,
        definition: &Definition,
        now: Instant,
    ) -> Result<()> {
        let lifecycle = &definition.lifecycle;
        let (version, id, purpose) = (&lifecycle.version, &lifecycle.id, lifecycle.purpose);
        let overrides = overrides_text(&definition.overrides);
        let columns = params![version, id, purpose.as_str(), &definition.source, overrides, now];
        Ok(conn.write(sql::INSERT_LIFECYCLE, &columns)?)
    }

    /// Call this only after a transaction that stored the version, or found it, has committed.
    pub(super) fn remember(&self, lifecycle: &Arc<Lifecycle>) {
        if !self.has(&lifecycle.version) {
            self.add(lifecycle, true);
        }
    }

    /// Whether a version is certainly in the store.
    pub(super) fn has(&self, version: &str) -> bool {
        self.known(version, |known| known.is_kept).unwrap_or(false)
    }
}

/// An override as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSetting {
    /// As text, because JSON parsers may not return a number to the last bit, and the version is a
    /// hash of it.
    Number(String),
    Flag(bool),
    Text(String),
    Millis(i64),
}

fn overrides_text(overrides: &Overrides) -> String {
    let entries = overrides.iter().map(|(name, setting)| {
        let value = match setting {
            Setting::Number(number) => StoredSetting::Number(number.to_string()),
            Setting::Flag(flag) => StoredSetting::Flag(*flag),
            Setting::Text(text) => StoredSetting::Text(text.clone()),
            Setting::Time(span) => StoredSetting::Millis(span.0),
        };
        (name, value)
    });
    text(&entries.collect::<BTreeMap<_, _>>())
}

fn overrides_from(text: &str) -> Overrides {
    // Without its overrides a version has another hash, and `get` says that it is missing.
    let entries: BTreeMap<String, StoredSetting> = serde_json::from_str(text).unwrap_or_default();
    let settings = entries.into_iter().filter_map(|(name, value)| {
        let setting = match value {
            StoredSetting::Number(number) => Setting::Number(number.parse().ok()?),
            StoredSetting::Flag(flag) => Setting::Flag(flag),
            StoredSetting::Text(text) => Setting::Text(text),
            StoredSetting::Millis(millis) => Setting::Time(Span(millis)),
        };
        Some((name, setting))
    });
    settings.collect()
}
