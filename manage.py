"""Django's command line for this project."""

import os
import sys

from django.core.management import execute_from_command_line

from mcphub import env

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    with env.refusing_bad_settings("manage.py"):
        execute_from_command_line(sys.argv)
