//! `folklore demo`: three nodes on this machine and a link that is cut.

use super::Context;
use crate::{
    api::{Answer, ApiError},
    demo,
};

pub(super) async fn run(context: &mut Context) -> Answer<u8> {
    let json = context.out.is_json();
    let out = &mut context.out;
    let mut say = |line: &str| {
        if !json {
            out.text(line);
        }
    };
    let outcome = demo::run(&mut say).await.map_err(|error| ApiError::failed(error.to_string()))?;
    if json {
        context.out.json(&outcome)?;
    }
    Ok(0)
}
