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
