//! Rows of certificates that are ordered: docs/tls.md.

use super::super::row::{Kind, Section, Setting};
use super::super::values::{path, text_of};
use crate::acme::{check_contact, check_directory_url};
use crate::reload::Reload;

pub(super) const DIRECTORY: Setting = Setting::new(
    "acme_directory",
    Kind::Text {
        form: "URL",
        get: |settings| Some(settings.acme.directory.clone()),
        set: |settings, text, _| {
            check_directory_url(text)?;
            text.clone_into(&mut settings.acme.directory);
            Ok(())
        },
    },
    "The certificate authority that sites with `tls = \"auto\"` order their certificates from, by ACME: the URL of its \
     directory",
)
.default("Let's Encrypt")
.more(": [tls.md](tls.md)")
.flag(Section::Certificates)
.reload(Reload::Certificates);

pub(super) const CONTACT: Setting = Setting::new(
    "acme_contact",
    Kind::Text {
        form: "EMAIL",
        get: |settings| settings.acme.contact.clone(),
        set: |settings, text, _| {
            let address = text.strip_prefix("mailto:").unwrap_or(text);
            check_contact(address)?;
            settings.acme.contact = Some(address.to_owned());
            Ok(())
        },
    },
    "An e-mail address that the certificate authority may write to",
)
.flag(Section::Certificates)
.reload(Reload::Certificates);

pub(super) const PROFILE: Setting = Setting::new(
    "acme_profile",
    Kind::Text {
        form: "NAME",
        get: |settings| settings.acme.profile.clone(),
        set: |settings, text, _| {
            if text.is_empty() {
                return Err("is not the name of a profile".to_owned());
            }
            settings.acme.profile = Some(text.to_owned());
            Ok(())
        },
    },
    "One of the profiles that the certificate authority offers, as `\"shortlived\"`",
)
.default("that of the authority")
.reload(Reload::Certificates);

pub(super) const ROOTS: Setting = Setting::new(
    "acme_roots",
    Kind::Text {
        form: "FILE",
        get: |settings| settings.acme.roots.as_deref().map(text_of),
        set: |settings, text, base| {
            settings.acme.roots = Some(path(text, base)?);
            Ok(())
        },
    },
    "Certificates in PEM by which the certificate authority's own server is trusted",
)
.default("those of the system")
.reload(Reload::Certificates)
.empties_cache();
