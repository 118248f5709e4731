"""Settings of the suite: the product's own, on a throw-away database and broker.

MCPHUB_TEST_DATABASE_URL and MCPHUB_TEST_REDIS_URL choose the services; without them SQLite and the
bundled Valkey
are used, both below a private temporary directory that ends with the run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from mcphub.core.crypto import KeyRing

HOME = Path(os.environ.get("MCPHUB_TEST_HOME") or tempfile.mkdtemp(prefix="mcphub-tests-"))
if "MCPHUB_TEST_HOME" not in os.environ:
    os.environ["MCPHUB_TEST_HOME"] = str(HOME)
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.setdefault("MCPHUB_SECRET_KEY", "insecure-only-for-tests")
os.environ.setdefault("MCPHUB_KEYS", KeyRing.new_key("test"))
os.environ["MCPHUB_DATABASE_URL"] = (
    os.environ.get("MCPHUB_TEST_DATABASE_URL") or f"sqlite:///{HOME / 'hub.sqlite3'}"
)
os.environ["MCPHUB_REDIS_URL"] = (
    os.environ.get("MCPHUB_TEST_REDIS_URL") or f"unix://{HOME / 'v.sock'}?db=0"
)
os.environ.setdefault("MCPHUB_EGRESS_ALLOW_LOOPBACK", "1")

from mcphub.settings import *  # noqa: E402, F403  (the environment above comes first)
from mcphub.settings import DATABASES  # noqa: E402

DATABASES["default"]["TEST"] = (
    {"NAME": str(HOME / "test.sqlite3")}
    if "sqlite" in DATABASES["default"]["ENGINE"]
    else {"NAME": f"mcphub_test_{os.getpid()}"}
)
# The watch is a thread of its own, and tests lend the database to their own thread alone.
IS_DATABASE_WATCHED = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
