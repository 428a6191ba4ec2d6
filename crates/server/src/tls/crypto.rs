//! The cryptography that TLS is made of, in one place: which provider, which protocol versions, cipher suites and groups.
//!
//! Owns: the choice. `ring` builds in seconds and is the default. With the feature `aws-lc-rs` the provider is AWS-LC, which also
//! offers the post-quantum key exchange X25519MLKEM768, and offers it first. Both have the same interface for what the record
//! layer and the tickets need, so nothing else depends on the choice.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

#[cfg(feature = "aws-lc-rs")]
pub(super) use aws_lc_rs::{aead, digest, hmac, rand};
#[cfg(not(feature = "aws-lc-rs"))]
pub(super) use ring::{aead, digest, hmac, rand};

/// The provider of every handshake of this process.
pub fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = rustls::crypto::ring::default_provider();
    Arc::new(provider)
}

/// What is offered, for whoever asks: protocol versions, cipher suites and groups in order of preference.
pub fn offered() -> Vec<(&'static str, Vec<String>)> {
    let provider = provider();
    let suites = provider.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
    let groups = provider.kx_groups.iter().map(|group| format!("{:?}", group.name())).collect();
    let versions = rustls::ALL_VERSIONS.iter().map(|version| format!("{:?}", version.version)).collect();
    vec![("versions", versions), ("cipher suites", suites), ("groups", groups)]
}

/// The digest of `bytes` (FIPS 180-4).
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    digest
}

/// Fills `bytes` with random ones.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), RandomError> {
    use rand::SecureRandom;
    rand::SystemRandom::new().fill(bytes).map_err(|_| RandomError)
}

/// The kernel has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomError;

impl std::fmt::Display for RandomError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the kernel gives no random bytes")
    }
}

impl std::error::Error for RandomError {}
