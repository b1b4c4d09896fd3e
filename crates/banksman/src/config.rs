//! Settings: combines flags, environment and files into one checked [`Config`] before anything
//! runs.
//!
//! `default-config.toml` holds the defaults. No other module reads the environment. Messages of
//! this module never repeat a value, because a store's address may hold a password.

mod agents;
mod ancestors;
mod daily;
mod environment;
pub mod home;
mod keys;
mod layer;
mod panel;
mod policy;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use banksman_core::closed::closed;
use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::machine::Actor;
use banksman_core::time::Span;

pub use agents::{AgentLimits, Agents, BudgetSettings, Verify, WorkerSetup, Worktrees};
pub use ancestors::KEEPER;
pub use daily::Daily;
pub use environment::{EnvVars, Environment, documented, hash_of_token, token_of};
pub use keys::{KEYS, SettingKey};
pub use panel::Panels;
pub use policy::PolicyFile;

use environment::EnvVars as Var;
use keys::Raw;

/// The manual, the template and the defaults in one file.
pub const DEFAULTS: &str = include_str!("../default-config.toml");

/// The folder of a project that holds its settings and lifecycles.
pub const FOLDER: &str = crate::plain_file::SETTINGS_FOLDER;
const FILE: &str = "config.toml";
const LIFECYCLES: &str = "lifecycles";
/// Settings that are paths, relative to the base of the file they are in.
const PATHS: [&str; 3] = ["store", "home", "daily.folder"];

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{place}: {message}")]
    Value { place: String, message: String, hint: String },
    #[error("failed to read the settings `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the environment variable {name} is not UTF-8")]
    Variable { name: &'static str },
    #[error("failed to find the current folder")]
    Folder(#[source] io::Error),
}

impl ConfigError {
    fn value(place: &str, message: String, hint: &str) -> Self {
        Self::Value { place: place.to_owned(), message, hint: hint.to_owned() }
    }
}

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// Settings given as flags, by key.
pub type Flags = BTreeMap<&'static str, String>;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File { path: PathBuf, line: usize },
    Env(&'static str),
    Flag(&'static str),
}

impl std::fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// An effective setting and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    pub key: String,
    pub value: String,
    pub origin: SettingOrigin,
}

/// A possible settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    pub scope: &'static str,
    pub path: PathBuf,
    pub exists: bool,
}

closed! {
    pub enum Color {
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}

closed! {
    /// Where agents get a window when they start.
    pub enum Windows {
        None = "none",
        Auto = "auto",
        Tmux = "tmux",
        Tabby = "tabby",
    }
}

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The current folder.
    pub folder: PathBuf,
    /// The root of the repository, or the current folder.
    pub root: PathBuf,
    /// A path or a URL. Never print it as it is, because it may hold a password. `None` if there is
    /// no home folder for the default.
    pub store: Option<String>,
    pub actor: Actor,
    pub lifecycle: String,
    pub project: Option<String>,
    pub color: Color,
    pub windows: Windows,
    /// Whether the terminal shows more than ASCII.
    pub is_utf8: bool,
    /// Whether the program runs inside an agent's run.
    pub is_inside_run: bool,
    /// That run, if its environment names it.
    pub run: Option<String>,
    /// The hash of the token of that run.
    pub token_hash: Option<Vec<u8>>,
    pub keeper_hash: Option<Vec<u8>>,
    pub busy_timeout: Duration,
    pub statement_timeout: Duration,
    pub connections: usize,
    /// The settings of agents and their runs.
    pub agents: Agents,
    pub daily: Daily,
    /// How long an answer can be taken back before it takes effect.
    pub grace: Span,
    pub overrides: BTreeMap<String, Overrides>,
    pub effective: Vec<EffectiveSetting>,
    pub sources: Vec<ConfigFile>,
}

impl Config {
    /// The folder of the project's own lifecycles.
    pub fn lifecycles(&self) -> PathBuf {
        self.root.join(FOLDER).join(LIFECYCLES)
    }

    /// The project's own settings file.
    pub fn project_file(&self) -> PathBuf {
        self.root.join(FOLDER).join(FILE)
    }
}

/// Combines all settings for a program that was started in `folder`.
pub fn resolve(flags: &Flags, environment: &Environment, folder: &Path) -> Result<Config> {
    let root = root_of(folder);
    let mut layers = Layers::defaults()?;
    let mut sources = sources(environment, &root);
    // The file with the highest precedence is listed first and applied last.
    for source in sources.iter_mut().rev() {
        source.exists = layers.file(source, &root, environment)?;
    }
    layers.environment_and_flags(environment, flags, folder)?;
    layers.into_config(environment, folder, root, sources)
}

