//! The `folklore` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    folklore_node::cli::main(folklore_node::daemon::run)
}
