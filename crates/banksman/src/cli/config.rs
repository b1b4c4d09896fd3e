//! `banksman config`: shows the effective settings and their origins.

use banksman_core::lifecycle::problem::suggestion;
use clap::Args;

use super::output::{cells, sanitize, table};
use super::{Context, Exit, Failure, NoArgs, Result};
use crate::api;
use crate::api::settings::{ListedSetting, Setting, SettingsFile};
use crate::config::{ConfigFile, EffectiveSetting};

commands! {
    /// Show the effective settings
    #[command(before_long_help = "Examples:
  banksman config list --show-origin
  banksman config get lifecycle
  banksman config path
")]
    pub(super) enum ConfigCommand(&Context) {
        List(ListArgs) => list,
        Get(GetArgs) => get,
        /// List the settings files, highest precedence first
        #[command(before_long_help = "Examples:
  banksman config path
")]
        Path(NoArgs) => path,
    }
}

/// List every effective setting
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman config list
  banksman config list --show-origin
")]
pub(super) struct ListArgs {
    /// Show where each setting comes from
    #[arg(long)]
    show_origin: bool,
}

/// Print one setting
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman config get store
  banksman config get lifecycles.mission.lead_may_approve
")]
pub(super) struct GetArgs {
    /// The setting's name, as `banksman config list` prints it
    key: String,
}

fn list(context: &Context, args: &ListArgs) -> Result<Exit> {
    let settings = settings(context);
    context.out.answer(
        || api::list("settings", settings.iter().map(ListedSetting::new)),
        || if args.show_origin { with_origins(&settings) } else { plain(&settings) },
    )
}

fn plain(settings: &[EffectiveSetting]) -> String {
    let line =
        |setting: &EffectiveSetting| format!("{} = {}\n", setting.key, sanitize(&setting.value));
    settings.iter().map(line).collect()
}

fn with_origins(settings: &[EffectiveSetting]) -> String {
    let row = |setting: &EffectiveSetting| cells([&setting.origin, &setting.key, &setting.value]);
    table(["ORIGIN", "KEY", "VALUE"], settings.iter().map(row))
}

/// The settings for display: the store's address without its password.
fn settings(context: &Context) -> Vec<EffectiveSetting> {
    let mut settings = context.config.effective.clone();
    for setting in settings.iter_mut().filter(|setting| setting.key == "store") {
        setting.value =
            context.target().map_or_else(|_| "(invalid)".to_owned(), |target| target.to_string());
    }
    settings
}

fn get(context: &Context, args: &GetArgs) -> Result<Exit> {
    let settings = settings(context);
    let Some(setting) = settings.iter().find(|setting| setting.key == args.key) else {
        let hint = suggestion(&args.key, settings.iter().map(|setting| setting.key.as_str()));
        return Err(Failure::unknown(format!("there is no setting `{}`", args.key), hint));
    };
    context.out.answer(|| Setting::new(setting), || format!("{}\n", sanitize(&setting.value)))
}

fn path(context: &Context, _: &NoArgs) -> Result<Exit> {
    let row = |source: &ConfigFile| {
        let state = if source.exists { "read" } else { "missing" };
        cells([&source.scope, &state, &source.path.display()])
    };
    let sources = &context.config.sources;
    context.out.answer(
        || api::list("files", sources.iter().map(SettingsFile::new)),
        || table(["SCOPE", "", "PATH"], sources.iter().map(row)),
    )
}