/// The nearest parent folder that is a repository or has settings, else the folder itself.
fn root_of(folder: &Path) -> PathBuf {
    let is_root =
        |candidate: &&Path| candidate.join(".git").exists() || candidate.join(FOLDER).is_dir();
    folder.ancestors().find(is_root).unwrap_or(folder).to_owned()
}

fn sources(environment: &Environment, root: &Path) -> Vec<ConfigFile> {
    let source = |scope, path| ConfigFile { scope, path, exists: false };
    let below = |folder: PathBuf| folder.join("banksman").join(FILE);
    let mut list = vec![source("project", root.join(FOLDER).join(FILE))];
    let user = environment.folder(Var::XDG_CONFIG_HOME, ".config");
    list.extend(user.map(|folder| source("user", below(folder))));
    let system = environment.get(Var::XDG_CONFIG_DIRS).unwrap_or("/etc/xdg");
    let folders = system.split(':').map(PathBuf::from).filter(|folder| folder.is_absolute());
    list.extend(folders.map(|folder| source("system", below(folder))));
    list
}

/// Values by key; later layers replace earlier ones.
struct Layers(BTreeMap<String, (Raw, SettingOrigin)>);

impl Layers {
    fn defaults() -> Result<Self> {
        let given = layer::parse(DEFAULTS, "default-config.toml")?;
        let given = given.into_iter();
        Ok(Self(given.map(|it| (it.key, (it.value, SettingOrigin::Default))).collect()))
    }

    fn file(
        &mut self,
        source: &ConfigFile,
        root: &Path,
        environment: &Environment,
    ) -> Result<bool> {
        let Some(text) = layer::read(&source.path)? else { return Ok(false) };
        let base = if source.scope == "project" { Some(root) } else { source.path.parent() };
        for given in layer::parse(&text, &source.path.display().to_string())? {
            let value = match given.value {
                Raw::Text(text) if PATHS.contains(&given.key.as_str()) => {
                    Raw::Text(absolute(&text, base, environment))
                }
                value @ (Raw::Text(_) | Raw::Number(_) | Raw::Flag(_) | Raw::List(_)) => value,
            };
            let origin = SettingOrigin::File { path: source.path.clone(), line: given.line };
            self.0.insert(given.key, (value, origin));
        }
        Ok(true)
    }

    /// A flag overrides a variable.
    fn environment_and_flags(
        &mut self,
        environment: &Environment,
        flags: &Flags,
        folder: &Path,
    ) -> Result<()> {
        for key in &KEYS {
            let of_env = |name| Some((environment.get(name)?, SettingOrigin::Env(name)));
            let of_flag = |flag| Some((flags.get(key.name)?.as_str(), SettingOrigin::Flag(flag)));
            let given = key.env.and_then(of_env).into_iter().chain(key.flag.and_then(of_flag));
            for (text, origin) in given {
                let path = || absolute(text, Some(folder), environment);
                let path = PATHS.contains(&key.name).then(path);
                self.text(key, path.as_deref().unwrap_or(text), origin)?;
            }
        }
        Ok(())
    }

    fn text(&mut self, key: &SettingKey, text: &str, origin: SettingOrigin) -> Result<()> {
        let raw = Raw::Text(text.to_owned());
        key.setting_type.check(&raw).map_err(|message| {
            let message = format!("`{}` {message}", key.name);
            ConfigError::value(&origin.to_string(), message, "see `banksman config list`")
        })?;
        self.0.insert(key.name.to_owned(), (raw, origin));
        Ok(())
    }

    fn into_config(
        mut self,
        environment: &Environment,
        folder: &Path,
        root: PathBuf,
        sources: Vec<ConfigFile>,
    ) -> Result<Config> {
        self.fill("store", || default_store(environment));
        self.fill("actor", || default_actor(environment));
        let actor = self.text_of("actor").parse();
        let actor = actor.map_err(|error: banksman_core::machine::NotAnActor| {
            ConfigError::value(&self.origin("actor"), error.to_string(), "for example human:kim")
        })?;
        let store = self.given("store");
        self.fill("home", || agents::default_home(store.as_deref().unwrap_or(""), environment));
        self.fill("node", agents::host_name);
        let agents = agents::agents(&self, &root)?;
        let daily = daily::daily(&self, &actor)?;
        Ok(Config {
            folder: folder.to_owned(),
            root,
            store,
            actor,
            lifecycle: self.text_of("lifecycle"),
            project: self.given("project"),
            color: self.text_of("color").parse().unwrap_or(Color::Auto),
            windows: self.text_of("windows").parse().unwrap_or(Windows::None),
            is_utf8: environment.is_utf8(),
            is_inside_run: environment.is_inside_run(),
            run: environment.run(),
            token_hash: environment.token_hash(),
            keeper_hash: environment.keeper_hash(),
            busy_timeout: self.duration("sqlite.busy_timeout"),
            statement_timeout: self.duration("postgres.statement_timeout"),
            connections: usize::try_from(self.number("postgres.connections")).unwrap_or(1),
            agents,
            daily,
            grace: self.span("decisions.grace"),
            overrides: self.overrides(),
            effective: self.effective(),
            sources,
        })
    }

