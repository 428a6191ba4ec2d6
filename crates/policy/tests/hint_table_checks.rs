//! What must hold of bytes that may be a table of hints: for the property tests, and for the fuzz target.
//!
//! Owns: [`hint_table`]. Each check panics if it does not hold.

use lamna_policy::hints::Table;

/// A table's head, before the number of its URLs.
const HEAD: &[u8] = b"LMHT\x01\x00";

/// Bytes behind the head of a table, with the check that belongs to them, are a table or an error. A table is the same
/// when it is kept again, as long as there is room for all of it. The first byte says how much room there is.
pub(crate) fn hint_table(input: &[u8]) {
    let [room, body @ ..] = input else { return };
    let mut bytes = [HEAD, body].concat();
    bytes.extend(fnv_1a(&bytes).to_le_bytes());
    let bytes_max = 1_024 << (room % 10);
    let Ok(table) = Table::from_bytes(&bytes, bytes_max, 1 + usize::from(room >> 6)) else { return };
    assert!(table.memory_bytes() <= bytes_max.max(8_192), "{} of {bytes_max}", table.memory_bytes());
    let kept = table.to_bytes();
    let again = Table::from_bytes(&kept, 1 << 20, 1).expect("it was just made");
    assert!(again.len() <= table.len());
    // With room for all of it, nothing is lost any more.
    assert_eq!(
        Table::from_bytes(&again.to_bytes(), 1 << 20, 1).expect("it was just made").to_bytes(),
        again.to_bytes()
    );
}

/// FNV-1a of 64 bits, as the end of a table has it.
fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
