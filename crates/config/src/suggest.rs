//! "Did you mean": the known word nearest to an unknown one.
//!
//! Owns: the distance (optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, each of
//! which a slip of the finger makes once) and the threshold up to which a suggestion helps rather than puzzles.

/// The candidate nearest to `word`, if it is near enough: one slip, or one for every three characters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Steps are bounded by the product of the lengths; the words are keys of a configuration file.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    // rows[i][j] is the distance between the first i characters of `left` and the first j of `right`.
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=right.len()).collect();
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            let swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slip_finds_the_word_that_was_meant() {
        let words = ["root", "index", "browse"];
        assert_eq!(nearest("rot", words), Some("root"));
        assert_eq!(nearest("orot", words), Some("root"));
        assert_eq!(nearest("borwse", words), Some("browse"));
    }

    #[test]
    fn a_word_unlike_all_others_finds_nothing() {
        assert_eq!(nearest("certificate", ["root", "index"]), None);
        assert_eq!(nearest("", ["root", "index"]), None);
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_zero_for_equal_words_only(left in ".{0,8}", right in ".{0,8}") {
            prop_assert_eq!(distance(&left, &right), distance(&right, &left));
            prop_assert_eq!(distance(&left, &right) == 0, left == right);
        }
    }
}
