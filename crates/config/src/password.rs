//! Hashes of passwords: which are taken, what they cost, and whether a password is the one that was hashed.
//!
//! | scheme | as it is written | made by |
//! | --- | --- | --- |
//! | argon2id | `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH` | `lamna hash-password` |
//! | bcrypt | `$2y$10$SALTHASH`, `$2a$`, `$2b$` | `htpasswd -B`, Caddy |
//! | SHA-512 and SHA-256 crypt | `$6$SALT$HASH`, `$5$rounds=N$SALT$HASH` | `htpasswd -5`, `-2`, `mkpasswd`, shadow(5) |
//! | MD5 crypt | `$apr1$SALT$HASH`, `$1$SALT$HASH` | `htpasswd`, `openssl passwd -apr1` |
//! | SHA-1 | `{SHA}BASE64` | `htpasswd -s` |
//!
//! Owns: [`PasswordHash`]. Guarantees: what is taken can be verified in bounded time and memory; a comparison of hashes
//! takes as long for all passwords. Does not say when to verify, and keeps no password.

use lamna_proto::base64;
use md5::{Digest, Md5};

/// Memory that one verification may take, in KiB, and how often it may go over it: the client would wait.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const PASSES_MAX: u32 = 16;
/// Two to this power are the rounds of bcrypt: 15 take some three seconds.
const BCRYPT_COST_MAX: u32 = 15;
/// From this cost on, bcrypt is as strong as what `lamna hash-password` makes.
const BCRYPT_COST_STRONG: u32 = 10;
/// Rounds of SHA-512 crypt: so many take about a second.
const SHA_ROUNDS_MAX: u32 = 1_000_000;
/// Bytes of a password that are hashed by SHA and MD5 crypt, whose rounds each go over the whole password.
const CRYPT_PASSWORD_BYTES_MAX: usize = 256;
/// Rounds of SHA crypt where a hash names none.
const SHA_ROUNDS: u32 = 5_000;

/// A hash of a password that can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordHash {
    scheme: Scheme,
    text: String,
}

/// The functions that hash passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Argon2id,
    Bcrypt,
    Sha512Crypt,
    Sha256Crypt,
    /// With the mark that goes into the hash: that of Apache, or that of crypt(3).
    Md5Crypt(&'static str),
    Sha1,
}

/// The beginnings of the hashes of each scheme.
const SCHEMES: [(&str, Scheme); 9] = [
    ("$argon2id$", Scheme::Argon2id),
    ("$2a$", Scheme::Bcrypt),
    ("$2b$", Scheme::Bcrypt),
    ("$2y$", Scheme::Bcrypt),
    ("$6$", Scheme::Sha512Crypt),
    ("$5$", Scheme::Sha256Crypt),
    (APR1, Scheme::Md5Crypt(APR1)),
    (MD5, Scheme::Md5Crypt(MD5)),
    ("{SHA}", Scheme::Sha1),
];
const APR1: &str = "$apr1$";
const MD5: &str = "$1$";

/// The beginnings of hashes that are not taken.
const UNKNOWN_SCHEMES: [(&str, &str); 8] = [
    ("$argon2i$", "argon2i"),
    ("$argon2d$", "argon2d"),
    ("$y$", "yescrypt"),
    ("$gy$", "yescrypt"),
    ("$7$", "scrypt"),
    ("{SSHA}", "salted SHA-1"),
    ("{PLAIN}", "no function"),
    ("$2x$", "a faulty bcrypt"),
];

impl PasswordHash {
    /// The hash that `text` is.
    ///
    /// # Errors
    /// The fault, as the rest of a sentence. The text is not in it: it may be a password.
    pub fn parse(text: &str) -> Result<PasswordHash, String> {
        let Some((_, scheme)) = SCHEMES.iter().find(|(start, _)| text.starts_with(start)) else {
            return Err(not_taken(text));
        };
        let hash = PasswordHash { scheme: *scheme, text: text.to_owned() };
        match hash.check()? {
            true => Ok(hash),
            false => Err(format!("has a hash of {} that is not whole", hash.scheme.name())),
        }
    }

