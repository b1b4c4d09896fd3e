//! The list of settings, the file of defaults and the list of variables say the same.

use std::path::Path;

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
        assert!(DOCUMENTED.contains(&(env, &format!("setting `{}`", key.name))), "{name}");
    }
}

#[test]
fn the_defaults_are_enough() {
    let config = resolve(&Flags::new(), &Environment::default(), Path::new("/nowhere")).unwrap();
    assert_eq!((config.lifecycle.as_str(), config.connections), ("autonomous", 8));
    assert_eq!(config.actor.to_string(), "human");
    assert_eq!((config.store, config.project), (None, None));
    assert!(config.effective.iter().all(|setting| setting.origin == Origin::Default));
}

#[test]
fn paths_in_files_begin_at_their_base() {
    let base = Some(Path::new("/base"));
    let check = |text: &str, expected: &str| {
        assert_eq!(placed(text, base, &Environment::default()), expected);
    };
    check("a.db", "/base/a.db");
    check("sqlite:a.db", "sqlite:/base/a.db");
    check("/a.db", "/a.db");
    check("postgres://me@localhost/x", "postgres://me@localhost/x");
    check("", "");
}

#[test]
fn a_setting_of_a_lifecycle_is_read_as_the_lifecycle_reads_it() {
    let text = "[lifecycles.a]\nb = 2\nc = true\nd = \"7d\"\ne = \"x\"\n";
    let given = layer::parse(text, "x").unwrap();
    let layers = Layers(
        given.into_iter().map(|given| (given.key, (given.value, Origin::Default))).collect(),
    );
    let settings: Vec<Setting> = layers.overrides()["a"].values().cloned().collect();
    let day = banksman_core::time::Span(86_400_000);
    let week = banksman_core::time::Span(7 * day.0);
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
    let given = given.into_iter().map(|given| (given.key, (given.value, Origin::Default)));
    layers.0.extend(given);
    let agents = agents::agents(&layers).unwrap();
    let [anna, ben] = &agents.workers[..] else { panic!("{:?}", agents.workers) };
    assert_eq!((anna.worker.cost, anna.worker.account.as_str()), (1, "codex"));
    assert_eq!(anna.worker.capabilities.iter().collect::<Vec<_>>(), ["docs"]);
    assert_eq!(anna.env.get("A_KEY").map(String::as_str), Some("s3cret"));
    assert_eq!((ben.command.join(" "), ben.worker.max_concurrent), ("claude".to_owned(), 4));
    assert_eq!(agents.accounts.get("codex"), Some(&2));
    let shown: Vec<String> = layers.effective().into_iter().map(|one| one.value).collect();
    assert!(!shown.iter().any(|value| value.contains("s3cret")), "{shown:?}");
}

#[test]
fn a_worker_without_an_agent_is_refused() {
    let mut layers = Layers::defaults().unwrap();
    let origin = Origin::File { path: "a.toml".into(), line: 3 };
    layers.0.insert("workers.anna.cost".to_owned(), (Raw::Number(1.0), origin));
    let error = agents::agents(&layers).unwrap_err();
    assert_eq!(error.to_string(), "a.toml:3: the worker `anna` has no agent");
}
