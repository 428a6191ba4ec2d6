//! The Huffman code of header strings (RFC 7541 5.2 and appendix B).
//!
//! Owns: the code, and the tables that follow from it, made while compiling. Guarantees: decoding takes constant work
//! for each byte; padding other than the beginning of the end-of-string code, longer than 7 bits, is refused, and so is
//! that code itself. Does not read lengths.

use super::HpackError;

/// For each byte, and at last for the end of the string: the code in the lowest bits, and how many they are.
#[rustfmt::skip]
const CODES: [(u32, u8); 257] = [
    (0x1ff8, 13), (0x7fffd8, 23), (0xfffffe2, 28), (0xfffffe3, 28), (0xfffffe4, 28), (0xfffffe5, 28),
    (0xfffffe6, 28), (0xfffffe7, 28), (0xfffffe8, 28), (0xffffea, 24), (0x3ffffffc, 30), (0xfffffe9, 28),
    (0xfffffea, 28), (0x3ffffffd, 30), (0xfffffeb, 28), (0xfffffec, 28), (0xfffffed, 28), (0xfffffee, 28),
    (0xfffffef, 28), (0xffffff0, 28), (0xffffff1, 28), (0xffffff2, 28), (0x3ffffffe, 30), (0xffffff3, 28),
    (0xffffff4, 28), (0xffffff5, 28), (0xffffff6, 28), (0xffffff7, 28), (0xffffff8, 28), (0xffffff9, 28),
    (0xffffffa, 28), (0xffffffb, 28), (0x14, 6), (0x3f8, 10), (0x3f9, 10), (0xffa, 12), (0x1ff9, 13),
    (0x15, 6), (0xf8, 8), (0x7fa, 11), (0x3fa, 10), (0x3fb, 10), (0xf9, 8), (0x7fb, 11), (0xfa, 8),
    (0x16, 6), (0x17, 6), (0x18, 6), (0x0, 5), (0x1, 5), (0x2, 5), (0x19, 6), (0x1a, 6), (0x1b, 6),
    (0x1c, 6), (0x1d, 6), (0x1e, 6), (0x1f, 6), (0x5c, 7), (0xfb, 8), (0x7ffc, 15), (0x20, 6), (0xffb, 12),
    (0x3fc, 10), (0x1ffa, 13), (0x21, 6), (0x5d, 7), (0x5e, 7), (0x5f, 7), (0x60, 7), (0x61, 7), (0x62, 7),
    (0x63, 7), (0x64, 7), (0x65, 7), (0x66, 7), (0x67, 7), (0x68, 7), (0x69, 7), (0x6a, 7), (0x6b, 7),
    (0x6c, 7), (0x6d, 7), (0x6e, 7), (0x6f, 7), (0x70, 7), (0x71, 7), (0x72, 7), (0xfc, 8), (0x73, 7),
    (0xfd, 8), (0x1ffb, 13), (0x7fff0, 19), (0x1ffc, 13), (0x3ffc, 14), (0x22, 6), (0x7ffd, 15), (0x3, 5),
    (0x23, 6), (0x4, 5), (0x24, 6), (0x5, 5), (0x25, 6), (0x26, 6), (0x27, 6), (0x6, 5), (0x74, 7),
    (0x75, 7), (0x28, 6), (0x29, 6), (0x2a, 6), (0x7, 5), (0x2b, 6), (0x76, 7), (0x2c, 6), (0x8, 5),
    (0x9, 5), (0x2d, 6), (0x77, 7), (0x78, 7), (0x79, 7), (0x7a, 7), (0x7b, 7), (0x7ffe, 15), (0x7fc, 11),
    (0x3ffd, 14), (0x1ffd, 13), (0xffffffc, 28), (0xfffe6, 20), (0x3fffd2, 22), (0xfffe7, 20), (0xfffe8, 20),
    (0x3fffd3, 22), (0x3fffd4, 22), (0x3fffd5, 22), (0x7fffd9, 23), (0x3fffd6, 22), (0x7fffda, 23),
    (0x7fffdb, 23), (0x7fffdc, 23), (0x7fffdd, 23), (0x7fffde, 23), (0xffffeb, 24), (0x7fffdf, 23),
    (0xffffec, 24), (0xffffed, 24), (0x3fffd7, 22), (0x7fffe0, 23), (0xffffee, 24), (0x7fffe1, 23),
    (0x7fffe2, 23), (0x7fffe3, 23), (0x7fffe4, 23), (0x1fffdc, 21), (0x3fffd8, 22), (0x7fffe5, 23),
    (0x3fffd9, 22), (0x7fffe6, 23), (0x7fffe7, 23), (0xffffef, 24), (0x3fffda, 22), (0x1fffdd, 21),
    (0xfffe9, 20), (0x3fffdb, 22), (0x3fffdc, 22), (0x7fffe8, 23), (0x7fffe9, 23), (0x1fffde, 21),
    (0x7fffea, 23), (0x3fffdd, 22), (0x3fffde, 22), (0xfffff0, 24), (0x1fffdf, 21), (0x3fffdf, 22),
    (0x7fffeb, 23), (0x7fffec, 23), (0x1fffe0, 21), (0x1fffe1, 21), (0x3fffe0, 22), (0x1fffe2, 21),
    (0x7fffed, 23), (0x3fffe1, 22), (0x7fffee, 23), (0x7fffef, 23), (0xfffea, 20), (0x3fffe2, 22),
    (0x3fffe3, 22), (0x3fffe4, 22), (0x7ffff0, 23), (0x3fffe5, 22), (0x3fffe6, 22), (0x7ffff1, 23),
    (0x3ffffe0, 26), (0x3ffffe1, 26), (0xfffeb, 20), (0x7fff1, 19), (0x3fffe7, 22), (0x7ffff2, 23),
    (0x3fffe8, 22), (0x1ffffec, 25), (0x3ffffe2, 26), (0x3ffffe3, 26), (0x3ffffe4, 26), (0x7ffffde, 27),
    (0x7ffffdf, 27), (0x3ffffe5, 26), (0xfffff1, 24), (0x1ffffed, 25), (0x7fff2, 19), (0x1fffe3, 21),
    (0x3ffffe6, 26), (0x7ffffe0, 27), (0x7ffffe1, 27), (0x3ffffe7, 26), (0x7ffffe2, 27), (0xfffff2, 24),
    (0x1fffe4, 21), (0x1fffe5, 21), (0x3ffffe8, 26), (0x3ffffe9, 26), (0xffffffd, 28), (0x7ffffe3, 27),
    (0x7ffffe4, 27), (0x7ffffe5, 27), (0xfffec, 20), (0xfffff3, 24), (0xfffed, 20), (0x1fffe6, 21),
    (0x3fffe9, 22), (0x1fffe7, 21), (0x1fffe8, 21), (0x7ffff3, 23), (0x3fffea, 22), (0x3fffeb, 22),
    (0x1ffffee, 25), (0x1ffffef, 25), (0xfffff4, 24), (0xfffff5, 24), (0x3ffffea, 26), (0x7ffff4, 23),
    (0x3ffffeb, 26), (0x7ffffe6, 27), (0x3ffffec, 26), (0x3ffffed, 26), (0x7ffffe7, 27), (0x7ffffe8, 27),
    (0x7ffffe9, 27), (0x7ffffea, 27), (0x7ffffeb, 27), (0xffffffe, 28), (0x7ffffec, 27), (0x7ffffed, 27),
    (0x7ffffee, 27), (0x7ffffef, 27), (0x7fffff0, 27), (0x3ffffee, 26), (0x3fffffff, 30),
];

