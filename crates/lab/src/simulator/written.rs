//! A parameter set as a file, with a comment behind each value that has one.

use lamna_sim::parameters::Parameters;

/// `parameters` as TOML; `comments` by path (`costs.parse_us`). Times keep four decimals, which is more than they are
/// worth.
pub(super) fn with_comments(parameters: &Parameters, comments: &[(&str, String)]) -> String {
    let plain = toml::to_string(parameters).unwrap_or_else(|_| unreachable!("plain data is TOML"));
    let mut table = String::new();
    let mut text = String::new();
    for line in plain.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        }
        let key = line.split(" = ").next().unwrap_or(line);
        let path = format!("{table}{key}");
        text.push_str(line);
        if let Some((_, comment)) = comments.iter().find(|(own, _)| *own == path) {
            text.push_str(&format!("  # {comment}"));
        }
        text.push('\n');
    }
    text
}
