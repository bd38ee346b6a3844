//! Writes pages of monospaced text as a minimal PDF.

/// Lines per page, and characters per line.
const LINES: usize = 60;
const WIDTH: usize = 160;

/// Returns a document of the given lines; longer ones are cut, characters beyond Latin 1 become
/// `?`.
pub(super) fn pages(lines: &[String]) -> Vec<u8> {
    let pages: Vec<&[String]> = match lines.is_empty() {
        true => vec![&[]],
        false => lines.chunks(LINES).collect(),
    };
    let mut objects: Vec<Vec<u8>> = Vec::new();
    let kids: Vec<String> = (0..pages.len())
        .map(|at| format!("{} 0 R", 4 + 2 * at))
        .collect();
    objects.push(b"<< /Type /Catalog /Pages 2 0 R >>".to_vec());
    objects.push(
        format!(
            "<< /Type /Pages /Count {} /Kids [{}] >>",
            pages.len(),
            kids.join(" ")
        )
        .into_bytes(),
    );
    objects.push(
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>".to_vec(),
    );
    for (at, page) in pages.iter().enumerate() {
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 842 595] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
                5 + 2 * at
            )
            .into_bytes(),
        );
        let mut text = b"BT /F1 8 Tf 9 TL 30 565 Td\n".to_vec();
        for line in *page {
            text.push(b'(');
            for c in line.chars().take(WIDTH) {
                match u8::try_from(u32::from(c)) {
                    Ok(byte @ (b'(' | b')' | b'\\')) => text.extend_from_slice(&[b'\\', byte]),
                    Ok(byte @ (0x20..=0x7e | 0xa0..)) => text.push(byte),
                    _ => text.push(b'?'),
                }
            }
            text.extend_from_slice(b") Tj T*\n");
        }
        text.extend_from_slice(b"ET");
        let mut stream = format!("<< /Length {} >>\nstream\n", text.len()).into_bytes();
        stream.extend_from_slice(&text);
        stream.extend_from_slice(b"\nendstream");
        objects.push(stream);
    }
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n", at + 1).as_bytes());
        out.extend_from_slice(object);
        out.extend_from_slice(b"\nendobj\n");
    }
    let table = out.len();
    out.extend_from_slice(
        format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes(),
    );
    for offset in offsets {
        out.extend_from_slice(format!("{offset:010} 00000 n \n").as_bytes());
    }
    out.extend_from_slice(
        format!(
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
            objects.len() + 1
        )
        .as_bytes(),
    );
    out
}
