//! Tokens that tell by their own form who issued them. Written from the forms that the providers document for secret
//! scanning; lengths are lower bounds where a provider says that they may grow.

mod clouds;
mod code;
mod messages;
mod models;
mod money;
mod work;

use super::rule::Rule;

/// For tokens that begin with a number, whose digits may repeat.
const DIGITS_FLOOR: f64 = 1.2;

/// A UUID in lower case.
const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/// The tables, one a trade.
pub(crate) const TABLES: [&[Rule]; 6] =
    [clouds::RULES, code::RULES, models::RULES, messages::RULES, money::RULES, work::RULES];
