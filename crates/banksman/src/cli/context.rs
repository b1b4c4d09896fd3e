//! What a command works with: the settings and the output. This is the only place where the command
//! line opens a store.

use std::env;

use banksman_core::machine::Actor;
use banksman_core::time::Instant;

use super::GlobalArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::symbols::Symbols;
use crate::api::dto::TransitionResponse;
use crate::clock;
use crate::config::{self, Color, Config, ConfigError, Environment, Flags};
use crate::ops::decisions::{self, DecisionRef};
use crate::ops::library::Library;
use crate::ops::{OpsError, projects};
use crate::store::conn::{Options, Target};
use crate::store::{Store, StoreError};

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) out: Output,
    pub(crate) now: Instant,
    /// The project given on the command line.
    pub(crate) project_flag: Option<String>,
}

impl Context {
    pub(super) fn new(args: &GlobalArgs) -> Result<Self, Failure> {
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
        Ok(Self { config, out, now: clock::now(), project_flag: args.project.clone() })
    }

    /// The store's address. Its `Display` hides the password.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        target(&self.config)
    }

    /// Opens an existing store. Only commands that add something create one, so that a mistyped
    /// path is noticed.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        match self.target()? {
            Target::Sqlite(path) if !path.try_exists().unwrap_or(true) => {
                Err(Failure::NoStore(path.display().to_string()))
            }
            target @ (Target::Sqlite(_) | Target::Postgres(_)) => open(&self.config, &target),
        }
    }

    /// Opens the store and creates it if it does not exist.
    pub(crate) fn store_or_new(&self) -> Result<Store, Failure> {
        open(&self.config, &self.target()?)
    }

    pub(crate) fn library(&self) -> Library {
        Library::new(Some(self.config.lifecycles()), self.config.overrides.clone())
            .with_leads(self.config.agents.policy.leads_may_close())
    }

    /// The acting role: the flag, else the settings. Inside a run it is never a person, whatever
    /// the flag says.
    pub(crate) fn actor(&self, flag: Option<&Actor>) -> Actor {
        let actor = flag.unwrap_or(&self.config.actor).clone();
        if self.config.is_inside_run && actor.role == Actor::human("").role {
            return Actor { role: "agent".to_owned(), ..actor };
        }
        actor
    }

    /// Refuses a request that would answer an open decision when an agent's run sends it, whatever
    /// role it claims, and records the attempt.
    pub(crate) fn refuse_decision_by_run(
        &self,
        store: &Store,
        which: DecisionRef,
    ) -> Result<(), Failure> {
        if !self.config.is_inside_run {
            return Ok(());
        }
        let is_open = decisions::find(store, which).is_ok_and(|found| found.settled.is_none());
        if let DecisionRef::Task(_) = which
            && !is_open
        {
            return Ok(());
        }
        Err(decisions::refuse_run(store, which, self.config.run.as_deref(), self.now)?.into())
    }

    /// A rejection by the lifecycle is an answer, so with --json it goes to stdout. All other
    /// errors are failures.
    pub(crate) fn refused(&self, error: OpsError) -> Result<Exit, Failure> {
        match &error {
            OpsError::Store(StoreError::Rejected(rejected)) if self.out.json => {
                self.out.json(&TransitionResponse::from(rejected))?;
                Ok(Exit::Failed)
            }
            OpsError::Store(_)
            | OpsError::Library(_)
            | OpsError::Workflow(_)
            | OpsError::Decision(_)
            | OpsError::Id(_)
            | OpsError::Line { .. }
            | OpsError::Input { .. } => Err(error.into()),
        }
    }

    /// The project of new tasks.
    pub(crate) fn project(&self, store: &Store) -> Result<String, Failure> {
        if let Some(name) = &self.config.project {
            return Ok(name.clone());
        }
        let known = projects::at(store, &self.config.folder)?;
        Ok(known.unwrap_or_else(|| projects::name_for(&self.config.root)))
    }
}

fn choice(color: Color) -> anstream::ColorChoice {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
}

/// The address of the store that the settings name.
pub(super) fn target(config: &Config) -> Result<Target, Failure> {
    let text = config.store.as_deref().ok_or(Failure::NoHome)?;
    Ok(text.parse::<Target>()?)
}

pub(super) fn open(config: &Config, target: &Target) -> Result<Store, Failure> {
    let options = Options {
        busy_timeout: config.busy_timeout,
        statement_timeout: config.statement_timeout,
        connections: config.connections,
        ..Options::default()
    };
    Ok(Store::open(target, &options)?)
}
