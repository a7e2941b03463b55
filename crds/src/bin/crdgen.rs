//! Writes the custom resource definitions, one file per kind, into each folder given.
#![expect(clippy::print_stdout, reason = "a command that says what it wrote")]

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    for (file, yaml) in crds::schema::crd_files() {
        for folder in &folders {
            let path = Path::new(folder).join(&file);
            std::fs::write(&path, &yaml)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}
