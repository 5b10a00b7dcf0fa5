//! Payments, shops and social networks.

use super::UUID;
use crate::redact::rule::{Rule, infix, token, word};

pub(crate) const RULES: &[Rule] = &[
    token(
        "stripe-api-key",
        "Stripe",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "sk_org_live_", "sk_org_test_"],
        "[A-Za-z0-9]{16,}",
    ),
    token("stripe-webhook-secret", "Stripe", &["whsec_"], "[A-Za-z0-9+/=]{32,}"),
    token("shopify-token", "Shopify", &["shpat_", "shpca_", "shppa_", "shpss_", "shpua_"], "[0-9a-fA-F]{32}"),
    token("square-token", "Square", &["sq0atp-", "sq0csp-", "sq0idp-"], "[A-Za-z0-9_-]{22,43}"),
    word("square-access-token", "Square", &["EAAA"], "[A-Za-z0-9_-]{40,60}"),
    token(
        "braintree-token",
        "PayPal Braintree",
        &["access_token$production$", "access_token$sandbox$"],
        "[0-9a-z]{16}\\$[0-9a-f]{32}",
    ),
    token("plaid-token", "Plaid", &["access-production-", "access-sandbox-", "access-development-"], UUID),
    word("razorpay-key", "Razorpay", &["rzp_live_", "rzp_test_"], "[A-Za-z0-9]{14}"),
    word("flutterwave-key", "Flutterwave", &["FLWSECK-", "FLWSECK_TEST-"], "(?:[A-Za-z0-9]{32}|[0-9a-h]{12})(?:-X)?"),
    token("easypost-key", "EasyPost", &["EZAK", "EZTK"], "[A-Za-z0-9]{54}"),
    token("shippo-token", "Shippo", &["shippo_live_", "shippo_test_"], "[0-9a-fA-F]{40}"),
    token("duffel-token", "Duffel", &["duffel_live_", "duffel_test_"], "[A-Za-z0-9_=-]{43}"),
    word("facebook-access-token", "Meta", &["EAA"], "[A-Za-z0-9]{80,300}"),
    infix("facebook-app-token", "Meta", &["|", "%7C", "%"], "[0-9]{15,16}", "[A-Za-z0-9_-]{27,40}"),
    token("settlemint-token", "SettleMint", &["sm_aat_", "sm_pat_", "sm_sat_"], "[A-Za-z0-9]{16,}"),
];
