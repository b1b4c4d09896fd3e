//! The environment of the process: the name of every variable that the program reads, and the only
//! code that reads them.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::keys::{KEYS, SettingKey};
use super::{ConfigError, PATHS, Result, absolute, ancestors};

/// Variables that the code names. The list of settings has the others that the program reads.
pub struct EnvVars;

impl EnvVars {
    pub const STORE: &'static str = "BANKSMAN_STORE";
    pub const BANKSMAN_HOME: &'static str = "BANKSMAN_HOME";
    pub const NODE: &'static str = "BANKSMAN_NODE";
    pub const RUN_FOLDER: &'static str = "BANKSMAN_RUN_FOLDER";
    pub const TOKEN: &'static str = "BANKSMAN_TOKEN";
    pub const KEEPER_KEY: &'static str = "BANKSMAN_KEEPER_KEY";
    pub const RUN: &'static str = "BANKSMAN_RUN";
    pub const HOME: &'static str = "HOME";
    pub const USER: &'static str = "USER";
    pub const LOGNAME: &'static str = "LOGNAME";
    pub const XDG_CONFIG_HOME: &'static str = "XDG_CONFIG_HOME";
    pub const XDG_CONFIG_DIRS: &'static str = "XDG_CONFIG_DIRS";
    pub const XDG_DATA_HOME: &'static str = "XDG_DATA_HOME";
    pub const TERM: &'static str = "TERM";
    pub const TMUX: &'static str = "TMUX";
    pub const TERM_PROGRAM: &'static str = "TERM_PROGRAM";
    pub const LC_ALL: &'static str = "LC_ALL";
    pub const LC_CTYPE: &'static str = "LC_CTYPE";
    pub const LANG: &'static str = "LANG";
}

/// What the program reads besides the variables of settings.
const READ: [(&str, &str); 16] = [
    (EnvVars::RUN_FOLDER, "the run that `banksman mcp` serves; set for agents"),
    (EnvVars::TOKEN, "the token of the run; set by Banksman for its agent"),
    (EnvVars::KEEPER_KEY, "set by a keeper, only to renew the lease of its run"),
    (EnvVars::RUN, "the id of the run; set for all its processes"),
    (EnvVars::HOME, "the parent of ~/.config and ~/.local/share"),
    (EnvVars::USER, "your name as an actor"),
    (EnvVars::LOGNAME, "your name as an actor, if USER is not set"),
    (EnvVars::XDG_CONFIG_HOME, "the folder of your settings (default ~/.config)"),
    (EnvVars::XDG_CONFIG_DIRS, "folders of the system's settings (default /etc/xdg)"),
    (EnvVars::XDG_DATA_HOME, "the folder of the default store (default ~/.local/share)"),
    (EnvVars::TERM, "`dumb` means no colours and ASCII symbols"),
    (EnvVars::TMUX, "the tmux session that opens windows"),
    (EnvVars::TERM_PROGRAM, "`Tabby` means that windows open as its tabs"),
    (EnvVars::LC_ALL, "symbols are ASCII unless the locale is UTF-8"),
    (EnvVars::LC_CTYPE, "the same, if LC_ALL is not set"),
    (EnvVars::LANG, "the same, if LC_CTYPE is not set"),
];

/// What the libraries read that write colours and local times.
const READ_BY_LIBRARIES: [(&str, &str); 4] = [
    ("NO_COLOR", "no colours, whatever its value"),
    ("CLICOLOR", "`0` means no colours"),
    ("CLICOLOR_FORCE", "colours even without a terminal"),
    ("TZ", "the time zone of displayed times"),
];

/// Every variable that affects the program, with its meaning, for the manual.
pub fn documented() -> impl Iterator<Item = (&'static str, String)> {
    let setting = |key: &SettingKey| Some((key.env?, format!("setting `{}`", key.name)));
    let others = READ.iter().chain(&READ_BY_LIBRARIES);
    KEYS.iter()
        .filter_map(setting)
        .chain(others.map(|(name, meaning)| (*name, (*meaning).to_owned())))
}

/// The token of a run's agent, made from the key of the run's keeper. The key does not follow from
/// the token.
pub fn token_of(key: &str) -> String {
    Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash by which the store knows the token that belongs to a key.
pub fn hash_of_token(key: &str) -> Vec<u8> {
    Sha256::digest(token_of(key)).to_vec()
}

/// The variables at the start of the program. Empty ones count as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<&'static str, String>);

impl Environment {
    pub fn of_process() -> Result<Self> {
        let mut variables = BTreeMap::new();
        let of_settings = KEYS.iter().filter_map(|key| key.env);
        for name in of_settings.chain(READ.map(|(name, _)| name)) {
            if let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) {
                let value = value.into_string().map_err(|_| ConfigError::Variable { name })?;
                variables.insert(name, value);
            }
        }
        // Variables can be unset or forged; parent processes cannot.
        if let Some(run) = ancestors::run() {
            variables.insert(EnvVars::RUN, run);
        }
        let mut environment = Self(variables);
        // Projects are resolved in folders of their own; a variable is relative to this one.
        let folder = env::current_dir().map_err(ConfigError::Folder)?;
        for name in KEYS.iter().filter(|key| PATHS.contains(&key.name)).filter_map(|key| key.env) {
            let path =
                environment.get(name).map(|path| absolute(path, Some(&folder), &environment));
            environment.0.extend(path.map(|path| (name, path)));
        }
        Ok(environment)
    }

    /// The values of these variables, as far as they are set, to pass on to agents.
    pub fn passed(names: &[String]) -> BTreeMap<String, String> {
        let value = |name: &String| Some((name.clone(), env::var_os(name)?.into_string().ok()?));
        names.iter().filter_map(value).collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether an agent's run started the program, directly or indirectly: its variables say so, or
    /// one of its parent processes is a keeper.
    pub fn is_inside_run(&self) -> bool {
        [EnvVars::TOKEN, EnvVars::RUN, EnvVars::RUN_FOLDER]
            .iter()
            .any(|name| self.get(name).is_some())
    }

    /// The id of the run that started the program.
    pub fn run(&self) -> Option<String> {
        let marker = self.get(EnvVars::RUN)?;
        Some(marker.split(':').next().unwrap_or_default().chars().take(64).collect())
    }

    /// The hash of the token of that run. The token itself is kept nowhere.
    pub fn token_hash(&self) -> Option<Vec<u8>> {
        Some(Sha256::digest(self.get(EnvVars::TOKEN)?.as_bytes()).to_vec())
    }

    /// The hash of the token that belongs to the key of a keeper.
    pub fn keeper_hash(&self) -> Option<Vec<u8>> {
        self.get(EnvVars::KEEPER_KEY).map(hash_of_token)
    }

    /// Whether the terminal shows more than ASCII.
    pub fn is_utf8(&self) -> bool {
        let locale = [EnvVars::LC_ALL, EnvVars::LC_CTYPE, EnvVars::LANG]
            .into_iter()
            .find_map(|name| self.get(name));
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let is_dumb = self.get(EnvVars::TERM) == Some("dumb");
        !is_dumb && (locale.contains("utf-8") || locale.contains("utf8"))
    }

    /// A folder of the XDG specification, which requires relative paths to be ignored.
    pub(super) fn folder(&self, name: &str, below_home: &str) -> Option<PathBuf> {
        let given = self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        given.or_else(|| self.home().map(|home| home.join(below_home)))
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.get(EnvVars::HOME).map(Path::new)
    }
}
