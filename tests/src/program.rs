//! The program under test.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

/// The `folklore` program, beside the test executable's directory. It is built first when it is absent, or older than one
/// of the files it was built from, so that `cargo test` alone is enough.
///
/// `FOLKLORE_PROGRAM` names another one, for instance a release build.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(named) = env::var_os("FOLKLORE_PROGRAM") {
            return PathBuf::from(named);
        }
        // target/<profile>/deps/<test>-<hash>
        let test = env::current_exe().expect("a test knows its own path");
        let profile_dir = test.ancestors().nth(2).expect("a test lies in target/<profile>/deps").to_owned();
        let program = profile_dir.join("folklore");
        if !is_fresh(&program) {
            build(&profile_dir);
        }
        assert!(program.is_file(), "there is no {} after building it", program.display());
        program
    })
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a member of the workspace")
}

/// Whether the program is newer than everything that cargo's dependency file says it was made of. A file that was added
/// since is named by one that was changed.
fn is_fresh(program: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let Some(built) = modified(program) else { return false };
    let Ok(listed) = fs::read_to_string(program.with_extension("d")) else { return false };
    let Some((_, sources)) = listed.split_once(": ") else { return false };
    let sources: Vec<PathBuf> =
        sources.replace("\\ ", "\0").split_whitespace().map(|s| s.replace('\0', " ").into()).collect();
    let ours = sources.iter().any(|source| source.starts_with(workspace()));
    let manifests = ["Cargo.toml", "Cargo.lock", "node/Cargo.toml", "store/Cargo.toml", "protocol/Cargo.toml"];
    let manifests = manifests.iter().map(|name| workspace().join(name));
    let older = |path: &Path| modified(path).is_some_and(|changed: SystemTime| changed <= built);
    ours && sources.iter().cloned().chain(manifests).all(|path| older(&path))
}

fn build(profile_dir: &Path) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let target = profile_dir.parent().expect("target/<profile> has a parent");
    eprintln!("building the folklore program ({profile})");
    let built = Command::new(cargo)
        .current_dir(workspace())
        .args(["build", "--quiet", "-p", "folklore-node", "--bin", "folklore", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo can be started");
    assert!(built.success(), "the folklore program does not build");
    // Where nothing had to be done cargo leaves an old date, and the next test would ask again.
    let touched = fs::File::options().append(true).open(profile_dir.join("folklore"));
    let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
}