    /// Whether it is well formed.
    ///
    /// # Errors
    /// It costs too much to verify.
    fn check(&self) -> Result<bool, String> {
        let costs = |most: &str| Err(format!("has a hash that costs too much: at most {most}"));
        match self.scheme {
            Scheme::Argon2id => {
                let Ok(parsed) = argon2::PasswordHash::new(&self.text) else { return Ok(false) };
                let Ok(params) = argon2::Params::try_from(&parsed) else { return Ok(false) };
                if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX || params.p_cost() > 16 {
                    return costs(&format!("m={MEMORY_KIB_MAX}, t={PASSES_MAX} and p=16"));
                }
                Ok(parsed.hash.is_some() && parsed.salt.is_some())
            }
            Scheme::Bcrypt => {
                let Ok(parts) = self.text.parse::<bcrypt::HashParts>() else { return Ok(false) };
                if parts.get_cost() > BCRYPT_COST_MAX {
                    return costs(&format!("a cost of {BCRYPT_COST_MAX} for bcrypt"));
                }
                // One that was cut off has no right password.
                Ok(self.text.len() == 60 && parts.get_cost() >= 4)
            }
            Scheme::Sha512Crypt | Scheme::Sha256Crypt => {
                let Some(parts) = ShaCrypt::parse(&self.text) else { return Ok(false) };
                if parts.rounds > SHA_ROUNDS_MAX {
                    return costs(&format!("{SHA_ROUNDS_MAX} rounds of SHA crypt"));
                }
                let characters = if self.scheme == Scheme::Sha512Crypt { 86 } else { 43 };
                Ok(parts.hash.len() == characters && parts.hash.bytes().all(is_crypt_digit))
            }
            Scheme::Md5Crypt(mark) => Ok(salt_and_hash(&self.text, mark)
                .is_some_and(|(_, hash)| hash.len() == 22 && hash.bytes().all(is_crypt_digit))),
            Scheme::Sha1 => Ok(self.sha1().is_some()),
        }
    }

    /// Whether it is that of `password`. Takes from microseconds to seconds, by its scheme and cost.
    pub fn verify(&self, password: &[u8]) -> bool {
        let is_crypt = matches!(self.scheme, Scheme::Sha512Crypt | Scheme::Sha256Crypt | Scheme::Md5Crypt(_));
        if is_crypt && password.len() > CRYPT_PASSWORD_BYTES_MAX {
            return false;
        }
        match self.scheme {
            Scheme::Argon2id => argon2::PasswordHash::new(&self.text).is_ok_and(|hash| {
                argon2::PasswordVerifier::verify_password(&argon2::Argon2::default(), password, &hash).is_ok()
            }),
            Scheme::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Scheme::Sha512Crypt => ShaCrypt::parse(&self.text).is_some_and(|parts| {
                let params = sha_crypt::Sha512Params::new(parts.rounds as usize).ok();
                let made = params.and_then(|of| sha_crypt::sha512_crypt_b64(password, parts.salt.as_bytes(), &of).ok());
                made.is_some_and(|made| is_same(made.as_bytes(), parts.hash.as_bytes()))
            }),
            Scheme::Sha256Crypt => ShaCrypt::parse(&self.text).is_some_and(|parts| {
                let params = sha_crypt::Sha256Params::new(parts.rounds as usize).ok();
                let made = params.and_then(|of| sha_crypt::sha256_crypt_b64(password, parts.salt.as_bytes(), &of).ok());
                made.is_some_and(|made| is_same(made.as_bytes(), parts.hash.as_bytes()))
            }),
            Scheme::Md5Crypt(mark) => salt_and_hash(&self.text, mark).is_some_and(|(salt, hash)| {
                is_same(md5_crypt(password, salt.as_bytes(), mark.as_bytes()).as_bytes(), hash.as_bytes())
            }),
            Scheme::Sha1 => self.sha1().is_some_and(|hash| {
                let made = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, password);
                is_same(made.as_ref(), &hash)
            }),
        }
    }

    fn bcrypt_cost(&self) -> u32 {
        self.text.parse::<bcrypt::HashParts>().map_or(0, |parts| parts.get_cost())
    }

    /// The digest of a hash of SHA-1.
    fn sha1(&self) -> Option<Vec<u8>> {
        let encoded = self.text.strip_prefix("{SHA}")?;
        base64::decode(encoded.as_bytes()).filter(|digest| digest.len() == 20)
    }

    /// Why passwords with it are found sooner than with argon2id or bcrypt, once somebody has the hash; none if they
    /// are not.
    pub fn weakness(&self) -> Option<String> {
        let why = match self.scheme {
            Scheme::Argon2id => return None,
            Scheme::Bcrypt if self.bcrypt_cost() >= BCRYPT_COST_STRONG => return None,
            Scheme::Bcrypt => "of a cost below 10 is tried thousands of times a second",
            Scheme::Sha512Crypt | Scheme::Sha256Crypt => "needs no memory, so that graphics cards try many at once",
            Scheme::Md5Crypt(_) => "is tried millions of times a second",
            Scheme::Sha1 => "has no salt, and is tried billions of times a second",
        };
        Some(format!("{} {why}", self.scheme.name()))
    }

    /// Whether `text` begins as a hash does, so that it is not meant as a password.
    pub fn is_meant(text: &str) -> bool {
        let starts = SCHEMES.iter().map(|(start, _)| start).chain(UNKNOWN_SCHEMES.iter().map(|(start, _)| start));
        starts.into_iter().any(|start| text.starts_with(start))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Argon2id => "argon2id",
            Scheme::Bcrypt => "bcrypt",
            Scheme::Sha512Crypt => "SHA-512 crypt",
            Scheme::Sha256Crypt => "SHA-256 crypt",
            Scheme::Md5Crypt(APR1) => "apr1 (MD5)",
            Scheme::Md5Crypt(_) => "MD5 crypt",
            Scheme::Sha1 => "SHA-1",
        }
    }
}

