"""The tenant's webhook: set it, test it, change its secret, see what was sent."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mcphub.api.pagination import PageRequest, page_of
from tenants.api import inputs, outputs, throttles
from tenants.api.permissions import principal_in, requires_scope
from tenants.api.views import page_schema
from tenants.principal import Scope
from tenants.webhooks import endpoints
from tenants.webhooks.endpoints import Issued


class WebhookAPIView(APIView):
    permission_classes = [requires_scope(Scope.MEMBERS_WRITE)]
    throttle_classes = [throttles.tenant_rate(throttles.WEBHOOKS)]


class WebhookView(WebhookAPIView):
    @extend_schema(responses=outputs.WebhookOutput)
    def get(self, request: Request) -> Response:
        """Return the webhook without its secret."""
        return Response(outputs.webhook(endpoints.webhook_for(principal_in(request))))

    @extend_schema(
        request=inputs.WebhookInput,
        responses={200: outputs.WebhookOutput, 201: outputs.WebhookOutput},
    )
    def put(self, request: Request) -> Response:
        """Set the address; the first time the answer has the secret, this once."""
        values = inputs.WebhookInput.read(request.data)
        done = endpoints.put(principal_in(request), **values)
        if isinstance(done, Issued):
            return Response(outputs.webhook(done.webhook, secret=done.secret.value), status=201)
        return Response(outputs.webhook(done))

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Remove the webhook with its log."""
        endpoints.remove(principal_in(request))
        return Response(status=204)


class WebhookRotationView(WebhookAPIView):
    @extend_schema(request=None, responses=outputs.WebhookOutput)
    def post(self, request: Request) -> Response:
        """Change the secret; for 24 hours the former one signs along."""
        issued = endpoints.rotate(endpoints.webhook_for(principal_in(request)))
        return Response(outputs.webhook(issued.webhook, secret=issued.secret.value))


class WebhookTestView(WebhookAPIView):
    @extend_schema(request=None, responses={202: outputs.WebhookDeliveryOutput})
    def post(self, request: Request) -> Response:
        """Send a message of the type `webhook.test`; its outcome is in the deliveries."""
        row = endpoints.send_test(endpoints.webhook_for(principal_in(request)))
        return Response(outputs.WebhookDeliveryOutput(row).data, status=202)


class WebhookDeliveriesView(WebhookAPIView):
    @extend_schema(responses=page_schema("WebhookDeliveryPage", outputs.WebhookDeliveryOutput))
    def get(self, request: Request) -> Response:
        """List what was sent in the last week, newest first, with the outcome."""
        rows = endpoints.deliveries_for(principal_in(request))
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(lambda row: outputs.WebhookDeliveryOutput(row).data))
