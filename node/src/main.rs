//! The `folklore` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    folklore_node::cli::main(async |_home, _lock, _options, _stop, _ready| {
        Err(folklore_node::api::ApiError::failed("this build has no daemon yet"))
    })
}
