//! What a command works with: the settings and the output. This is the only place where the command
//! line opens a store.

use std::cell::RefCell;
use std::env;
use std::path::Path;

use banksman_core::time::Instant;

use super::GlobalArgs;
use super::arguments::ActorArgs;
use super::failure::{Failure, Result};
use super::output::Output;
use super::symbols::Symbols;
use crate::clock;
use crate::config::home::OWNER;
use crate::config::{self, Color, Config, ConfigError, Environment, Flags};
use crate::ops::library::Library;
use crate::ops::principal::{Principal, RunCaller};
use crate::ops::{Session, projects};
use crate::store::Store;
use crate::store::conn::{Options, Target};

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) out: Output,
    pub(crate) now: Instant,
    /// The project given on the command line.
    pub(crate) project_flag: Option<String>,
    /// The sessions of the command, for [`warn_of_damage`](Self::warn_of_damage).
    pub(super) sessions: RefCell<Vec<Session>>,
}

impl Context {
    pub(super) fn new(args: &GlobalArgs) -> Result<Self> {
        let given = [("store", &args.store), ("project", &args.project), ("color", &args.color)];
        let flags: Flags =
            given.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))).collect();
        let folder = env::current_dir().map_err(ConfigError::Folder)?;
        let config = config::resolve(&flags, &Environment::of_process()?, &folder)?;
        let out = Output {
            json: args.json,
            quiet: args.quiet,
            color: choice(config.color),
            symbols: if config.is_utf8 { Symbols::Unicode } else { Symbols::Ascii },
        };
        Ok(Self {
            config,
            out,
            now: clock::now(),
            project_flag: args.project.clone(),
            sessions: RefCell::default(),
        })
    }

    /// The store's address. Its `Display` hides the password.
    pub(crate) fn target(&self) -> Result<Target> {
        let text = self.config.store.as_deref().ok_or(Failure::NoHome)?;
        Ok(text.parse::<Target>()?)
    }

    /// Opens an existing store for the caller. Only commands that add something create one, so that
    /// a mistyped path is noticed.
    pub(crate) fn session(&self) -> Result<Session> {
        self.session_as(&ActorArgs::default())
    }

    /// The same for a caller who gives a role.
    pub(crate) fn session_as(&self, given: &ActorArgs) -> Result<Session> {
        match self.target()? {
            Target::Sqlite(path) if !path.try_exists().unwrap_or(true) => {
                Err(Failure::NoStore(path.display().to_string()))
            }
            target @ (Target::Sqlite(_) | Target::Postgres(_)) => self.admit(&target, given),
        }
    }

    /// Opens the store for the caller, and creates it if it does not exist. A run creates none.
    pub(crate) fn session_or_new(&self, given: &ActorArgs) -> Result<Session> {
        if self.config.is_inside_run {
            return self.session_as(given);
        }
        self.admit(&self.target()?, given)
    }

    /// Who is calling, for what needs no store.
    pub(crate) fn principal(&self) -> Principal {
        if self.config.is_inside_run {
            return Principal::Run(RunCaller::unproven(self.config.run.as_deref()));
        }
        Principal::outside(self.config.actor.clone())
    }

    /// Opens or creates a store. Inside a run the caller is the run, whatever role is given.
    pub(super) fn admit(&self, target: &Target, given: &ActorArgs) -> Result<Session> {
        let config = &self.config;
        let options = Options {
            busy_timeout: config.busy_timeout,
            statement_timeout: config.statement_timeout,
            connections: config.connections,
            ..Options::default()
        };
        let store = Store::open(target, &options)?;
        if let Some(id) = store.id()? {
            let home = &config.agents.home;
            home.settle(&id).map_err(Failure::file("read", &home.given().join(OWNER)))?;
        }
        let session = if config.is_inside_run {
            let (token, key) = (config.token_hash.as_deref(), config.keeper_hash.as_deref());
            Session::inside_run(store, token, key, config.run.as_deref())?
        } else {
            Session::outside(store, given.actor.as_ref().unwrap_or(&config.actor).clone())?
        };
        self.sessions.borrow_mut().push(session.clone());
        Ok(session)
    }

    /// Names what the command has left out of its answer, because it is damaged.
    pub(super) fn warn_of_damage(&self) {
        let sessions = self.sessions.borrow();
        let mut damaged = sessions.iter().flat_map(Session::take_damaged);
        let Some(first) = damaged.next() else { return };
        let of = first.task.map(|task| format!("{task}: ")).unwrap_or_default();
        let more = match damaged.count() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let text = format!("left out, because it is damaged: {of}{}{more}", first.what);
        self.out.warn(&format!("{text} (banksman check)"));
    }

    pub(crate) fn library(&self) -> Library {
        Library::new(Some(self.config.lifecycles()), self.config.overrides.clone())
            .with_leads(self.config.agents.policy.leads_may_close())
    }

    /// A path as people see it: relative to the project's root if it is below.
    pub(crate) fn below_root(&self, path: &Path) -> String {
        path.strip_prefix(&self.config.root).unwrap_or(path).display().to_string()
    }

    /// The project of new tasks.
    pub(crate) fn project(&self, session: &Session) -> Result<String> {
        if let Some(name) = &self.config.project {
            return Ok(name.clone());
        }
        Ok(projects::of_new_tasks(session, &self.config.folder, &self.config.root)?)
    }
}

fn choice(color: Color) -> anstream::ColorChoice {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
}
