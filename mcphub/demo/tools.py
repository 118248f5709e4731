"""The demo server's tools. Arguments were checked against the schema before `run` sees them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

Arguments = dict[str, Any]
Context = ServerRequestContext[Any]

COUNT_MAX = 100
STEP_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """One tool and the function behind it."""

    tool: types.Tool
    run: Callable[[Context, Arguments], Awaitable[types.CallToolResult]]


def text(value: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=value)], is_error=is_error
    )


async def echo(_context: Context, arguments: Arguments) -> types.CallToolResult:
    return text(str(arguments.get("text", "")))


async def add(_context: Context, arguments: Arguments) -> types.CallToolResult:
    total = arguments["a"] + arguments["b"]
    result = text(str(total))
    result.structured_content = {"sum": total}
    return result


async def roll_dice(_context: Context, arguments: Arguments) -> types.CallToolResult:
    sides, number = int(arguments.get("sides", 6)), int(arguments.get("count", 1))
    rolls = [random.randint(1, sides) for _ in range(number)]  # noqa: S311  (dice, not keys)
    result = text(", ".join(map(str, rolls)))
    result.structured_content = {"rolls": rolls, "total": sum(rolls)}
    return result


async def slow_count(context: Context, arguments: Arguments) -> types.CallToolResult:
    to, pause = int(arguments.get("to", 5)), float(arguments.get("seconds", 0.5))
    for number in range(1, to + 1):
        await asyncio.sleep(pause)
        await context.session.report_progress(number, to, f"counted to {number}")
    return text(f"counted to {to}")


async def weather(_context: Context, arguments: Arguments) -> types.CallToolResult:
    city = str(arguments["city"])
    dice = random.Random(city)  # noqa: S311  (an invented forecast, the same for the same city)
    forecast = {
        "city": city,
        "temperature": dice.randint(-5, 35),
        "conditions": dice.choice(["sunny", "cloudy", "rain", "snow"]),
        "humidity": dice.randint(20, 100),
    }
    result = text(f"{city}: {forecast['temperature']} °C, {forecast['conditions']} (invented)")
    result.structured_content = forecast
    return result


async def fail(_context: Context, arguments: Arguments) -> types.CallToolResult:
    return text(str(arguments.get("message", "This tool always fails.")), is_error=True)


def schema(required: list[str], **properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def whole(minimum: int, maximum: int, default: int) -> dict[str, object]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum, "default": default}


STRING = {"type": "string"}
NUMBER = {"type": "number"}
READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
FORECAST = schema(
    ["city", "temperature", "conditions", "humidity"],
    city=STRING,
    temperature={"type": "integer", "description": "degrees Celsius"},
    conditions={"type": "string", "enum": ["sunny", "cloudy", "rain", "snow"]},
    humidity={"type": "integer", "minimum": 0, "maximum": 100},
)
TOOLS = {
    "echo": Demo(
        run=echo,
        tool=types.Tool(
            name="echo",
            description="Return the text that was given.",
            input_schema=schema(["text"], text=STRING),
            annotations=READS,
        ),
    ),
    "add": Demo(
        run=add,
        tool=types.Tool(
            name="add",
            description="Add two numbers.",
            input_schema=schema(["a", "b"], a=NUMBER, b=NUMBER),
            output_schema=schema(["sum"], sum=NUMBER),
            annotations=READS,
        ),
    ),
    "roll_dice": Demo(
        run=roll_dice,
        tool=types.Tool(
            name="roll_dice",
            description="Roll dice.",
            input_schema=schema([], sides=whole(2, 1000, 6), count=whole(1, 100, 1)),
            output_schema=schema(
                ["rolls", "total"],
                rolls={"type": "array", "items": {"type": "integer"}},
                total={"type": "integer"},
            ),
        ),
    ),
    "slow_count": Demo(
        run=slow_count,
        tool=types.Tool(
            name="slow_count",
            description="Count slowly and report progress after every step.",
            input_schema=schema(
                [],
                to=whole(1, COUNT_MAX, 5),
                seconds={"type": "number", "minimum": 0, "maximum": STEP_SECONDS_MAX},
            ),
            annotations=READS,
        ),
    ),
    "weather": Demo(
        run=weather,
        tool=types.Tool(
            name="weather",
            title="Weather (invented)",
            description="Return an invented forecast as structured content.",
            input_schema=schema(["city"], city=STRING),
            output_schema=FORECAST,
            annotations=READS,
        ),
    ),
    "fail": Demo(
        run=fail,
        tool=types.Tool(
            name="fail",
            description="Answer with a tool error, to see how one looks.",
            input_schema=schema([], message=STRING),
            annotations=READS,
        ),
    ),
}
