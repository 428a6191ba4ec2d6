//! Header compression against another implementation, both ways.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn fields() -> impl Strategy<Value = Fields> {
    let known =
        prop::sample::select(vec!["date", "server", "content-length", ":status", "accept", "x-a", "etag", "cookie"]);
    let name =
        prop_oneof![known.prop_map(|name| name.as_bytes().to_vec()), "[a-z-]{1,12}".prop_map(String::into_bytes)];
    let value = prop_oneof![
        prop::sample::select(vec!["200", "gzip, deflate", "", "Lamna"]).prop_map(|value| value.as_bytes().to_vec()),
        "[ -~]{0,80}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..20),
    ];
    vec((name, value), 0..12)
}

fn ours(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Unread> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut Scratch::default(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        true
    })?;
    Ok(fields)
}

fn theirs(decoder: &mut httlib_hpack::Decoder<'_>, block: &[u8]) -> Fields {
    let mut fields = Vec::new();
    decoder.decode(&mut block.to_vec(), &mut fields).expect("what was encoded can be decoded");
    fields.into_iter().map(|(name, value, _)| (name, value)).collect()
}

proptest! {
    #[test]
    fn another_implementation_reads_what_we_write(
        blocks in vec((fields(), vec(any::<bool>(), 12)), 0..6),
        sizes in vec(prop::option::of(0..5_000_usize), 6),
    ) {
        let mut encoder = Encoder::new();
        let (mut decoder, mut own) = (httlib_hpack::Decoder::with_dynamic_size(4096), Decoder::new(4096));
        for ((fields, is_kept), size) in blocks.iter().zip(sizes) {
            if let Some(size) = size {
                encoder.handle_table_size(size);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for ((name, value), is_kept) in fields.iter().zip(is_kept) {
                match is_kept {
                    true => encoder.write(name, value, &mut block),
                    false => write_field(name, value, &mut block),
                }
            }
            prop_assert_eq!(&ours(&mut own, &block).unwrap(), fields);
            prop_assert_eq!(&theirs(&mut decoder, &block), fields);
        }
    }

    #[test]
    fn we_read_what_another_implementation_writes(blocks in vec((fields(), vec(0..8_u8, 12)), 0..6)) {
        let mut encoder = httlib_hpack::Encoder::with_dynamic_size(4096);
        let mut decoder = Decoder::new(4096);
        for (fields, flags) in blocks {
            let mut block = Vec::new();
            for ((name, value), flags) in fields.iter().zip(flags) {
                // Bits of that crate: Huffman-coded name, Huffman-coded value, with a place in the table or best form.
                let form = [0, 0x1, 0x2, 0x3][usize::from(flags % 4)] | if flags & 4 == 0 { 0x4 } else { 0x10 };
                encoder.encode((name.clone(), value.clone(), form), &mut block).unwrap();
            }
            prop_assert_eq!(ours(&mut decoder, &block).unwrap(), fields);
        }
    }

    #[test]
    fn any_bytes_are_a_block_or_an_error(blocks in vec(vec(any::<u8>(), 0..60), 1..5)) {
        let mut decoder = Decoder::new(4096);
        for block in blocks {
            if ours(&mut decoder, &block).is_err() {
                break;
            }
        }
        prop_assert!(decoder.memory_bytes() < 64 * 1024);
    }
}
