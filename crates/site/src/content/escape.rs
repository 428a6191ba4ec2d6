//! Escaping of foreign text for the places where generated content puts it.
//!
//! Owns: text into HTML, text into one line. Guarantees that no input can end the element, attribute,
//! path segment or line it is put into. Does not judge where a URL leads.

/// Appends text so that it stands for itself in HTML element content and in quoted attribute values. Control
/// characters, which HTML cannot express, become U+FFFD, as do those that would turn round the direction of the text
/// after them: they can make `exe.txt` of a name that ends in `.exe`.
pub(in crate::content) fn push_html(html: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                html.push(char::REPLACEMENT_CHARACTER);
            }
            control if control.is_control() => html.push(char::REPLACEMENT_CHARACTER),
            other => html.push(other),
        }
    }
}

/// Appends text with control characters, line ends among them, replaced by spaces.
pub(in crate::content) fn push_one_line(line: &mut String, text: &str) {
    line.extend(text.chars().map(|character| if character.is_control() { ' ' } else { character }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn html(text: &str) -> String {
        let mut html = String::new();
        push_html(&mut html, text);
        html
    }

    #[test]
    fn html_syntax_loses_its_meaning() {
        assert_eq!(html("<a b=\"c\" d='e'>&amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
        assert_eq!(html("a\0\u{1b}[2J\n"), "a\u{fffd}\u{fffd}[2J\u{fffd}");
        assert_eq!(html("a\u{202e}txt.exe"), "a\u{fffd}txt.exe");
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(text in any::<String>()) {
            let escaped = html(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let mut line = String::new();
            push_one_line(&mut line, &text);
            prop_assert!(!line.contains(char::is_control));
        }
    }
}
