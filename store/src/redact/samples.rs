//! Samples for every rule, put together at run time, so that no string in the repository looks like a secret.

/// A piece of a sample.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// As it is.
    Text(&'static str),
    /// Random characters of an alphabet.
    Random(&'static str, usize),
    /// A random UUID.
    Uuid,
    /// Base64 of the parts' text (`user:password`, a PEM head).
    Base64Of(&'static str, usize),
}
use Part::{Base64Of, Random, Text, Uuid};

const HEX: &str = "0123456789abcdef";
const DIGITS: &str = "0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Letters and digits in turn, so that a short one always has both.
const TURNS: &str = "a7b3c9d1e5f2g8h4";

/// Context before, the secret, context after. The context must survive, the secret must not.
pub(crate) struct Sample {
    pub(crate) rule: &'static str,
    pub(crate) before: &'static str,
    pub(crate) secret: &'static [Part],
    pub(crate) after: &'static str,
}

const fn bare(rule: &'static str, secret: &'static [Part]) -> Sample {
    Sample { rule, before: "", secret, after: "" }
}

const fn within(rule: &'static str, before: &'static str, secret: &'static [Part], after: &'static str) -> Sample {
    Sample { rule, before, secret, after }
}

#[rustfmt::skip]
pub(crate) const SAMPLES: &[Sample] = &[
    // private_key.rs
    bare("private-key", &[Text("-----BEGIN RSA PRIVATE KEY-----\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 30), Text("==\n-----END RSA PRIVATE KEY-----")]),
    bare("private-key", &[Text("-----BEGIN OPENSSH PRIVATE KEY-----\\n"), Random(BASE64, 70), Text("\\n"), Random(BASE64, 70), Text("\\n-----END OPENSSH PRIVATE KEY-----")]),
    bare("private-key", &[Text("-----BEGIN EC PRIVATE KEY-----\\\\n"), Random(BASE64, 64), Text("\\\\n"), Random(BASE64, 11), Text("\\\\n-----END EC PRIVATE KEY-----")]),
    bare("private-key", &[Text("-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n"), Random(BASE64, 64), Text("\r\n-----END ENCRYPTED PRIVATE KEY-----")]),
    bare("private-key", &[Text("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 64), Text("\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----")]),
    bare("private-key", &[Text("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: \"x\"\n"), Random(BASE64, 70), Text("\n---- END SSH2 ENCRYPTED PRIVATE KEY ----")]),
    bare("private-key", &[Text("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"), Random(UPPER, 32), Text("\n\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 7)]),
    within("private-key", "{\"key\": \"", &[Text("-----BEGIN PRIVATE KEY-----\\n"), Random(BASE64, 64), Text("\\n"), Random(BASE64, 64)], "\", \"b\": 1}"),
    bare("private-key", &[Random(BASE64, 64), Text("\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 20), Text("==\n-----END RSA PRIVATE KEY-----")]),
    bare("putty-private-key", &[Text("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 2\n"), Random(BASE64, 64), Text("\n"), Random(BASE64, 20), Text("\nPrivate-Lines: 1\n"), Random(BASE64, 48), Text("\nPrivate-MAC: "), Random(HEX, 64)]),
    within("private-key-base64", "data: ", &[Base64Of("-----BEGIN OPENSSH PRIVATE KEY-----\n", 80)], "\n"),
    within("age-secret-key", "", &[Text("AGE-SECRET-KEY-1"), Random(BECH32, 58)], ""),
    // tokens.rs: clouds
    within("aws-access-key-id", "id=", &[Text("AKIA"), Random(BASE32, 16)], "\n"),
    within("aws-access-key-id", "", &[Text("ASIA"), Random(BASE32, 16)], ""),
    bare("aws-bedrock-key", &[Text("ABSKQmVkcm9ja0FQSUtleS"), Random(BASE64, 110)]),
    within("google-api-key", "?key=", &[Text("AIza"), Random(URL64, 35)], "&q=1"),
    bare("google-oauth-secret", &[Text("GOCSPX-"), Random(URL64, 28)]),
    bare("google-oauth-token", &[Text("ya29."), Random(URL64, 120)]),
    bare("google-refresh-token", &[Text("1//0"), Random(URL64, 60)]),
    bare("firebase-messaging-key", &[Text("AAAA"), Random(ALNUM, 7), Text(":APA91b"), Random(URL64, 134)]),
    bare("azure-client-secret", &[Random(ALNUM, 3), Text("8Q~"), Random(ALNUM, 34)]),
    bare("azure-service-key", &[Random(ALNUM, 52), Text("JQQJ99"), Random(ALNUM, 26)]),
    bare("azure-devops-token", &[Random(ALNUM, 76), Text("AZDO"), Random(ALNUM, 4)]),
    bare("azure-storage-key", &[Random(BASE64, 76), Text("+ASt"), Random(ALNUM, 6), Text("==")]),
    bare("digitalocean-token", &[Text("dop_v1_"), Random(HEX, 64)]),
    bare("digitalocean-token", &[Text("doo_v1_"), Random(HEX, 64)]),
    bare("heroku-api-key", &[Text("HRKU-AA"), Random(URL64, 58)]),
    bare("alibaba-access-key-id", &[Text("LTAI"), Random(ALNUM, 20)]),
    bare("tencent-secret-id", &[Text("AKID"), Random(ALNUM, 32)]),
    bare("yandex-api-key", &[Text("AQVN"), Random(ALNUM, 36)]),
    bare("yandex-oauth-token", &[Text("y0_"), Random(URL64, 54)]),
    bare("cloudflare-origin-ca-key", &[Text("v1.0-"), Random(HEX, 24), Text("-"), Random(HEX, 146)]),
    bare("flyio-token", &[Text("fo1_"), Random(URL64, 43)]),
    bare("flyio-token", &[Text("fm2_"), Random(BASE64, 100)]),
    bare("vercel-token", &[Text("vcp_"), Random(ALNUM, 56)]),
    bare("vercel-blob-token", &[Text("vercel_blob_rw_"), Random(ALNUM, 16), Text("_"), Random(ALNUM, 30)]),
    bare("netlify-token", &[Text("nfp_"), Random(ALNUM, 36)]),
    bare("render-api-key", &[Text("rnd_"), Random(ALNUM, 32)]),
    bare("scalingo-token", &[Text("tk-us-"), Random(URL64, 48)]),
    bare("tailscale-key", &[Text("tskey-auth-"), Random(ALNUM, 12), Text("-"), Random(ALNUM, 32)]),
    bare("planetscale-token", &[Text("pscale_tkn_"), Random(URL64, 43)]),
    bare("supabase-token", &[Text("sbp_"), Random(HEX, 40)]),
    bare("supabase-secret-key", &[Text("sb_secret_"), Random(URL64, 31)]),
    bare("neon-api-key", &[Text("napi_"), Random(LOWER, 64)]),
    bare("databricks-token", &[Text("dapi"), Random(HEX, 32), Text("-2")]),
    bare("aws-access-key-id", &[Text("A3T"), Random(UPPER, 17)]),
    bare("aws-bedrock-key", &[Text("bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"), Random(BASE64, 90)]),
    bare("dropbox-token", &[Random(LOWER, 11), Text("AAAAAAAAAA"), Random(URL64, 43)]),
    bare("dropbox-token", &[Text("sl."), Random(URL64, 136)]),
    bare("yandex-iam-token", &[Text("t1."), Random(URL64, 200), Text("."), Random(URL64, 86)]),
    bare("yandex-access-key", &[Text("YC"), Random(ALNUM, 38)]),
    bare("clickhouse-key", &[Text("4b1d"), Random(ALNUM, 38)]),
    bare("openshift-token", &[Text("sha256~"), Random(URL64, 43)]),
    bare("defined-networking-key", &[Text("dnkey-"), Random(ALNUM, 26), Text("-"), Random(ALNUM, 52)]),
    bare("maxmind-key", &[Random(ALNUM, 6), Text("_"), Random(ALNUM, 29), Text("_mmk")]),
    // Code hosts, CI, registries
    within("github-token", "https://x:", &[Text("ghp_"), Random(ALNUM, 36)], "@github.com/a/b"),
    bare("github-token", &[Text("gho_"), Random(ALNUM, 36)]),
    bare("github-token", &[Text("ghu_"), Random(ALNUM, 36)]),
    bare("github-token", &[Text("ghs_"), Random(ALNUM, 36)]),
    bare("github-token", &[Text("ghr_"), Random(ALNUM, 76)]),
    bare("github-fine-grained-token", &[Text("github_pat_"), Random(ALNUM, 22), Text("_"), Random(ALNUM, 59)]),
    bare("gitlab-token", &[Text("glpat-"), Random(URL64, 20)]),
    bare("gitlab-token", &[Text("glrt-"), Random(URL64, 20)]),
    bare("gitlab-token", &[Text("glpat-"), Random(URL64, 27), Text(".01."), Random(LOWER, 9)]),
    bare("gitlab-runner-token", &[Text("GR1348941"), Random(URL64, 20)]),
    bare("bitbucket-app-password", &[Text("ATBB"), Random(ALNUM, 32)]),
    bare("bitbucket-server-token", &[Text("BBDC-"), Random(BASE64, 44)]),
    bare("atlassian-token", &[Text("ATATT3"), Random(URL64, 180), Text("="), Random(UPPER, 8)]),
    bare("circleci-token", &[Text("CCIPAT_"), Random(ALNUM, 22), Text("_"), Random(HEX, 40)]),
    bare("buildkite-token", &[Text("bkua_"), Random(HEX, 40)]),
    bare("folklore-ticket", &[Text("folklore1"), Random("abcdefghijklmnopqrstuvwxyz234567", 120)]),
    within("npm-token", "//npm.example.org/:_authToken=", &[Text("npm_"), Random(ALNUM, 36)], "\n"),
    bare("pypi-token", &[Text("pypi-AgEIcHlwaS5vcmc"), Random(URL64, 140)]),
    bare("crates-io-token", &[Text("cio"), Random(ALNUM, 32)]),
    bare("rubygems-key", &[Text("rubygems_"), Random(HEX, 48)]),
    bare("nuget-key", &[Text("oy2"), Random(LOWER, 43)]),
    bare("clojars-token", &[Text("CLOJARS_"), Random(HEX, 60)]),
    bare("docker-hub-token", &[Text("dckr_pat_"), Random(URL64, 27)]),
    bare("artifactory-key", &[Text("AKCp"), Random(ALNUM, 69)]),
    bare("artifactory-reference-token", &[Text("cmVmdGtu"), Random(ALNUM, 56)]),
    bare("sonarqube-token", &[Text("squ_"), Random(HEX, 40)]),
    bare("sourcegraph-token", &[Text("sgp_"), Random(HEX, 16), Text("_"), Random(HEX, 40)]),
    bare("hashicorp-vault-token", &[Text("hvs."), Random(URL64, 95)]),
    bare("terraform-cloud-token", &[Random(ALNUM, 14), Text(".atlasv1."), Random(ALNUM, 67)]),
    bare("pulumi-token", &[Text("pul-"), Random(HEX, 40)]),
    bare("infracost-key", &[Text("ico-"), Random(ALNUM, 32)]),
    bare("doppler-token", &[Text("dp.pt."), Random(ALNUM, 43)]),
    bare("doppler-token", &[Text("dp.st.prd."), Random(ALNUM, 43)]),
    bare("prefect-key", &[Text("pnu_"), Random(ALNUM, 36)]),
    bare("onepassword-service-token", &[Text("ops_eyJ"), Random(BASE64, 250)]),
    bare("onepassword-secret-key", &[Text("A3-"), Random(UPPER, 6), Text("-"), Random(UPPER, 6), Text("-"), Random(UPPER, 5), Text("-"), Random(UPPER, 5), Text("-"), Random(UPPER, 5), Text("-"), Random(UPPER, 5)]),
    bare("launchdarkly-key", &[Text("sdk-"), Uuid]),
    bare("harness-token", &[Text("pat."), Random(URL64, 22), Text("."), Random(HEX, 24), Text("."), Random(ALNUM, 20)]),
    bare("octopus-api-key", &[Text("API-"), Random(UPPER, 30)]),
    // Models
    bare("openai-api-key", &[Text("sk-"), Random(ALNUM, 20), Text("T3BlbkFJ"), Random(ALNUM, 20)]),
    bare("openai-api-key", &[Text("sk-proj-"), Random(URL64, 74), Text("T3BlbkFJ"), Random(URL64, 74)]),
    bare("openai-api-key", &[Text("sk-"), Random(HEX, 32)]),
    bare("anthropic-api-key", &[Text("sk-ant-api03-"), Random(URL64, 93), Text("AA")]),
    bare("openrouter-api-key", &[Text("sk-or-v1-"), Random(HEX, 64)]),
    bare("langfuse-secret-key", &[Text("sk-lf-"), Uuid]),
    bare("langsmith-api-key", &[Text("lsv2_pt_"), Random(HEX, 32), Text("_"), Random(HEX, 10)]),
    bare("huggingface-token", &[Text("hf_"), Random(ALNUM, 34)]),
    bare("huggingface-org-token", &[Text("api_org_"), Random(ALNUM, 34)]),
    bare("replicate-token", &[Text("r8_"), Random(ALNUM, 37)]),
    bare("groq-api-key", &[Text("gsk_"), Random(ALNUM, 52)]),
    bare("xai-api-key", &[Text("xai-"), Random(ALNUM, 80)]),
    bare("perplexity-api-key", &[Text("pplx-"), Random(ALNUM, 48)]),
    bare("nvidia-api-key", &[Text("nvapi-"), Random(URL64, 64)]),
    bare("cerebras-api-key", &[Text("csk-"), Random(LOWER, 48)]),
    bare("fireworks-api-key", &[Text("fw_"), Random(ALNUM, 24)]),
    bare("together-api-key", &[Text("tgp_v1_"), Random(URL64, 43)]),
    bare("tavily-api-key", &[Text("tvly-dev-"), Random(ALNUM, 32)]),
    bare("pinecone-api-key", &[Text("pcsk_"), Random(ALNUM, 6), Text("_"), Random(ALNUM, 63)]),
    bare("jina-api-key", &[Text("jina_"), Random(HEX, 32), Random(ALNUM, 28)]),
    bare("elevenlabs-api-key", &[Text("sk_"), Random(HEX, 48)]),
    bare("wandb-api-key", &[Text("wandb_v1_"), Random(ALNUM, 60)]),
    // Messages and mail
    bare("slack-token", &[Text("xoxb-"), Random(DIGITS, 12), Text("-"), Random(DIGITS, 13), Text("-"), Random(ALNUM, 24)]),
    bare("slack-token", &[Text("xoxp-"), Random(DIGITS, 12), Text("-"), Random(DIGITS, 12), Text("-"), Random(HEX, 32)]),
    bare("slack-config-token", &[Text("xoxe.xoxp-1-"), Random(ALNUM, 160)]),
    bare("slack-app-token", &[Text("xapp-1-A"), Random(UPPER, 10), Text("-"), Random(DIGITS, 13), Text("-"), Random(HEX, 64)]),
    within("slack-webhook", "https://", &[Text("hooks.slack.com/services/T"), Random(UPPER, 10), Text("/B"), Random(UPPER, 10), Text("/"), Random(ALNUM, 24)], ""),
    within("discord-webhook", "https://", &[Text("discord.com/api/webhooks/"), Random(DIGITS, 18), Text("/"), Random(URL64, 68)], ""),
    bare("discord-bot-token", &[Base64Of("11234567890123456", 1), Text("."), Random(ALNUM, 6), Text("."), Random(URL64, 38)]),
    within("telegram-bot-token", "https://api.telegram.org/bot/", &[Random("123456789", 10), Text(":AA"), Random(ALNUM, 33)], "/getMe"),
    within("teams-webhook", "https://acme.", &[Text("webhook.office.com/webhookb2/"), Uuid, Text("@"), Uuid, Text("/IncomingWebhook/"), Random(HEX, 32), Text("/"), Uuid], ""),
    within("zapier-webhook", "https://", &[Text("hooks.zapier.com/hooks/catch/"), Random(DIGITS, 8), Text("/"), Random(LOWER, 7), Text("/"), Random(LOWER, 6)], ""),
    bare("sendgrid-api-key", &[Text("SG."), Random(URL64, 22), Text("."), Random(URL64, 43)]),
    bare("mailgun-api-key", &[Text("key-"), Random(HEX, 32)]),
    bare("mailchimp-api-key", &[Random(HEX, 32), Text("-us21")]),
    bare("brevo-api-key", &[Text("xkeysib-"), Random(HEX, 64), Text("-"), Random(ALNUM, 16)]),
    bare("resend-api-key", &[Text("re_"), Random(ALNUM, 8), Text("_"), Random(ALNUM, 24)]),
    bare("twilio-api-key", &[Text("SK"), Random(HEX, 32)]),
    // Money and shops
    bare("stripe-api-key", &[Text("sk_live_"), Random(ALNUM, 24)]),
    bare("stripe-api-key", &[Text("rk_test_"), Random(ALNUM, 99)]),
    bare("stripe-webhook-secret", &[Text("whsec_"), Random(ALNUM, 32)]),
    bare("shopify-token", &[Text("shpat_"), Random(HEX, 32)]),
    bare("shopify-token", &[Text("shpss_"), Random(HEX, 32)]),
    bare("square-token", &[Text("sq0atp-"), Random(URL64, 22)]),
    bare("square-token", &[Text("sq0csp-"), Random(URL64, 43)]),
    bare("square-access-token", &[Text("EAAA"), Random(ALNUM, 60)]),
    bare("braintree-token", &[Text("access_token$production$"), Random(LOWER, 16), Text("$"), Random(HEX, 32)]),
    bare("plaid-token", &[Text("access-production-"), Uuid]),
    bare("razorpay-key", &[Text("rzp_live_"), Random(ALNUM, 14)]),
    bare("flutterwave-key", &[Text("FLWSECK-"), Random(HEX, 32), Text("-X")]),
    bare("easypost-key", &[Text("EZAK"), Random(ALNUM, 54)]),
    bare("shippo-token", &[Text("shippo_live_"), Random(HEX, 40)]),
    bare("duffel-token", &[Text("duffel_live_"), Random(URL64, 43)]),
    bare("facebook-access-token", &[Text("EAAM"), Random(ALNUM, 150)]),
    bare("facebook-app-token", &[Random(DIGITS, 16), Text("|"), Random(URL64, 27)]),
    bare("settlemint-token", &[Text("sm_pat_"), Random(ALNUM, 16)]),
    // Work and watching
    bare("grafana-token", &[Text("glc_"), Random(BASE64, 100)]),
    bare("grafana-service-token", &[Text("glsa_"), Random(ALNUM, 32), Text("_"), Random(HEX, 8)]),
    bare("grafana-api-key", &[Text("eyJrIjoi"), Random(ALNUM, 80)]),
    bare("newrelic-key", &[Text("NRAK-"), Random(UPPER, 27)]),
    bare("newrelic-license-key", &[Random(HEX, 36), Text("NRAL")]),
    bare("sentry-token", &[Text("sntrys_"), Random(BASE64, 120)]),
    bare("sentry-user-token", &[Text("sntryu_"), Random(HEX, 64)]),
    bare("dynatrace-token", &[Text("dt0c01."), Random(BASE32, 24), Text("."), Random(BASE32, 64)]),
    bare("pagerduty-token", &[Text("pdus+_"), Random(ALNUM, 32)]),
    bare("linear-token", &[Text("lin_api_"), Random(ALNUM, 40)]),
    bare("notion-token", &[Text("ntn_"), Random(DIGITS, 11), Random(ALNUM, 35)]),
    bare("notion-secret", &[Text("secret_"), Random(ALNUM, 43)]),
    bare("figma-token", &[Text("figd_"), Random(URL64, 40)]),
    bare("airtable-token", &[Text("pat"), Random(ALNUM, 14), Text("."), Random(HEX, 64)]),
    bare("asana-token", &[Text("2/"), Random(DIGITS, 16), Text("/"), Random(DIGITS, 16), Text(":"), Random(HEX, 32)]),
    bare("postman-api-key", &[Text("PMAK-"), Random(HEX, 24), Text("-"), Random(HEX, 34)]),
    bare("hubspot-token", &[Text("pat-na1-"), Uuid]),
    bare("typeform-token", &[Text("tfp_"), Random(URL64, 59)]),
    bare("contentful-token", &[Text("CFPAT-"), Random(URL64, 43)]),
    bare("readme-api-key", &[Text("rdme_"), Random(LOWER, 70)]),
    bare("frameio-token", &[Text("fio-u-"), Random(URL64, 64)]),
    bare("mapbox-secret-token", &[Text("sk.eyJ1Ijoi"), Random(ALNUM, 60), Text("."), Random(URL64, 22)]),
    bare("adobe-client-secret", &[Text("p8e-"), Random(ALNUM, 32)]),
    bare("twitter-bearer-token", &[Text("AAAAAAAAAAAAAAAAAAAAAA"), Random(ALNUM, 88)]),
    bare("intra42-secret", &[Text("s-s4t2ud-"), Random(HEX, 64)]),
    bare("authress-key", &[Text("sc_"), Random(LOWER, 9), Text("."), Random(LOWER, 4), Text(".acc_"), Random(LOWER, 14), Text("."), Random(LOWER, 60)]),
    bare("jwt-base64", &[Base64Of("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ", 60)]),
    // contextual.rs
    within("session-cookie", "Cookie: PHPSESSID=", &[Random(LOWER, 26)], "; a=b"),
    within("sidekiq-key", "BUNDLE_ENTERPRISE__CONTRIBSYS__COM=", &[Random(HEX, 8), Text(":"), Random(HEX, 8)], "\n"),
    bare("hashicorp-vault-token", &[Text("s."), Random(TURNS, 24)]),
    within("kubernetes-secret", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  ", &[Text("user: "), Random(ALNUM, 8), Text("\n  pw: "), Random(ALNUM, 12)], "\ntype: Opaque\n"),
    within("aws-secret-access-key", "aws_secret_access_key = ", &[Random(BASE64, 40)], "\n"),
    within("aws-secret-access-key", "\"SecretAccessKey\": \"", &[Random(BASE64, 40)], "\"}"),
    within("aws-session-token", "AWS_SESSION_TOKEN=", &[Random(BASE64, 200)], "\n"),
    within("azure-storage-key", "AccountName=acme;AccountKey=", &[Random(BASE64, 86), Text("==")], ";EndpointSuffix=core.windows.net"),
    within("azure-sas-signature", "?sv=2024-01-01&sp=r&sig=", &[Random(ALNUM, 43), Text("%3D")], ""),
    within("gcp-service-account-key-id", "\"private_key_id\": \"", &[Random(HEX, 40)], "\","),
    within("heroku-api-key", "HEROKU_API_KEY=", &[Uuid], "\n"),
    within("cloudflare-api-token", "CLOUDFLARE_API_TOKEN: ", &[Random(ALNUM, 40)], "\n"),
    within("cloudflare-api-token", "-H 'X-Auth-Key: ", &[Random(HEX, 37)], "'"),
    within("twilio-auth-token", "TWILIO_AUTH_TOKEN='", &[Random(HEX, 32)], "'"),
    within("mailgun-signing-key", "mailgun key: ", &[Random(HEX, 32), Text("-"), Random(HEX, 8), Text("-"), Random(HEX, 8)], "\n"),
    within("datadog-key", "DD_API_KEY=", &[Random(HEX, 32)], "\n"),
    within("datadog-key", "datadog_app_key: \"", &[Random(HEX, 40)], "\"\n"),
    within("newrelic-license-key", "NEW_RELIC_LICENSE_KEY=", &[Random(HEX, 40)], "\n"),
    within("sentry-auth-token", "SENTRY_AUTH_TOKEN=", &[Random(HEX, 64)], "\n"),
    within("vercel-token", "VERCEL_TOKEN=", &[Random(ALNUM, 24)], "\n"),
    within("hashicorp-vault-token", "VAULT_TOKEN=", &[Text("s."), Random(ALNUM, 24)], "\n"),
    within("consul-token", "CONSUL_HTTP_TOKEN=", &[Uuid], "\n"),
    within("algolia-key", "algoliaAdminKey: '", &[Random(HEX, 32)], "'"),
    within("fastly-token", "FASTLY_API_TOKEN=", &[Random(ALNUM, 32)], "\n"),
    within("meraki-api-key", "MERAKI_DASHBOARD_API_KEY=", &[Random(HEX, 40)], "\n"),
    within("private-ai-token", "private_ai_key: \"", &[Random(TURNS, 32)], "\""),
    within("dropbox-app-secret", "DROPBOX_APP_SECRET=", &[Random(TURNS, 15)], "\n"),
    within("telegram-bot-token", "telegram_token = \"", &[Random("123456789", 9), Text(":AB"), Random(ALNUM, 33)], "\""),
    within("okta-token", "okta_token=", &[Text("00"), Random(ALNUM, 40)], "\n"),
    within("hetzner-token", "HCLOUD_TOKEN=", &[Random(ALNUM, 64)], "\n"),
    within("linode-token", "LINODE_TOKEN=", &[Random(HEX, 64)], "\n"),
    within("vultr-key", "VULTR_API_KEY=", &[Random(UPPER, 36)], "\n"),
    within("scaleway-secret", "SCW_SECRET_KEY=", &[Uuid], "\n"),
    within("cohere-api-key", "COHERE_API_KEY=", &[Random(ALNUM, 40)], "\n"),
    within("mistral-api-key", "MISTRAL_API_KEY=", &[Random(ALNUM, 32)], "\n"),
    within("wandb-api-key", "WANDB_API_KEY=", &[Random(HEX, 40)], "\n"),
    within("azure-openai-key", "AZURE_OPENAI_API_KEY=", &[Random(HEX, 32)], "\n"),
    within("snyk-token", "SNYK_TOKEN=", &[Uuid], "\n"),
    within("codecov-token", "CODECOV_TOKEN=", &[Uuid], "\n"),
    within("trello-token", "trello_key=", &[Random(HEX, 32)], "\n"),
    within("postmark-token", "X-Postmark-Server-Token: ", &[Uuid], "\n"),
    within("pagerduty-token", "PAGERDUTY_TOKEN=", &[Random(ALNUM, 20)], "\n"),
    within("rollbar-token", "rollbar_access_token=", &[Random(HEX, 32)], "\n"),
    within("npm-auth-token", "//npm.acme.io/:_authToken=", &[Random(ALNUM, 36)], "\n"),
    within("confluent-key", "CONFLUENT_API_SECRET=", &[Random(BASE64, 64)], "\n"),
    within("ngrok-token", "ngrok authtoken: ", &[Random(ALNUM, 27), Text("_"), Random(ALNUM, 21)], "\n"),
    within("ethereum-private-key", "PRIVATE_KEY=", &[Text("0x"), Random(HEX, 64)], "\n"),
    within("django-secret-key", "SECRET_KEY = '", &[Text("django-insecure-"), Random(LOWER, 50)], "'"),
    // authority.rs
    within("jwt", "cookie: ", &[Text("eyJhbGciOiJIUzI1NiJ9."), Text("eyJzdWIi"), Random(URL64, 40), Text("."), Random(ALNUM, 43)], "; path=/"),
    within("url-password", "postgres://ada:", &[Random(TURNS, 9)], "@db.example.com:5432/x"),
    within("url-password", "redis://:", &[Random(TURNS, 14)], "@cache:6379"),
    within("basic-auth", "Authorization: Basic ", &[Base64Of("ada:", 9)], "\n"),
    within("bearer-token", "Authorization: Bearer ", &[Random(ALNUM, 40)], "\n"),
    within("bearer-token", "{\"Authorization\": \"Bearer ", &[Random(ALNUM, 40)], "\"}"),
    within("curl-password", "curl -s -u ada:", &[Random(TURNS, 8)], " https://example.com"),
    within("command-password", "sshpass -p '", &[Random(TURNS, 8)], "' ssh ada@host"),
    within("command-password", "mysql -u ada -p", &[Random(TURNS, 8)], " shop"),
    within("command-password", "redis-cli -h cache -a ", &[Random(TURNS, 12)], " ping"),
    within("netrc-password", "machine example.com login ada password ", &[Random(TURNS, 9)], "\n"),
    within("docker-auth", "{\"auths\": {\"r\": {\"auth\": \"", &[Base64Of("ada:", 12)], "\"}}}"),
    // generic.rs
    within("password", "DB_PASSWORD=", &[Random(TURNS, 9)], "\n"),
    within("password", "password: '", &[Random(TURNS, 9), Text("!")], "'"),
    within("password", "{\\\"password\\\": \\\"", &[Random(TURNS, 9)], "\\\"}"),
    within("password", "mysqladmin --password ", &[Random(TURNS, 9)], " status"),
    within("password", "I log in; the password is ", &[Random(TURNS, 9)], ". Next."),
    within("password", "<password>", &[Random(TURNS, 9)], "</password>"),
    within("password", "login(password=\"", &[Random(TURNS, 9)], "\")"),
    within("password", "DB_PASSWORD=", &[Text("correct-horse-battery")], "\n"),
    within("secret", "client_secret = \"", &[Random(ALNUM, 32)], "\""),
    within("secret", "X-Api-Key: ", &[Random(HEX, 40)], "\n"),
    within("secret", "https://example.com/?token=", &[Random(HEX, 40)], "&x=1"),
    within("secret", "os.environ[\"SIGNING_KEY\"] = \"", &[Random(ALNUM, 40)], "\""),
    // identity.rs
    within("email", "From: ", &[Text("ada.lovelace"), Text("@"), Text("analytical.io")], ","),
    within("email", "{\"to\": \"a\\n", &[Text("ada"), Text("@"), Text("engine.co.uk")], "\"}"),
    within("home-directory", "cd /home/", &[Text("alovelace")], "/src"),
    within("home-directory", "/Users/", &[Text("alovelace")], "/src"),
    within("home-directory", "C:\\Users\\", &[Text("Ada Lovelace")], "\\src"),
    within("home-directory", "\"C:\\\\Users\\\\", &[Text("alovelace")], "\\\\src\""),
    within("home-directory", "C:/Users/", &[Text("alovelace")], "/src"),
    within("private-ip", "ssh ", &[Text("10.23."), Text("4.17")], "\n"),
    within("private-ip", "http://", &[Text("192.168."), Text("7.40")], ":8080/"),
    within("private-ip", "", &[Text("172.20."), Text("3.9")], ""),
    within("internal-host", "https://", &[Text("build01.acme"), Text(".internal")], "/job"),
    within("internal-host", "ping ", &[Text("Adas-MacBook-Pro"), Text(".local")], "."),
    within("internal-host", "", &[Text("jira.acme"), Text(".corp")], " is down"),
];

/// A small generator (xorshift*), so that samples are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    pub(crate) fn string(&mut self, alphabet: &str, length: usize) -> String {
        let bytes = alphabet.as_bytes();
        // Alternating alphabets are walked, not drawn from, to keep letters and digits in turn.
        let from = self.below(bytes.len());
        (0..length)
            .map(|at| {
                let drawn = if alphabet == TURNS { from + at } else { self.below(bytes.len()) };
                char::from(bytes[drawn % bytes.len()])
            })
            .collect()
    }
}

/// The secret of a sample, in full.
pub(crate) fn secret(sample: &Sample, seed: u64) -> String {
    let mut dice = Dice::new(seed + 1);
    sample
        .secret
        .iter()
        .map(|part| match *part {
            Text(text) => text.to_owned(),
            Random(alphabet, length) => dice.string(alphabet, length),
            Uuid => [8, 4, 4, 4, 12].map(|n| dice.string(HEX, n)).join("-"),
            Base64Of(head, length) => encode(&format!("{head}{}", dice.string(TURNS, length))),
        })
        .collect()
}

fn encode(text: &str) -> String {
    let alphabet = BASE64.as_bytes();
    text.as_bytes()
        .chunks(3)
        .flat_map(|chunk| {
            let word = chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            (0..4).map(
                move |at| {
                    if at > chunk.len() { '=' } else { char::from(alphabet[(word >> (18 - 6 * at)) as usize & 63]) }
                },
            )
        })
        .collect()
}
