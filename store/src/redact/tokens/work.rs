//! Monitoring, planning and office work.

use super::{DIGITS_FLOOR, UUID};
use crate::redact::rule::{Rule, floored, infix, token, word};

pub(crate) const RULES: &[Rule] = &[
    token("grafana-token", "Grafana", &["glc_"], "[A-Za-z0-9+/=]{32,}"),
    token("grafana-service-token", "Grafana", &["glsa_"], "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    token("grafana-api-key", "Grafana", &["eyJrIjoi"], "[A-Za-z0-9+/=]{40,}"),
    token("newrelic-key", "New Relic", &["NRAK-", "NRII-", "NRRA-", "NRJS-", "NRIQ-"], "[A-Za-z0-9_-]{19,}"),
    infix("newrelic-license-key", "New Relic", &["NRAL", "FFFFNRAL"], "[0-9a-f]{32,36}", ""),
    token("sentry-token", "Sentry", &["sntrys_"], "[A-Za-z0-9+/=_-]{40,}"),
    token("sentry-user-token", "Sentry", &["sntryu_"], "[0-9a-f]{64}"),
    token(
        "dynatrace-token",
        "Dynatrace",
        &["dt0c01.", "dt0s01.", "dt0s02.", "dt0s08.", "dt0s16."],
        r"[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}",
    ),
    token("pagerduty-token", "PagerDuty", &["pdus+_"], "[A-Za-z0-9+_-]{20,}"),
    token("linear-token", "Linear", &["lin_api_", "lin_oauth_"], "[A-Za-z0-9]{40,64}"),
    token("notion-token", "Notion", &["ntn_"], "[A-Za-z0-9]{40,}"),
    word("notion-secret", "Notion", &["secret_"], "[A-Za-z0-9]{43}"),
    token("figma-token", "Figma", &["figd_", "figu_", "figo_"], "[A-Za-z0-9_-]{38,}"),
    token("airtable-token", "Airtable", &["pat"], r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    floored(DIGITS_FLOOR, token("asana-token", "Asana", &["2/", "1/"], "[0-9]{15,17}/[0-9]{15,17}:[0-9a-f]{32}")),
    word("adobe-client-secret", "Adobe", &["p8e-"], "[A-Za-z0-9]{32}"),
    word("twitter-bearer-token", "X", &["AAAAAAAAAAAAAAAAAAAA"], "[A-Za-z0-9%]{80,120}"),
    token("intra42-secret", "42", &["s-s4t2ud-", "s-s4t2af-"], "[0-9a-f]{64}"),
    infix(
        "authress-key",
        "Authress",
        &[".acc-", ".acc_"],
        r"(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}",
        r"[A-Za-z0-9_-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}",
    ),
    word("jwt-base64", "JSON web token (RFC 7519)", &["ZXlK"], "[A-Za-z0-9+/=_-]{60,}"),
    token("postman-api-key", "Postman", &["PMAK-"], "[0-9a-f]{24}-[0-9a-f]{34}"),
    token("hubspot-token", "HubSpot", &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], UUID),
    token("typeform-token", "Typeform", &["tfp_"], "[A-Za-z0-9_.=-]{40,}"),
    token("contentful-token", "Contentful", &["CFPAT-"], "[A-Za-z0-9_-]{43}"),
    token("readme-api-key", "ReadMe", &["rdme_"], "[a-z0-9]{70}"),
    token("frameio-token", "Frame.io", &["fio-u-"], "[A-Za-z0-9_=-]{64}"),
    word("mapbox-secret-token", "Mapbox", &["sk.eyJ"], r"[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}"),
];
