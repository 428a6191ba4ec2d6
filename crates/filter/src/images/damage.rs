//! Mends the data of a damaged JPEG, so that a decoder that stops at the first bad place shows all that libjpeg
//! shows.
//!
//! Owns: [`mended`], and whether restart markers tell of damage ([`lacks_restart_markers`]). The data of a
//! sequential JPEG with Huffman codes and one scan (T.81 4.11) is read code by code, and written again. What
//! libjpeg does with what is wrong is written in its place: a code that there is not is an end of block, or no
//! difference; what is missing up to the next restart marker is grey; a restart marker that is not the next one is
//! passed over, or stands for those before it. Guarantees: any bytes are survived; work and memory are bounded by
//! the data and the blocks of the picture. Does not decode, and leaves other kinds of JPEG as they are: a
//! progressive one that is cut off is shown by what has come.

use std::collections::HashMap;

/// The bytes of the JPEG with data that can be decoded to its end. None if it is of another kind, of more than
/// `pixels_max` pixels, or has no data.
pub(super) fn mended(bytes: &[u8], pixels_max: u64) -> Option<Vec<u8>> {
    let mut segments = vec![0xff, SOI];
    let (head, data) = Head::parse(bytes, &mut segments)?;
    if head.width as u64 * head.height as u64 > pixels_max {
        return None;
    }
    let output = Output { bytes: segments, bits: 0, count: 0 };
    let mut mending = Mending { head: &head, input: Input::new(data), output };
    mending.scan()?;
    mending.output.align();
    let mut mended = mending.output.bytes;
    mended.extend([0xff, EOI]);
    Some(mended)
}

/// Whether restart markers are missing, or are where none can be: the decoder does not take offence at that. False for
/// a JPEG of a kind that is not mended.
pub(super) fn lacks_restart_markers(bytes: &[u8]) -> bool {
    let Some((head, mut data)) = Head::parse(bytes, &mut Vec::new()) else { return false };
    let expected = (head.mcus() - 1).checked_div(head.restart_interval).unwrap_or(0);
    let mut found = 0;
    while let Some(at) = memchr::memchr(0xff, data) {
        let Some(marker) = data.get(at + 1).copied() else { break };
        match marker {
            0 | 0xff => {}
            marker if marker & 0xf8 != RST => break,
            marker if usize::from(marker - RST) == found % 8 => found += 1,
            _ => return true,
        }
        data = &data[at + 1..];
    }
    found != expected
}

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const APP14: u8 = 0xee;
/// `Adobe`, a version, flags and the transformation of colours.
const APP14_BYTES: usize = 12;
/// Restart markers are eight, from this one on.
const RST: u8 = 0xd0;
/// Codes have so many bits at most.
const CODE_BITS_MAX: u8 = 16;

/// The words of the segments before the data.
struct Head {
    width: usize,
    height: usize,
    components: Vec<Component>,
    tables: HashMap<u8, Table>,
    /// MCUs between restart markers; 0 for none.
    restart_interval: usize,
}

struct Component {
    id: u8,
    /// Blocks of an MCU, across and down.
    blocks: (usize, usize),
    /// Its tables for DC and AC.
    tables: (u8, u8),
}

/// Huffman codes (T.81 annex C), by their length and value, and by the symbols that they stand for.
struct Table {
    /// The first code of each length, how many there are, and the place of the first one's symbol.
    lengths: [(u32, u32, usize); CODE_BITS_MAX as usize],
    symbols: Vec<u8>,
    /// The length and the code of each symbol that has one.
    codes: [Option<(u8, u16)>; 256],
}

/// Marks tables of AC coefficients among all.
const OF_AC: u8 = 0x10;

