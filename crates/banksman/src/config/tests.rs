//! Tests that the list of settings, the file of defaults and the list of variables agree.

use std::path::Path;

use banksman_core::panel::registry;

use super::*;

#[test]
fn every_setting_has_a_default_and_every_default_is_a_setting() {
    let given: Vec<String> =
        layer::parse(DEFAULTS, "defaults").unwrap().into_iter().map(|given| given.key).collect();
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(given, known);
}

#[test]
fn every_variable_of_a_setting_is_documented_and_named_after_it() {
    for (key, env) in KEYS.iter().filter_map(|key| Some((key, key.env?))) {
        let name = format!("BANKSMAN_{}", key.name.to_uppercase().replace('.', "_"));
        assert_eq!(env, name);
        let meaning = format!("setting `{}`", key.name);
        assert!(documented().any(|documented| documented == (env, meaning.clone())), "{name}");
    }
}

#[test]
fn the_defaults_are_enough() {
    let config = resolve(&Flags::new(), &Environment::default(), Path::new("/nowhere")).unwrap();
    assert_eq!((config.lifecycle.as_str(), config.connections), ("autonomous", 8));
    assert_eq!(config.actor.to_string(), "human");
    assert_eq!((config.store, config.project), (None, None));
    assert!(config.effective.iter().all(|setting| setting.origin == SettingOrigin::Default));
}

#[test]
fn the_answers_of_a_note_are_those_of_a_person() {
    let owner = |text: &str, actor: &str| {
        let mut layers = Layers::defaults().unwrap();
        let given = layer::parse(text, "x").unwrap().into_iter();
        layers.0.extend(given.map(|given| (given.key, (given.value, SettingOrigin::Default))));
        daily::daily(&layers, &actor.parse().unwrap()).map(|daily| daily.owner.to_string())
    };
    assert_eq!(owner("", "human:kim").unwrap(), "human:kim");
    assert_eq!(owner("", "worker:ada").unwrap(), "human:daily note");
    assert_eq!(owner("daily.owner = \"Bo\"\n", "human:kim").unwrap(), "human:Bo");
    let long = format!("daily.owner = \"{}\"\n", "x".repeat(200));
    assert!(owner(&long, "human:kim").is_err());
}

#[test]
fn a_path_begins_at_its_base_and_has_no_detours() {
    let base = Some(Path::new("/base"));
    let check = |text: &str, expected: &str| {
        assert_eq!(absolute(text, base, &Environment::default()), expected);
    };
    check("a.db", "/base/a.db");
    check("sqlite:a.db", "sqlite:/base/a.db");
    check("/a.db", "/a.db");
    check("../x/./a.db", "/x/a.db");
    check("/a/../../b.db", "/b.db");
    check("postgres://me@localhost/x", "postgres://me@localhost/x");
    check("", "");
}

#[test]
fn a_setting_of_a_lifecycle_is_read_as_the_lifecycle_reads_it() {
    let text = "[lifecycles.a]\nb = 2\nc = true\nd = \"7d\"\ne = \"x\"\n";
    let given = layer::parse(text, "x").unwrap();
    let layers = Layers(
        given.into_iter().map(|given| (given.key, (given.value, SettingOrigin::Default))).collect(),
    );
    let settings: Vec<Setting> = layers.overrides()["a"].values().cloned().collect();
    let day = Span(86_400_000);
    let week = Span(7 * day.0);
    let expected = [
        Setting::Number(2.0),
        Setting::Flag(true),
        Setting::Time(week),
        Setting::Text("x".to_owned()),
    ];
    assert_eq!(settings, expected);
}

#[test]
fn a_worker_is_read_from_its_table() {
    let text = "[workers.anna]\nagent = \"codex\"\ncost = 1\ncapabilities = [\"docs\"]\nenv = { A_KEY = \"s3cret\" }\n\
                [workers.ben]\nagent = \"claude\"\n[accounts.codex]\nmax_concurrent = 2\n";
    let given = layer::parse(text, "x").unwrap();
    let mut layers = Layers::defaults().unwrap();
    let given = given.into_iter().map(|given| (given.key, (given.value, SettingOrigin::Default)));
    layers.0.extend(given);
    let agents = agents::agents(&layers, Path::new("/nowhere")).unwrap();
    let [anna, ben] = &agents.workers[..] else { panic!("{:?}", agents.workers) };
    assert_eq!((anna.worker.cost, anna.worker.account.as_str()), (1, "codex"));
    assert_eq!(anna.worker.capabilities.iter().collect::<Vec<_>>(), ["docs"]);
    assert_eq!(anna.agent.env.get("A_KEY").map(String::as_str), Some("s3cret"));
    assert_eq!((ben.agent.command.join(" "), ben.worker.max_concurrent), ("claude".to_owned(), 4));
    assert_eq!(agents.accounts.get("codex"), Some(&2));
    let text_of: Vec<String> = layers.effective().into_iter().map(|one| one.value).collect();
    assert!(!text_of.iter().any(|value| value.contains("s3cret")), "{text_of:?}");
}

