//! Colours: a palette for categories, one for amounts, one for differences. All three stay readable
//! with the common forms of colour blindness.

use std::fmt;

/// A colour in sRGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rgb(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Rgb {
    pub(crate) const PAPER: Self = Self(0xff, 0xff, 0xff);
    pub(crate) const INK: Self = Self(0x1f, 0x23, 0x28);
    pub(crate) const FAINT: Self = Self(0x5f, 0x68, 0x74);
    pub(crate) const GRID: Self = Self(0xe3, 0xe6, 0xea);
    pub(crate) const AXIS: Self = Self(0x9a, 0xa3, 0xad);

    /// Returns the colour between `self` (0) and `other` (1).
    pub(crate) fn mix(self, other: Self, share: f64) -> Self {
        let channel = |a: u8, b: u8| {
            byte(f64::from(a) + (f64::from(b) - f64::from(a)) * share.clamp(0.0, 1.0))
        };
        Self(
            channel(self.0, other.0),
            channel(self.1, other.1),
            channel(self.2, other.2),
        )
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=255 and whole"
)]
fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

/// Okabe and Ito's colours ("Color Universal Design", 2008), black replaced by grey, in an order that keeps neighbours apart.
const CATEGORIES: [Rgb; 7] = [
    Rgb(0x00, 0x72, 0xb2),
    Rgb(0xd5, 0x5e, 0x00),
    Rgb(0x00, 0x9e, 0x73),
    Rgb(0xcc, 0x79, 0xa7),
    Rgb(0xe6, 0x9f, 0x00),
    Rgb(0x56, 0xb4, 0xe9),
    Rgb(0x6b, 0x72, 0x80),
];

/// Returns the colour of the n-th category; repeats after seven.
pub(crate) fn category(index: usize) -> Rgb {
    CATEGORIES[index % CATEGORIES.len()]
}

/// Returns how often the palette was used up before the n-th category; the line style distinguishes
/// such series.
pub(crate) fn repeats(index: usize) -> usize {
    index / CATEGORIES.len()
}

/// Returns a colour from light to dark for an amount from 0 to 1. Lightness decreases
/// monotonically, so the order survives greyscale printing.
pub(crate) fn amount(share: f64) -> Rgb {
    const STOPS: [Rgb; 6] = [
        Rgb(0xff, 0xf6, 0xd5),
        Rgb(0xf9, 0xd0, 0x7a),
        Rgb(0xf0, 0x96, 0x54),
        Rgb(0xc9, 0x53, 0x5f),
        Rgb(0x7a, 0x2c, 0x6e),
        Rgb(0x24, 0x15, 0x4b),
    ];
    along(&STOPS, share)
}

/// Returns a colour from blue for -1 through near-white to red for +1.
pub(crate) fn difference(amount: f64) -> Rgb {
    const BLUES: [Rgb; 4] = [
        Rgb(0xef, 0xef, 0xec),
        Rgb(0xb5, 0xd3, 0xe8),
        Rgb(0x6b, 0xaa, 0xd3),
        Rgb(0x34, 0x7f, 0xbb),
    ];
    const REDS: [Rgb; 4] = [
        Rgb(0xef, 0xef, 0xec),
        Rgb(0xf8, 0xc6, 0xae),
        Rgb(0xec, 0x8d, 0x73),
        Rgb(0xd6, 0x4f, 0x4a),
    ];
    along(if amount < 0.0 { &BLUES } else { &REDS }, amount.abs())
}

fn along(stops: &[Rgb], share: f64) -> Rgb {
    let place = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let at = stops
        .iter()
        .enumerate()
        .skip(1)
        .find(|(index, _)| place <= *index as f64);
    match at {
        Some((index, stop)) => stops[index - 1].mix(*stop, place - (index - 1) as f64),
        None => stops[0],
    }
}

/// Returns a warm colour that depends only on the name: the hue on its first part (library or
/// namespace), so that related names look similar, the shade on the whole name.
pub(crate) fn warm(name: &str) -> Rgb {
    let family = name
        .split(['(', '<', ':', '.', '/', ' ', '!', '+'])
        .find(|part| part.len() > 1)
        .unwrap_or(name);
    let hue = 8.0 + 42.0 * unit(hash(family));
    let shade = hash(name);
    let saturation = 0.78 + 0.17 * unit(shade.rotate_left(21));
    let lightness = 0.62 + 0.12 * unit(shade);
    hsl(hue, saturation, lightness)
}

/// Returns FNV-1a with a final mix; the same on every machine and in every release.
fn hash(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the upper 24 bits as a number from 0 to 1.
fn unit(hash: u64) -> f64 {
    (hash >> 40) as f64 / f64::from((1_u32 << 24) - 1)
}

fn hsl(hue: f64, saturation: f64, lightness: f64) -> Rgb {
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        byte(255.0 * (lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)))
    };
    Rgb(channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_the_same_everywhere() {
        assert_eq!(hsl(0.0, 1.0, 0.5), Rgb(255, 0, 0));
        assert_eq!(hsl(120.0, 1.0, 0.25), Rgb(0, 128, 0));
        assert_eq!(hsl(240.0, 0.5, 0.5), Rgb(64, 64, 191));
        assert_eq!(warm("aten::linear"), warm("aten::linear"));
        assert_ne!(warm("aten::linear"), warm("aten::matmul"));
        for name in ["", "main", "aten::mm", "日本", "void f<int>(int)"] {
            let Rgb(red, green, blue) = warm(name);
            assert!(
                red >= green && green >= blue && red > 200,
                "{name} is not warm"
            );
        }
    }

    #[test]
    fn scales_hit_their_ends() {
        assert_eq!(amount(0.0), Rgb(0xff, 0xf6, 0xd5));
        assert_eq!(amount(1.0), Rgb(0x24, 0x15, 0x4b));
        assert_eq!(difference(0.0), Rgb(0xef, 0xef, 0xec));
        assert_eq!(difference(1.0), Rgb(0xd6, 0x4f, 0x4a));
        assert_eq!(difference(-2.0), Rgb(0x34, 0x7f, 0xbb));
        assert_eq!(amount(f64::NAN), Rgb(0xff, 0xf6, 0xd5));
    }
}
