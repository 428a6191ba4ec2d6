//! Facts about a gateway that others ask for, beside its steps.
//!
//! Owns: its words in explanations and traces, and which fields tell its application of the client.

use super::{Gateway, Purpose, Restored};

impl Gateway {
    /// With what becomes of the application's own addresses in its answer.
    pub(in crate::gateway) fn with_restored(mut self: Box<Gateway>, restored: Option<Box<Restored>>) -> Box<Gateway> {
        self.restored = restored;
        self
    }

    /// Whether its application is told something of the client in this field, whatever the request has there.
    pub(in crate::gateway) fn tells_of_client(&self, field: &[u8]) -> bool {
        self.rules.request_fields.tell_of_client(field)
    }

    /// The application that is asked, and the fields of the request about which routes say something.
    pub(super) fn in_words(&self) -> String {
        let is_sent = self.purpose == Purpose::Answer;
        let names: Vec<&str> = self.rules.request_fields.names().filter(|_| is_sent).collect();
        let fields =
            if names.is_empty() { String::new() } else { format!(", with fields of routes: {}", names.join(", ")) };
        self.group.in_words() + &fields
    }
}
