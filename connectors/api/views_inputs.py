"""Questions of servers: the open ones, and their answers from any tab or client."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, outputs
from connectors.api.views_hot import as_call_id
from connectors.models import InputRequest
from connectors.services import input_answers
from connectors.services.input_answers import Action, Answer
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope


class ElicitationsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(
        parameters=[inputs.ElicitationsQuery], responses=outputs.ElicitationOutput(many=True)
    )
    def get(self, request: Request) -> Response:
        """List the open questions of servers, oldest first."""
        query = inputs.ElicitationsQuery.read(request.query_params)
        found = selectors.inputs_for(
            principal_in(request), server=query.get("server"), call_id=query.get("call")
        )
        return Response([view.wire for view in found])


class ElicitationView(APIView):
    permission_classes = [requires_scope(Scope.TOOLS_CALL)]

    @extend_schema(request=inputs.AnswerInput, responses=outputs.ElicitationOutput)
    def post(self, request: Request, elicitation_id: str) -> Response:
        """Answer a question; the call that waits for it goes on."""
        row = selectors.input_for(principal_in(request), as_call_id(elicitation_id))
        return _answered(request, row)


class CallInputView(APIView):
    permission_classes = [requires_scope(Scope.TOOLS_CALL)]

    @extend_schema(request=inputs.AnswerInput, responses=outputs.ElicitationOutput)
    def post(self, request: Request, call_id: str, input_id: str) -> Response:
        """Answer a question of a call; the call goes on."""
        principal, pk = principal_in(request), as_call_id(call_id)
        selectors.call_for(principal, pk)
        return _answered(request, selectors.input_for(principal, as_call_id(input_id), call_id=pk))


def _answered(request: Request, row: InputRequest) -> Response:
    values = inputs.AnswerInput.read(request.data)
    given = Answer(action=Action(values["action"]), content=values.get("content"))
    return Response(selectors.input_view(input_answers.answer(row, given)).wire)