#[test]
fn a_worker_without_an_agent_is_refused() {
    let mut layers = Layers::defaults().unwrap();
    let origin = SettingOrigin::File { path: "a.toml".into(), line: 3 };
    layers.0.insert("workers.anna.cost".to_owned(), (Raw::Number(1.0), origin));
    let error = agents::agents(&layers, Path::new("/nowhere")).unwrap_err();
    assert_eq!(error.to_string(), "a.toml:3: the worker `anna` has no agent");
}

fn with_panel(text: &str, root: &Path) -> Result<Panels, ConfigError> {
    let mut layers = Layers::defaults().unwrap();
    let given = layer::parse(text, "x")?.into_iter();
    layers.0.extend(given.map(|given| (given.key, (given.value, SettingOrigin::Default))));
    Ok(agents::agents(&layers, root)?.panels)
}

#[test]
fn the_defaults_of_panels_are_those_of_the_protocol() {
    let panels = with_panel("", Path::new("/nowhere")).unwrap();
    let names: Vec<&str> = panels.reviewers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["custodiet", "critic"]);
    assert!(panels.reviewers.iter().all(|one| one.brief.lines().count() == 1));
    let times = [
        panels.verdict_timeout,
        panels.first_retry,
        panels.second_retry,
        panels.reply_timeout,
        panels.round_timeout,
        panels.total_timeout,
    ];
    assert_eq!(
        times.map(|time| time.to_string()),
        ["10min", "30s", "1min", "5min", "10min", "30min"]
    );
    assert_eq!((panels.retries, panels.rounds), (2, 2));
    assert_eq!(panels.specialists, []);
}

#[test]
fn a_reviewer_may_have_its_own_brief_and_model() {
    let text = "[panel]\nreviewers = [\"critic\", \"owl\"]\n[reviewers.critic]\nbrief = \"Look.\"\n\
                [reviewers.judge]\nmodel = \"opus\"\n";
    let panels = with_panel(text, Path::new("/nowhere")).unwrap();
    assert_eq!(panels.reviewers[0].brief, "Look.");
    assert_eq!((panels.reviewers[1].name.as_str(), &panels.reviewers[1].model), ("owl", &None));
    assert_eq!(panels.called("judge").model.as_deref(), Some("opus"));
    assert_eq!(panels.called("evaluator").model, None);
    assert_eq!(panels.called("critic").brief, "Look.");
    let custodiet = panels.called("custodiet").brief;
    assert!(
        custodiet.starts_with("You guard the limits"),
        "also if it is on no panel: {custodiet}"
    );
    let specialists = registry::read("specialists: {keys: {domains: [crypto], model: opus}}");
    let panels = Panels { specialists: specialists.unwrap(), ..panels };
    let called = panels.called("keys");
    assert_eq!(called.brief, "You are the specialist for crypto.");
    assert_eq!(called.model.as_deref(), Some("opus"));
}

#[test]
fn what_is_wrong_with_a_panel_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |text: &str| with_panel(text, folder.path()).unwrap_err().to_string();
    let twice = wrong("panel.reviewers = [\"a\", \"a\"]\n");
    assert!(twice.ends_with("the reviewer `a` appears twice"), "{twice}");
    assert!(wrong("panel.reviewers = [\"a b\"]\n").contains("one word"));
    assert!(wrong("panel.retries = 3\n").contains("from 0 to 2"));
    let registry = folder.path().join("registry.yaml");
    let setting = "panel.registry = \"registry.yaml\"\n";
    std::fs::write(&registry, "specialists:\n  a:\n    domain: [x]\n").unwrap();
    let error = wrong(setting);
    assert_eq!(error, format!("{}:3: unknown key `domain`", registry.display()));
    std::fs::write(&registry, "specialists:\n  critic:\n    domains: [x]\n").unwrap();
    assert!(wrong(setting).ends_with("the specialist `critic` is already on every panel"));
    std::fs::write(&registry, "specialists:\n  owl:\n    domains: [x]\n    model: opus\n").unwrap();
    assert_eq!(with_panel(setting, folder.path()).unwrap().specialists.len(), 1);
}
