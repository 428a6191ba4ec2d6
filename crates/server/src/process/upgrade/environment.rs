//! The values passed to a new process, as the text of an environment variable.
//!
//! Owns: the syntax, both ways: `KEY=VALUE`, separated by spaces, in any order. Guarantees: any text is a will or none;
//! unknown keys are passed over, so that a later version may add some. Owns no descriptor.

use std::fmt;
use std::os::fd::RawFd;

use super::choice::Choice;

/// The values passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpgradeEnvironment {
    /// The process that passes it.
    pub(crate) parent: i32,
    /// The origin of its clock.
    pub(crate) clock_ms: u64,
    /// The socket from which connections come.
    pub(crate) handover: RawFd,
    /// Where the other process confirms, and passes orders on.
    pub(crate) predecessor: Option<RawFd>,
    /// The line to the first process of a container.
    pub(crate) keeper: Option<RawFd>,
    /// Memory that holds the keys of TLS tickets.
    pub(crate) tickets: Option<RawFd>,
    /// Memory that holds the orders of the operator that stay in force.
    pub(crate) operator: Option<RawFd>,
    /// Those of the listening sockets that are a service manager's as well.
    pub(crate) lent: Vec<RawFd>,
    /// Listening sockets.
    pub(crate) listeners: Vec<Passed>,
    /// The control sockets.
    pub(crate) admin: Vec<Passed>,
    /// How to serve.
    pub(crate) choice: Choice,
}

/// A listening socket: its number, followed by `+` if a file goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) number: RawFd,
    pub(crate) has_file: bool,
}

impl UpgradeEnvironment {
    /// Reads the text; none if it does not say all that is needed.
    pub(crate) fn parse(text: &str) -> Option<UpgradeEnvironment> {
        let mut environment = UpgradeEnvironment::default();
        let (mut parent, mut clock_ms, mut handover) = (None, None, None);
        for word in text.split_ascii_whitespace() {
            let (key, value) = word.split_once('=')?;
            match key {
                "parent" => parent = Some(value.parse().ok()?),
                "clock" => clock_ms = Some(value.parse().ok()?),
                "handover" => handover = Some(value.parse().ok()?),
                "orders" => environment.predecessor = Some(value.parse().ok()?),
                "keeper" => environment.keeper = Some(value.parse().ok()?),
                "tickets" => environment.tickets = Some(value.parse().ok()?),
                "operator" => environment.operator = Some(value.parse().ok()?),
                "lent" => environment.lent.push(value.parse().ok()?),
                "listen" => environment.listeners.push(Passed::parse(value)?),
                "admin" => environment.admin.push(Passed::parse(value)?),
                key => environment.choice.take(key, value)?,
            }
        }
        Some(UpgradeEnvironment { parent: parent?, clock_ms: clock_ms?, handover: handover?, ..environment })
    }
}

impl fmt::Display for UpgradeEnvironment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "parent={} clock={} handover={}", self.parent, self.clock_ms, self.handover)?;
        let named = [
            ("orders", &self.predecessor),
            ("keeper", &self.keeper),
            ("tickets", &self.tickets),
            ("operator", &self.operator),
        ];
        let named = named.into_iter().flat_map(|(key, number)| number.iter().map(move |number| (key, number)));
        for (key, number) in named.chain(self.lent.iter().map(|number| ("lent", number))) {
            write!(formatter, " {key}={number}")?;
        }
        for listener in &self.listeners {
            write!(formatter, " listen={listener}")?;
        }
        for admin in &self.admin {
            write!(formatter, " admin={admin}")?;
        }
        write!(formatter, "{}", self.choice)
    }
}

impl Passed {
    fn parse(text: &str) -> Option<Passed> {
        let number = text.strip_suffix('+').unwrap_or(text);
        Some(Passed { number: number.parse().ok()?, has_file: text.ends_with('+') })
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.number, if self.has_file { "+" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::settings::{Architecture, Settings};
    use proptest::prelude::*;

    fn passed() -> impl Strategy<Value = Passed> {
        (any::<RawFd>(), any::<bool>()).prop_map(|(number, has_file)| Passed { number, has_file })
    }

    proptest! {
        #[test]
        fn a_will_is_read_as_it_was_written(
            parent in any::<i32>(), clock_ms in any::<u64>(), handover in any::<RawFd>(),
            listeners in prop::collection::vec(passed(), 0..4), admin in prop::collection::vec(passed(), 0..3),
            (predecessor, keeper, tickets, operator) in any::<[Option<RawFd>; 4]>().prop_map(<(_, _, _, _)>::from),
            lent in prop::collection::vec(any::<RawFd>(), 0..3),
            engine in 0..Architecture::ALL.len(), workers in 1..9_usize,
        ) {
            let wanted = Settings { architecture: Architecture::ALL[engine], workers, ..Settings::default() };
            let choice = Choice::between(&Settings::default(), &wanted);
            let environment = UpgradeEnvironment {
                parent, clock_ms, handover, predecessor, keeper, tickets, operator, lent, listeners, admin, choice
            };
            prop_assert_eq!(UpgradeEnvironment::parse(&environment.to_string()), Some(environment));
        }

        #[test]
        fn any_text_is_a_will_or_none(text in "((parent|clock|handover|orders|keeper|tickets|operator|lent|listen|admin|arch|workers|x)?=?-?[0-9a-z+]{0,20} ?){0,6}") {
            let environment = UpgradeEnvironment::parse(&text);
            prop_assert!(environment.is_none() || UpgradeEnvironment::parse(&environment.clone().unwrap().to_string()) == environment);
        }
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let environment = UpgradeEnvironment::parse("parent=1 clock=2 handover=3 later=x");
        assert_eq!(
            environment,
            Some(UpgradeEnvironment { parent: 1, clock_ms: 2, handover: 3, ..UpgradeEnvironment::default() })
        );
    }
}