/// Why `text` is no hash that is taken.
fn not_taken(text: &str) -> String {
    let is_des = text.len() == 13 && text.bytes().all(is_crypt_digit);
    let known = UNKNOWN_SCHEMES.iter().find(|(start, _)| text.starts_with(start)).map(|(_, name)| *name);
    match known.or(is_des.then_some("DES crypt")) {
        Some(name) => format!("has a hash of {name}, which is not taken: `lamna hash-password` makes a new one"),
        None => "has no hash of a password: `lamna hash-password` prints one, as in $argon2id$v=19$...".to_owned(),
    }
}

/// A hash of SHA crypt, taken apart.
struct ShaCrypt<'t> {
    rounds: u32,
    salt: &'t str,
    hash: &'t str,
}

impl ShaCrypt<'_> {
    /// `$6$[rounds=N$]SALT$HASH`; the salt has at most 16 characters (Drepper, "Unix crypt using SHA-256 and SHA-512").
    fn parse(text: &str) -> Option<ShaCrypt<'_>> {
        let rest = text.get(3..)?;
        let (rounds, rest) = match rest.strip_prefix("rounds=") {
            Some(rest) => {
                let (rounds, rest) = rest.split_once('$')?;
                (rounds.parse().ok().filter(|rounds| *rounds >= 1000)?, rest)
            }
            None => (SHA_ROUNDS, rest),
        };
        let (salt, hash) = rest.split_once('$')?;
        (salt.len() <= 16).then_some(ShaCrypt { rounds, salt, hash })
    }
}

/// `SALT` and `HASH` of MD5 crypt; the salt has at most eight characters.
fn salt_and_hash<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(mark)?.split_once('$').filter(|(salt, _)| salt.len() <= 8)
}

/// The digits of crypt(3), in their order.
const CRYPT_DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn is_crypt_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"./".contains(&byte)
}

