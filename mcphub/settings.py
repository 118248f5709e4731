"""Every setting, read once through env.py; docs/configuration.md explains each."""

from __future__ import annotations

from pathlib import Path

from gateway.login.policy import check_scheme
from gateway.login.provider import provider
from mcphub import env, services_urls
from mcphub.core.egress.policy import AllowRule

ROOT = Path(__file__).resolve().parent.parent

# --- keys and addresses
SECRET_KEY = env.text("MCPHUB_SECRET_KEY")
MCPHUB_KEYS = env.text("MCPHUB_KEYS")
DEBUG = False
BASE_URL = env.url("MCPHUB_BASE_URL", "http://127.0.0.1:8000", schemes=("http", "https")).rstrip(
    "/"
)
ALLOWED_HOSTS = env.items("MCPHUB_ALLOWED_HOSTS") or services_urls.hosts_of(BASE_URL)
CSRF_TRUSTED_ORIGINS = [BASE_URL, *env.items("MCPHUB_TRUSTED_ORIGINS")]
IS_HTTPS = BASE_URL.startswith("https://")

# --- stores
DATABASES = {
    "default": services_urls.database(
        env.url("MCPHUB_DATABASE_URL", "", schemes=("postgres", "postgresql", "sqlite"))
        or f"sqlite:///{ROOT / '.mcphub' / 'hub.sqlite3'}"
    )
}
IS_DATABASE_WATCHED = DATABASES["default"]["ENGINE"].endswith("postgresql")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.url(
    "MCPHUB_REDIS_URL", "redis://127.0.0.1:6379/0", schemes=("redis", "rediss", "unix")
)
REDIS_PREFIX = env.text("MCPHUB_REDIS_PREFIX", "mcphub")

# --- Celery: a doorbell for lifecycle work; the database is the truth
CELERY_BROKER_URL = services_urls.celery_broker(REDIS_URL)
CELERY_TASK_DEFAULT_QUEUE = f"{REDIS_PREFIX}.lifecycle"
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 15,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "global_keyprefix": f"{REDIS_PREFIX}.celery.",
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False

# --- apps and requests
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "corsheaders",
    "oauth2_provider",
    "mcphub",
    "tenants",
    "tracing",
    "oauth",
    "connectors",
    "gateway",
    "gateway.login",
    "console",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "mcphub.api.headers.SecurityHeadersMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "tenants.cors.TenantCorsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "mcphub.api.page_errors.PageErrorMiddleware",
]
ROOT_URLCONF = "mcphub.urls"
ASGI_APPLICATION = "mcphub.asgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "mcphub" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_USER_MODEL = "tenants.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 << 20

# --- cookies and transport security
SESSION_COOKIE_NAME = "__Host-mcphub" if IS_HTTPS else "mcphub"
CSRF_COOKIE_NAME = "__Host-mcphub-csrf" if IS_HTTPS else "mcphub-csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "mcphub.api.pages.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = env.integer("MCPHUB_HSTS_SECONDS", 0)
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("MCPHUB_BEHIND_PROXY") else None
)
CORS_ALLOWED_ORIGINS: list[str] = env.items("MCPHUB_CORS_ORIGINS")
CORS_URLS_REGEX = r"^/(api|mcp)(/|$)"
CORS_ALLOW_HEADERS = [
    *("accept", "authorization", "content-type", "if-match", "if-none-match"),
    *("idempotency-key", "prefer", "last-event-id", "traceparent", "mcphub-tenant"),
    *("mcphub-end-user", "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name"),
]
CORS_EXPOSE_HEADERS = [
    *("etag", "location", "retry-after", "ratelimit", "ratelimit-policy", "x-mcphub-seq"),
    *("idempotent-replayed", "preference-applied", "www-authenticate"),
    *("mcp-session-id", "mcp-protocol-version"),
]

# --- static files, language
STATIC_URL = "/static/"
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False

# --- REST
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.authentication.BearerAuthentication",
        "tenants.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.api.permissions.HasPrincipal"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["mcphub.api.parsers.BoundedJSONParser"],
    "EXCEPTION_HANDLER": "mcphub.api.errors.problem_handler",
    "DEFAULT_SCHEMA_CLASS": "mcphub.api.schema.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "mcphub",
    "VERSION": "1",
    "DESCRIPTION": "Connect to MCP servers, call their tools, watch every message.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.0",
    "ENUM_NAME_OVERRIDES": {
        "Scope": "tenants.principal.Scope",
        "AuthTypeEnum": "connectors.api.inputs.AUTH_TYPES",
        "DefinitionPolicyEnum": "connectors.api.inputs.DEFINITION_POLICIES",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "mcphub.api.schema.complete",
    ],
}

