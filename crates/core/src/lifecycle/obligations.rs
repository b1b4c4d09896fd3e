//! Proofs that a lifecycle and the program keep their contract, both ways: what the purpose demands
//! is there, and what the lifecycle leaves to the system is something that the program does.

use super::contract::{
    ContractRow, CounterName, Field, FiredBy, Purpose, SettingName, Trigger, Writer,
};
use super::expr::Type;
use super::problem::Problem;
use super::prove::{Proof, routes};
use super::{FieldDecl, FieldUpdates, FieldWriters, RoleId, Setting, StateKind, Transition};

impl Proof<'_> {
    pub(super) fn contract_is_kept(&self, found: &mut Vec<Problem>) {
        self.demands_are_met(found);
        self.settings_are_those_of_the_contract(found);
        self.fields_are_those_of_the_contract(found);
        self.system_triggers_are_fired(found);
        self.fields_can_be_set(found);
        self.computed_fields_are_not_set(found);
        self.prose_is_not_compared(found);
        self.engine_lifecycles_keep_their_purpose(found);
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
            let is_fired = rule.item.detail() == FiredBy::Engine;
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
            let declared = lifecycle.settings.get(rule.name).map(Setting::type_name);
            if declared != Some(shape.name) {
                let help = format!("add `{}: {}`", rule.name, shape.example);
                missing("setting", rule.name, rule.about, help);
            }
        }
    }

    fn settings_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        let lifecycle = self.lifecycle;
        for rule in
            SettingName::RULES.iter().filter(|rule| rule.purposes.contains(&lifecycle.purpose))
        {
            let (shape, name) = (rule.item.detail(), rule.name);
            let is_demanded = rule.demanded_by.contains(&lifecycle.purpose);
            let declared = lifecycle.settings.get(name).map(Setting::type_name);
            if let Some(declared) = declared.filter(|is| !is_demanded && *is != shape.name) {
                let wanted = shape.name;
                let message = format!(
                    "the engine expects the setting `{name}` to be a {wanted}, but it is a {declared}"
                );
                let help = format!("write `{name}: {}`", shape.example);
                found.push(Problem::in_line(lifecycle.line, message, help));
            }
        }
    }

    /// A name with a meaning for another purpose would mislead whoever reads the lifecycle.
    fn fields_are_those_of_the_contract(&self, found: &mut Vec<Problem>) {
        for (name, field) in &self.lifecycle.fields {
            let Some(known) = Field::named(name) else { continue };
            if !known.rule().purposes.contains(&self.lifecycle.purpose) {
                let others = listed(known.rule().purposes);
                let message = format!(
                    "`{name}` is a field of the engine in lifecycles of the purpose {others}"
                );
                found.push(Problem::in_line(field.line, message, "choose another name"));
            }
            if !known.shape().fits(&field.kind) {
                let (wanted, is) = (known.shape().describe(), field.kind.describe());
                let message =
                    format!("the engine expects `{name}` to be `{wanted}`, but it is {is}");
                let help = format!("write `{name}: {wanted}`");
                found.push(Problem::in_line(field.line, message, help));
            }
        }
    }

    /// A row that only the system may take is dead unless something fires its trigger.
    fn system_triggers_are_fired(&self, found: &mut Vec<Problem>) {
        for row in self.lifecycle.transitions.iter().filter(|row| !self.can_be_taken(row)) {
            let from = &self.lifecycle.state(row.from).name;
            let message = format!(
                "only the system may take `{}` from `{from}`, but nothing fires it there",
                row.trigger
            );
            let help = "route an outcome of the state to it, add a role to its `by`, or remove it";
            found.push(Problem::in_line(row.line, message, help));
        }
    }

    /// Whether somebody or something can take the row, whatever its guards say.
    pub(super) fn can_be_taken(&self, row: &Transition) -> bool {
        let from = self.lifecycle.state(row.from);
        let routed = || {
            from.does.as_ref().is_some_and(|does| {
                // An activity that could not even be tried ends in `otherwise`, too.
                does.otherwise.as_deref() == Some(&row.trigger)
                    || routes(does).any(|(_, trigger)| trigger == Some(row.trigger.as_str()))
            })
        };
        let fired = || {
            let known = Trigger::named(&row.trigger);
            let known = known.filter(|known| known.detail() == FiredBy::Engine);
            known.is_some_and(|known| known.rule().purposes.contains(&self.lifecycle.purpose))
        };
        let asks_for_budget =
            || from.kind == StateKind::Queued && self.lifecycle.asks_for_budget(&row.trigger);
        row.timeout.is_some()
            || row.roles != [RoleId::SYSTEM]
            || routed()
            || fired()
            || asks_for_budget()
    }

    /// A field that nothing sets is dead, and so is every guard that reads it.
    fn fields_can_be_set(&self, found: &mut Vec<Problem>) {
        let unset = |(name, field): &(&String, &FieldDecl)| {
            let changes = |(_, changes): (u32, &FieldUpdates)| {
                changes.set.contains_key(*name) || changes.compute.contains_key(*name)
            };
            let is_given = match &field.by {
                FieldWriters::Anyone => true,
                FieldWriters::Roles(roles) => !roles.is_empty(),
                FieldWriters::Computed => false,
            };
            !is_given && !self.changes().any(changes) && !self.is_written_by_program(name)
        };
        for (name, field) in self.lifecycle.fields.iter().filter(unset) {
            let (message, help) = if field.by == FieldWriters::Computed {
                (
                    format!("nothing computes the field `{name}`"),
                    "write `compute` on a transition, or remove `computed`",
                )
            } else {
                (
                    format!("nothing can set the field `{name}`"),
                    "name the roles that may: `by: [human]`; or set it on a transition, or remove it",
                )
            };
            found.push(Problem::in_line(field.line, message, help));
        }
    }

    /// A fixed value is not computed: the field would say one thing and hold another.
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

    /// What rows and counters do to the fields, with their lines.
    fn changes(&self) -> impl Iterator<Item = (u32, &FieldUpdates)> {
        let rows = self.lifecycle.transitions.iter().map(|row| (row.line, &row.changes));
        let counters = self.lifecycle.counters.iter();
        rows.chain(counters.map(|counter| (counter.line, &counter.changes)))
    }

    fn is_written_by_program(&self, name: &str) -> bool {
        let known = Field::named(name).filter(|known| known.writer() != Writer::Lifecycle);
        known.is_some_and(|known| known.rule().purposes.contains(&self.lifecycle.purpose))
    }

    /// A condition on the words of a message breaks when somebody improves the message.
    fn prose_is_not_compared(&self, found: &mut Vec<Problem>) {
        let lifecycle = self.lifecycle;
        let of_rows = lifecycle
            .transitions
            .iter()
            .flat_map(|row| row.guards.iter().map(|guard| (row.line, &guard.that)));
        let of_states = lifecycle.states.iter().flat_map(|state| {
            let does = state.does.iter().flat_map(|does| does.until.iter().chain(&does.when));
            let remind = state.remind.iter().filter_map(|remind| remind.when.as_ref());
            let requires = state.requires.iter().map(|requirement| &requirement.that);
            does.chain(remind).chain(requires).map(|expr| (state.line, expr))
        });
        for (line, expr) in of_rows.chain(of_states) {
            for path in expr.fields_compared_with_text() {
                let [name] = path else { continue };
                if lifecycle.fields.get(name).is_some_and(|field| field.kind == Type::Text) {
                    let message = format!(
                        "`{name}` is text for people; a condition on it breaks when the words change"
                    );
                    let help = "declare a field with the cases, such as `cause: [unanswered, failed]`, and compare that";
                    found.push(Problem::in_line(line, message, help));
                }
            }
        }
    }

    fn engine_lifecycles_keep_their_purpose(&self, found: &mut Vec<Problem>) {
        let own = |purpose: &Purpose| purpose.engine_lifecycle() == Some(&self.lifecycle.id);
        let Some(wanted) = Purpose::ALL.into_iter().find(own) else { return };
        if wanted != self.lifecycle.purpose {
            let message = format!(
                "the engine creates tasks of the lifecycle `{}` itself, for the purpose `{wanted}`",
                self.lifecycle.id
            );
            let help = format!("choose another id, or write `purpose: {wanted}` to replace it");
            found.push(Problem::in_line(self.lifecycle.line, message, &help));
        }
    }
}

fn demanded<T>(
    rules: &'static [ContractRow<T>],
    purpose: Purpose,
) -> impl Iterator<Item = &'static ContractRow<T>> {
    rules.iter().filter(move |rule| rule.demanded_by.contains(&purpose))
}

fn listed(purposes: &[Purpose]) -> String {
    purposes.iter().map(|purpose| purpose.as_str()).collect::<Vec<_>>().join(", ")
}
