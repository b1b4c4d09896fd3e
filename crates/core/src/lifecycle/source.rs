//! The YAML of a lifecycle as it is written, with the position of every name. It validates nothing:
//! `check` does that.
//!
//! A source is one document, followed by the fragments that it includes, each a document of its
//! own. [`read`] merges them; `legacy` translates sources from before purposes were declared.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::contract::Purpose;
use super::expr::Value;
use super::problem::{Problem, suggestion};
use super::{Activity, EntryEffect, Since, StateKind, builtin, legacy};
use crate::failure::Deliverable;
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Entries, FormerKey, Name, OneOrMany, Spanned, TextOr, problem_at};

const MANUAL: &str = "docs/lifecycles.md";

/// Keys from before purposes were declared.
const FORMER_KEYS: [FormerKey; 7] = [
    ("lead_parts", "lead_children", "`lead_parts` is now `lead_children`"),
    ("within", "timeouts", "`within` is now `timeouts`, and its `time` is `after`"),
    ("time", "after", "`time` is now `after`"),
    ("renew", "reset", "`renew` is now `reset`"),
    ("brings", "produces", "`brings` is now `produces`"),
    ("when", "activity", "`when` now belongs to the state, beside `does`"),
    ("only", "fields", "name the roles at the field: `owner: { type: text, by: [human] }`"),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LifecycleSource {
    pub(super) lifecycle: Name,
    pub(super) purpose: Spanned<Purpose>,
    #[serde(default)]
    pub(super) about: String,
    pub(super) initial: Name,
    #[serde(default)]
    pub(super) roles: Vec<Name>,
    #[serde(default)]
    pub(super) include: Vec<Name>,
    #[serde(default)]
    pub(super) settings: Entries<Spanned<Value>>,
    #[serde(default)]
    pub(super) fields: Entries<Spanned<Value>>,
    #[serde(default)]
    pub(super) counters: Entries<CounterSource>,
    #[serde(default)]
    pub(super) states: Entries<StateSource>,
    #[serde(default)]
    pub(super) transitions: Vec<Spanned<TransitionSource>>,
    /// Whether the source is from before purposes were declared.
    #[serde(skip)]
    pub(super) legacy: bool,
}

/// Declarations that several lifecycles share.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fragment {
    fragment: Name,
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    settings: Entries<Spanned<Value>>,
    #[serde(default)]
    fields: Entries<Spanned<Value>>,
    #[serde(default)]
    counters: Entries<CounterSource>,
    #[serde(default)]
    states: Entries<StateSource>,
    #[serde(default)]
    transitions: Vec<Spanned<TransitionSource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CounterSource {
    pub(super) limit: Option<Spanned<Value>>,
    pub(super) then: Option<Name>,
    pub(super) beyond: Option<Name>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
}

/// A state. If a fragment declares it too, each key here replaces the fragment's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateSource {
    pub(super) kind: Option<StateKind>,
    pub(super) about: Option<String>,
    pub(super) does: Option<Spanned<DoesSource>>,
    pub(super) when: Option<Name>,
    pub(super) requires: Option<Vec<Spanned<RequirementSource>>>,
    pub(super) timeouts: Option<Vec<Spanned<TimeoutSource>>>,
    pub(super) remind: Option<RemindSource>,
    pub(super) on_entry: Option<Vec<EntryEffect>>,
    pub(super) provisional: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DoesSource {
    pub(super) activity: Activity,
    pub(super) role: Option<String>,
    pub(super) produces: Option<Deliverable>,
    pub(super) asks: Option<String>,
    #[serde(default)]
    pub(super) offers: Entries<Name>,
    pub(super) until: Option<Name>,
    #[serde(default)]
    pub(super) outcomes: Entries<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeoutSource {
    pub(super) after: Name,
    pub(super) since: Option<Since>,
    pub(super) to: Name,
    pub(super) on: Option<String>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
    #[serde(default)]
    pub(super) count: Vec<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemindSource {
    pub(super) after: Vec<Name>,
    pub(super) when: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransitionSource {
    pub(super) from: OneOrMany,
    pub(super) to: OneOrMany,
    pub(super) on: Name,
    pub(super) by: Vec<Name>,
    #[serde(default)]
    pub(super) guards: Vec<Spanned<RequirementSource>>,
    #[serde(default)]
    pub(super) set: Entries<Value>,
    #[serde(default)]
    pub(super) compute: Entries<Name>,
    #[serde(default)]
    pub(super) clear: Vec<Name>,
    #[serde(default)]
    pub(super) count: Vec<Name>,
    #[serde(default)]
    pub(super) reset: Vec<Name>,
    #[serde(default)]
    pub(super) keeps: Vec<Name>,
}

/// `pr_url`, or `{ field: pr_url, that: …, message: … }`.
pub(super) type RequirementSource = TextOr<FullRequirement>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullRequirement {
    pub(super) field: Name,
    pub(super) that: Option<Name>,
    pub(super) message: Option<String>,
}

/// A source followed by the fragments that it includes, so that it is complete. A fragment that
/// `find` does not know is left to the check.
pub fn compose(text: &str, mut find: impl FnMut(&str) -> Option<String>) -> String {
    let roots: Vec<Root> = documents(text).filter_map(|document| parse(&document).ok()).collect();
    let is_there =
        |name: &String| roots.iter().any(|document| document.fragment.as_ref() == Some(name));
    let included = roots.first().into_iter().flat_map(|own| &own.include);
    let missing = included.filter(|name| !is_there(name)).filter_map(|name| find(name));
    missing.fold(text.to_owned(), |composed, fragment| {
        format!("{}\n---\n{fragment}", composed.trim_end())
    })
}

/// Reads a source in the present format.
pub(super) fn read(text: &str) -> Result<LifecycleSource, Problem> {
    if is_legacy(text) {
        let message = "`purpose` is missing".to_owned();
        let help = format!("write `purpose: task` below `lifecycle`; see {MANUAL}");
        return Err(Problem { line: 1, column: 1, message, help: Some(help) });
    }
    let mut documents = documents(text);
    let own = documents.next().unwrap_or_default();
    let mut source: LifecycleSource = parse(&own)?;
    let fragments =
        documents.map(|text| parse(&text)).collect::<Result<Vec<Fragment>, Problem>>()?;
    for name in &source.include {
        if !fragments.iter().any(|fragment| fragment.fragment.value == name.value) {
            let own = fragments.iter().map(|fragment| fragment.fragment.value.as_str());
            let known = own.chain(builtin::FRAGMENTS.iter().map(|(name, _)| *name));
            let message = format!("there is no fragment `{}`", clip(&name.value));
            return Err(problem_at(name, message, suggestion(&name.value, known)));
        }
    }
    for fragment in fragments {
        let name = &fragment.fragment;
        if !source.include.iter().any(|known| known.value == name.value) {
            let message = format!("nothing includes the fragment `{}`", clip(&name.value));
            return Err(problem_at(name, message, format!("write `include: [{}]`", name.value)));
        }
        source.include(fragment);
    }
    Ok(source)
}

/// Reads a source that was checked by this build or an earlier one.
pub(super) fn read_any(text: &str) -> Result<LifecycleSource, Problem> {
    if is_legacy(text) { legacy::read(text, MANUAL) } else { read(text) }
}

/// The keys of a source that say how to read it.
#[derive(Deserialize)]
struct Root {
    purpose: Option<IgnoredAny>,
    #[serde(default)]
    include: Vec<String>,
    fragment: Option<String>,
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    yaml::read(text, limits::LIFECYCLE_BYTES, MANUAL, &FORMER_KEYS)
}

/// Whether a source is from before purposes were declared. One that cannot be read is not: its
/// fault is reported as one of today's language.
fn is_legacy(text: &str) -> bool {
    let own = documents(text).next().unwrap_or_default();
    parse(&own).is_ok_and(|root: Root| root.purpose.is_none())
}

/// The documents of a source. Blank lines replace those before, so that positions in a document are
/// positions in the whole text. Comments alone are no document.
fn documents(text: &str) -> impl Iterator<Item = String> {
    let mut found = vec![String::new()];
    let mut is_blank = true;
    for (number, line) in text.lines().enumerate() {
        let is_end = line.trim_end() == "---";
        if is_end && !is_blank {
            found.push("\n".repeat(number));
        }
        let is_comment = line.trim_start().starts_with('#') || line.trim().is_empty();
        is_blank = is_end || is_blank && is_comment;
        if let Some(last) = found.last_mut() {
            last.push_str(if is_end { "" } else { line });
            last.push('\n');
        }
    }
    found.into_iter()
}

impl LifecycleSource {
    /// Adds the declarations of a fragment. The lifecycle's own declarations come first and take
    /// precedence.
    fn include(&mut self, fragment: Fragment) {
        add_missing(&mut self.settings, fragment.settings);
        add_missing(&mut self.fields, fragment.fields);
        add_missing(&mut self.counters, fragment.counters);
        self.transitions.extend(fragment.transitions);
        // A state that only the fragment has follows the state before it there.
        let (own, mut next) = (&mut self.states.0, 0);
        for (name, shared) in fragment.states.0 {
            match own.iter().position(|(known, _)| known.value == name.value) {
                Some(at) => {
                    own[at].1 = std::mem::take(&mut own[at].1).or(shared);
                    next = at + 1;
                }
                None => {
                    own.insert(next, (name, shared));
                    next += 1;
                }
            }
        }
    }
}

fn add_missing<T>(own: &mut Entries<T>, shared: Entries<T>) {
    for (name, value) in shared.0 {
        if !own.0.iter().any(|(known, _)| known.value == name.value) {
            own.0.push((name, value));
        }
    }
}

impl StateSource {
    /// Its own keys, and the other keys of the fragment.
    fn or(self, shared: Self) -> Self {
        Self {
            kind: self.kind.or(shared.kind),
            about: self.about.or(shared.about),
            does: self.does.or(shared.does),
            when: self.when.or(shared.when),
            requires: self.requires.or(shared.requires),
            timeouts: self.timeouts.or(shared.timeouts),
            remind: self.remind.or(shared.remind),
            on_entry: self.on_entry.or(shared.on_entry),
            provisional: self.provisional.or(shared.provisional),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_places() {
        let text = "lifecycle: x\npurpose: task\ninitial: a\nstates:\n  a: { kind: done }\ntransitions:\n  - { from: [prior], to: a, on: go, by: [human] }\n";
        let source = read(text).expect("reads");
        let (name, _) = &source.states.0[0];
        assert_eq!((name.referenced.line(), name.referenced.column()), (5, 3));
        assert_eq!(source.transitions[0].referenced.line(), 7);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let problem = read("lifecycle: x\npurpose: task\ninitial: a\nstates:\n  a: { kind: done, colour: red }\ntransitions: []\n")
            .expect_err("unknown key");
        assert_eq!(problem.line, 5);
        assert!(problem.message.contains("colour"), "{}", problem.message);
    }

    #[test]
    fn a_repeated_state_is_refused() {
        let text = "lifecycle: x\npurpose: task\ninitial: a\nstates:\n  a: { kind: done }\n  a: { kind: done }\ntransitions: []\n";
        let problem = read(text).expect_err("repeated");
        assert_eq!((problem.line, problem.message.as_str()), (6, "duplicate key `a`"));
    }

    #[test]
    fn a_fragment_fills_in_what_the_lifecycle_does_not_say() {
        let text = "lifecycle: x\npurpose: task\ninitial: a\ninclude: [shared]\nstates:\n  b: { about: own }\n---\nfragment: shared\nstates:\n  a: { kind: queued }\n  b: { kind: done, about: shared }\n";
        let source = read(text).expect("reads");
        let states: Vec<_> = source
            .states
            .0
            .iter()
            .map(|(name, state)| (name.value.as_str(), state.kind, state.about.as_deref()))
            .collect();
        assert_eq!(
            states,
            [("a", Some(StateKind::Queued), None), ("b", Some(StateKind::Done), Some("own"))]
        );
        assert_eq!(source.states.0[0].0.referenced.line(), 10);
    }

    #[test]
    fn an_unknown_fragment_is_named_with_its_line() {
        for (include, help) in [("shred", "shared"), ("delivry", "delivery")] {
            let text = format!(
                "lifecycle: x\npurpose: task\ninitial: a\ninclude: [{include}]\n---\nfragment: shared\n"
            );
            let problem = read(&text).expect_err("unknown fragment");
            let message = format!("there is no fragment `{include}`");
            assert_eq!((problem.line, problem.message), (4, message));
            assert_eq!(problem.help, Some(format!("did you mean `{help}`?")));
        }
    }

    #[test]
    fn a_comment_before_the_first_marker_is_no_document() {
        let text = "# About.\n\n---\nlifecycle: x\npurpose: task\ninitial: a\nstates:\n  a: { kind: done }\n";
        let source = read(text).expect("reads");
        assert_eq!(source.states.0[0].0.referenced.line(), 8);
    }

    #[test]
    fn fragments_in_the_file_are_not_looked_for() {
        let own = "lifecycle: x\npurpose: task\ninitial: a\ninclude: [far, near]\n---\nfragment: near\nstates: { a: { kind: done } }";
        let mut asked = Vec::new();
        let composed = compose(own, |name| {
            asked.push(name.to_owned());
            Some(format!("fragment: {name}\n"))
        });
        assert_eq!(asked, ["far"]);
        assert_eq!(composed, format!("{own}\n---\nfragment: far\n"));
        read(&composed).expect("both are there");
    }
}