/// The hash of MD5 crypt (Kamp, FreeBSD 1994; Apache's with another mark), as it is written.
fn md5_crypt(password: &[u8], salt: &[u8], mark: &[u8]) -> String {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(mark).chain_update(salt);
    for piece in password.chunks(16) {
        first.update(&inner[..piece.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // A zero byte, or the first character: an accident of the first program that every other one has to repeat.
        first.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest = first.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        let (odd, previous) = (round % 2 == 1, digest);
        next.update(if odd { password } else { &previous[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &previous[..] } else { password });
        digest = next.finalize();
    }
    let group = |parts: [usize; 3]| parts.iter().fold(0, |bits, at| bits << 8 | u32::from(digest[*at]));
    let groups = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]].map(group);
    let digits = groups.iter().flat_map(|bits| (0..4).map(move |at| bits >> (6 * at)));
    let last = u32::from(digest[11]);
    digits.chain([last, last >> 6]).map(|digit| char::from(CRYPT_DIGITS[(digit & 63) as usize])).collect()
}

/// Whether both are the same, in a time that says nothing about where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hashes that other programs have made: `htpasswd`, `openssl passwd`, `mkpasswd`, and the examples of
    /// specifications.
    const KNOWN: [(&str, &str); 9] = [
        ("$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "myPassword"),
        ("$1$saltsalt$qjXMvbEw8oaL.CzflDtaK/", "password"),
        ("{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=", "myPassword"),
        (
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            "Hello world!",
        ),
        (
            "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
            "Hello world!",
        ),
        ("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
        ("$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA", "Hello world!"),
        ("$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC", "myPassword"),
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"),
    ];

    #[test]
    fn hashes_of_other_programs_have_their_password_and_no_other() {
        for (text, password) in KNOWN {
            let hash = PasswordHash::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(hash.verify(password.as_bytes()), "{text}");
            for other in ["", "mypassword", "myPassword ", "Hello world"] {
                assert!(!hash.verify(other.as_bytes()), "{text} {other}");
            }
        }
    }

    #[test]
    fn a_password_that_would_cost_more_than_its_hash_says_is_wrong() {
        let password = "x".repeat(1 + CRYPT_PASSWORD_BYTES_MAX);
        let hash = PasswordHash::parse(&format!("$1$saltsalt${}", md5_crypt(password.as_bytes(), b"saltsalt", b"$1$")));
        assert!(!hash.unwrap().verify(password.as_bytes()));
        let hash =
            PasswordHash::parse(&format!("$1$saltsalt${}", md5_crypt(&password.as_bytes()[1..], b"saltsalt", b"$1$")));
        assert!(hash.unwrap().verify(&password.as_bytes()[1..]));
    }

    #[test]
    fn hashes_that_are_tried_fast_are_named_as_weaker() {
        for (text, _) in KNOWN {
            assert!(PasswordHash::parse(text).unwrap().weakness().is_some(), "{text}");
            let strong = text.replace("$05$", "$10$");
            assert_eq!(PasswordHash::parse(&strong).unwrap().weakness().is_none(), text.starts_with("$2"), "{strong}");
        }
    }

    #[test]
    fn a_hash_that_is_cut_off_or_costs_too_much_is_refused() {
        for (text, _) in KNOWN {
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                assert!(PasswordHash::parse(&text[..end]).is_err(), "{text} {end}");
            }
        }
        for (text, word) in [
            ("$2y$16$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC", "costs too much"),
            ("$5$rounds=1000001$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8", "costs too much"),
            ("$y$j9T$abc$def", "yescrypt"),
            ("$argon2i$v=19$m=16,t=2,p=1$c29tZXNhbHQxMjM0$AAAAAAAAAAAAAAAAAAAAAA", "argon2i"),
            ("abJnggxhB/yWI", "DES"),
            ("hunter2", "no hash"),
        ] {
            let why = PasswordHash::parse(text).unwrap_err();
            assert!(why.contains(word) && !why.contains(text), "{text}: {why}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_and_password_are_taken_or_refused(text in "(\\$(1|5|6|2y|apr1|argon2id)\\$|\\{SHA\\})?[ -~é]{0,80}", password: Vec<u8>) {
            if let Ok(hash) = PasswordHash::parse(&text) {
                hash.verify(&password);
            }
        }
    }
}
