"""What a web process loads before it serves, since every restart waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

from mcphub.settings import ROOT


def test_a_web_process_starts_without_the_sdk() -> None:
    program = "import sys, mcphub.asgi; print('mcp' in sys.modules)"
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "mcphub.settings"}
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert loaded.stdout == "False\n"
