//! From text to the shapes of [`File`], past everything that does not fit: unknown keys, wrong types, missing keys.
//!
//! Owns: finding all of these in one reading. The reader of TOML stops at the first one. So the entry that it stops at
//! is taken out of the tree, and the rest is read again, until all that is left fits. Syntax errors end it at once,
//! because nothing is known of what follows them.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::checker::{Finding, Taken};
use super::file::File;
use super::tree::Node;

/// A text, as far as it fits.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// None if the text is not TOML.
    pub file: Option<File>,
    /// The entries that do not fit.
    pub(super) findings: Vec<Finding>,
    /// Where values have been taken out, so that nothing is called missing that is there and wrong.
    pub taken: Vec<Taken>,
}

/// Each one costs another reading of the whole, and no reader wants more.
const FINDINGS_MAX: usize = 100;

/// Reads a text.
pub(crate) fn read(text: &str) -> Shapes {
    let mut shapes = Shapes::default();
    let mut tree = match DeTable::parse(text) {
        Ok(tree) => tree,
        Err(error) => {
            shapes.findings.push(Finding::of_reader(error.message(), error.span()));
            return shapes;
        }
    };
    while shapes.findings.len() < FINDINGS_MAX {
        let misfit = match File::deserialize(Node::Root(tree.get_ref())) {
            Ok(file) => {
                shapes.file = Some(file);
                break;
            }
            Err(misfit) => misfit,
        };
        // Where something was taken out, why it is empty has been told.
        let is_emptied = shapes.taken.iter().any(|taken| Some(&taken.table) == misfit.span.as_ref());
        if !(misfit.is_empty && is_emptied) {
            shapes.findings.push(Finding::of_reader(&misfit.message, misfit.span.clone()));
        }
        let span = tree.span();
        match misfit.span.and_then(|wrong| take(tree.get_mut(), &span, &wrong)) {
            Some(taken) => shapes.taken.push(taken),
            None => break,
        }
    }
    shapes
}

/// Takes what is wrong out of a table with this span: the entry whose key or value has the span `wrong`.
fn take(table: &mut DeTable<'_>, span: &Range<usize>, wrong: &Range<usize>) -> Option<Taken> {
    let found = table.iter().find(|(key, value)| key.span() == *wrong || value.span() == *wrong);
    if let Some(key) = found.map(|(key, _)| key.clone()) {
        table.remove(&key);
        return Some(Taken { key: key.get_ref().to_string(), table: span.clone() });
    }
    table.iter_mut().find_map(|(key, value)| take_within(key.get_ref(), value, wrong))
}

fn take_within(key: &str, value: &mut Spanned<DeValue<'_>>, wrong: &Range<usize>) -> Option<Taken> {
    let span = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take(table, &span, wrong),
        DeValue::Array(array) => match array.iter().position(|element| element.span() == *wrong) {
            Some(at) => {
                let mut rest = DeArray::new();
                let elements = array.iter().enumerate().filter(|(index, _)| *index != at);
                elements.for_each(|(_, element)| rest.push(element.clone()));
                *array = rest;
                Some(Taken { key: key.to_owned(), table: span })
            }
            None => array.iter_mut().find_map(|element| take_within(key, element, wrong)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Given;
    use super::super::setting::SETTINGS;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_fits_is_read_past_what_does_not() {
        let shapes =
            read("pin = 1\nworkers = 2\nrot = 1\nlisten = [80, \"81\"]\n[[site]]\nroot = 5\nhosts = [\"a\"]\n");
        assert_eq!(shapes.findings.len(), 4, "{shapes:?}");
        let file = shapes.file.unwrap();
        let given =
            |name| file.settings.iter().find(|(place, _)| SETTINGS[**place].name == name).map(|(_, given)| given);
        assert!(given("pin").is_none() && given("workers").is_some());
        assert!(matches!(given("listen"), Some(Given::Listeners(list)) if list.len() == 1));
        let site = &file.site[0];
        assert_eq!(site.get_ref().hosts.len(), 1);
        assert!(shapes.taken.iter().any(|taken| taken.is("root", &site.span())), "{:?}", shapes.taken);
    }

    proptest! {
        #[test]
        fn any_file_is_read_to_an_end(text in "([a-z_]{1,8}|[\\[\\]=\"'.#{},0-9-]|\n|site|root|limits|listen|headers|alias){0,40}") {
            let shapes = read(&text);
            prop_assert!(shapes.file.is_some() || !shapes.findings.is_empty());
        }
    }
}
