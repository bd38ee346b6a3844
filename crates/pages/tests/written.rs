//! Pages and Markdown as text.

use findings::Document;

use crate::documents;

fn folder() -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn documents_survive_json() {
    for (name, document) in documents::all() {
        let text = serde_json::to_string(&document).unwrap();
        let back: Document = serde_json::from_str(&text).unwrap();
        assert!(back == document, "{name}");
        std::fs::write(
            folder().join(format!("{name}.html")),
            pages::html(&document),
        )
        .unwrap();
        std::fs::write(
            folder().join(format!("{name}.md")),
            pages::markdown(&document),
        )
        .unwrap();
    }
}
