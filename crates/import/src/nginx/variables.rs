//! Variables of nginx in paths and addresses, as captures.
//!
//! Owns: which are known here. What is not known is an error in words.

use lamna_config::route::template::Template;

use super::Names;

/// Where a redirect leads.
pub(super) fn location_of(to: &str, names: &Names) -> Result<String, String> {
    let text = template(to, names)?;
    let is_location = text.starts_with(['/', '$']) || text.starts_with("http://") || text.starts_with("https://");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let closes_host = Template::parse(&text)?.closes_host();
    match is_location && is_plain && closes_host && !text.starts_with("//") && !text.starts_with("$host") {
        true => Ok(text),
        false => Err("it is neither a path nor an address that can be sent".to_owned()),
    }
}

/// With the variables of nginx as captures. The query follows a redirect by itself.
pub(super) fn template(text: &str, names: &Names) -> Result<String, String> {
    let mut rest = text;
    for end in ["$is_args$args", "?$args", "?$query_string", "$is_args$query_string"] {
        rest = rest.strip_suffix(end).unwrap_or(rest);
    }
    let mut out = String::new();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        // `$1x` is the first group and an x.
        let length = if after.starts_with(|one: char| one.is_ascii_digit()) { 1 } else { length };
        let (name, tail) = braced.unwrap_or((&after[..length], &after[length..]));
        out.push_str(&match name {
            "uri" | "request_uri" | "document_uri" => "$path".to_owned(),
            "host" | "http_host" => "$host".to_owned(),
            "scheme" => if names.has_tls { "https" } else { "http" }.to_owned(),
            "server_name" if !names.hosts.is_empty() => names.hosts[0].clone(),
            "" => return Err("it ends with `$`, or has one that names nothing".into()),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("${{{number}}}"),
            other => return Err(format!("`${other}` is not known here")),
        });
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}