impl Table {
    /// The table in a segment, whose `counts` are those of codes of each length.
    fn new(counts: &[u8], symbols: &[u8]) -> Table {
        let mut table = Table { lengths: [(0, 0, 0); 16], symbols: symbols.to_vec(), codes: [None; 256] };
        let (mut code, mut place) = (0_u32, 0);
        for (length, count) in (1..=CODE_BITS_MAX).zip(counts) {
            table.lengths[usize::from(length) - 1] = (code, u32::from(*count), place);
            for symbol in symbols.iter().skip(place).take(usize::from(*count)) {
                table.codes[usize::from(*symbol)].get_or_insert((length, code as u16));
                code += 1;
            }
            place += usize::from(*count);
            code <<= 1;
        }
        table
    }

    /// The symbol of a code.
    fn symbol(&self, length: u8, code: u32) -> Option<u8> {
        let (first, count, place) = self.lengths[usize::from(length) - 1];
        let at = code.checked_sub(first).filter(|at| *at < count)?;
        self.symbols.get(place + at as usize).copied()
    }
}

impl Head {
    /// Takes the segments, and gives the data behind them. Those that are well-formed are written behind `kept`.
    fn parse<'b>(bytes: &'b [u8], kept: &mut Vec<u8>) -> Option<(Head, &'b [u8])> {
        let (mut rest, mut tables, mut restart_interval) = (bytes.strip_prefix(&[0xff, SOI])?, HashMap::new(), 0);
        let mut frame = None;
        loop {
            rest = &rest[memchr::memchr(0xff, rest)?..];
            let [0xff, marker, ..] = *rest else { return None };
            if matches!(marker, 0 | 1 | 0xff | 0xd0..=0xd9) {
                rest = &rest[1..];
                continue;
            }
            let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
            let segment = rest.get(4..2 + length)?;
            // One of Adobe says how colours are to be understood, if it is whole.
            if marker != APP14 || segment.len() >= APP14_BYTES {
                kept.extend_from_slice(&rest[..2 + length]);
            }
            rest = &rest[2 + length..];
            match marker {
                0xc0 | 0xc1 => frame = Some(frame_of(segment)?),
                // Other kinds.
                0xc2..=0xcf if !matches!(marker, 0xc4 | 0xcc | 0xc8) => return None,
                0xc4 => take_tables(segment, &mut tables)?,
                0xdd => restart_interval = usize::from(u16::from_be_bytes([*segment.first()?, *segment.get(1)?])),
                0xda => {
                    let ((width, height), mut components) = frame?;
                    let own = segment.get(1..)?.chunks_exact(2).take(components.len());
                    if usize::from(*segment.first()?) != components.len() {
                        return None;
                    }
                    for (component, [id, of]) in components.iter_mut().zip(own.map(|pair| [pair[0], pair[1]])) {
                        if component.id != id {
                            return None;
                        }
                        component.tables = (of >> 4, OF_AC | of & 0xf);
                    }
                    return Some((Head { width, height, components, tables, restart_interval }, rest));
                }
                _ => {}
            }
        }
    }

    /// The MCUs of the picture.
    fn mcus(&self) -> usize {
        let most = |of: fn(&Component) -> usize| self.components.iter().map(of).max().unwrap_or(1);
        // Of one component alone each block is an MCU (T.81 A.2.2).
        let (across, down) = match self.components.len() {
            1 => (1, 1),
            _ => (most(|one| one.blocks.0), most(|one| one.blocks.1)),
        };
        self.width.div_ceil(8 * across) * self.height.div_ceil(8 * down)
    }
}

type Frame = ((usize, usize), Vec<Component>);

fn frame_of(segment: &[u8]) -> Option<Frame> {
    let side = |at: usize| Some(usize::from(u16::from_be_bytes([*segment.get(at)?, *segment.get(at + 1)?])));
    let (height, width, count) = (side(1)?, side(3)?, usize::from(*segment.get(5)?));
    let each = segment.get(6..)?.chunks_exact(3).take(count);
    let components: Vec<_> = each
        .map(|one| {
            let blocks = (usize::from(one[1] >> 4), usize::from(one[1] & 0xf));
            Component { id: one[0], blocks, tables: (0, OF_AC) }
        })
        .collect();
    let is_usual = |one: &Component| (1..=4).contains(&one.blocks.0) && (1..=4).contains(&one.blocks.1);
    let is_whole = components.len() == count && (1..=4).contains(&count) && components.iter().all(is_usual);
    (is_whole && width > 0 && height > 0).then_some(((width, height), components))
}

