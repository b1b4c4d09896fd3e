//! Proofs that a lifecycle and the program keep their contract in both directions: the lifecycle
//! has everything that its purpose demands, and the program does everything that the lifecycle
//! leaves to the system.

use std::collections::BTreeSet;

use super::contract::{
    AgentRole, ContractRow, CounterName, Field, FieldSource, FiredBy, Purpose, SettingName, Trigger,
};
use super::problem::{Problem, nearest};
use super::prove::{Proof, routed, routes};
use super::{FieldDecl, FieldUpdates, FieldWriters, Lifecycle, RoleId, Route, State, Transition};

impl Proof<'_> {
    pub(super) fn contract_is_kept(&self, found: &mut Vec<Problem>) {
        // Of a purpose that is wrong, nothing is demanded.
        let before = found.len();
        self.engine_lifecycles_keep_their_purpose(found);
        if found.len() == before {
            self.demands_are_met(found);
        }
        self.settings_are_those_of_the_contract(found);
        self.counters_are_those_of_the_contract(found);
        self.fields_are_those_of_the_contract(found);
        self.triggers_are_those_of_the_contract(found);
        self.facts_are_proven(found);
        self.fields_can_be_set(found);
        self.computed_fields_are_not_set(found);
        self.conditions_make_sense(found);
    }

    fn demands_are_met(&self, found: &mut Vec<Problem>) {
        let lifecycle = self.lifecycle;
        let mut missing = |what: &str, name: &str, about: &str, help: String| {
            let message =
                format!("the purpose `{}` demands the {what} `{name}`", lifecycle.purpose);
            found.push(Problem::in_line(lifecycle.line, message, format!("{help}: {about}")));
        };
        for rule in demanded(Field::RULES, lifecycle.purpose) {
            if !lifecycle.fields.contains_key(rule.name) {
                let help = format!("add `{}: {}`", rule.name, rule.item.shape().describe());
                missing("field", rule.name, rule.about, help);
            }
        }
        for rule in demanded(Trigger::RULES, lifecycle.purpose) {
            let is_fired = rule.item.detail().engine().is_some();
            let fits = |row: &Transition| {
                let may_take = !is_fired || row.roles.contains(&RoleId::SYSTEM);
                row.trigger == rule.name && row.timeout.is_none() && may_take
            };
            if !lifecycle.transitions.iter().any(fits) {
                let by = if is_fired { " and `by: [system]`" } else { "" };
                let help = format!("add a transition with it{by}");
                missing("trigger", rule.name, rule.about, help);
            }
        }
        for rule in demanded(CounterName::RULES, lifecycle.purpose) {
            if !lifecycle.counters.iter().any(|counter| counter.name == rule.name) {
                missing("counter", rule.name, rule.about, format!("add `{}: {{}}`", rule.name));
            }
        }
        for rule in demanded(SettingName::RULES, lifecycle.purpose) {
            let shape = rule.item.detail();
            let declared = lifecycle.settings.get(rule.name);
            if declared.is_none_or(|setting| setting.value.type_name() != shape.name) {
                let help = format!("add `{}: {}`", rule.name, shape.example);
                missing("setting", rule.name, rule.about, help);
            }
        }
    }

    fn settings_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        for (name, setting) in &self.lifecycle.settings {
            let Some(known) = SettingName::named(name) else {
                if !setting.is_read {
                    let rules = SettingName::RULES.iter();
                    let rules =
                        rules.filter(|rule| rule.purposes.contains(&self.lifecycle.purpose));
                    let help = nearest(name, rules.map(|rule| rule.name));
                    let help = help.map(|near| format!("did you mean `{near}`?"));
                    let help = help.unwrap_or_else(|| {
                        "write its name where it counts, or remove it".to_owned()
                    });
                    let message = format!("nothing reads the setting `{name}`");
                    found.push(Problem::in_line(setting.line, message, help));
                }
                continue;
            };
            if !self.belongs_here("setting", known.rule(), setting.line, found) {
                continue;
            }
            let (shape, declared) = (known.detail(), setting.value.type_name());
            let is_demanded = known.rule().demanded_by.contains(&self.lifecycle.purpose);
            let lead = AgentRole::Lead.as_str();
            let (message, help) = if declared != shape.name && !is_demanded {
                let wanted = shape.name;
                let message = format!(
                    "the engine expects the setting `{name}` to be a {wanted}, but it is a {declared}"
                );
                (message, format!("write `{name}: {}`", shape.example))
            } else if known == SettingName::LeadMayApprove
                && self.lifecycle.find_role(lead).is_none()
            {
                (format!("`{name}` needs the role `{lead}`"), format!("write `roles: [{lead}]`"))
            } else {
                continue;
            };
            found.push(Problem::in_line(setting.line, message, help));
        }
    }

    fn counters_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        let mut rows = self.lifecycle.transitions.iter();
        let counted: BTreeSet<_> = rows.by_ref().flat_map(|row| &row.changes.count).collect();
        for (index, counter) in self.lifecycle.counters.iter().enumerate() {
            if !counted.iter().any(|id| usize::from(id.0) == index) {
                let message = format!("nothing counts `{}`", counter.name);
                let help = format!("add `count: [{}]` to a transition, or remove it", counter.name);
                found.push(Problem::in_line(counter.line, message, help));
            }
            if let Some(known) = CounterName::named(&counter.name) {
                self.belongs_here("counter", known.rule(), counter.line, found);
            }
        }
    }

    fn fields_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        for (name, field) in &self.lifecycle.fields {
            let Some(known) = Field::named(name) else { continue };
            let belongs_here = self.belongs_here("field", known.rule(), field.line, found);
            self.fact_is_not_typed(known, field, found);
            if belongs_here && !known.shape().fits(&field.kind) {
                let (wanted, is) = (known.shape().describe(), field.kind.describe());
                let message =
                    format!("the engine expects `{name}` to be `{wanted}`, but it is {is}");
                let help = format!("write `{name}: {wanted}`");
                found.push(Problem::in_line(field.line, message, help));
            }
        }
    }

    /// A fact and a record of the system say what it has seen. Callers give neither, except for
    /// agents, which report facts of their own work.
    fn fact_is_not_typed(&self, known: Field, field: &FieldDecl, found: &mut Vec<Problem>) {
        let named = field.by.roles().iter().chain([&RoleId::HUMAN]).copied();
        let mut forgers = named.filter(|role| !known.is_for(*role));
        let Some(one) = forgers.find(|role| field.may_be_given_by(*role)) else { return };
        let who = if one == RoleId::HUMAN { "no person" } else { "nobody" };
        let message = format!("{}, and {who} gives it", nature(known));
        let help = "leave the role, or `anyone`, out of its `by`";
        found.push(Problem::in_line(field.line, message, help));
    }

    /// A fact is set only by a transition that proves it, and never computed, because the value
    /// could come from what somebody typed.
    fn facts_are_proven(&self, found: &mut Vec<Problem>) {
        let rows = self.lifecycle.transitions.iter();
        let rows = rows.map(|row| (row.line, &row.changes, Some(row)));
        let counters = self.lifecycle.counters.iter();
        let counters = counters.map(|counter| (counter.line, &counter.changes, None));
        for (line, changes, row) in rows.chain(counters) {
            let known = |name: &String| {
                Field::named(name).filter(|known| known.is_fact() || known.is_record())
            };
            let is_proven = |field: &Field| row.is_some_and(|row| self.proves(row, *field));
            let set = changes.set.iter().filter(|(_, value)| !value.is_null());
            let set = set.filter_map(|(name, _)| known(name)).filter(|field| !is_proven(field));
            for field in set.chain(changes.compute.keys().filter_map(known)) {
                let message = format!("{}, and nothing proves it here", nature(field));
                let help = "remove it; the system sets it where it can, or write `set` on a \
                            transition to which only the outcome leads that proves it";
                found.push(Problem::in_line(line, message, help));
            }
        }
    }

    /// Whether a transition happens only where the fact is true: the system alone takes it, after
    /// the outcome or by the trigger that says so.
    fn proves(&self, row: &Transition, fact: Field) -> bool {
        let does = self.lifecycle.state(row.from).does.as_ref();
        let leading = || {
            let all = does.into_iter().flat_map(routes);
            all.filter(|(_, route)| route.and_then(Route::trigger) == Some(&row.trigger))
        };
        let proof = fact.sources().iter().any(|source| match source {
            FieldSource::Outcome(proof) => {
                leading().next().is_some() && leading().all(|(outcome, _)| outcome == *proof)
            }
            FieldSource::Trigger(trigger) => row.trigger == trigger.name(),
            FieldSource::Activity(_)
            | FieldSource::Evidence(_)
            | FieldSource::Report(_)
            | FieldSource::Planner
            | FieldSource::Creator
            | FieldSource::Record => false,
        });
        row.timeout.is_none() && row.is_of_system() && proof
    }

    /// A name with a meaning for another purpose would mislead readers of the lifecycle.
    fn belongs_here<T>(
        &self,
        what: &str,
        rule: &ContractRow<T>,
        line: u32,
        found: &mut Vec<Problem>,
    ) -> bool {
        let belongs_here = rule.purposes.contains(&self.lifecycle.purpose);
        if !belongs_here {
            let others: Vec<&str> = rule.purposes.iter().map(|purpose| purpose.as_str()).collect();
            let message = format!(
                "`{}` is a {what} of the engine in lifecycles of the purpose {}",
                rule.name,
                others.join(", ")
            );
            found.push(Problem::in_line(line, message, "choose another name"));
        }
        belongs_here
    }

    /// An engine trigger must be where the engine fires it, and a transition that only the system
    /// may take is dead unless something fires its trigger.
    fn triggers_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        for row in &self.lifecycle.transitions {
            let known = Trigger::named(&row.trigger);
            if let Some(known) = known.filter(|known| self.claims(*known, row)) {
                self.trigger_fits(known, row, found);
            } else if !self.can_be_taken(row) {
                let from = &self.lifecycle.state(row.from).name;
                let message = format!(
                    "only the system may take `{}` from `{from}`, but nothing fires it there",
                    row.trigger
                );
                let help =
                    "route an outcome of the state to it, add a role to its `by`, or remove it";
                found.push(Problem::in_line(row.line, message, help));
            }
        }
    }

    /// Whether a transition uses a trigger as the engine's. A trigger that callers fire as well is
    /// the lifecycle's own, unless the system may take the transition.
    fn claims(&self, trigger: Trigger, row: &Transition) -> bool {
        match trigger.detail() {
            FiredBy::Engine(_) => true,
            FiredBy::Both(_) => trigger == Trigger::Claim || row.roles.contains(&RoleId::SYSTEM),
            FiredBy::Caller => false,
        }
    }

    fn trigger_fits(&self, trigger: Trigger, row: &Transition, found: &mut Vec<Problem>) {
        let (rule, from) = (trigger.rule(), self.lifecycle.state(row.from));
        let belongs_here = self.belongs_here("trigger", rule, row.line, found);
        let Some(states) = trigger.detail().engine() else { return };
        if !belongs_here || row.timeout.is_some() || self.is_routed(row) {
            return;
        }
        let (is_fired, fits) = (self.lifecycle.is_fired(row), states.fits(from));
        let (message, help) = if !is_fired && !fits {
            let message = format!(
                "the engine fires `{trigger}` only in a state {states}, but `{}` is of kind {}",
                from.name, from.kind
            );
            (message, "let the transition start from such a state, or use another trigger")
        } else if !row.roles.contains(&RoleId::SYSTEM) && trigger != Trigger::Claim {
            let message = format!("only the engine fires `{trigger}`, and it may not take this");
            (message, "add `system` to its `by`, or use another trigger")
        } else if let Some(need) = states.needs.filter(|_| !is_fired) {
            let (need, help) = need.describe();
            (format!("the engine fires `{trigger}` only {need}"), help)
        } else {
            return;
        };
        found.push(Problem::in_line(row.line, message, help));
    }

    /// Whether an outcome of its state leads to the transition.
    fn is_routed(&self, row: &Transition) -> bool {
        let from = self.lifecycle.state(row.from);
        from.does.as_ref().is_some_and(|does| {
            // An activity that could not even be tried ends in `otherwise`, too.
            does.otherwise.as_ref().and_then(Route::trigger) == Some(&row.trigger)
                || routed(does).any(|trigger| trigger == row.trigger)
        })
    }

    /// Whether anything can take the transition, whatever its guards say.
    pub(super) fn can_be_taken(&self, row: &Transition) -> bool {
        row.timeout.is_some()
            || !row.is_of_system()
            || self.is_routed(row)
            || self.lifecycle.is_fired(row)
    }

    /// A field that nothing sets is useless, and so is every guard that reads it. The standard
    /// fields, which stand in no line, are there for all.
    fn fields_can_be_set(&self, found: &mut Vec<Problem>) {
        let unset = |(name, field): &(&String, &FieldDecl)| {
            field.line > 0
                && !field.is_given()
                && !self.is_set_by_rows(name)
                && !self.is_written_by_program(name)
        };
        for (name, field) in self.lifecycle.fields.iter().filter(unset) {
            let (message, help) = if field.by == FieldWriters::Computed {
                (
                    format!("nothing computes the field `{name}`"),
                    "write `compute` on a transition, or remove `computed`",
                )
            } else {
                (
                    format!("nothing can set the field `{name}`{}", self.missing_source(name)),
                    "name the roles that may: `by: [human]`; or set it on a transition, or remove it",
                )
            };
            found.push(Problem::in_line(field.line, message, help));
        }
    }

    /// A constant is not computed, so a field that is `computed` may not be set.
    fn computed_fields_are_not_set(&self, found: &mut Vec<Problem>) {
        let is_computed = |name: &String| {
            let field = self.lifecycle.fields.get(name);
            field.is_some_and(|field| field.by == FieldWriters::Computed)
        };
        for (line, changes) in self.changes() {
            for name in changes.set.keys().filter(|name| is_computed(name)) {
                let message = format!("`{name}` is computed, but this sets it to a fixed value");
                let help = "write `compute` instead of `set`, or remove `computed` from the field";
                found.push(Problem::in_line(line, message, help));
            }
        }
    }

    /// The changes that transitions and counters make to fields, with their lines.
    pub(super) fn changes(&self) -> impl Iterator<Item = (u32, &FieldUpdates)> {
        let rows = self.lifecycle.transitions.iter().map(|row| (row.line, &row.changes));
        let counters = self.lifecycle.counters.iter();
        rows.chain(counters.map(|counter| (counter.line, &counter.changes)))
    }

    pub(super) fn is_set_by_rows(&self, name: &str) -> bool {
        self.changes().any(|(_, changes)| {
            changes.set.get(name).is_some_and(|value| !value.is_null())
                || changes.compute.contains_key(name)
        })
    }

    pub(super) fn is_written_by_program(&self, name: &str) -> bool {
        self.sources(name).iter().any(|source| self.has_source(*source))
    }

    /// How the engine sets a field in lifecycles of this purpose.
    fn sources(&self, name: &str) -> &'static [FieldSource] {
        let known = Field::named(name);
        let known = known.filter(|known| known.rule().purposes.contains(&self.lifecycle.purpose));
        known.map_or(&[], Field::sources)
    }

    fn has_source(&self, source: FieldSource) -> bool {
        let lifecycle = self.lifecycle;
        match source {
            FieldSource::Activity(activity)
            | FieldSource::Evidence(activity)
            | FieldSource::Report(activity) => lifecycle.does(activity),
            FieldSource::Outcome(outcome) => lifecycle.states.iter().any(|state| {
                let mut known = state.does.iter().flat_map(routes);
                known.any(|(known, _)| known == outcome)
            }),
            FieldSource::Planner => lifecycle.states.iter().any(State::plans),
            FieldSource::Trigger(trigger) => lifecycle.transitions.iter().any(|row| {
                let is_taken = row.roles.contains(&RoleId::SYSTEM) && lifecycle.is_fired(row);
                row.trigger == trigger.name() && is_taken
            }),
            FieldSource::Creator => lifecycle.purpose.engine_lifecycle().is_some(),
            FieldSource::Record => true,
        }
    }

    /// What would set a field of the contract, but is missing.
    fn missing_source(&self, name: &str) -> String {
        let missing: Vec<String> =
            self.sources(name).iter().filter_map(|source| source.needs()).collect();
        if missing.is_empty() {
            return String::new();
        }
        format!(": the engine sets it only with {}", missing.join(" or "))
    }

    fn engine_lifecycles_keep_their_purpose(&self, found: &mut Vec<Problem>) {
        let own = |purpose: &Purpose| purpose.engine_lifecycle() == Some(&self.lifecycle.id);
        let Some(wanted) = Purpose::ALL.into_iter().find(own) else {
            let Lifecycle { purpose, line, .. } = self.lifecycle;
            let engines = purpose.engine_lifecycle().map(|id| {
                let message = format!(
                    "the engine creates tasks of the purpose `{purpose}` by the lifecycle `{id}` alone"
                );
                let help = format!("write `lifecycle: {id}` to replace that one, or `purpose: task`");
                Problem::in_line(*line, message, help)
            });
            found.extend(engines);
            return;
        };
        if wanted != self.lifecycle.purpose {
            let message = format!(
                "the purpose `{}` does not fit the id `{}`, of which the engine creates tasks itself",
                self.lifecycle.purpose, self.lifecycle.id
            );
            let help = format!("choose another id, or write `purpose: {wanted}` to replace it");
            found.push(Problem::in_line(self.lifecycle.line, message, &help));
        }
    }
}

/// What a fact or a record is, for a message.
fn nature(field: Field) -> String {
    if field.is_record() {
        return format!("`{field}` is a record that the system keeps");
    }
    format!("`{field}` is a fact: the system writes it from evidence")
}

fn demanded<T>(
    rules: &'static [ContractRow<T>],
    purpose: Purpose,
) -> impl Iterator<Item = &'static ContractRow<T>> {
    rules.iter().filter(move |rule| rule.demanded_by.contains(&purpose))
}
