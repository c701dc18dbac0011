"""Where credentials are kept, and addresses that tell something: what several rules look for."""

import re

SENSITIVE_PATH = re.compile(
    r"(?:"
    r"(?:^|[/\"'=@~\s(])\.ssh(?:/?(?=$|[\"'\s;|&)*])|/\*|/(?!(?:known_hosts|config|authorized_keys)\b)[\w.-]{1,60}(?<!\.pub)(?![\w.-]))"
    r"|\bid_(?:rsa|dsa|ecdsa|ed25519)(?![\w.])"
    r"|\.aws/(?:credentials|config)\b|(?:^|[/~\s])\.aws/?(?=$|[\"'\s;|&)])"
    r"|/etc/(?:shadow|gshadow|sudoers)\b"
    r"|\.git-credentials\b|(?:^|[/~\"'\s])\.netrc\b|(?:^|[/~\"'\s])\.pgpass\b|(?:^|[/~\"'\s])\.pypirc\b"
    r"|\.docker/config\.json\b|\.kube/config\b|\.azure/(?:accessTokens|msal_token)"
    r"|\.config/gcloud(?:/|\b)|application_default_credentials\.json\b"
    r"|\.gnupg(?:/|\b)|\.password-store(?:/|\b)"
    r"|/proc/(?:self|\d{1,7}|\*|1)/environ\b"
    r"|Login Data\b|Cookies\.sqlite\b|cookies\.sqlite\b|logins\.json\b|key4\.db\b|login\.keychain"
    r"|wallet\.dat\b|\.bash_history\b|\.zsh_history\b"
    r"|/var/run/secrets/kubernetes\.io"
    r")"
)
METADATA = re.compile(
    r"(?<![\d.])(?:169\.254\.169\.254|169\.254\.170\.2|100\.100\.100\.200|2852039166|0xa9fea9fe|0251\.0376\.0251\.0376)(?![\d])"
    r"|metadata\.google\.internal|\[?fd00:ec2::254\]?|metadata\.tencentyun\.com",
    re.I,
)
CLEARTEXT = re.compile(r"\bhttp://([A-Za-z0-9.\-\[\]:]{1,255})", re.I)
LOCAL = re.compile(
    r"(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|0\.0\.0\.0|\[::1\]|10\.\d{1,3}\.\d{1,3}\.\d{1,3}"
    r"|192\.168\.\d{1,3}\.\d{1,3}|172\.(?:1[6-9]|2\d|3[01])\.\d{1,3}\.\d{1,3}|host\.docker\.internal)(?::\d{1,5})?$",
    re.I,
)
NAMESPACES = (
    "www.w3.org", "schemas.", "purl.org", "xmlns.", "ns.adobe.com", "json-schema.org", "www.sitemaps.org", "example.",
    "www.example.", "www.opengis.net", "dublincore.org", "xml.org", "docs.oasis-open.org", "relaxng.org",
)  # fmt: skip
"""Addresses that are only names, and nobody is asked there."""
CARRIERS = re.compile(
    r"\b(?:webhook\.site|requestbin\.\w{2,4}|[\w-]{1,40}\.ngrok(?:-free)?\.(?:io|app|dev)|pastebin\.com|transfer\.sh"
    r"|[\w-]{1,40}\.oastify\.com|interact\.sh|[\w-]{1,40}\.pipedream\.net|discord(?:app)?\.com/api/webhooks"
    r"|api\.telegram\.org/bot|hooks\.slack\.com/services|file\.io|0x0\.st|burpcollaborator\.net)",
    re.I,
)