fn take_tables(mut segment: &[u8], tables: &mut HashMap<u8, Table>) -> Option<()> {
    while let Some((name, rest)) = segment.split_first() {
        let counts = rest.get(..16)?;
        let count: usize = counts.iter().map(|count| usize::from(*count)).sum();
        let symbols = rest.get(16..16 + count)?;
        tables.insert(*name, Table::new(counts, symbols));
        segment = &rest[16 + count..];
    }
    Some(())
}

/// The data, bit by bit.
struct Input<'d> {
    data: &'d [u8],
    at: usize,
    bits: u32,
    count: u8,
    /// Bits were asked for behind the last one before a marker or the end.
    is_exhausted: bool,
}

impl<'d> Input<'d> {
    fn new(data: &'d [u8]) -> Input<'d> {
        Input { data, at: 0, bits: 0, count: 0, is_exhausted: false }
    }

    /// The next bit; 0 where there is none.
    fn bit(&mut self) -> u16 {
        if self.count == 0 {
            let byte = match self.data[self.at..] {
                [0xff, 0, ..] => {
                    self.at += 2;
                    0xff
                }
                [] | [0xff, ..] => {
                    self.is_exhausted = true;
                    return 0;
                }
                [byte, ..] => {
                    self.at += 1;
                    byte
                }
            };
            (self.bits, self.count) = (u32::from(byte), 8);
        }
        self.count -= 1;
        (self.bits >> self.count & 1) as u16
    }

    fn several(&mut self, count: u8) -> u16 {
        (0..count).fold(0, |value, _| value << 1 | self.bit())
    }

    /// The symbol whose code comes next. One that there is not is none, and its bits are passed over, as libjpeg does.
    fn symbol(&mut self, table: &Table) -> Option<u8> {
        let mut code = 0;
        for length in 1..=CODE_BITS_MAX {
            code = code << 1 | u32::from(self.bit());
            if let Some(symbol) = table.symbol(length, code) {
                return Some(symbol);
            }
        }
        self.bit();
        None
    }

    /// Goes behind the restart marker of this number. Where another one comes, what was lost is guessed as libjpeg does
    /// (`jpeg_resync_to_restart`): it may be all up to the next one.
    fn restart(&mut self, number: u8) {
        (self.count, self.is_exhausted) = (0, true);
        while let Some(found) = memchr::memchr(0xff, &self.data[self.at..]) {
            self.at += found;
            let Some(marker) = self.data.get(self.at + 1).copied() else { return };
            let behind = marker.wrapping_sub(RST + number) & 7;
            match marker {
                0xff => self.at += 1,
                // No marker that can be.
                0..0xc0 => self.at += 2,
                marker if marker & 0xf8 != RST => return,
                // One of the next two: this interval is lost.
                _ if matches!(behind, 1 | 2) => return,
                // One of the last two.
                _ if matches!(behind, 6 | 7) => self.at += 2,
                _ => {
                    self.at += 2;
                    self.is_exhausted = false;
                    return;
                }
            }
        }
        self.at = self.data.len();
    }
}

/// The data that is written.
struct Output {
    bytes: Vec<u8>,
    bits: u32,
    count: u8,
}

impl Output {
    fn push(&mut self, value: u16, count: u8) {
        for at in (0..count).rev() {
            self.bits = self.bits << 1 | u32::from(value >> at & 1);
            self.count += 1;
            if self.count == 8 {
                let byte = self.bits as u8;
                self.bytes.push(byte);
                self.bytes.extend((byte == 0xff).then_some(0));
                (self.bits, self.count) = (0, 0);
            }
        }
    }

