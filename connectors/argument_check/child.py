"""The process in which strangers' schemas are used: reads questions, writes answers, may be killed.

One JSON object per line. It ends itself by signal when a check takes too much CPU time (a regular
expression cannot be interrupted otherwise), and when its parent closes the pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import sys
from dataclasses import asdict
from typing import BinaryIO

import jsonschema
import referencing
import referencing.exceptions
from jsonschema.protocols import Validator

from connectors.argument_check.problems import problems_of
from connectors.argument_check.rules import Reason, dialect
from mcphub.core.types import JSONObject, JSONValue

COMPILE_SECONDS = 1.0
CHECK_SECONDS = 0.2
MEMORY_BYTES = 1 << 30
KEPT_SCHEMAS = 500
READY = b"ready\n"
WARM_UP: JSONObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}
"""Checked before the first question, whose time is not to be spent on loading the meta-schemas."""
# What a schema that passed its meta-schema can still raise.
FAULTS = (re.error, TypeError, ValueError, KeyError, AttributeError, ArithmeticError, MemoryError)

Kept = dict[str, "Validator | Reason"]


def main() -> None:
    """Answer until the parent is gone."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    answer({"digest": "", "schema": WARM_UP, "arguments": {"a": 1}}, {})
    answers.write(READY)
    serve(sys.stdin.buffer, answers)


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    kept: Kept = {}
    answers.writelines(
        json.dumps(answer(json.loads(line), kept)).encode() + b"\n" for line in questions
    )


def answer(question: JSONObject, kept: Kept) -> JSONObject:
    """Return `{"problems": […]}`, `{"reason": …}`, or `{"unknown": true}` for a schema not kept."""
    digest = str(question["digest"])
    if "schema" in question:
        if len(kept) >= KEPT_SCHEMAS:
            kept.clear()
        signal.setitimer(signal.ITIMER_PROF, COMPILE_SECONDS)
        kept[digest] = compiled(question["schema"])
    validator = kept.get(digest)
    if validator is None:
        return {"unknown": True}
    if isinstance(validator, Reason):
        outcome: JSONObject = {"reason": validator.value}
    else:
        signal.setitimer(signal.ITIMER_PROF, CHECK_SECONDS)
        outcome = check(validator, question["arguments"])
    signal.setitimer(signal.ITIMER_PROF, 0)
    return outcome


def compiled(schema: JSONValue) -> Validator | Reason:
    """Return the validator of a schema, or why there is none. Never fetches a reference."""
    kind = dialect(schema)
    if kind is None:
        return Reason.DIALECT
    try:
        kind.check_schema(schema)  # type: ignore[arg-type]  # a schema may be any JSON until here
    except RecursionError:
        return Reason.TOO_DEEP
    except (jsonschema.SchemaError, *FAULTS):
        return Reason.UNUSABLE
    return kind(schema, registry=referencing.Registry())  # type: ignore[arg-type]  # checked above


def check(validator: Validator, arguments: JSONValue) -> JSONObject:
    try:
        problems = problems_of(validator, arguments)
    except referencing.exceptions.Unresolvable:
        return {"reason": Reason.REFERENCE.value}
    except RecursionError:
        return {"reason": Reason.TOO_DEEP.value}
    except (jsonschema.exceptions.UnknownType, *FAULTS):
        return {"reason": Reason.UNUSABLE.value}
    return {"problems": [asdict(problem) for problem in problems]}


if __name__ == "__main__":
    main()
