//! Reads what a lifecycle declares: roles, settings, fields, counters and states, each name once
//! and in its place.

use std::collections::BTreeMap;

use super::check::{Checker, Overrides, is_word};
use super::contract::{AnswerRole, Field, FieldSource};
use super::expr::{Expr, Type, Value};
use super::names::{ExprScope, reserved};
use super::problem::{Problem, suggestion};
use super::source::{CounterSource, DoesSource, StateSource};
use super::{
    Activity, Counter, CounterOverflow, FieldDecl, FieldUpdates, FieldWriters, Outcome, Reminders,
    Route, Setting, SettingDecl, State, StateActivity, StateKind, split_group,
};
use crate::failure::Deliverable;
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Entries, Name, Spanned, place};

/// The keys of a field that is declared with more than its type.
pub(super) const TYPE: &str = "type";
pub(super) const BY: &str = "by";
const NOT_BLANK: &str = "not_blank";
const COMPUTED: &str = "computed";
const ATTRIBUTES: [&str; 4] = [TYPE, BY, NOT_BLANK, COMPUTED];
type OfferRoles = BTreeMap<String, AnswerRole>;

/// In `by`: every role.
pub(super) const ANYONE: &str = "anyone";

/// Fields of every lifecycle: where a task may work, what it must not touch, what proves it, and
/// where the work is and who does it.
const STANDARD_FIELDS: [Field; 9] = [
    Field::TargetArea,
    Field::Touches,
    Field::AllowedPaths,
    Field::DeniedPaths,
    Field::Verify,
    Field::Role,
    Field::Model,
    Field::Overridden,
    Field::MergedAs,
];