    /// Writes a symbol. None if the table has no code for it.
    fn symbol(&mut self, table: &Table, symbol: u8) -> Option<()> {
        let (length, code) = table.codes[usize::from(symbol)]?;
        self.push(code, length);
        Some(())
    }

    /// Fills the last byte with ones (T.81 F.1.2.3).
    fn align(&mut self) {
        if self.count > 0 {
            self.push(0xff, 8 - self.count);
        }
    }
}

struct Mending<'h, 'd> {
    head: &'h Head,
    input: Input<'d>,
    output: Output,
}

impl Mending<'_, '_> {
    /// Writes all MCUs. None if a table has no code for what is to be written.
    fn scan(&mut self) -> Option<()> {
        let head = self.head;
        let mut predicted = vec![0_i32; head.components.len()];
        let coders = head.components.iter().map(|one| {
            let blocks = if head.components.len() == 1 { 1 } else { one.blocks.0 * one.blocks.1 };
            Some((blocks, head.tables.get(&one.tables.0)?, head.tables.get(&one.tables.1)?))
        });
        let coders: Vec<_> = coders.collect::<Option<_>>()?;
        for mcu in 0..head.mcus() {
            if head.restart_interval > 0 && mcu > 0 && mcu % head.restart_interval == 0 {
                let number = ((mcu / head.restart_interval - 1) % 8) as u8;
                self.input.restart(number);
                self.output.align();
                self.output.bytes.extend([0xff, RST + number]);
                predicted.fill(0);
            }
            for ((blocks, dc, ac), predicted) in coders.iter().zip(&mut predicted) {
                for _ in 0..*blocks {
                    match self.input.is_exhausted {
                        true => self.grey_block(dc, ac, predicted)?,
                        false => self.block(dc, ac, predicted)?,
                    }
                }
            }
        }
        Some(())
    }

    /// Copies a block.
    fn block(&mut self, dc: &Table, ac: &Table, predicted: &mut i32) -> Option<()> {
        let size = self.input.symbol(dc).filter(|size| *size <= DC_SIZE_MAX).unwrap_or(0);
        self.output.symbol(dc, size)?;
        let bits = self.input.several(size);
        self.output.push(bits, size);
        *predicted = predicted.saturating_add(difference(bits, size));
        let mut at = 1;
        while at < 64 {
            let symbol = self.input.symbol(ac).unwrap_or(0);
            let (run, size) = (symbol >> 4, symbol & 0xf);
            let bits = self.input.several(size);
            let is_end = size == 0 && run != 15;
            at += usize::from(run) + 1;
            // What would be behind the last coefficient is none.
            if is_end || at > 64 {
                return self.output.symbol(ac, 0);
            }
            self.output.symbol(ac, symbol)?;
            self.output.push(bits, size);
        }
        Some(())
    }

    /// Writes a block whose data is missing, as near to grey as the codes of the picture permit.
    fn grey_block(&mut self, dc: &Table, ac: &Table, predicted: &mut i32) -> Option<()> {
        let size = (32 - predicted.unsigned_abs().leading_zeros()) as u8;
        let is_coded = size <= DC_SIZE_MAX && dc.codes[usize::from(size)].is_some();
        let size = if is_coded { size } else { 0 };
        self.output.symbol(dc, size)?;
        if size > 0 {
            // As one's complement (T.81 F.1.2.1).
            let bits = if *predicted > 0 { !(*predicted as u16) } else { predicted.unsigned_abs() as u16 };
            self.output.push(bits, size);
            *predicted = 0;
        }
        self.output.symbol(ac, 0)
    }
}

/// The most bits of a difference between blocks of 8 bits a sample (T.81 table F.1).
const DC_SIZE_MAX: u8 = 11;

/// The difference that so many bits stand for (T.81 F.2.2.1).
fn difference(bits: u16, size: u8) -> i32 {
    let value = i32::from(bits);
    match size {
        0 => 0,
        size if value < 1 << (size - 1) => value - (1 << size) + 1,
        _ => value,
    }
}
