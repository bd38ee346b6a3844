//! Renders a finished figure as PNG or PDF within the process.
//!
//! SVG leaves the choice of fonts to the viewer; here the fonts of the machine are used, a
//! sans-serif and a monospaced one. A machine without fonts is an error rather than a figure
//! without text. The same fonts give the same PNG bytes; a PDF has the same drawing, but the
//! numbers of its internal objects may differ.

use std::sync::{Arc, OnceLock};

use crate::svg::Svg;

/// Why a figure could not be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The machine has no fonts.
    #[error("no fonts on this machine: install one (for example DejaVu), or take the SVG")]
    NoFonts,
    /// The figure would have too many pixels.
    #[error("a figure of {width} by {height} pixels cannot be rendered: use a smaller scale")]
    TooLarge {
        /// Width in pixels.
        width: f64,
        /// Height in pixels.
        height: f64,
    },
    /// PDF is not built in.
    #[error("this build writes no PDF (feature `pdf`): take the SVG or PNG")]
    NoPdf,
    /// The renderer failed: a defect of the figure.
    #[error("the figure cannot be rendered: {0}")]
    Refused(String),
}

/// Maps the generic families to installed fonts: the names in a figure belong to several systems.
macro_rules! choose_families {
    ($fonts:ident) => {
        let name_of = |wanted: &dyn Fn(&str) -> bool| {
            $fonts
                .faces()
                .flat_map(|face| &face.families)
                .map(|(name, _)| name)
                .filter(|name| wanted(name))
                .min()
                .cloned()
        };
        let sans = name_of(&|name| name == "DejaVu Sans")
            .or_else(|| name_of(&|name| name.contains("Sans") && !name.contains("Mono")))
            .or_else(|| name_of(&|_| true));
        let mono = name_of(&|name| name == "DejaVu Sans Mono")
            .or_else(|| name_of(&|name| name.contains("Mono")))
            .or_else(|| sans.clone());
        if let Some(sans) = sans {
            $fonts.set_sans_serif_family(&sans);
            $fonts.set_serif_family(sans);
        }
        if let Some(mono) = mono {
            $fonts.set_monospace_family(mono);
        }
    };
}

/// Renders a figure as PNG, `scale` pixels per SVG unit (1 gives the size stated in the SVG, 2
/// suits print).
///
/// The first call loads the fonts of the machine (some milliseconds).
///
/// # Errors
///
/// [`RenderError::NoFonts`], [`RenderError::TooLarge`] above 32,767 pixels in a direction or a
/// scale that is not positive.
#[cfg(feature = "raster")]
pub fn png(svg: &Svg, scale: f64) -> Result<Vec<u8>, RenderError> {
    use resvg::{tiny_skia, usvg};

    /// Maximum number of pixels in one direction.
    const LIMIT: f64 = 32_767.0;
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();

    let fonts = FONTS.get_or_init(|| {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_system_fonts();
        choose_families!(fonts);
        Arc::new(fonts)
    });
    if fonts.is_empty() {
        return Err(RenderError::NoFonts);
    }
    let options = usvg::Options {
        fontdb: Arc::clone(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg.as_str(), &options)
        .map_err(|error| RenderError::Refused(error.to_string()))?;
    let width = (f64::from(tree.size().width()) * scale).ceil();
    let height = (f64::from(tree.size().height()) * scale).ceil();
    let fits = |pixels: f64| (1.0..=LIMIT).contains(&pixels);
    if !fits(width) || !fits(height) {
        return Err(RenderError::TooLarge { width, height });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "both are whole and between 1 and LIMIT"
    )]
    let mut pixels = tiny_skia::Pixmap::new(width as u32, height as u32)
        .ok_or(RenderError::TooLarge { width, height })?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a scale needs no more digits"
    )]
    let transform = tiny_skia::Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels
        .encode_png()
        .map_err(|error| RenderError::Refused(error.to_string()))
}

/// Renders a figure as PDF: one page of the figure's size, with selectable text.
///
/// The first call loads the fonts of the machine (some milliseconds).
///
/// # Errors
///
/// [`RenderError::NoFonts`]; [`RenderError::NoPdf`] without the feature `pdf`.
#[cfg(not(feature = "pdf"))]
pub fn pdf(_: &Svg) -> Result<Vec<u8>, RenderError> {
    Err(RenderError::NoPdf)
}

/// PDF of a figure: one page of the figure's size, with selectable text.
///
/// The first call loads the fonts of the machine (some milliseconds).
///
/// # Errors
///
/// [`RenderError::NoFonts`]; [`RenderError::NoPdf`] without the feature `pdf`.
#[cfg(feature = "pdf")]
pub fn pdf(svg: &Svg) -> Result<Vec<u8>, RenderError> {
    use svg2pdf::usvg;

    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();

    let fonts = FONTS.get_or_init(|| {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_system_fonts();
        choose_families!(fonts);
        Arc::new(fonts)
    });
    if fonts.is_empty() {
        return Err(RenderError::NoFonts);
    }
    let options = usvg::Options {
        fontdb: Arc::clone(fonts),
        ..usvg::Options::default()
    };
    // The converter numbers fonts in no fixed order: with a single font the same figure gives the
    // same bytes.
    let one_font = svg.as_str().replace(" font-weight=\"600\"", "");
    let tree = usvg::Tree::from_str(&one_font, &options)
        .map_err(|error| RenderError::Refused(error.to_string()))?;
    svg2pdf::to_pdf(
        &tree,
        svg2pdf::ConversionOptions::default(),
        svg2pdf::PageOptions::default(),
    )
    .map_err(|error| RenderError::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, LinePlot, Mark, Series};
    use report::Unit;

    fn figure(points: Vec<(f64, f64)>) -> Svg {
        let x = Axis::new("step", Unit::Count);
        let mut plot = LinePlot::new("Decode steps", x, Axis::from_zero("time", Unit::Nanos));
        plot.series.push(Series::new("rank 0", Mark::Area, points));
        plot.draw()
    }

    #[cfg(feature = "raster")]
    #[test]
    fn a_png_has_the_scaled_size_and_shows_the_data() {
        let svg = figure(vec![(0.0, 1.0e6), (1.0, 3.0e6)]);
        let png = match png(&svg, 2.0) {
            Err(RenderError::NoFonts) => return eprintln!("SKIPPED: no fonts here"),
            png => png.unwrap(),
        };
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!(width, 1440);
        let other = super::png(&figure(vec![(0.0, 3.0e6), (1.0, 1.0e6)]), 2.0).unwrap();
        assert_ne!(png, other);
        assert_eq!(png, super::png(&svg, 2.0).unwrap());
        assert!(matches!(
            super::png(&svg, 1e6),
            Err(RenderError::TooLarge { .. })
        ));
    }

    #[cfg(feature = "pdf")]
    #[test]
    fn a_pdf_has_one_page_of_the_figures_size_and_text() {
        let svg = figure(vec![(0.0, 1.0e6), (1.0, 3.0e6)]);
        let pdf = match pdf(&svg) {
            Err(RenderError::NoFonts) => return eprintln!("SKIPPED: no fonts here"),
            pdf => pdf.unwrap(),
        };
        assert!(pdf.starts_with(b"%PDF-"));
        let text = String::from_utf8_lossy(&pdf);
        assert_eq!(text.matches("/Type /Page\n").count(), 1, "{}", text.len());
        assert!(text.contains("/Font"));
        assert!(text.contains("/MediaBox [0 0 720 "));
        for _ in 0..8 {
            assert!(super::pdf(&svg).unwrap() == pdf, "other bytes");
        }
    }
}