/// The inner nodes of the tree: a full binary tree with 257 leaves.
const NODES: usize = 256;
/// The end of the string.
const END: u16 = 256;

/// The transition by four bits.
#[derive(Clone, Copy)]
struct Step {
    node: u8,
    symbol: u8,
    flags: u8,
}

/// There is a symbol. Codes are 5 bits long or longer, so that four bits complete one at most.
const EMITS: u8 = 1;
/// No string leads here.
const FAILS: u8 = 2;
/// The string may end here: what has been read of the next code is the beginning of the end-of-string code, at most 7
/// bits.
const MAY_END: u8 = 4;

static STEPS: [[Step; 16]; NODES] = steps();

/// The two branches of each node: another node, or a symbol beyond [`LEAF`].
const LEAF: u16 = 0x8000;

const fn tree() -> [[u16; 2]; NODES] {
    let mut nodes = [[0u16; 2]; NODES];
    let mut count = 1;
    let mut symbol = 0;
    while symbol < CODES.len() {
        let (code, bits) = CODES[symbol];
        let mut node = 0;
        let mut bit = bits;
        while bit > 0 {
            bit -= 1;
            let branch = ((code >> bit) & 1) as usize;
            if bit == 0 {
                nodes[node][branch] = LEAF | symbol as u16;
            } else {
                if nodes[node][branch] == 0 {
                    nodes[node][branch] = count;
                    count += 1;
                }
                node = nodes[node][branch] as usize;
            }
        }
        symbol += 1;
    }
    nodes
}

