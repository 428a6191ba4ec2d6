//! Rules that hold for every row of the table.

use std::path::Path;

use super::*;
use std::collections::BTreeSet;

#[test]
fn what_can_be_ordered_stays_after_an_upgrade() {
    for setting in SETTINGS.iter().filter(|setting| setting.order.is_some()) {
        assert!(!setting.carried_words(&Settings::default()).is_empty(), "{}", setting.name);
    }
}

#[test]
fn names_in_files_orders_and_upgrades_mean_one_setting_each() {
    let orders = SETTINGS.iter().flat_map(|setting| {
        let order = setting.order.iter();
        let mut names: BTreeSet<&str> = order.flat_map(|order| [Some(order.name), order.alias]).flatten().collect();
        names.insert(setting.name);
        names
    });
    let carried = SETTINGS.iter().flat_map(|setting| setting.carried_words(&Settings::default()));
    let carried = carried.map(|(name, _)| name);
    for names in [orders.collect::<Vec<_>>(), carried.collect()] {
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }
}

#[test]
fn every_default_is_a_value() {
    let settings = Settings::default();
    for setting in SETTINGS {
        for value in setting.values(&settings) {
            assert_eq!(setting.parse(&value.to_string()), Ok(value), "{}", setting.name);
        }
    }
}

#[test]
fn numbers_are_kept_up_to_their_bounds() {
    for setting in SETTINGS {
        let (Kind::Number { bounds, .. } | Kind::NumberOrAuto { bounds, .. }) = &setting.kind else { continue };
        for number in [*bounds.start(), *bounds.end()] {
            let (mut settings, value) = (Settings::default(), super::super::Value::Number(number));
            setting.put(&mut settings, &value, Path::new("/")).unwrap();
            assert_eq!(setting.values(&settings), [value], "{}", setting.name);
        }
        assert!(setting.parse(&(bounds.end() + 1).to_string()).is_err(), "{}", setting.name);
    }
}
