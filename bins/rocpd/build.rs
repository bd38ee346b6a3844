//! Looks for the OTF2 library where the feature `otf2` wants it, so that a missing one is named before the linker fails.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

const PROBE: &str = r#"
#[link(name = "otf2")]
unsafe extern "C" {
    fn OTF2_Error_GetDescription(code: std::ffi::c_int) -> *const std::ffi::c_char;
}

fn main() {
    // Only linked, never run.
    let _ = unsafe { OTF2_Error_GetDescription(0) };
}
"#;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=OTF2_LIB_DIR");
    if env::var_os("CARGO_FEATURE_OTF2").is_none() {
        return Ok(());
    }
    let folder = env::var("OTF2_LIB_DIR").ok();
    if let Some(folder) = &folder {
        println!("cargo::rustc-link-search=native={folder}");
    }
    let out = env::var("OUT_DIR")?;
    let source = Path::new(&out).join("probe.rs");
    std::fs::write(&source, PROBE)?;
    let mut link = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    link.args(["--edition", "2024", "--target", &env::var("TARGET")?])
        .arg("-o")
        .arg(Path::new(&out).join("probe"))
        .arg(&source);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        link.arg("-C").arg(format!("linker={}", linker.display()));
    }
    if let Some(folder) = &folder {
        link.args(["-L", folder]);
    }
    let linked = link.output()?;
    if !linked.status.success() {
        let said = String::from_utf8_lossy(&linked.stderr);
        let reason = said
            .lines()
            .find(|line| line.contains("otf2") && line.contains(" find "));
        println!(
            "cargo::error=the feature otf2 needs the OTF2 library (3.0 or newer), which cannot be linked: install it (Debian: \
             libotf2-trace-dev), name its folder in OTF2_LIB_DIR, or build without --features otf2{}",
            reason.map_or_else(String::new, |line| format!(" [{}]", line.trim()))
        );
    }
    Ok(())
}