    /// Sets a default that depends on more than the file of defaults.
    fn fill(&mut self, key: &str, value: impl FnOnce() -> String) {
        if self.given(key).is_none() {
            self.0.insert(key.to_owned(), (Raw::Text(value()), SettingOrigin::Default));
        }
    }

    /// A text that is not empty.
    fn given(&self, key: &str) -> Option<String> {
        Some(self.text_of(key)).filter(|text| !text.is_empty())
    }

    fn text_of(&self, key: &str) -> String {
        self.0.get(key).map(|(raw, _)| raw.text_of()).unwrap_or_default()
    }

    /// The origin of a setting, or of the first one with this prefix.
    fn origin(&self, prefix: &str) -> String {
        let first = self.0.iter().find(|(key, _)| key.starts_with(prefix));
        first.map(|(_, (_, origin))| origin.to_string()).unwrap_or_default()
    }

    fn span(&self, key: &str) -> Span {
        keys::span(&self.text_of(key))
            .expect("every layer checks its spans, and every span has a default")
    }

    fn duration(&self, key: &str) -> Duration {
        Duration::from_millis(self.span(key).0.unsigned_abs())
    }

    fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(|(raw, _)| keys::number(raw)).unwrap_or_default()
    }

    fn list(&self, key: &str) -> Vec<String> {
        match self.0.get(key) {
            Some((Raw::List(texts), _)) => texts.clone(),
            Some((Raw::Text(_) | Raw::Number(_) | Raw::Flag(_), _)) | None => Vec::new(),
        }
    }

    fn overrides(&self) -> BTreeMap<String, Overrides> {
        let mut overrides: BTreeMap<String, Overrides> = BTreeMap::new();
        for (key, (raw, _)) in &self.0 {
            let parts: Vec<&str> = key.splitn(3, '.').collect();
            if let [LIFECYCLES, lifecycle, setting] = parts[..] {
                let of_lifecycle = overrides.entry(lifecycle.to_owned()).or_default();
                of_lifecycle.insert(setting.to_owned(), override_of(raw));
            }
        }
        overrides
    }

    fn effective(&self) -> Vec<EffectiveSetting> {
        let of_keys = KEYS.iter().filter_map(|key| self.0.get_key_value(key.name));
        let is_named = |key: &str| KEYS.iter().all(|known| known.name != key);
        let named = self.0.iter().filter(|(key, _)| is_named(key));
        let entry = |(key, (raw, origin)): (&String, &(Raw, SettingOrigin))| EffectiveSetting {
            key: key.clone(),
            // A worker's variable may be a secret, so its value is never printed.
            value: if key.contains(".env.") { "(set)".to_owned() } else { raw.text_of() },
            origin: origin.clone(),
        };
        of_keys.chain(named).map(entry).collect()
    }
}

/// Parses a text as a lifecycle's own settings are parsed: a span if it is one.
fn override_of(raw: &Raw) -> Setting {
    match raw {
        Raw::Number(number) => Setting::Number(*number),
        Raw::Flag(flag) => Setting::Flag(*flag),
        Raw::Text(text) => text.parse().map_or_else(|_| Setting::Text(text.clone()), Setting::Time),
        Raw::List(texts) => Setting::Text(texts.join(", ")),
    }
}

/// Makes the path of a setting absolute and free of `..`, so that other settings and other
/// processes can build on it.
fn absolute(text: &str, base: Option<&Path>, environment: &Environment) -> String {
    let sqlite = text.strip_prefix("sqlite:");
    let (scheme, path) = sqlite.map_or(("", text), |path| ("sqlite:", path));
    if path.is_empty() || path.contains("://") {
        return text.to_owned();
    }
    let joined = match (path.strip_prefix("~/"), environment.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) | (None, _) => base.unwrap_or(Path::new("")).join(path),
    };
    let mut absolute = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => drop(absolute.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                absolute.push(component);
            }
        }
    }
    format!("{scheme}{}", absolute.display())
}

fn default_store(environment: &Environment) -> String {
    let data = environment.folder(Var::XDG_DATA_HOME, ".local/share");
    data.map(|data| data.join("banksman").join("banksman.db").display().to_string())
        .unwrap_or_default()
}

fn default_actor(environment: &Environment) -> String {
    let name = environment.get(Var::USER).or_else(|| environment.get(Var::LOGNAME));
    name.map_or_else(|| "human".to_owned(), |name| format!("human:{name}"))
}
