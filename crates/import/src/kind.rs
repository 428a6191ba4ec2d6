//! The server that a configuration is of.
//!
//! Owns: [`Kind`], by the name of the file and, where that says nothing, by its lines. Pure.

/// Another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx
    Nginx,
    /// Caddy, by a Caddyfile
    Caddy,
    /// HAProxy
    Haproxy,
    /// Apache
    Apache,
}

impl Kind {
    /// The name that `--from` takes.
    pub fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "nginx" => Kind::Nginx,
            "caddy" => Kind::Caddy,
            "haproxy" => Kind::Haproxy,
            "apache" => Kind::Apache,
            _ => return None,
        })
    }

    /// The server of a file of this name and text; nginx's if nothing speaks for another one.
    pub fn of(name: &str, text: &str) -> Kind {
        let name = name.to_ascii_lowercase();
        if name.contains("caddyfile") {
            return Kind::Caddy;
        }
        if name == ".htaccess" {
            return Kind::Apache;
        }
        let (mut haproxy, mut apache) = (0, 0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (first, last) = (words.next().unwrap_or_default(), line.trim_end().chars().last());
            if first.starts_with('#') || first.is_empty() {
                continue;
            }
            let is_section = matches!(first, "frontend" | "backend" | "listen" | "defaults" | "global" | "userlist");
            if is_section && line.starts_with(first) && !matches!(last, Some('{' | ';')) {
                haproxy += 1;
            }
            let is_plain = !matches!(last, Some('{' | ';' | '}'));
            let of_apache = APACHE.iter().any(|name| name.eq_ignore_ascii_case(first));
            if first.starts_with('<') && line.trim_end().ends_with('>') || of_apache && is_plain {
                apache += 1;
            }
        }
        match (haproxy, apache) {
            (0, 0) => Kind::Nginx,
            (haproxy, apache) if haproxy > apache => Kind::Haproxy,
            _ => Kind::Apache,
        }
    }
}

/// Directives of Apache that no other server has.
const APACHE: [&str; 24] = [
    "RewriteEngine",
    "RewriteRule",
    "RewriteCond",
    "DocumentRoot",
    "ServerName",
    "ServerRoot",
    "Listen",
    "LoadModule",
    "AllowOverride",
    "DirectoryIndex",
    "Redirect",
    "RedirectMatch",
    "ErrorDocument",
    "ProxyPass",
    "AddType",
    "Options",
    "AuthType",
    "AuthUserFile",
    "Require",
    "Header",
    "SetEnvIf",
    "Alias",
    "ScriptAlias",
    "php_value",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_name_or_by_its_lines() {
        for (name, text, expected) in [
            ("Caddyfile.prod", "listen x", Kind::Caddy),
            (".htaccess", "", Kind::Apache),
            ("nginx.conf", "server {\n    listen 80;\n}\n", Kind::Nginx),
            ("a.cfg", "# x\nglobal\n    daemon\nfrontend a\n    bind :80\n", Kind::Haproxy),
            ("a.conf", "<VirtualHost *:80>\n  ServerName a\n</VirtualHost>\n", Kind::Apache),
            ("a.conf", "RewriteEngine On\nRewriteRule ^ index.php\n", Kind::Apache),
            ("a.conf", "", Kind::Nginx),
        ] {
            assert_eq!(Kind::of(name, text), expected, "{name} {text}");
        }
    }
}