impl Checker<'_> {
    pub(super) fn declare_roles(&mut self, roles: &[Name]) {
        for role in roles {
            self.word(role, "a role");
            if self.roles.contains(&role.value) {
                let message = format!("the role `{}` exists already", role.value);
                self.problem(role, message, "`human` and `system` always exist");
            } else {
                self.roles.push(role.value.clone());
            }
        }
    }

    pub(super) fn declare_settings(
        &mut self,
        settings: &Entries<Spanned<Value>>,
        overrides: &Overrides,
    ) {
        for (name, value) in &settings.0 {
            self.new_name(name, "a setting");
            let declared = match &value.value {
                Value::Number(number) => Setting::Number(number.as_f64().unwrap_or(0.0)),
                Value::Bool(flag) => Setting::Flag(*flag),
                Value::String(text) => {
                    text.parse().map_or_else(|_| Setting::Text(text.clone()), Setting::Time)
                }
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let message = format!("the setting `{}` needs a value", name.value);
                    let help = "a number, true or false, a span of time or a text";
                    self.problem(value, message, help);
                    continue;
                }
            };
            let given = overrides.get(&name.value).unwrap_or(&declared);
            if std::mem::discriminant(given) != std::mem::discriminant(&declared) {
                let name = &name.value;
                let message =
                    format!("the configuration sets `{name}` to {given}, which is of another type");
                self.problem(value, message, "give it a value like the one here");
            }
            let setting = SettingDecl { value: given.clone(), is_read: false, line: place(name).0 };
            self.names.settings.insert(name.value.clone(), setting);
        }
        let known = || settings.0.iter().map(|(known, _)| known.value.as_str());
        for name in overrides.keys().filter(|name| !known().any(|known| known == name.as_str())) {
            let message =
                format!("the configuration sets `{name}`, which this lifecycle does not have");
            self.problems.push(Problem::of_whole(message, Some(suggestion(name, known()))));
        }
    }

    pub(super) fn declare_fields(&mut self, fields: &Entries<Spanned<Value>>) {
        for (name, declared) in &fields.0 {
            self.new_name(name, "a field");
            if let Some(field) = self.field_decl(name, declared) {
                self.names.fields.insert(name.value.clone(), field);
            }
        }
    }

    /// `text`, `[one, of, these]`, or `{ type: text, by: [human], not_blank: true }`, with
    /// `computed` in place of `by`.
    fn field_decl(&mut self, name: &Name, declared: &Spanned<Value>) -> Option<FieldDecl> {
        let line = place(name).0;
        let nobody = FieldWriters::Roles(Vec::new());
        let (kind, by, not_blank) = match &declared.value {
            Value::Object(attributes) => {
                let Some(kind) = attributes.get(TYPE) else {
                    let message = format!("`{}` has no type", name.value);
                    let help = "write `type: text`, for example, or `type: { member: type }`";
                    self.problem(declared, message, help);
                    return None;
                };
                for key in attributes.keys() {
                    if !ATTRIBUTES.contains(&key.as_str()) {
                        let help = suggestion(key, ATTRIBUTES);
                        self.problem(declared, format!("a field has no `{}`", clip(key)), help);
                    }
                }
                let is_computed = self.is_said(declared, attributes.get(COMPUTED), COMPUTED);
                let by = attributes.get(BY).map(|by| self.writers(declared, by));
                if is_computed && by.is_some() {
                    let message = format!("`{}` is computed, so no role gives it", name.value);
                    self.problem(declared, message, "remove `by`, or remove `computed`");
                }
                let by = if is_computed { FieldWriters::Computed } else { by.unwrap_or(nobody) };
                (kind, by, self.is_said(declared, attributes.get(NOT_BLANK), NOT_BLANK))
            }
            kind => (kind, nobody, false),
        };
        match field_type(kind, 0) {
            Ok(kind) => Some(FieldDecl { kind, by, not_blank, whole: false, line }),
            Err(message) => {
                let help = "types: text, number, flag, time, list, texts, any, [one, of, these], and \
                            `type: { member: type }` for a record";
                self.problem(declared, message, help);
                None
            }
        }
    }

    fn is_said(&mut self, at: &Spanned<Value>, flag: Option<&Value>, name: &str) -> bool {
        flag.is_some_and(|flag| {
            flag.as_bool().unwrap_or_else(|| {
                let message = format!("`{name}` is true or false");
                self.problem(at, message, format!("write `{name}: true`"));
                false
            })
        })
    }

    fn writers(&mut self, at: &Spanned<Value>, by: &Value) -> FieldWriters {
        let roles = match by {
            Value::String(word) if word == ANYONE => return FieldWriters::Anyone,
            Value::Array(roles) => roles.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => None,
        };
        let Some(roles) = roles else {
            self.problem(at, "`by` is a list of roles", "write `by: [human]`, or `by: anyone`");
            return FieldWriters::Roles(Vec::new());
        };
        let ids = roles.into_iter().filter_map(|role| self.role_named(&yaml::at(at, role)));
        FieldWriters::Roles(ids.collect())
    }

    /// Fields that every task may have. A lifecycle that declares one of that name itself keeps its
    /// own.
    pub(super) fn standard_fields(&mut self) {
        for field in STANDARD_FIELDS {
            let (name, kind, names) = (field.name(), field.shape().kind(), &mut self.names);
            let taken =
                names.settings.contains_key(name) || names.counters.contains(&name.to_owned());
            if !taken {
                // An agent must not loosen the checks on its own work.
                let is_given = field.sources().contains(&FieldSource::Creator);
                let roles = is_given.then_some(super::RoleId::HUMAN);
                let by = FieldWriters::Roles(roles.into_iter().collect());
                let standard = FieldDecl { kind, by, not_blank: false, whole: false, line: 0 };
                names.fields.entry(name.to_owned()).or_insert(standard);
            }
        }
    }

    pub(super) fn declare_counters(&mut self, counters: &Entries<CounterSource>) {
        for (name, _) in &counters.0 {
            self.new_name(name, "a counter");
            self.names.counters.push(name.value.clone());
        }
    }

    /// A name in expressions, where `-` means minus.
    fn new_name(&mut self, name: &Name, what: &str) {
        self.word(name, what);
        if name.value.contains('-') {
            let message =
                format!("`{}` would read as a subtraction in expressions", clip(&name.value));
            self.problem(name, message, "use `_` instead of `-`");
        }
        if reserved(&name.value) {
            let message =
                format!("`{}` has a meaning in expressions and cannot be {what}", name.value);
            self.problem(name, message, "choose another name");
        }
        let names = &self.names;
        let taken = names.fields.contains_key(&name.value)
            || names.settings.contains_key(&name.value)
            || names.counters.contains(&name.value);
        if taken {
            let message = format!("`{}` is declared twice", name.value);
            self.problem(name, message, "fields, counters and settings share one set of names");
        }
    }

    pub(super) fn declare_states(&mut self, states: &Entries<StateSource>) {
        let (count, most) = (states.0.len(), limits::LIFECYCLE_STATES);
        if count > most {
            let message = format!("{count} states are more than the limit of {most}");
            self.problem(&states.0[0].0, message, "");
        }
        for (name, _) in states.0.iter().take(limits::LIFECYCLE_STATES) {
            let (outer, inner) = split_group(&name.value);
            let sound = is_word(outer) && inner.is_none_or(is_word) && name.value != "any";
            if !sound {
                let message = format!("`{}` cannot be a state's name", clip(&name.value));
                self.problem(name, message, "write a word, or `group(word)`");
            }
            if self.state_names.contains(&name.value) {
                let message = format!("the state `{}` is declared twice", name.value);
                self.problem(name, message, "keep one of them");
            }
            self.state_names.push(name.value.clone());
        }
        if states.0.is_empty() {
            self.problems.push(Problem::of_whole("a lifecycle needs states", None));
        }
    }

    pub(super) fn state(&mut self, name: &Name, source: &StateSource) -> State {
        let (outer, inner) = split_group(&name.value);
        let when = source.when.as_ref();
        if let (Some(when), None) = (when, &source.does) {
            self.problem(when, "`when` without `does`", "remove it, or say what the state does");
        }
        let when = when.and_then(|when| self.guard(when, ExprScope::Task));
        let does = source.does.as_ref().map(|does| self.does(does, &does.value, when));
        if source.kind.is_none() {
            let message = format!("the state `{}` has no kind", clip(&name.value));
            self.problem(name, message, "write `kind: working`, for example");
        }
        let requires = source
            .requires
            .iter()
            .flatten()
            .filter_map(|source| self.requirement(source, &name.value, ExprScope::Task))
            .collect();
        let remind = source.remind.as_ref().map(|remind| Reminders {
            after: remind.after.iter().filter_map(|time| self.span(time)).collect(),
            when: remind.when.as_ref().and_then(|when| self.guard(when, ExprScope::Task)),
        });
        State {
            name: name.value.clone(),
            group: inner.map(|_| outer.to_owned()),
            kind: source.kind.unwrap_or(StateKind::Queued),
            about: source.about.as_deref().unwrap_or_default().trim().to_owned(),
            terminal: false,
            provisional: source.provisional.unwrap_or_default(),
            does,
            requires,
            remind,
            on_entry: source.on_entry.clone().unwrap_or_default(),
            remembers: false,
            line: place(name).0,
        }
    }

    fn does(
        &mut self,
        at: &Spanned<DoesSource>,
        source: &DoesSource,
        when: Option<Expr>,
    ) -> StateActivity {
        let people = source.activity == Activity::Human;
        if people == source.offers.0.is_empty() {
            let message =
                if people { "`human` offers no action" } else { "only `human` has `offers`" };
            let help = "write `does: { activity: human, asks: …, offers: { approve: trigger } }`";
            self.problem(at, message, help);
        }
        if (source.activity == Activity::Wait) != source.until.is_some() {
            let help =
                "write `does: { activity: wait, until: EXPRESSION, outcomes: { met: trigger } }`";
            self.problem(at, "`wait` and `until` belong together", help);
        }
        if source.produces.is_some() && source.activity != Activity::Agent {
            let help = "write `does: { activity: agent, role: …, produces: answer }`";
            self.problem(at, "only `agent` has `produces`", help);
        }
        let (outcomes, otherwise) = self.outcomes(source);
        let (offers, offer_roles) = self.offers(source);
        StateActivity {
            activity: source.activity,
            role: source.role.clone(),
            produces: source.produces.unwrap_or(Deliverable::Change),
            asks: source.asks.clone(),
            offers,
            offer_roles,
            until: source.until.as_ref().and_then(|until| self.guard(until, ExprScope::Transition)),
            when,
            outcomes,
            otherwise,
        }
    }

    /// The actions with their triggers, and the roles that stand before triggers.
    fn offers(&mut self, source: &DoesSource) -> (Vec<(String, String)>, OfferRoles) {
        let (mut offers, mut roles) = (Vec::new(), OfferRoles::new());
        for (action, to) in &source.offers.0 {
            let (role, trigger) = match to.value.split_once(' ') {
                Some((role, trigger)) => (Some(role), trigger.trim()),
                None => (None, to.value.as_str()),
            };
            match role.map(|role| (role, role.parse())) {
                Some((_, Ok(role))) => roles.extend([(action.value.clone(), role)]),
                Some((role, Err(_))) => {
                    let hint = suggestion(role, AnswerRole::NAMES);
                    self.problem(to, format!("`{}` is no role of an answer", clip(role)), &hint);
                }
                None => {}
            }
            offers.push((action.value.clone(), trigger.to_owned()));
        }
        (offers, roles)
    }

    fn outcomes(&mut self, source: &DoesSource) -> (BTreeMap<Outcome, Route>, Option<Route>) {
        let mut outcomes = BTreeMap::new();
        let mut otherwise = None;
        let mut known: Vec<Outcome> = source.activity.outcomes().to_vec();
        if source.outcomes.0.iter().any(|(_, route)| is_again(&route.value)) {
            known.push(Outcome::Exhausted);
        }
        if source.activity == Activity::Merge {
            known.push(Outcome::NotMerged);
        }
        for (name, route) in &source.outcomes.0 {
            if is_again(&route.value) && source.activity == Activity::Panel {
                let help = "write a trigger that leads to another state";
                self.problem(route, "a panel cannot be repeated with `again`", help);
            }
            let to = match route.value.split_once(char::is_whitespace) {
                Some((AGAIN, trigger)) => Route::Again(Some(trigger.trim().to_owned())),
                None if route.value == AGAIN => Route::Again(None),
                Some(_) | None => Route::Trigger(route.value.clone()),
            };
            match known.iter().find(|outcome| outcome.as_str() == name.value) {
                Some(outcome) => {
                    outcomes.insert(*outcome, to);
                }
                None if name.value == "otherwise" => otherwise = Some(to),
                None => {
                    let activity = source.activity.as_str();
                    let message = format!("`{activity}` has no outcome `{}`", clip(&name.value));
                    let names = known.iter().map(|outcome| outcome.as_str()).chain(["otherwise"]);
                    let help = suggestion(&name.value, names);
                    self.problem(name, message, help);
                }
            }
        }
        (outcomes, otherwise)
    }

    pub(super) fn counter(&mut self, name: &Name, source: &CounterSource) -> Counter {
        let limit = source.limit.as_ref().and_then(|limit| self.limit(limit));
        let (goal, diverts) = match (&source.then, &source.beyond) {
            (Some(then), _) => (Some(then), CounterOverflow::AtLimit),
            (None, Some(beyond)) => (Some(beyond), CounterOverflow::BeyondLimit),
            (None, None) => (None, CounterOverflow::AtLimit),
        };
        let then = goal.and_then(|goal| self.state_named(goal));
        if source.then.is_some() && source.beyond.is_some() {
            let message = "a counter leads elsewhere at its limit or beyond it, not both";
            self.problem(name, message, "keep `then` or `beyond`");
        }
        if goal.is_some() && source.limit.is_none() {
            let help = "write `limit: 3`, or the name of a setting";
            self.problem(name, "`then` and `beyond` need a `limit`", help);
        }
        let changes = FieldUpdates {
            set: self.literals(&source.set),
            compute: self.computed(&source.compute),
            ..FieldUpdates::default()
        };
        let is_setting = source.limit.as_ref().is_some_and(|limit| limit.value.is_string());
        let (name, line) = (name.value.clone(), place(name).0);
        Counter { name, limit, is_setting, then, diverts, changes, line }
    }

    fn limit(&mut self, limit: &Spanned<Value>) -> Option<u32> {
        let number = match &limit.value {
            Value::Number(number) => number.as_f64(),
            Value::String(name) => match self.names.setting(name) {
                Some(Setting::Number(number)) => Some(*number),
                Some(Setting::Flag(_) | Setting::Text(_) | Setting::Time(_)) | None => None,
            },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let whole = number.and_then(|number| number.to_string().parse().ok());
        let found = whole.filter(|limit| *limit > 0);
        if found.is_none() {
            let message = "a limit is a whole number from 1 on, or a setting that is one";
            self.problem(limit, message, "write `limit: 3`");
        }
        found
    }
}

/// How the file says that the failure policy decides.
const AGAIN: &str = "again";

/// Whether an outcome leads to `again` or `again TRIGGER`.
fn is_again(route: &str) -> bool {
    route.split_whitespace().next() == Some(AGAIN)
}

fn field_type(declared: &Value, depth: usize) -> Result<Type, String> {
    match declared {
        Value::String(name) => {
            Type::named(name).ok_or_else(|| format!("there is no type `{}`", clip(name)))
        }
        Value::Array(words) => {
            let words = words.iter().map(|word| word.as_str().map(str::to_owned));
            let words: Option<Vec<String>> = words.collect();
            let words = words.filter(|words| !words.is_empty());
            words.map(Type::OneOf).ok_or_else(|| "a list of words is needed here".to_owned())
        }
        Value::Object(members) if depth < limits::FIELD_DEPTH => {
            let members =
                members.iter().map(|(name, kind)| Ok((name.clone(), field_type(kind, depth + 1)?)));
            members.collect::<Result<_, String>>().map(Type::Record)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err("this is not a type".to_owned())
        }
    }
}
