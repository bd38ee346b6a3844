//! Maps of counts as Python's `pickle` reads them: protocol 2, which all versions of Python 3 load.

use std::collections::BTreeMap;

const PROTOCOL: [u8; 2] = [0x80, 2];
const EMPTY_MAP: u8 = b'}';
const MARK: u8 = b'(';
const SET_ONE: u8 = b's';
const SET_ALL: u8 = b'u';
const TEXT: u8 = b'X';
const INT_8: u8 = b'K';
const INT_16: u8 = b'M';
const INT_32: u8 = b'J';
const LONG: u8 = 0x8a;
const STOP: u8 = b'.';

/// Returns a map of names to maps of numbers.
pub(crate) fn of_maps(maps: &[(String, BTreeMap<u64, u64>)]) -> Vec<u8> {
    let mut out = PROTOCOL.to_vec();
    map(&mut out, maps.iter(), |out, (name, counts)| {
        text(out, name);
        map(out, counts.iter(), |out, (key, count)| {
            int(out, *key);
            int(out, *count);
        });
    });
    out.push(STOP);
    out
}

/// A map, each item of which `item` writes: its key, then its value.
fn map<T>(
    out: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = T>,
    mut item: impl FnMut(&mut Vec<u8>, T),
) {
    let set = match items.len() {
        0 => None,
        1 => Some(SET_ONE),
        _ => Some(SET_ALL),
    };
    out.push(EMPTY_MAP);
    if set == Some(SET_ALL) {
        out.push(MARK);
    }
    items.for_each(|one| item(out, one));
    out.extend(set);
}

fn text(out: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.push(TEXT);
    out.extend(length.to_le_bytes());
    out.extend(
        text.bytes()
            .take(blkio_companions::num::index(length.into())),
    );
}

fn int(out: &mut Vec<u8>, value: u64) {
    if let Ok(value) = u8::try_from(value) {
        out.extend([INT_8, value]);
    } else if let Ok(value) = u16::try_from(value) {
        out.push(INT_16);
        out.extend(value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(INT_32);
        out.extend(value.to_le_bytes());
    } else {
        // In as few bytes as keep the sign.
        let length = (64 - value.leading_zeros()) / 8 + 1;
        out.push(LONG);
        let mut bytes = u128::from(value).to_le_bytes().into_iter();
        let length = u8::try_from(length).unwrap_or(9);
        out.push(length);
        out.extend(bytes.by_ref().take(length.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_pythons_own() {
        let maps = [
            (
                "RA",
                vec![(1, 255), (2, 256), (300, 65_535), (65536, 2_147_483_647)],
            ),
            (
                "W",
                vec![
                    (1, 2_147_483_648),
                    (2, 1_099_511_627_776),
                    (3, 9_223_372_036_854_775_808),
                    (4, 18_446_744_073_709_551_615),
                ],
            ),
            ("FF", vec![]),
            ("WS", vec![(7, 1)]),
            (
                "DS",
                vec![
                    (1, 32_767),
                    (2, 32_768),
                    (9, 2_147_483_647),
                    (10, 549_755_813_888),
                    (11, 140_737_488_355_328),
                ],
            ),
        ];
        let maps = maps.map(|(name, counts): (&str, Vec<(u64, u64)>)| {
            (
                name.to_owned(),
                counts.into_iter().collect::<BTreeMap<u64, u64>>(),
            )
        });
        // `pickletools.optimize(pickle.dumps(maps, 2))` of Python 3.11.
        let wanted = "80027d28580200000052417d284b014bff4b024d00014d2c014dffff4a000001004affffff7f755801000000577d284b018a0500000080004b028a060000000000014b038a090000000000000080004b048a09ffffffffffffffff0075580200000046467d580200000057537d4b074b0173580200000044537d284b014dff7f4b024d00804b094affffff7f4b0a8a060000000080004b0b8a070000000000800075752e";
        let found: String = of_maps(&maps).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(found, wanted);
    }
}
