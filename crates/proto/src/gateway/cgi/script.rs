//! The names that an application sees for a path (RFC 3875 3.2 and 4.1.5 to 4.1.13).
//!
//! Owns: [`ScriptPaths`]. Does not look for files: the owner of a file system finds which script a path names.

use std::borrow::Cow;

/// The names that an application sees for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPaths<'a> {
    /// `SCRIPT_NAME`: the part of the path that leads to the application. Empty for one that has the whole server.
    pub script_name: Cow<'a, [u8]>,
    /// `PATH_INFO`: the rest. Empty, or begins with a slash.
    pub path_info: &'a [u8],
    /// The directory in which the script is, and below which `PATH_INFO` is translated; without a slash at its end.
    /// None for an application that is not a file.
    pub root: Option<&'a [u8]>,
    /// The path of the script beneath `root`; begins with a slash. It is `script_name` unless paths lead to `root` by a
    /// prefix that is no part of it.
    pub file: &'a [u8],
}

impl<'a> ScriptPaths<'a> {
    /// The paths of the script `file` below `root`, as a search of files has found it. Paths that begin with `prefix`
    /// lead below `root`.
    pub fn of_script(prefix: &[u8], file: &'a [u8], path_info: &'a [u8], root: &'a [u8]) -> ScriptPaths<'a> {
        let without_slash = |path: &'a [u8]| path.strip_suffix(b"/").unwrap_or(path);
        let script_name = match prefix.strip_suffix(b"/").unwrap_or(prefix) {
            b"" => Cow::Borrowed(file),
            prefix => Cow::Owned([prefix, file].concat()),
        };
        ScriptPaths { script_name, path_info, root: Some(without_slash(root)), file }
    }
}

/// The names for an application that has everything below `prefix`, and is no file: `/app` and `/app/` both mean
/// `/app/...`. None if the path is not below it.
pub fn mounted<'a>(prefix: &'a [u8], path: &'a [u8]) -> Option<ScriptPaths<'a>> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let path_info = path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))?;
    Some(ScriptPaths { script_name: Cow::Borrowed(prefix), path_info, root: None, file: b"" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_is_mounted_gets_what_is_below() {
        let names = |prefix: &'static str, path: &'static str| {
            mounted(prefix.as_bytes(), path.as_bytes()).map(|paths| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(&paths.script_name), text(paths.path_info))
            })
        };
        let pair = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        assert_eq!(names("/app", "/app/x"), pair("/app", "/x"));
        assert_eq!(names("/app/", "/app"), pair("/app", ""));
        assert_eq!(names("/", "/x"), pair("", "/x"));
        assert_eq!(names("/app", "/apple"), None);
    }
}