const fn steps() -> [[Step; 16]; NODES] {
    let nodes = tree();
    // The end-of-string code is all ones: its beginnings are the nodes along the branches of ones.
    let mut may_end = [false; NODES];
    let (mut node, mut depth) = (0usize, 0);
    while depth <= 7 {
        may_end[node] = true;
        node = nodes[node][1] as usize;
        depth += 1;
    }
    let mut steps = [[Step { node: 0, symbol: 0, flags: 0 }; 16]; NODES];
    let mut from = 0;
    while from < NODES {
        let mut nibble = 0;
        while nibble < 16 {
            let mut step = Step { node: 0, symbol: 0, flags: 0 };
            let mut node = from;
            let mut bit = 4;
            while bit > 0 {
                bit -= 1;
                let next = nodes[node][(nibble >> bit) & 1];
                if next & LEAF == 0 {
                    node = next as usize;
                } else {
                    if next & !LEAF == END {
                        step.flags |= FAILS;
                    } else {
                        step.flags |= EMITS;
                        step.symbol = next as u8;
                    }
                    node = 0;
                }
            }
            step.node = node as u8;
            if may_end[node] {
                step.flags |= MAY_END;
            }
            steps[from][nibble] = step;
            nibble += 1;
        }
        from += 1;
    }
    steps
}

/// Adds what `coded` stands for to `out`.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let mut node = 0u8;
    let mut may_end = true;
    for &byte in coded {
        for nibble in [byte >> 4, byte & 0xf] {
            let step = STEPS[usize::from(node)][usize::from(nibble)];
            if step.flags & FAILS != 0 {
                return Err(HpackError);
            }
            if step.flags & EMITS != 0 {
                out.push(step.symbol);
            }
            node = step.node;
            may_end = step.flags & MAY_END != 0;
        }
    }
    if may_end { Ok(()) } else { Err(HpackError) }
}

/// Bytes of the coded form of `text`.
pub(super) fn coded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(CODES[usize::from(byte)].1)).sum();
    bits.div_ceil(8)
}

/// Adds the coded form of `text` to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u64, 0u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        held = held << length | u64::from(code);
        bits += u32::from(length);
        while bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    if bits > 0 {
        let padding = 8 - bits;
        out.push((held << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // RFC 7541 C.4 and C.6.
    #[test]
    fn the_examples_of_the_specification_are_coded_as_they_stand_there() {
        let examples: [(&str, &[u8]); 4] = [
            ("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("302", &[0x64, 0x02]),
            ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ];
        for (text, coded) in examples {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(text.as_bytes(), &mut encoded);
            assert_eq!(encoded, coded, "{text}");
            assert_eq!(coded_bytes(text.as_bytes()), coded.len());
            assert_eq!(decode(coded, &mut decoded), Ok(()));
            assert_eq!(decoded, text.as_bytes());
        }
    }

    // RFC 7541 5.2.
    #[test]
    fn padding_is_at_most_seven_ones_and_nothing_else() {
        // "0" is 00000, then three bits of padding.
        assert_eq!(decode(&[0b0000_0111], &mut Vec::new()), Ok(()));
        assert_eq!(decode(&[0b0000_0110], &mut Vec::new()), Err(HpackError));
        assert_eq!(decode(&[0b0000_0111, 0xff], &mut Vec::new()), Err(HpackError));
        assert_eq!(decode(&[0xff], &mut Vec::new()), Err(HpackError));
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff], &mut Vec::new()), Err(HpackError));
        assert_eq!(decode(&[], &mut Vec::new()), Ok(()));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text: Vec<u8>) {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(&text, &mut encoded);
            prop_assert_eq!(encoded.len(), coded_bytes(&text));
            prop_assert_eq!(decode(&encoded, &mut decoded), Ok(()));
            prop_assert_eq!(decoded, text);
        }
    }
}
