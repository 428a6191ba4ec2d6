//! That no word of a configuration is dropped without a line.
//!
//! Owns: the rule. A directive about which nothing is said has to make a difference: without it something else comes
//! out, and with another value of each of its arguments as well. What makes none is listed. So the rule holds for
//! whatever an importer takes over and does not use. Pure.

/// A directive or a line, with those within it.
pub(super) trait Tree: Clone {
    /// Where it stands, and what.
    fn place(&self) -> (usize, String);
    /// Its words, without its name.
    fn arguments(&mut self) -> &mut [String];
    /// Those within it.
    fn inner(&mut self) -> Option<&mut Vec<Self>>;
}

/// Words of a configuration, beyond which it is not asked for each what comes out without it.
const WORDS_MAX: usize = 1_200;

/// Lines and words of directives that make no difference in `trees`. `outcome` is the whole result, and `is_said`
/// whether a note about a directive exists.
pub(super) fn indifferent<T: Tree>(
    trees: &[T],
    outcome: &dyn Fn(&[T]) -> Option<String>,
    is_said: &dyn Fn(usize, &str) -> bool,
) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    let mut forest = trees.to_vec();
    let words = gather(&mut forest, &mut Vec::new(), is_said, &mut paths);
    if words > WORDS_MAX {
        let why = "it was not asked for each whether the result is the same without it";
        return vec![(1, format!("this configuration has {words} words, more than {WORDS_MAX}: {why}"))];
    }
    let expected = outcome(trees);
    let changes = |path: &[usize], change: &dyn Fn(&mut Vec<T>, usize)| {
        let mut changed = trees.to_vec();
        let last = path.len() - 1;
        let around =
            path[..last].iter().fold(&mut changed, |around, at| around[*at].inner().expect("it has been gone through"));
        change(around, path[last]);
        outcome(&changed) != expected
    };
    let mut found = Vec::new();
    let mut without: Vec<Vec<usize>> = Vec::new();
    for path in paths {
        if without.iter().any(|outer| path.starts_with(outer)) {
            continue;
        }
        let mut directive = at(&mut forest, &path).clone();
        let (line, text) = directive.place();
        if !changes(&path, &|around, at| _ = around.remove(at)) {
            let all =
                if directive.inner().is_some_and(|inner| !inner.is_empty()) { " and all that it says" } else { "" };
            found.push((line, format!("`{text}`{all}: the result is the same without it")));
            without.push(path);
            continue;
        }
        for (number, argument) in directive.arguments().to_vec().into_iter().enumerate() {
            let is_used = others(&argument)
                .into_iter()
                .any(|other| changes(&path, &|around, at| around[at].arguments()[number].clone_from(&other)));
            if !is_used {
                found.push((line, format!("`{argument}` of `{text}`: the result is the same whatever it is")));
            }
        }
    }
    found
}

fn at<'t, T: Tree>(forest: &'t mut Vec<T>, path: &[usize]) -> &'t mut T {
    let (last, outer) = path.split_last().expect("a path names something");
    let around = outer.iter().fold(forest, |around, at| around[*at].inner().expect("it has been gone through"));
    &mut around[*last]
}

/// The paths to all directives of which nothing is said. Counts words.
fn gather<T: Tree>(
    forest: &mut [T],
    above: &mut Vec<usize>,
    is_said: &dyn Fn(usize, &str) -> bool,
    paths: &mut Vec<Vec<usize>>,
) -> usize {
    let mut words = 0;
    for (at, one) in forest.iter_mut().enumerate() {
        let (line, text) = one.place();
        words += 1 + one.arguments().len();
        if is_said(line, &text) {
            continue;
        }
        above.push(at);
        paths.push(above.clone());
        if let Some(inner) = one.inner() {
            words += gather(inner, above, is_said, paths);
        }
        above.pop();
    }
    words
}

/// Other values in the place of an argument.
fn others(argument: &str) -> Vec<String> {
    let mut others = vec![format!("{argument}x")];
    let start = argument.find(|one: char| one.is_ascii_digit());
    if let Some(start) = start {
        let length = argument[start..].bytes().take_while(u8::is_ascii_digit).count();
        let number = argument[start..start + length].parse::<u64>().ok().and_then(|number| number.checked_add(1));
        others.extend(number.map(|number| format!("{}{number}{}", &argument[..start], &argument[start + length..])));
    }
    match argument {
        "on" => others.push("off".to_owned()),
        "off" => others.push("on".to_owned()),
        _ => {}
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Words(Vec<String>);

    impl Tree for Words {
        fn place(&self) -> (usize, String) {
            (1, self.0.join(" "))
        }

        fn arguments(&mut self) -> &mut [String] {
            &mut self.0[1..]
        }

        fn inner(&mut self) -> Option<&mut Vec<Words>> {
            None
        }
    }

    #[test]
    fn what_is_not_used_is_named() {
        let words = |text: &str| Words(text.split(' ').map(str::to_owned).collect());
        // An importer that takes the first argument of `a`, and nothing else.
        let outcome = |trees: &[Words]| Some(trees.iter().find(|one| one.0[0] == "a")?.0.get(1)?.clone());
        let found = indifferent(&[words("a 1 2"), words("b"), words("c 5")], &outcome, &|_, text| text == "c 5");
        let found: Vec<&str> = found.iter().map(|(_, words)| &**words).collect();
        assert_eq!(
            found,
            ["`2` of `a 1 2`: the result is the same whatever it is", "`b`: the result is the same without it"]
        );
    }
}