# --- login for MCP clients: the hub as authorization server of its own /mcp
CLIENT_LOGIN = env.choice("MCPHUB_CLIENT_LOGIN", "OFF", of=("OFF", "LOOPBACK", "ANY"))
CLIENT_LOGIN_SCHEMES = env.items("MCPHUB_CLIENT_LOGIN_SCHEMES", check=check_scheme)
CLIENT_LOGIN_IDLE = env.seconds("MCPHUB_CLIENT_LOGIN_IDLE", 30 * 86400.0)
CLIENT_REGISTRATIONS_MAX = env.integer("MCPHUB_CLIENT_REGISTRATIONS_MAX", 1000, minimum=1)
OAUTH2_PROVIDER_APPLICATION_MODEL = "gateway_login.DownstreamClient"
OAUTH2_PROVIDER = provider(BASE_URL, idle_seconds=CLIENT_LOGIN_IDLE)

# --- operation
METRICS_TOKEN = env.text("MCPHUB_METRICS_TOKEN")

# --- egress (security reference §4)
EGRESS_ALLOW = env.items("MCPHUB_EGRESS_ALLOW", check=AllowRule.parse)
EGRESS_ALLOW_LOOPBACK = env.flag("MCPHUB_EGRESS_ALLOW_LOOPBACK")
EGRESS_PORTS = env.ports("MCPHUB_EGRESS_PORTS", "443")
STDIO_ENABLED = env.flag("MCPHUB_STDIO_ENABLED")

# --- limits (security reference §5); seconds and bytes
MAX_BODY_BYTES = env.integer("MCPHUB_MAX_BODY_BYTES", 8 << 20)
MAX_ARGUMENT_BYTES = env.integer("MCPHUB_MAX_ARGUMENT_BYTES", 1 << 20)
MAX_TOOLS = env.integer("MCPHUB_MAX_TOOLS", 2000)
MAX_PAGES = env.integer("MCPHUB_MAX_PAGES", 50)
CALL_TIMEOUT = env.seconds("MCPHUB_CALL_TIMEOUT", 60.0)
CALL_TIMEOUT_MAX = env.seconds("MCPHUB_CALL_TIMEOUT_MAX", 600.0)
INPUT_EXPIRY = env.seconds("MCPHUB_INPUT_EXPIRY", 600.0)
CONNECTION_MAX_INPUTS = env.integer("MCPHUB_CONNECTION_MAX_INPUTS", 100)
CALL_WAIT = env.seconds("MCPHUB_CALL_WAIT", 60.0)
WORKER_MAX_CALLS = env.integer("MCPHUB_WORKER_MAX_CALLS", 2000)
CONNECTION_MAX_CALLS = env.integer("MCPHUB_CONNECTION_MAX_CALLS", 500)
TRACE_MAX_BYTES = env.integer("MCPHUB_TRACE_MAX_BYTES", 256 << 10)
TRACE_RETENTION = env.seconds("MCPHUB_TRACE_RETENTION", 7 * 86400.0)
TRACE_TOTAL_BYTES = env.integer("MCPHUB_TRACE_TOTAL_BYTES", 2 << 30)
CALL_RETENTION = env.seconds("MCPHUB_CALL_RETENTION", 30 * 86400.0)
SIGN_INS_PER_MINUTE = env.integer("MCPHUB_SIGN_INS_PER_MINUTE", 10, minimum=1)
AUTHORITY_OPENINGS = env.integer("MCPHUB_AUTHORITY_OPENINGS", 20, minimum=1)
CONNECT_SESSION_TTL_MAX = env.seconds("MCPHUB_CONNECT_SESSION_TTL_MAX", 4 * 3600.0)
REACT_MCP_STORAGE = env.flag("MCPHUB_REACT_MCP_STORAGE")

# --- worker
WORKER_SLOT = env.text("MCPHUB_WORKER_SLOT")
WORKER_TTL = env.seconds("MCPHUB_WORKER_TTL", 15.0)

# --- logs: third-party loggers are capped, since some write tokens and session ids
LOG_LEVEL = env.choice(
    "MCPHUB_LOG_LEVEL", "INFO", of=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {
        "refusals": {"()": "mcphub.core.log_lines.RefusalsInOneLine"},
        "login_links": {"()": "mcphub.core.log_lines.LoginLinksRedacted"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["refusals", "login_links"],
        }
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        name: {"level": "WARNING"}
        for name in (
            *("mcp", "httpx2", "httpcore2", "authlib", "asyncio", "kombu", "urllib3"),
            *("oauthlib", "oauth2_provider"),
        )
    },
}
