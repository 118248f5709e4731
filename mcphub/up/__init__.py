"""`mcphub up`: the whole hub on one machine; its processes never outlive their parent.

Nothing here but `bootstrap` and `web` loads Django, so that the supervisor stays small.
"""
