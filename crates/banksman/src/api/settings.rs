//! The effective settings and the files that they come from, as JSON.

use std::path::Path;

use crate::config::{ConfigFile, EffectiveSetting};

documents! {
    Setting<'a>(setting: &'a EffectiveSetting) {
        key: &'a str = &setting.key,
        value: &'a str = &setting.value,
    }

    /// A setting and where it comes from.
    ListedSetting<'a>(setting: &'a EffectiveSetting) {
        key: &'a str = &setting.key,
        origin: String = setting.origin.to_string(),
        value: &'a str = &setting.value,
    }

    SettingsFile<'a>(file: &'a ConfigFile) {
        exists: bool = file.exists,
        path: &'a Path = &file.path,
        scope: &'static str = file.scope,
    }
}
