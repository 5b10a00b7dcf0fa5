//! Code hosts, CI, package registries and secret stores.

use super::UUID;
use crate::redact::rule::{Rule, infix, token, word};

pub(crate) const RULES: &[Rule] = &[
    token("github-token", "GitHub", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], "[A-Za-z0-9]{36,255}"),
    token("github-fine-grained-token", "GitHub", &["github_pat_"], "[A-Za-z0-9_]{36,255}"),
    token(
        "gitlab-token",
        "GitLab",
        &[
            "glpat-", "gloas-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-",
            "glsoat-", "glffct-",
        ],
        r"[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
    ),
    token("gitlab-runner-token", "GitLab", &["GR1348941"], "[A-Za-z0-9_-]{20,}"),
    word("bitbucket-app-password", "Bitbucket", &["ATBB"], "[A-Za-z0-9]{28,40}"),
    token("bitbucket-server-token", "Bitbucket", &["BBDC-"], "[A-Za-z0-9+/=]{40,50}"),
    token("atlassian-token", "Atlassian", &["ATATT3", "ATCTT3"], "[A-Za-z0-9_=+/-]{60,}"),
    token("circleci-token", "CircleCI", &["CCIPAT_", "CCIPRJ_"], "[A-Za-z0-9]{16,}_[0-9a-f]{40}"),
    token("buildkite-token", "Buildkite", &["bkua_", "bkaa_", "bkct_"], "[0-9A-Za-z]{40,}"),
    // Whoever has a ticket can read and write the bank it is for.
    token("folklore-ticket", "Folklore", &["folklore1"], "[a-z2-7]{60,}"),
    token("npm-token", "npm", &["npm_"], "[A-Za-z0-9]{36}"),
    token("pypi-token", "PyPI", &["pypi-AgE"], "[A-Za-z0-9_-]{50,}"),
    word("crates-io-token", "crates-io", &["cio"], "[A-Za-z0-9]{32}"),
    token("rubygems-key", "RubyGems", &["rubygems_"], "[0-9a-f]{48}"),
    word("nuget-key", "NuGet", &["oy2"], "[a-z0-9]{43}"),
    token("clojars-token", "Clojars", &["CLOJARS_"], "[A-Za-z0-9]{60}"),
    token("docker-hub-token", "Docker Hub", &["dckr_pat_", "dckr_oat_"], "[A-Za-z0-9_-]{20,}"),
    word("artifactory-key", "JFrog Artifactory", &["AKCp"], "[A-Za-z0-9]{69}"),
    word("artifactory-reference-token", "JFrog Artifactory", &["cmVmd"], "[A-Za-z0-9]{59}"),
    token("sonarqube-token", "SonarQube", &["squ_", "sqp_", "sqa_"], "[0-9a-f]{40}"),
    token("sourcegraph-token", "Sourcegraph", &["sgp_"], "(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}"),
    word("hashicorp-vault-token", "HashiCorp Vault", &["hvs.", "hvb.", "hvr."], "[A-Za-z0-9_-]{24,}"),
    infix("terraform-cloud-token", "HashiCorp Terraform", &[".atlasv1."], "[A-Za-z0-9]{14}", "[A-Za-z0-9_=-]{60,70}"),
    token("pulumi-token", "Pulumi", &["pul-"], "[0-9a-f]{40}"),
    word("infracost-key", "Infracost", &["ico-"], "[A-Za-z0-9]{32}"),
    token(
        "doppler-token",
        "Doppler",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        "[A-Za-z0-9._-]{40,}",
    ),
    token("prefect-key", "Prefect", &["pnu_", "pnb_"], "[A-Za-z0-9]{36}"),
    token("onepassword-service-token", "1Password", &["ops_eyJ"], "[A-Za-z0-9+/=_-]{100,}"),
    word(
        "onepassword-secret-key",
        "1Password",
        &["A3-"],
        "[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5})?",
    ),
    token("launchdarkly-key", "LaunchDarkly", &["sdk-", "mob-", "api-"], UUID),
    word("harness-token", "Harness", &["pat.", "sat."], r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    token("octopus-api-key", "Octopus Deploy", &["API-"], "[A-Z0-9]{26,31}"),
];
