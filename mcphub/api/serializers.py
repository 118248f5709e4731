"""Bases of inputs and outputs: fields are declared in snake_case and are camelCase on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail


def camel(name: str) -> str:
    """`allowed_origins` → `allowedOrigins`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class CamelSerializer(serializers.Serializer[Any]):
    """`validated_data` and attributes keep the declared names; JSON has the camelCase ones."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = {}
        for name, one in super().get_fields().items():
            wire = camel(name)
            if isinstance(one, serializers.SerializerMethodField):
                one.method_name = one.method_name or f"get_{name}"
            elif wire != name and one.source is None:
                one.source = name
            fields[wire] = one
        return fields


class Output(CamelSerializer):
    """What an endpoint answers."""


class Input(CamelSerializer):
    """What an endpoint takes.

    A member that it does not know is refused, not ignored; a number is not taken for a text.
    """

    def to_internal_value(self, data: Any) -> Any:  # noqa: A003, RUF100  (DRF's name)
        if isinstance(data, Mapping):
            found = {
                name: _no_texts(one, data[name])
                for name, one in self.fields.items()
                if name in data
            }
            if wrong := {name: errors for name, errors in found.items() if errors}:
                raise serializers.ValidationError(wrong)
        values = super().to_internal_value(data)
        if isinstance(data, Mapping):
            unknown = {str(name) for name in data} - set(self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {name: ["There is no such member."] for name in sorted(unknown)},
                    code="unknown_member",
                )
        return values

    @classmethod
    def read(cls, data: Any, *, partial: bool = False) -> dict[str, Any]:
        """Return the validated values. Raises DRF's ValidationError (a 422 with pointers)."""
        form = cls(data=data, partial=partial)
        form.is_valid(raise_exception=True)
        return dict(form.validated_data)


def _no_texts(one: serializers.Field[Any, Any, Any, Any], value: Any) -> Any:
    """Return errors in DRF's shape where a text is wanted and a number came: DRF would convert."""
    if isinstance(one, serializers.CharField):
        is_number = isinstance(value, int | float)
        return [ErrorDetail("This has to be a text.", "invalid")] if is_number else None
    if isinstance(one, serializers.ListField) and isinstance(value, list):
        found = {place: _no_texts(one.child, item) for place, item in enumerate(value)}
    elif isinstance(one, serializers.DictField) and isinstance(value, Mapping):
        found = {name: _no_texts(one.child, item) for name, item in value.items()}
    else:
        return None
    return {place: errors for place, errors in found.items() if errors}
